"""Raw Kafka through confluent-kafka: what the same work costs without railgun, on the same broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

_SECONDS = 30.0


def create_topic(bootstrap: str, kind: str, partitions: int = 1) -> str:
    """A new topic of its own; its name."""
    topic = f"raw.{kind}.{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(_SECONDS)
    return topic


def reader(bootstrap: str, topic: str, **settings: Any) -> Consumer:
    """A reader of committed records of partition 0, from the beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"raw-{uuid.uuid4().hex[:8]}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


class AckedProducer:
    """Pipelined produce with acks=all to one topic; an outcome for every record."""

    def __init__(self, bootstrap: str) -> None:
        self._topic = create_topic(bootstrap, "produce")
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.size": 1_048_576,
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    def publish_all(self, subjects: Sequence[str], payload: bytes) -> None:
        acked = 0

        def note(error: KafkaError | None, message: Message) -> None:
            nonlocal acked
            if error is not None:
                raise KafkaException(error)
            acked += 1

        for number, subject in enumerate(subjects):
            self._producer.produce(self._topic, payload, subject, on_delivery=note)
            if number % 1000 == 0:
                self._producer.poll(0)
        self._producer.flush(_SECONDS)
        if acked != len(subjects):
            raise RuntimeError(f"{acked} of {len(subjects)} records were acknowledged")


class Floor:
    """An exactly-once answer on Kafka with nothing around it: the least that a publish through a shard can cost.

    Produce a command with acks=all; one transaction with a message, a state record, a reply and the input offset; read
    the committed reply. All in one process, with no decision in between.
    """

    def __init__(self, bootstrap: str) -> None:
        self._commands = create_topic(bootstrap, "commands")
        self._written = [create_topic(bootstrap, kind) for kind in ("log", "changelog")]
        self._replies = create_topic(bootstrap, "replies")
        self._client = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
        self._owner = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"raw-{uuid.uuid4().hex[:8]}",
                "linger.ms": 0,
                "retry.backoff.ms": 1,  # the default of 100 waits so long between two transactions
                "retry.backoff.max.ms": 4,
            }
        )
        self._owner.init_transactions(_SECONDS)
        self._group = reader(bootstrap, self._commands)
        self._answers = reader(bootstrap, self._replies, **{"fetch.wait.max.ms": 10})
        self._sent = 0

    def close(self) -> None:
        self._group.close()
        self._answers.close()

    def publish(self, payload: bytes) -> None:
        delivered: list[KafkaError | None] = []
        self._client.produce(self._commands, payload, on_delivery=lambda error, _: delivered.append(error))
        while not delivered:
            self._client.poll(1.0)
        self._sent += 1
        self._owner.begin_transaction()
        for topic in (*self._written, self._replies):
            self._owner.produce(topic, payload, b"%d" % self._sent)
        offsets = [TopicPartition(self._commands, 0, self._sent)]
        self._owner.send_offsets_to_transaction(offsets, self._group.consumer_group_metadata(), _SECONDS)
        self._owner.commit_transaction(_SECONDS)
        deadline = time.monotonic() + _SECONDS
        while True:
            answer = self._answers.poll(1.0)
            if answer is not None and answer.error() is None and answer.key() == b"%d" % self._sent:
                return
            if time.monotonic() > deadline:
                raise RuntimeError("the reply did not come")


def read_one_by_one(bootstrap: str, topic: str, count: int) -> None:
    """The loop of confluent-kafka's own documentation, with its default settings: so many payloads from the beginning."""
    _read(bootstrap, topic, count, lambda consumer: [consumer.poll(1.0)])


def read_in_bulk(bootstrap: str, topic: str, count: int) -> None:
    """The most that the client gives: up to 10,000 records a call, with a queue that never waits."""
    tuned = {"queued.min.messages": 2 * count, "fetch.queue.backoff.ms": 1}
    _read(bootstrap, topic, count, lambda consumer: consumer.consume(10_000, 0.2), **tuned)


def _read(
    bootstrap: str,
    topic: str,
    count: int,
    some: Callable[[Consumer], Sequence[Message | None]],
    **settings: Any,
) -> None:
    consumer = reader(bootstrap, topic, **settings)
    try:
        seen = size = 0
        deadline = time.monotonic() + 60
        while seen < count:
            for message in some(consumer):
                if message is None or message.error() is not None:
                    if time.monotonic() > deadline:
                        raise RuntimeError(f"{seen} of {count} records were read")
                    continue
                size += len(message.value() or b"")
                seen += 1
    finally:
        consumer.close()
