"""Records that a reader skipped because they cannot be read: each is counted, and the first of its kind is logged."""

from __future__ import annotations

import logging
import threading

from railgun.protocol.unreadable import Unreadable

_MOST = 1_000  # topics and kinds that are remembered; more say nothing new


class Skipped:
    """The records that one reader has skipped. The first of each topic and kind is logged. Thread-safe."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._lock = threading.Lock()
        self._logged: set[tuple[str, str]] = set()
        self.count = 0

    def add(self, topic: str, place: object, why: Unreadable) -> None:
        """Count a record that was skipped: ``place`` is its offset or its key."""
        with self._lock:
            self.count += 1
            known = (topic, why.kind) in self._logged
            if known or len(self._logged) >= _MOST:
                return
            self._logged.add((topic, why.kind))
        self._logger.error(
            "%s: the record at %.200r cannot be read and is skipped, as are others like it, which are not logged: %s: %.500s",
            topic,
            place,
            why.kind,
            why.reason,
        )
