"""The log of a stream in memory: records by offset, tombstones among them."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from railgun.model.messages import StoredMessage
from railgun.protocol.log_record import subject_of
from railgun.protocol.replies import Located

if TYPE_CHECKING:
    from railgun.shard.drain import LogAppend

_GRACE = 5.0  # seconds
_TOGETHER = 0.5  # seconds; trims within them are one, because each moves the rest of the log


class _Record(NamedTuple):
    """A record of a log; a tombstone has sequence 0."""

    sequence: int
    incarnation: int
    message: StoredMessage | None


class MemoryLog:
    """A log topic: records by offset, trimmed at its beginning."""

    def __init__(self) -> None:
        self._base = 0
        self._records: list[_Record] = []
        self._trims: deque[tuple[float, int]] = deque()

    def append(self, append: LogAppend) -> int | None:
        """Write what a drain appends; the offset of its first message."""
        first = None
        tombstones = deque(append.tombstones)
        for number, sequence in enumerate(append.sequences):
            while tombstones and tombstones[0][0] <= number:
                tombstones.popleft()
                self._records.append(_Record(0, 0, None))
            if first is None:
                first = self._base + len(self._records)
            subject = subject_of(append.keys[number]) or ""
            message = StoredMessage(
                subject, sequence, append.payloads[number], append.headers[number], append.times[number]
            )
            self._records.append(_Record(sequence, append.incarnation, message))
        self._records.extend(_Record(0, 0, None) for _ in tombstones)
        return first

    def trim(self, offset: int) -> None:
        """Drop the records below the offset, after a grace in which those that were given out can be read."""
        now = time.monotonic()
        if self._trims and self._trims[-1][0] > now + _GRACE - _TOGETHER:
            due, known = self._trims.pop()
            self._trims.append((due, max(offset, known)))
        elif offset > (self._trims[-1][1] if self._trims else self._base):
            self._trims.append((now + _GRACE, offset))
        end = self._base
        while self._trims and self._trims[0][0] <= now:
            end = self._trims.popleft()[1]
        gone = min(end - self._base, len(self._records))
        if gone > 0:
            del self._records[:gone]
            self._base += gone

    def find(self, place: Located) -> StoredMessage | None:
        for at in range(max(place.offset - self._base, 0), len(self._records)):
            record = self._records[at]
            if record.sequence == place.sequence and record.incarnation == place.incarnation:
                return record.message
            if record.sequence > place.sequence:
                break
        return None
