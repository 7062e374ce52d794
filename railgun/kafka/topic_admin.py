"""The topics of a cell: created with the right settings, checked at each start, and the log topics of streams.

Guarantees: every function may be called again and by several workers at once, and ends with the same topics. Errors of
the broker come back as :class:`TopicError` (with Kafka's own code), except where the caller's configuration is at
fault: then as :class:`~railgun.errors.ConfigError` in one sentence.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from railgun.errors import ConfigError, RailgunError
from railgun.kafka.answers import answer_of
from railgun.kafka.settings import MAX_MESSAGE_BYTES
from railgun.kafka.trouble import in_words
from railgun.protocol.topics import Names

log = logging.getLogger(__name__)

TIMEOUT: Final = 15.0  # seconds for one administrative request
DAY_MS: Final = 86_400_000
MIN_IN_SYNC: Final = "min.insync.replicas"
# How long a tombstone stays readable. A local store that slept longer than half of it must not be trusted (docs/design/0020).
DELETE_RETENTION_MS: Final = DAY_MS

_SIZE: Final = {"max.message.bytes": str(MAX_MESSAGE_BYTES)}
_FOREVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
_COMPACTED: Final = {
    **_SIZE,
    "cleanup.policy": "compact",
    "segment.bytes": str(64 * 1024 * 1024),
    "segment.ms": str(10 * 60_000),  # the active segment is never compacted: roll it soon
    "min.cleanable.dirty.ratio": "0.3",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
}

# Of a log that is compacted. Kafka never cleans the segment that is written to, so it is closed early; it cleans once a part of the
# log is new, and whatever part it is after an hour. A client that was leased a message has the time to read it.
_LOG_COMPACTION: Final = {
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(10 * 60_000),
    "min.compaction.lag.ms": str(60_000),
    "max.compaction.lag.ms": str(60 * 60_000),
    "delete.retention.ms": str(DELETE_RETENTION_MS),
}


class TopicError(RailgunError):
    """The broker refused to create, change or delete a topic; ``error`` is Kafka's own."""

    def __init__(self, topic: str, what: str, error: KafkaError) -> None:
        self.topic, self.error = topic, error
        super().__init__(f"cannot {what} the topic {topic}: {error.str()}")


class TopicPlan(NamedTuple):
    """A topic as it should be."""

    name: str
    partitions: int
    settings: Mapping[str, str]


def cell_topics(names: Names, partitions: int, reply_factor: int) -> list[TopicPlan]:
    """The fixed topics of a cell (docs/design/0002). The registry comes first: it says how the others were made."""
    timed = {**_SIZE, "message.timestamp.type": "LogAppendTime"}
    week, hour = {"retention.ms": str(7 * DAY_MS)}, {"retention.ms": str(3_600_000)}
    return [
        registry_topic(names),
        # LogAppendTime is the time of receipt that every rule about time goes by.
        TopicPlan(names.commands, partitions, {**timed, **week, "retention.bytes": "-1"}),
        TopicPlan(names.forwards, partitions, {**timed, **week, "retention.bytes": "-1"}),
        # The age of a local store is measured by it.
        TopicPlan(names.changelog, partitions, {**timed, **_COMPACTED}),
        TopicPlan(names.replies, partitions * reply_factor, {**_SIZE, **hour, "segment.ms": "600000"}),
        TopicPlan(names.advisories, partitions, {**_SIZE, "retention.ms": str(DAY_MS)}),
        TopicPlan(names.rejected, partitions, {**_SIZE, **week}),
    ]


def registry_topic(names: Names) -> TopicPlan:
    return TopicPlan(names.registry, 1, _COMPACTED)


def log_settings(*, compacted: bool) -> dict[str, str]:
    """The settings of a stream's log: Kafka removes nothing by age or size, railgun trims (CLU-17)."""
    return {
        **_SIZE,
        **_FOREVER,
        **(_LOG_COMPACTION if compacted else {}),
        # Compaction drops what a later record of the same subject replaced. `delete` stays on beside it, without any
        # retention, because Kafka refuses DeleteRecords on a topic that only compacts.
        "cleanup.policy": "compact,delete" if compacted else "delete",
        "min.cleanable.dirty.ratio": "0.3",
        "message.timestamp.type": "CreateTime",
        # The time of a record is the time of receipt, whatever the clock of this broker says by then.
        "message.timestamp.after.max.ms": str(2**63 - 1),
    }


def copy_settings(replication_factor: int) -> dict[str, str]:
    """With three copies, two must have a record before it counts (acks=all): the loss of any one broker loses nothing.

    With fewer, a second one that is away must not stop everything.
    """
    return {MIN_IN_SYNC: "2"} if replication_factor >= 3 else {}


def new_topic(plan: TopicPlan, replication_factor: int) -> NewTopic:
    """The request to create the topic."""
    settings = {**plan.settings, **copy_settings(replication_factor)}
    return NewTopic(plan.name, plan.partitions, replication_factor, config=settings)


def topic_ids(admin: AdminClient, topics: Iterable[str]) -> dict[str, str]:
    """The ids of topics, which differ from those of topics of the same name made before or after; topics that are gone are left out.

    Raises KafkaException.
    """
    wanted, found = sorted(topics), dict[str, str]()
    if not wanted:
        return found
    for topic, future in admin.describe_topics(TopicCollection(wanted), request_timeout=TIMEOUT).items():
        try:
            found[topic] = str(answer_of(future, TIMEOUT + 5).topic_id)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return found


class Topics:
    """Administration of topics. Safe to use from several threads; every call is bounded by ``TIMEOUT``."""

    def __init__(self, admin: AdminClient, replication_factor: int = 1) -> None:
        self._admin = admin
        self._replication_factor = replication_factor

    # ------------------------------------------------------------ what there is

    def partition_counts(self, timeout: float = TIMEOUT) -> dict[str, int]:
        """Every topic that the cluster shows us, with its number of partitions."""
        try:
            found = self._admin.list_topics(timeout=timeout)
        except KafkaException as error:
            raise in_words(error, "listing the topics") from error
        return {name: len(topic.partitions) for name, topic in found.topics.items() if topic.error is None}

    def exists(self, topic: str) -> bool | None:
        """Whether the topic exists; None when no broker could be asked."""
        try:
            found = self._admin.list_topics(topic, timeout=5.0).topics[topic]
        except KafkaException:
            return None
        if found.error is None:
            return True
        return False if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART else None

    def identity(self, topic: str) -> str:
        """The id of the cluster and of the topic, which differ from those of another topic of the same name."""
        try:
            cluster = self._admin.list_topics(topic, timeout=TIMEOUT).cluster_id
            described = self._admin.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT)[topic]
            return f"{cluster}/{answer_of(described, TIMEOUT + 5).topic_id}"
        except KafkaException as error:
            raise in_words(error, f"looking up the topic {topic}") from error

    # ------------------------------------------------------------ changes

    def create(self, plans: Iterable[TopicPlan]) -> None:
        """Create the topics that are missing; existing ones are left as they are. Returns when all of them can be written to."""
        wanted = list(plans)
        if not wanted:
            return
        requests = [new_topic(plan, self._replication_factor) for plan in wanted]
        futures = self._admin.create_topics(requests, operation_timeout=TIMEOUT, request_timeout=TIMEOUT)
        for name, future in futures.items():
            _settle(future, name, "create", unless=(KafkaError.TOPIC_ALREADY_EXISTS,))
        self._wait(lambda counts: all(plan.name in counts for plan in wanted), wanted[0].name, "create")

    def create_log(self, topic: str, *, compacted: bool) -> None:
        """Create the log of a stream, or bring the settings of the existing one in line.

        How many copies must be in sync is left as it is: an existing topic may have fewer copies than new ones get.
        """
        self._create_or_alter(topic, log_settings(compacted=compacted))

    def create_dead_letters(self, topic: str, *, change: bool) -> None:
        """Create a topic of dead letters that takes records of every size; with ``change`` the existing one takes them, too."""
        self._create_or_alter(topic, _SIZE, change=change)

    def _create_or_alter(self, topic: str, settings: Mapping[str, str], *, change: bool = True) -> None:
        request = new_topic(TopicPlan(topic, 1, settings), self._replication_factor)
        future = self._admin.create_topics([request], operation_timeout=TIMEOUT, request_timeout=TIMEOUT)[
            topic
        ]
        if not _settle(future, topic, "create", unless=(KafkaError.TOPIC_ALREADY_EXISTS,)) and change:
            self._alter(topic, settings)

    def _alter(self, topic: str, settings: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        future = self._admin.incremental_alter_configs([resource], request_timeout=TIMEOUT)[resource]
        _settle(future, topic, "change")

    def delete(self, topic: str) -> None:
        """Delete the topic and wait until it is gone; a topic that is gone already is fine."""
        future = self._admin.delete_topics([topic], operation_timeout=TIMEOUT, request_timeout=TIMEOUT)[topic]
        _settle(future, topic, "delete", unless=(KafkaError.UNKNOWN_TOPIC_OR_PART,))
        self._wait(lambda counts: topic not in counts, topic, "delete")

    def _wait(self, reached: Callable[[dict[str, int]], bool], topic: str, what: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not reached(self.partition_counts()):
            if time.monotonic() > deadline:
                raise TopicError(topic, what, KafkaError(KafkaError._TIMED_OUT))
            time.sleep(0.02)


def _settle(future: Future[Any], topic: str, what: str, unless: tuple[int, ...] = ()) -> bool:
    """Wait for an administrative request: True when it was done, False for one of the codes in ``unless``."""
    try:
        answer_of(future, TIMEOUT + 5)
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() in unless:
            return False
        raise TopicError(topic, what, reason) from error
    return True


def check_partitions(counts: Mapping[str, int], plans: Iterable[TopicPlan], prefix: str) -> None:
    """Refuse to start on topics that are not as the registry records them: keys would land with the wrong owner."""
    for plan in plans:
        found = counts.get(plan.name)
        if found is not None and found != plan.partitions:
            raise ConfigError(
                f"the topic {plan.name} has {found} partitions but the cluster was set up with {plan.partitions}: "
                f"use another prefix than {prefix!r}, or restore the topic"
            )
