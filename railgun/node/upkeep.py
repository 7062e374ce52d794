"""What a worker does beside its drains: trims logs, looks after quarantined topics and after the outbox.

One thread for all shards. Nothing here may hold a drain up: a trim that fails comes again with the next.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from railgun.kafka.answers import answer_of
from railgun.kafka.topics import Topics
from railgun.node.drain import Trim
from railgun.node.heap import give_memory_back
from railgun.node.outbox import Outbox

log = logging.getLogger("railgun.node")

_TICK: Final = 0.25
_TRIM_EVERY: Final = 3.0
# Whoever was given a message that was removed at once (ack none, interest) must have had the time to read it.
_TRIM_GRACE: Final = 10  # times so long
_TRIM_SECONDS: Final = 15.0
_LOOK_EVERY: Final = 5.0


class Upkeep:
    """The worker's housekeeper. ``start`` before use; ``stop`` flushes what was sent."""

    def __init__(
        self,
        admin: AdminClient,
        topics: Topics,
        outbox: Outbox,
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._admin, self._topics, self._outbox = admin, topics, outbox
        self._on_crash = on_crash
        self._lock = threading.Lock()
        self._trims: dict[str, int] = {}
        self._ageing: deque[dict[str, int]] = deque()  # trims that wait out their grace
        self._trimmed: dict[str, int] = {}
        self._missing: dict[str, Callable[[], None]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name="railgun-upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(10.0)

    # ------------------------------------------------------------ from the shards

    def trim(self, trims: Iterable[Trim]) -> None:
        """Records below these offsets may go, some time soon."""
        with self._lock:
            for trim in trims:
                if trim.offset > self._trimmed.get(trim.topic, 0):
                    self._trims[trim.topic] = max(trim.offset, self._trims.get(trim.topic, 0))

    def forget(self, topic: str) -> None:
        """The topic is deleted or new: what was known of it no longer holds."""
        with self._lock:
            self._missing.pop(topic, None)
            for known in (self._trims, *self._ageing, self._trimmed):
                known.pop(topic, None)

    def watch_for(self, topic: str, found: Callable[[], None]) -> None:
        """Call ``found`` once the topic is there again."""
        with self._lock:
            self._missing[topic] = found

    # ------------------------------------------------------------ the thread

    def _main(self) -> None:
        try:
            since_trim = since_look = 0.0
            while not self._stopping.wait(_TICK):
                self._outbox.tick()
                since_trim, since_look = since_trim + _TICK, since_look + _TICK
                if since_trim >= _TRIM_EVERY:
                    since_trim = 0.0
                    self._trim_now()
                if since_look >= _LOOK_EVERY:
                    since_look = 0.0
                    give_memory_back()
                    self._look_for_missing()
            self._outbox.flush(5.0)
        except BaseException as error:  # noqa: BLE001 - handed to the worker, which ends
            self._on_crash(error)

    def _trim_now(self) -> None:
        with self._lock:
            self._ageing.append(self._trims)
            self._trims = {}
            wanted = self._ageing.popleft() if len(self._ageing) > _TRIM_GRACE else {}
        if not wanted:
            return
        requests = [TopicPartition(topic, 0, offset) for topic, offset in wanted.items()]
        futures = self._admin.delete_records(requests, request_timeout=10.0)
        deadline = (
            time.monotonic() + _TRIM_SECONDS
        )  # for all of them: a broker that is away must not hold up the rest
        for place, future in futures.items():
            try:
                answer_of(future, max(0.0, deadline - time.monotonic()))
            except KafkaException as error:
                log.info("the log %s was not trimmed, it comes again: %s", place.topic, error.args[0].str())
            else:
                with self._lock:
                    self._trimmed[place.topic] = wanted[place.topic]

    def _look_for_missing(self) -> None:
        with self._lock:
            missing = list(self._missing.items())
        for topic, found in missing:
            if self._topics.exists(topic):
                with self._lock:
                    self._missing.pop(topic, None)
                found()
