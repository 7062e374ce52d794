"""The housekeeping of a worker, beside its drains: it trims logs, watches for quarantined topics and serves the outbox.

One thread for all shards. Nothing here may hold a drain up: a trim that fails comes again with the next.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from confluent_kafka.admin import AdminClient

from railgun.kafka.topic_admin import Topics
from railgun.worker.heap import give_memory_back
from railgun.worker.outbox import Outbox
from railgun.worker.shards.log_trims import LogTrims

log = logging.getLogger("railgun.worker")

_TICK: Final = 0.25
_TRIM_EVERY: Final = 3.0
_CHECK_EVERY: Final = 5.0


class Housekeeping:
    """The worker's housekeeper. ``start`` before use; ``stop`` flushes what was sent."""

    def __init__(
        self,
        admin: AdminClient,
        topics: Topics,
        outbox: Outbox,
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._topics, self._outbox = topics, outbox
        self._on_crash = on_crash
        self._lock = threading.Lock()
        self.trims = LogTrims(admin)
        self._missing: dict[str, Callable[[], None]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name="railgun-housekeeping", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(10.0)

    # ------------------------------------------------------------ from the shards

    def forget(self, topic: str) -> None:
        """The topic is deleted or new: its trims and its watch are dropped."""
        self.trims.forget(topic)
        with self._lock:
            self._missing.pop(topic, None)

    def watch_for(self, topic: str, found: Callable[[], None]) -> None:
        """Call ``found`` once the topic is there again."""
        with self._lock:
            self._missing[topic] = found

    # ------------------------------------------------------------ the thread

    def _main(self) -> None:
        try:
            since_trim = since_check = 0.0
            while not self._stopping.wait(_TICK):
                self._outbox.tick()
                since_trim, since_check = since_trim + _TICK, since_check + _TICK
                if since_trim >= _TRIM_EVERY:
                    since_trim = 0.0
                    self.trims.turn()
                if since_check >= _CHECK_EVERY:
                    since_check = 0.0
                    give_memory_back()
                    self._check_missing()
            self._outbox.flush(5.0)
        except BaseException as error:  # noqa: BLE001 - handed to the worker, which ends
            self._on_crash(error)

    def _check_missing(self) -> None:
        with self._lock:
            missing = list(self._missing.items())
        for topic, found in missing:
            if self._topics.exists(topic):
                with self._lock:
                    self._missing.pop(topic, None)
                found()
