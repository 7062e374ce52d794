"""Reading the records of a worker's partitions: librdkafka in a thread of its own, batches for the event loop.

Faust's own consumer, aiokafka, stays the member of the group and says which partitions are ours and where to begin. For a
record that comes alone, as most requests do, its way through Python costs far more than librdkafka's.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from railgun.errors import NotAuthorized
from railgun.kafka.record_headers import headers_of
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.trouble import in_words, librdkafka
from railgun.shard.drain import record_bytes

log = logging.getLogger("railgun.worker")

Place = tuple[str, int]  # topic and partition

_POLL_SECONDS: Final = 0.05  # how long a new assignment waits at most
_IDLE_SECONDS: Final = 0.2
_BATCH: Final = 5_000
# Bytes of one partition that wait because its inbox is full. A pause drops what librdkafka has fetched ahead.
_FULL_BYTES: Final = 8 * 1024 * 1024
_ROOM_BYTES: Final = 2 * 1024 * 1024
_LOOK_SECONDS: Final = 0.05  # a partition that is wanted again is found within this time
_MEET_SECONDS: Final = 1.0


class Record(NamedTuple):
    """A record, with the names that aiokafka gives its own."""

    offset: int
    timestamp: int  # ms
    key: bytes | None
    headers: list[tuple[str, bytes]]
    value: bytes | None


class RecordReader:
    """Records of the assigned partitions, in order, each once for each assignment. Bounded by pausing."""

    def __init__(self, settings: KafkaSettings, on_failure: Callable[[BaseException], None]) -> None:
        """``on_failure`` is called from the reader's thread if that ends otherwise than by :meth:`close`."""
        config = settings.consumer(
            fetch_wait_max_ms=50, auto_offset_reset="earliest", queued_max_messages_kbytes=16_384
        )
        self._consumer = Consumer(config, logger=librdkafka)
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = False
        self._version = 0  # of the assignment: what was read for a former one is dropped
        self._positions: Mapping[Place, int | None] = {}
        self._records: dict[Place, list[Record]] = {}
        self._sizes: dict[Place, int] = {}
        self._paused: set[Place] = set()  # of the thread
        self._thread = threading.Thread(target=self._run, name="railgun-records", daemon=True)
        self._thread.start()

    # -- from the event loop

    def assign(self, positions: Mapping[Place, int | None]) -> None:
        """From now on these are read, each from its offset (None: its beginning), and no others."""
        with self._lock:
            self._version += 1
            self._positions = dict(positions)
            self._records, self._sizes = {}, {}
        self._wake.set()

    async def take(self, places: Collection[Place], timeout: float) -> dict[Place, list[Record]]:
        """The records that have come of these partitions, waiting for the first up to the timeout."""
        deadline = time.monotonic() + timeout
        while True:
            self._arrived.clear()
            with self._lock:
                found = {place: self._records.pop(place) for place in places if place in self._records}
                for place in found:
                    del self._sizes[place]
                others = bool(self._records)
            left = deadline - time.monotonic()
            if found or left <= 0:
                return found
            try:
                async with asyncio.timeout(min(left, _LOOK_SECONDS) if others else left):
                    await self._arrived.wait()
            except TimeoutError:
                pass  # looked for again, or the time is over

    def close(self) -> None:
        """End the thread, which closes its consumer."""
        self._stopped = True
        self._wake.set()
        self._thread.join(5.0)

    # -- the thread

    def _run(self) -> None:
        version = 0
        try:
            while not self._stopped:
                version = self._follow(version)
                if not self._positions:
                    self._wake.wait(_IDLE_SECONDS)
                    self._wake.clear()
                    continue
                first = self._consumer.poll(_POLL_SECONDS)
                if first is not None:
                    self._store([first, *self._consumer.consume(_BATCH, 0.0)], version)
                self._resume()
            self._consumer.close()
        except BaseException as error:  # noqa: BLE001 - handed to the worker, which ends
            self._on_failure(error)

    def _follow(self, version: int) -> int:
        """Follow a new assignment, if there is one."""
        with self._lock:
            wanted, positions = self._version, self._positions
        if wanted != version:
            self._paused.clear()
            if None in positions.values():
                self._meet_a_broker(next(iter(positions))[0])
            self._consumer.assign(
                [
                    TopicPartition(topic, number, OFFSET_BEGINNING if offset is None else offset)
                    for (topic, number), offset in positions.items()
                ]
            )
        return wanted

    def _meet_a_broker(self, topic: str) -> None:
        """librdkafka looks for a beginning again only after half a second if it knows no broker when it is assigned one."""
        try:
            self._consumer.list_topics(topic, timeout=_MEET_SECONDS)
        except KafkaException as error:
            self._complain(error.args[0])

    def _store(self, messages: Iterable[Any], version: int) -> None:
        came: dict[Place, list[Record]] = {}
        for message in messages:
            error = message.error()
            if error is not None:
                self._complain(error)
                continue
            record = Record(
                message.offset(),
                message.timestamp()[1],
                message.key(),
                [(name, value or b"") for name, value in headers_of(message)],
                message.value(),
            )
            came.setdefault((message.topic(), message.partition()), []).append(record)
        with self._lock:
            if version != self._version:
                return
            for place, records in came.items():
                self._records.setdefault(place, []).extend(records)
                size = sum(map(record_bytes, records))
                self._sizes[place] = self._sizes.get(place, 0) + size
            full = [place for place, size in self._sizes.items() if size > _FULL_BYTES]
        if came:
            self._loop.call_soon_threadsafe(self._arrived.set)
        self._pause([place for place in full if place not in self._paused])

    def _pause(self, places: list[Place]) -> None:
        if places:
            self._consumer.pause([TopicPartition(*place) for place in places])
            self._paused.update(places)

    def _resume(self) -> None:
        if self._paused:
            with self._lock:
                roomy = [place for place in self._paused if self._sizes.get(place, 0) < _ROOM_BYTES]
            if roomy:
                self._consumer.resume([TopicPartition(*place) for place in roomy])
                self._paused.difference_update(roomy)

    @staticmethod
    def _complain(error: KafkaError) -> None:
        reason = in_words(error, "reading commands")
        if isinstance(reason, NotAuthorized) and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise reason  # a group is never joined here, so no right to one is needed
        log.info("reading commands: %s", error.str())
