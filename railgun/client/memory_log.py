"""The log of a stream in memory: records by offset, tombstones among them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from railgun.model.messages import StoredMessage
from railgun.model.wire import Located

if TYPE_CHECKING:
    from railgun.node.drain import LogAppend


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
            subject = append.keys[number].partition(b"\0")[0].decode("utf-8")
            message = StoredMessage(
                subject, sequence, append.payloads[number], append.headers[number], append.times[number]
            )
            self._records.append(_Record(sequence, append.incarnation, message))
        self._records.extend(_Record(0, 0, None) for _ in tombstones)
        return first

    def trim(self, offset: int) -> None:
        gone = min(max(offset - self._base, 0), len(self._records))
        if gone > 1_000:  # in pieces: each one moves the rest
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
