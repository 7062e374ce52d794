"""Which records of a log are the messages that were leased.

A :class:`Cursor` goes through the runs of one parcel. Records come in the order of the log: one below the wanted sequence is
skipped, and one above it shows that the wanted message was removed. A :class:`Track` holds the cursors of one log, and what
was read beyond them, so that a lease that goes on where the last one ended finds its records here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from railgun.client.feeds import Parcel, content, undelivered
from railgun.errors import RailgunError
from railgun.model import headers as h

if TYPE_CHECKING:
    from railgun.client.message import Delivery

NEAR = 500  # records that are read on rather than jumped over
_SEQUENCE = h.LOG_SEQUENCE
_SUBJECTS = 20_000  # decoded subjects that are remembered

_subjects: dict[bytes, str] = {}


class Record(Protocol):
    """What is used of a Kafka message."""

    def headers(self) -> list[tuple[str, bytes | None]] | None: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def offset(self) -> int | None: ...


class Cursor:
    """Where the reading of one parcel is."""

    __slots__ = ("_at", "_found", "_new", "_passed", "incarnation", "left", "offset", "parcel", "wanted")

    def __init__(self, parcel: Parcel) -> None:
        self.parcel = parcel
        self.incarnation = parcel.lease.incarnation
        self.left = parcel.count  # how many messages it still looks for
        self._new = undelivered(parcel.lease)  # messages behind the last one that were never delivered before
        self.wanted = 0  # the sequence that comes next
        self.offset = 0  # where to look for it, or below
        self._at = -1  # number of the run
        self._found: list[Delivery] = []
        self._passed = 0
        self._next_run()

    @property
    def done(self) -> bool:
        return self._at >= len(self.parcel.lease.sequences)

    def _next_run(self) -> None:
        self._at += 1
        lease = self.parcel.lease
        if self._at < len(lease.sequences):
            self.wanted, self.offset = lease.sequences[self._at], lease.offsets[self._at]

    def read(self, records: Sequence[Record]) -> int:
        """Take what is wanted from the records; the index behind the last one that was of use."""
        at, lease = 0, self.parcel.lease
        while at < len(records) and self._at < len(lease.sequences):
            run = self._at
            at = self._read_run(records, at)
            if (
                run < self._at < len(lease.sequences)
                and self.wanted < lease.sequences[run] + lease.counts[run]
            ):
                return at  # the next run is behind the reader: it waits for a jump
        if at:
            self.offset = max(self.offset, (records[at - 1].offset() or 0) + 1)
        return at

    def _read_run(self, records: Sequence[Record], at: int) -> int:
        """The same for the run that the cursor is in, from this index on. The loop that every message goes through."""
        lease, run = self.parcel.lease, self._at
        make, box, deliveries = self.parcel.make, self.parcel.box, lease.deliveries[run]
        found, whole, stamp = self._found.append, not lease.headers_only, b"%d" % self.incarnation
        wanted, stop = self.wanted, lease.sequences[run] + lease.counts[run]
        shift = lease.consumer_sequences[run] - lease.sequences[run]
        first = deliveries == 1
        pending = self._new
        last_time, time_ns = b"", 0
        for index in range(at, len(records)):
            record = records[index]
            given = record.headers()
            at = index + 1
            if given is None or len(given) < 3:
                continue  # a tombstone
            (name, number), (_, stamped), (_, mark) = given if len(given) == 3 else given[-3:]
            if name != _SEQUENCE or number is None:
                continue  # nothing of ours
            if mark != stamp:
                if int(mark or 0) < self.incarnation:
                    continue
                at, wanted = index, stop  # a stream of the same name took its place
                break
            sequence = int(number)
            if sequence != wanted:
                if sequence < wanted:
                    continue
                gone = min(sequence, stop) - wanted  # removed meanwhile
                wanted += gone
                if first:
                    pending -= gone
                if wanted == stop:
                    at = index
                    break
            if stamped != last_time:  # messages of one pack share their time
                last_time, time_ns = stamped or b"", int(stamped or 0)
            key, payload = record.key() or b"", record.value() or b""
            headers: h.Headers = () if len(given) == 3 else [(k, v or b"") for k, v in given[:-3]]
            if not whole:
                payload, headers = content(lease, payload, headers)
            subject = _subjects.get(key) or _subject(key)
            if first:
                pending -= 1
            found(
                make(
                    box,
                    subject,
                    payload,
                    headers,
                    sequence,
                    sequence + shift,
                    deliveries,
                    time_ns,
                    pending,
                )
            )
            wanted += 1
            if wanted == stop:
                break
        self._pass(wanted - self.wanted)
        return at

    def _pass(self, count: int) -> None:
        """So many messages were found, or found to be gone."""
        self.wanted += count
        self.left -= count
        self._passed += count
        lease = self.parcel.lease
        if lease.deliveries[self._at] == 1:
            self._new -= count
        if self.wanted == lease.sequences[self._at] + lease.counts[self._at]:
            self._next_run()

    def skip(self, start: int) -> None:
        """Everything from this offset to the end of the log was read: what should be there is gone."""
        lease = self.parcel.lease
        while not self.done and self.offset >= start:
            self._pass(lease.sequences[self._at] + lease.counts[self._at] - self.wanted)

    def hand_over(self) -> None:
        """Give the parcel what was found since the last time."""
        if self._passed:
            found, self._found, passed, self._passed = self._found, [], self._passed, 0
            self.parcel.add(found, passed)


def _subject(key: bytes) -> str:
    """The subject of a record; its key may have a slot behind it."""
    subject = key.partition(b"\0")[0].decode("utf-8")
    if len(_subjects) >= _SUBJECTS:
        _subjects.clear()
    _subjects[key] = subject
    return subject


class Track:
    """One log: who waits for which of its records."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.cursors: deque[Cursor] = deque()  # in the order in which they came
        self.assigned = False
        self.ended = -1  # the offset of the end, while the reader is there
        self.ended_at = 0.0  # and since when
        self.position = 0  # of the reader: the next record that it brings
        self._held: list[Record] = []  # read, and not wanted yet
        self._from = 0  # the lowest offset that can be had without a jump
        self._passed = (
            0,
            0,
        )  # incarnation and sequence of the last record that was of use; (0, 0): not known

    @property
    def wanted(self) -> int:
        """How many records may be read without reading too far."""
        if not self.cursors:
            return 0
        ahead = max(self.cursors[0].offset - self.position, 0)
        return sum(cursor.left for cursor in self.cursors) + ahead

    def add(self, cursor: Cursor) -> None:
        """Somebody wants records of this log."""
        incarnation, sequence = self._passed
        if incarnation == cursor.incarnation and sequence < cursor.wanted:
            cursor.offset = max(cursor.offset, self._from)  # the log is in the order of sequences
        self.cursors.append(cursor)
        self.take(())

    def jump(self) -> int | None:
        """Where the reader must go on for the one that waits longest; None if it is on its way there."""
        if not self.cursors:
            return None
        offset = self.cursors[0].offset
        if not self.position <= offset <= self.position + NEAR:
            return offset
        if self.assigned:
            return None
        return min(cursor.offset for cursor in self.cursors if cursor.offset >= self.position)

    def jumped(self, offset: int) -> None:
        """The reader goes on at this offset."""
        if offset != self.position or self._held:
            self._held, self._passed = [], (0, 0)
        self._from = self.position = offset
        self.ended = -1

    def take(self, records: Sequence[Record]) -> None:
        """Records of the log, in order: give them to those who wait, and keep what is behind."""
        if records:
            first = records[0].offset() or 0
            if first < self._from:  # the log has no such offset, and is read from its beginning
                self._from = first
                for cursor in self.cursors:
                    cursor.offset = first
            self.position = (records[-1].offset() or 0) + 1
            self.ended = -1
            self._held += records
        used = 0
        for cursor in self.cursors:
            if cursor.offset < self._from:
                continue  # its records are behind the reader: it waits for a jump
            used = max(used, cursor.read(self._held))
            cursor.hand_over()
        self.drop_done()
        if used:
            last = self._held[used - 1]
            self._passed = identity(last)
            self._from = (last.offset() or 0) + 1
            del self._held[:used]

    def drop_done(self) -> None:
        """Forget cursors that have everything, or whose parcels nobody wants."""
        if any(cursor.done or cursor.parcel.done for cursor in self.cursors):
            self.cursors = deque(one for one in self.cursors if not (one.done or one.parcel.done))

    def end_reached(self, end: int) -> None:
        """The log really ends here: those who waited for something before it wait in vain."""
        for cursor in self.cursors:
            cursor.skip(min(self._from, end))
            cursor.hand_over()
        self.drop_done()

    def gone(self) -> None:
        """There is no such log any more."""
        self.end_reached(0)

    def fail(self, error: RailgunError) -> None:
        """Nothing of this log can be read."""
        cursors, self.cursors = self.cursors, deque()
        for cursor in cursors:
            cursor.parcel.fail(error)


def identity(record: Record) -> tuple[int, int]:
    """Incarnation and sequence of a record; (0, 0) for one that has none."""
    given = record.headers()
    if given is None or len(given) < 3 or given[-3][0] != h.LOG_SEQUENCE:
        return 0, 0
    return int(given[-1][1] or 0), int(given[-3][1] or 0)
