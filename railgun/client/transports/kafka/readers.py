"""Threads that read what the cluster writes for a client: the registry, and the answers of the shards it uses.

Neither joins a group; both read committed records from positions that are fixed by hand. A reader that ends for another
reason than being stopped tells the receiver, which fails everything that waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from railgun.client.transport import Receiver, TakeAdvisories, Topology
from railgun.errors import NotAuthorized, RailgunError
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.skipped import Skipped
from railgun.kafka.trouble import Troubles, in_words, librdkafka
from railgun.protocol import advisory_record, registry
from railgun.protocol.unreadable import Unreadable

logger = logging.getLogger(__name__)

_POLL = 0.02  # how long a shard that is listened to for the first time waits at most
_BATCH = 500


class Reader:
    """A thread with a consumer. ``take`` gets the records of one poll, in order."""

    def __init__(self, name: str, settings: KafkaSettings, receiver: Receiver, troubles: Troubles) -> None:
        config = settings.consumer(enable_partition_eof=True, fetch_wait_max_ms=50)
        self.consumer = Consumer({**config, "error_cb": troubles.told}, logger=librdkafka)
        self._receiver = receiver
        self._troubles = troubles
        self.failure: RailgunError | None = None  # what ended the thread
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End the thread; its consumer is closed by the thread itself."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def take(self, messages: list[Message]) -> None:
        raise NotImplementedError

    def before_poll(self) -> None:
        """Whatever must happen in the thread that polls."""

    def ended(self, offset: int) -> None:
        """The end of a partition was reached at this offset."""

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self.before_poll()
                first = self.consumer.poll(_POLL)
                if first is not None:
                    self._sort([first, *self.consumer.consume(_BATCH, 0.0)])
        except Exception as error:
            logger.exception("%s ended", self._thread.name)
            unforeseen = RailgunError(f"{self._thread.name} ended: {error!r}")
            self.failure = error if isinstance(error, RailgunError) else unforeseen
            self._receiver.failed(self.failure)
        finally:
            self.consumer.close()

    def _sort(self, messages: list[Message]) -> None:
        records: list[Message] = []
        end: int | None = None
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                end = message.offset()
            else:
                self._failed(error)
        if records:
            self._troubles.worked()
            self.take(records)
        if end is not None:
            self.ended(end)

    def _failed(self, error: KafkaError) -> None:
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return  # librdkafka looks for the coordinator of a group that is never joined; reading needs none
        reason = in_words(error, "reading")
        if error.fatal() or isinstance(reason, NotAuthorized):
            raise reason
        logger.warning("%s: %s", self._thread.name, error.str())


class RegistryReader(Reader):
    """Follows the registry from its beginning. ``topology`` is None until the cluster's own record was read."""

    def __init__(self, settings: KafkaSettings, topic: str, receiver: Receiver, troubles: Troubles) -> None:
        super().__init__("railgun-registry", settings, receiver, troubles)
        self.topology: Topology | None = None
        self._position = 0
        self._moved = threading.Condition()
        self.consumer.assign([TopicPartition(topic, 0, 0)])

    def take(self, messages: list[Message]) -> None:
        records = [(message.key() or b"", message.value()) for message in messages]
        for key, value in records:
            found = registry.parse(key, value) if key == registry.CLUSTER_KEY else None
            if isinstance(found, registry.Protected):
                self.topology = Topology(found.partitions, found.reply_factor)
        self._receiver.registry(records)
        self._reached((messages[-1].offset() or 0) + 1)

    def ended(self, offset: int) -> None:
        self._reached(offset)

    def _reached(self, position: int) -> None:
        with self._moved:
            self._position = position
            self._moved.notify_all()

    def wait_for(self, position: int, timeout: float, trouble: Callable[[], RailgunError | None]) -> bool:
        """Whether everything below the position was read in time. Raises what keeps the broker from answering."""
        deadline = time.monotonic() + timeout
        with self._moved:
            while self._position < position:
                left = deadline - time.monotonic()
                reason = self.failure or trouble()
                if reason is not None:
                    raise reason
                if left <= 0 or self._stopped.is_set():
                    return False
                self._moved.wait(min(left, 0.1))
        return True


class ReplyReader(Reader):
    """Reads the answers of the shards in use, and keeps those for this client."""

    def __init__(
        self, settings: KafkaSettings, topic: str, client: str, receiver: Receiver, troubles: Troubles
    ) -> None:
        super().__init__("railgun-replies", settings, receiver, troubles)
        self._topic = topic
        self._key = client.encode("ascii")
        self._wanted: deque[TopicPartition] = deque()

    def follow(self, partition: int, offset: int) -> None:
        """Read this partition too, from this offset on; the thread begins within some milliseconds."""
        self._wanted.append(TopicPartition(self._topic, partition, offset))

    def before_poll(self) -> None:
        # Here and not in follow: assigning while another thread polls the same consumer never returns.
        while self._wanted:
            try:
                self.consumer.incremental_assign([self._wanted.popleft()])
            except KafkaException as error:
                raise in_words(error, "reading answers") from error

    def take(self, messages: list[Message]) -> None:
        key = self._key
        mine = [message.value() or b"" for message in messages if message.key() == key]
        if mine:
            self._receiver.replies(mine)


class AdvisoryReader(Reader):
    """Follows the advisories of all shards from given positions."""

    def __init__(
        self,
        settings: KafkaSettings,
        places: list[TopicPartition],
        take: TakeAdvisories,
        receiver: Receiver,
        troubles: Troubles,
    ) -> None:
        super().__init__("railgun-advisories", settings, receiver, troubles)
        self._take = take
        self._skipped = Skipped(logger)
        self.consumer.assign(places)

    def take(self, messages: list[Message]) -> None:
        found = []
        for message in messages:
            advisory = advisory_record.parse(message.key(), message.value())
            if isinstance(advisory, Unreadable):
                self._skipped.add(message.topic() or "", message.offset(), advisory)
            else:
                found.append(advisory)
        if found:
            self._take(found)
