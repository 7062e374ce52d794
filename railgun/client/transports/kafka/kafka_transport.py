"""The Kafka transport: an idempotent producer for commands, readers for the registry, the answers and the logs.

Opening it fails within seconds, in words: no broker, wrong credentials, no permission, no cluster of that prefix.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from railgun.client.transport import Delivered, Receiver, TakeAdvisories, Topology
from railgun.client.transports.kafka.feed import KafkaFeed
from railgun.client.transports.kafka.readers import AdvisoryReader, RegistryReader, ReplyReader
from railgun.client.transports.kafka.sender import KafkaSender
from railgun.errors import START_A_WORKER, ConnectionLost, NoWorker, RailgunError, RequestTimeout
from railgun.kafka.log_reader import LogReader
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.trouble import Troubles, in_words, librdkafka
from railgun.model.messages import StoredMessage
from railgun.protocol.replies import Located
from railgun.protocol.routing import reply_partition
from railgun.protocol.topics import Names

logger = logging.getLogger(__name__)

_UNREACHABLE_AFTER = 2.0  # seconds of silence of every broker after which connecting fails
_ASK = 2.0  # seconds for a question to the cluster that is not the user's own


class KafkaTransport:
    """Carries commands through the topics of one prefix."""

    def __init__(self, settings: KafkaSettings, names: Names) -> None:
        self._settings = settings
        self._names = names
        self._troubles = Troubles(settings.bootstrap)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._client = ""
        self._topology = Topology(1)
        self._sender: KafkaSender | None = None
        self._admin: AdminClient | None = None
        self._asker: Consumer | None = None
        self._receiver: Receiver | None = None
        self._registry: RegistryReader | None = None
        self._replies: ReplyReader | None = None
        self._log: LogReader | None = None
        self._listening: set[int] = set()
        self._advised: list[AdvisoryReader] = []

    @property
    def settings(self) -> KafkaSettings:
        """The address and credentials, for tools that read Kafka beside this connection."""
        return self._settings

    @property
    def names(self) -> Names:
        """The names of the cell that it is connected to."""
        return self._names

    # -- opening

    def open(self, client: str, receiver: Receiver, timeout: float) -> Topology:
        self._client = client
        self._receiver = receiver
        deadline = time.monotonic() + timeout
        callback: dict[str, Any] = {"error_cb": self._troubles.told}
        # 30 s: a command outlives the restart of a broker; its caller has long been told that the outcome is open.
        producer = self._settings.producer(linger_ms=0, message_timeout_ms=30_000)
        self._sender = KafkaSender(
            lambda told: Producer({**producer, "error_cb": told}, logger=librdkafka),
            self._names.commands,
            self._troubles,
            receiver.failed,
        )
        self._admin = AdminClient({**self._settings.admin(), **callback}, logger=librdkafka)
        # It reads nothing and never joins the workers' group: it is asked for that group's offsets, and for the ends of
        # topics, open transactions included.
        asker = {**self._settings.consumer(group_id=self._names.group), "isolation.level": "read_uncommitted"}
        self._asker = Consumer({**asker, **callback}, logger=librdkafka)
        self._require_cluster(deadline)
        self._registry = RegistryReader(self._settings, self._names.registry, receiver, self._troubles)
        self._registry.start()
        if not self.sync_registry(max(deadline - time.monotonic(), 1.0)):
            raise ConnectionLost(f"the topic {self._names.registry} could not be read to its end in time")
        if self._registry.topology is None:
            raise NoWorker(self._no_worker())
        self._topology = self._registry.topology
        return self._topology

    def _require_cluster(self, deadline: float) -> None:
        """Return once the broker answers and has the registry. Raises what is wrong, in words."""
        assert self._admin is not None
        topic = self._names.registry
        while True:
            left = deadline - time.monotonic()
            try:
                found = self._admin.list_topics(topic, timeout=max(min(left, 0.5), 0.1)).topics[topic]
            except KafkaException as error:
                reason = self._troubles.lasting(_UNREACHABLE_AFTER)
                if reason is None and left <= 0:
                    reason = self._troubles.now() or in_words(
                        error, f"connecting to {self._settings.bootstrap}"
                    )
                if reason is not None:
                    raise reason from error
                continue
            if found.error is None:
                self._troubles.worked()
                return
            if found.error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
                raise NoWorker(self._no_worker())
            if left <= 0 or not found.error.retriable():
                raise in_words(found.error, f"looking up the topic {topic}")

    def _no_worker(self) -> str:
        return (
            f"no worker has set up the prefix {self._names.prefix!r} at {self._settings.bootstrap} yet, "
            f"nothing was sent: {START_A_WORKER}"
        )

    # -- listening

    def listen(self, shard: int, timeout: float) -> None:
        with self._lock:
            if shard in self._listening:
                return
            if self._replies is None:
                assert self._receiver is not None
                self._replies = ReplyReader(
                    self._settings, self._names.replies, self._client, self._receiver, self._troubles
                )
                self._replies.start()
            partition = reply_partition(shard, self._client, self._topology.reply_factor)
            self._replies.follow(partition, self._end_of(self._names.replies, partition, timeout))
            self._listening.add(shard)

    def _end_of(self, topic: str, partition: int, timeout: float) -> int:
        """The offset behind the last record, committed or not."""
        deadline = time.monotonic() + timeout
        while True:
            left = max(deadline - time.monotonic(), 0.1)
            try:
                return self._ask_end(TopicPartition(topic, partition), left)
            except KafkaException as error:
                reason = in_words(error, f"asking for the end of {topic}")
                if time.monotonic() >= deadline or not isinstance(reason, ConnectionLost):
                    raise self._troubles.now() or reason from error
                self._refresh(topic, left)

    def _ask_end(self, place: TopicPartition, timeout: float) -> int:
        # Not AdminClient.list_offsets: when a broker goes away it ends the whole process (librdkafka issue 4605).
        assert self._asker is not None
        bounds = self._asker.get_watermark_offsets(place, timeout=timeout)
        if bounds is None:
            raise RequestTimeout(f"Kafka did not answer for the end of {place.topic} within {timeout:g} s")
        return int(bounds[1])

    def _refresh(self, topic: str, timeout: float) -> None:
        """Ask for the topic anew: librdkafka remembers for long that a topic was missing when it was last asked for."""
        assert self._asker is not None
        try:
            self._asker.list_topics(topic, timeout=min(timeout, _ASK))
        except KafkaException as error:
            logger.info("the topic %s cannot be looked up: %s", topic, error.args[0].str())
        self._stopped.wait(0.05)

    def sync_registry(self, timeout: float) -> bool:
        assert self._registry is not None
        begun = time.monotonic()
        end = self._end_of(self._names.registry, 0, timeout)
        left = timeout - (time.monotonic() - begun)
        return self._registry.wait_for(
            end, max(left, 0.05), lambda: self._troubles.lasting(_UNREACHABLE_AFTER)
        )

    def read_log(self, places: Sequence[Located], timeout: float) -> list[StoredMessage | None]:
        with self._lock:
            if self._log is None:
                self._log = LogReader(self._settings, self._troubles, self._end_of)
        return self._log.read(places, timeout)

    def advisories(self, take: TakeAdvisories) -> Callable[[], None]:
        topic = self._names.advisories
        assert self._receiver is not None
        places = [
            TopicPartition(topic, shard, self._end_of(topic, shard, _UNREACHABLE_AFTER))
            for shard in range(self._topology.partitions)
        ]
        reader = AdvisoryReader(self._settings, places, take, self._receiver, self._troubles)
        with self._lock:
            self._advised.append(reader)
        reader.start()

        def end() -> None:
            with self._lock:
                if reader in self._advised:
                    self._advised.remove(reader)
            reader.stop(5.0)

        return end

    def feed(self, failed: Callable[[RailgunError], None]) -> KafkaFeed:
        """A reader of leased messages; it calls ``failed`` if it cannot go on."""
        return KafkaFeed(self._settings, self._troubles, self._end_of, failed)

    # -- sending

    def send(self, partition: int, key: bytes, kind: str, value: bytes, delivered: Delivered) -> None:
        assert self._sender is not None
        self._sender.send(partition, key, kind, value, delivered)

    def flush(self, timeout: float) -> bool:
        return self._sender is None or self._sender.flush(timeout)

    # -- who is alive

    def workers(self) -> int | None:
        if self._admin is None or not self._reachable():
            return None
        group = self._names.group
        try:
            # Not describe_consumer_groups: see _ask_end. This one is deprecated, but does not end the process.
            found: list[Any] = list(self._admin.list_groups(group, timeout=_ASK))
        except ImportError:
            return None  # how confluent-kafka fails where a program turns deprecation warnings into errors
        except KafkaException as error:
            logger.info("the group %s cannot be described: %s", group, error.args[0].str())
            return None
        members = [len(one.members) for one in found if one.id == group and one.error is None]
        if members:
            return sum(members)
        return 0 if self._may_describe() else None

    def _may_describe(self) -> bool:
        """Whether a group that is not in the list is really missing: it is also left out for who may not see it."""
        assert self._asker is not None
        try:
            self._asker.committed([TopicPartition(self._names.commands, 0)], timeout=_ASK)
        except KafkaException as error:
            logger.info("the group %s cannot be described: %s", self._names.group, error.args[0].str())
            return False
        return True

    def _reachable(self) -> bool:
        """Whether the broker answers; after trouble it is asked, because the end of trouble is not reported."""
        if self._troubles.now() is None:
            return True
        assert self._asker is not None
        try:
            self._asker.list_topics(self._names.registry, timeout=1.0)
        except KafkaException:
            return False
        self._troubles.worked()
        return True

    def trouble(self) -> RailgunError | None:
        return self._troubles.now()

    def close(self) -> None:
        self._stopped.set()
        for reader in (self._registry, self._replies, *self._advised):
            if reader is not None:
                reader.stop(5.0)
        if self._log is not None:
            self._log.close()
        if self._asker is not None:
            self._asker.close()
        if self._sender is not None:
            self._sender.close()
