"""Records that cannot be read: each is skipped, and said once.

Anybody who may write to a topic can put anything there, and a later version writes what this one does not know. A parser at the
edge of railgun therefore never raises: it returns a value, or an :class:`Unreadable` that says why there is none.
"""

from __future__ import annotations

import logging
import threading
from typing import NamedTuple

_MOST = 1_000  # places that are remembered; more say nothing new


class Unreadable(NamedTuple):
    """Why a record, of a kind such as ``registry stream``, cannot be read."""

    kind: str
    reason: str


class Skipped:
    """The records that one reader has skipped. Says the first of each topic and kind in the log. Thread-safe."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._lock = threading.Lock()
        self._said: set[tuple[str, str]] = set()
        self.count = 0

    def add(self, topic: str, place: object, why: Unreadable) -> None:
        """A record was skipped: ``place`` is its offset or its key."""
        with self._lock:
            self.count += 1
            known = (topic, why.kind) in self._said
            if known or len(self._said) >= _MOST:
                return
            self._said.add((topic, why.kind))
        self._logger.error(
            "%s: the record at %.200r cannot be read and is skipped, as are others like it, which are not logged: %s: %.500s",
            topic,
            place,
            why.kind,
            why.reason,
        )
