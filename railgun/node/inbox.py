"""Where a shard's input waits: filled by the event loop, emptied by the shard's thread, one drain at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from railgun.node.drain import Input

_RECORD_BYTES: Final = 200  # what a record costs beside its value
DRAIN_BYTES: Final = 8 * 1024 * 1024  # bounds the time of a drain, and so the wait of everyone behind it
DRAIN_RECORDS: Final = 5000
DRAIN_STREAMS: Final = 30  # every partition that a transaction touches costs 0.4 ms (DESIGN 1)
FULL_BYTES: Final = 64 * 1024 * 1024


class Inbox:
    """Records in order, bounded by asking the reader to pause: never by dropping."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._records: deque[Input] = deque()
        self._calls: list[Callable[[], None]] = []
        self._bytes = 0
        self._closed = False

    def put(self, records: Sequence[Input]) -> bool:
        """Add records; False means: full, pause the reader until ``take`` has made room."""
        with self._changed:
            if self._closed:
                return True
            self._records.extend(records)
            self._bytes += sum(_size(record) for record in records)
            self._changed.notify()
            return self._bytes < FULL_BYTES

    def call(self, action: Callable[[], None]) -> None:
        """Have the shard's thread run ``action`` between two drains."""
        with self._changed:
            self._calls.append(action)
            self._changed.notify()

    def take(self, timeout: float | None) -> tuple[list[Input], list[Callable[[], None]], bool]:
        """What one drain should hold, waiting up to ``timeout`` for the first record; all there is, up to its bounds.

        The last value says whether the inbox has room (again).
        """
        with self._changed:
            if not (self._records or self._calls or self._closed):
                self._changed.wait(timeout)
            calls, self._calls = self._calls, []
            taken: list[Input] = []
            streams: set[bytes | None] = set()
            size = 0
            while self._records and size < DRAIN_BYTES and len(taken) < DRAIN_RECORDS:
                record = self._records[0]
                streams.add(record.key)
                if len(streams) > DRAIN_STREAMS:
                    break
                taken.append(self._records.popleft())
                size += _size(record)
            self._bytes -= size
            return taken, calls, self._bytes < FULL_BYTES // 2

    def take_all(self) -> list[Input]:
        """Everything that waits, at once."""
        with self._changed:
            taken = list(self._records)
            self._records.clear()
            self._bytes = 0
            return taken

    def close(self) -> None:
        """Drop everything and wake the taker; what comes later is dropped too: another owner will read it."""
        with self._changed:
            self._closed = True
            self._records.clear()
            self._calls.clear()
            self._bytes = 0
            self._changed.notify()


def _size(record: Input) -> int:
    return len(record.value or b"") + _RECORD_BYTES
