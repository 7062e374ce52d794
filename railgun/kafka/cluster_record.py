"""The cluster's own record in the registry: what was fixed at the first start, and wins ever after (CLU-02)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from railgun.errors import ConfigError, ConnectionLost
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.skipped import Skipped
from railgun.kafka.topic_admin import (
    TIMEOUT,
    Topics,
    cell_topics,
    check_partitions,
    registry_topic,
)
from railgun.kafka.trouble import in_words, reach
from railgun.protocol.registry import CLUSTER_KEY, Protected, parse
from railgun.protocol.topics import Names
from railgun.protocol.unreadable import Unreadable

log = logging.getLogger("railgun.kafka.cluster_record")


def read_registry(kafka: KafkaSettings, names: Names, visit: Callable[[bytes, bytes | None], None]) -> None:
    """Hand every committed record of the registry to ``visit``, in order, up to the end as of now."""
    consumer = Consumer(kafka.consumer(enable_partition_eof=True))
    try:
        consumer.assign([TopicPartition(names.registry, 0, 0)])
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.05):
                error = message.error()
                if error is None:
                    visit(message.key() or b"", message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    return
                else:
                    raise in_words(error, f"reading the topic {names.registry}")
    finally:
        consumer.close()
    raise ConnectionLost(
        f"the topic {names.registry} could not be read to its end within {TIMEOUT:.0f} seconds"
    )


def read_protected(kafka: KafkaSettings, names: Names) -> Protected | None:
    """The record of the first start. The *oldest* one counts: two first starts at once must agree on one.

    Compaction keeps the newest instead, so where the two differ, or the newest cannot be read, the oldest is written again.
    """
    found: list[Protected | Unreadable] = []
    skipped = Skipped(log)

    def keep(key: bytes, value: bytes | None) -> None:
        record = parse(key, value) if key == CLUSTER_KEY else None
        if isinstance(record, Unreadable):
            skipped.add(names.registry, key, record)
        if isinstance(record, Protected | Unreadable):
            found.append(record)

    read_registry(kafka, names, keep)
    held = next((one for one in found if isinstance(one, Protected)), None)
    if held is not None and found[-1] != held:
        _write(kafka, names, held)
    return held


def prepare_cluster(kafka: KafkaSettings, wanted: Protected, replication_factor: int) -> Protected:
    """Make the cell ready for a worker and return the settings that hold in it.

    Creates what is missing. Raises ConfigError when the topics are not as recorded, and ConnectionLost or NotAuthorized
    in words. A file that differs from the record is reported as a warning and not obeyed.
    """
    names = Names(wanted.prefix)
    reach(kafka, TIMEOUT)
    topics = Topics(AdminClient(kafka.admin()), replication_factor)
    before = topics.partition_counts()
    topics.create([registry_topic(names)])
    held = read_protected(kafka, names)
    if held is None:
        # Commands that exist without a record: a set-up that was interrupted, or a foreign topic. Their number decides.
        check_partitions(before, cell_topics(names, wanted.partitions, wanted.reply_factor), wanted.prefix)
        _write(kafka, names, wanted)
        held = read_protected(kafka, names)
        if held is None:
            raise ConnectionLost(f"the record of the cluster could not be read back from {names.registry}")
    for field in Protected._fields:
        told, fixed = getattr(wanted, field), getattr(held, field)
        if told != fixed:
            log.warning(
                "cluster.%s is %r in the file but was fixed as %r at the first start", field, told, fixed
            )
    plans = cell_topics(names, held.partitions, held.reply_factor)
    topics.create(plan for plan in plans if plan.name not in before)
    check_partitions(topics.partition_counts(), plans, held.prefix)
    return held


def _write(kafka: KafkaSettings, names: Names, wanted: Protected) -> None:
    # Not idempotent: a second copy of the record does no harm, and a broker that has just started has no producer id to
    # give yet, for which librdkafka asks again only after half a second.
    producer = Producer(kafka.producer(enable_idempotence=False))
    failures: list[KafkaError] = []
    producer.produce(
        names.registry,
        wanted.encode(),
        CLUSTER_KEY,
        0,
        on_delivery=lambda error, _message: failures.append(error) if error is not None else None,
    )
    if producer.flush(TIMEOUT) or failures:
        reason = failures[0].str() if failures else "no answer"
        raise ConfigError(f"the record of the cluster could not be written to {names.registry}: {reason}")
