"""Cursors find the leased messages among the records of a log.

A :class:`Cursor` goes through the runs of one parcel. Records come in the order of the log: one below the wanted sequence is
skipped, and one above it shows that the wanted message was removed. A record that cannot be read is skipped too, and said in the
log: its message, which is not acknowledged, is delivered again until it is out of deliveries. A :class:`Track` holds the cursors of one log, and what
was read beyond them, so that a lease that goes on where the last one ended finds its records here.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from railgun.client.consuming.parcels import Parcel, content
from railgun.errors import RailgunError
from railgun.kafka.record_headers import Record, extras_of, fault_of, identity_of
from railgun.kafka.skipped import Skipped
from railgun.protocol import log_record
from railgun.protocol.log_record import NO_MESSAGE, Extras
from railgun.protocol.unreadable import Unreadable

if TYPE_CHECKING:
    from railgun.client.consuming.delivery import Delivery

logger = logging.getLogger(__name__)

NEAR = 500  # records that are read on rather than jumped over
_FEW = 16  # records that are looked at one by one
_STRIDE = 1_024  # records that are taken together, at first
_SUBJECTS = 20_000  # decoded subjects that are remembered

_subjects: dict[bytes, str] = {}
_BAD_KEY = Unreadable("log record", "its key is not a subject")
_skipped = Skipped(logger)


class Cursor:
    """The position of reading one parcel."""

    __slots__ = (
        "_at",
        "_found",
        "_passed",
        "_stop",
        "_stride",
        "incarnation",
        "left",
        "offset",
        "parcel",
        "wanted",
    )

    def __init__(self, parcel: Parcel) -> None:
        self.parcel = parcel
        self.incarnation = parcel.lease.incarnation
        self.left = parcel.count  # how many messages it still looks for
        self.wanted = 0  # the sequence that comes next
        self.offset = 0  # where to look for it, or below
        self._at = -1  # number of the run
        self._stop = 0  # the first sequence behind it
        self._stride = _STRIDE
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
            self._stop = self.wanted + lease.counts[self._at]

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
        """The same for the run that the cursor is in, from this index on."""
        run, at = self._at, first_from(records, at, (self.incarnation, self.wanted))
        while at < len(records) and self._at == run:
            size = self._consecutive(records, at)
            read = self._take(records[at : at + size]) if size else 0
            at = at + read if read else self._look(records, at)
        return at

    def _consecutive(self, records: Sequence[Record], at: int) -> int:
        """How many records from this index on are surely the wanted messages, one after the other; 0 if that is not seen.

        Sequences rise in a log: where the last of n messages is n - 1 behind the first, none is missing between them.
        """
        size = min(len(records) - at, self._stop - self.wanted, self._stride)
        if size < _FEW or self.parcel.lease.headers_only:
            return 0
        if identity_of(records[at]) != (self.incarnation, self.wanted):
            return 0
        if identity_of(records[at + size - 1]) != (self.incarnation, self.wanted + size - 1):
            self._stride = max(size // 2, _FEW)
            return 0
        self._stride = max(self._stride, 2 * size)
        return size

    def _take(self, records: Sequence[Record]) -> int:
        """Take records that are the wanted messages; how many. The lines that every message goes through."""
        payloads = [record.value() for record in records]
        if None in payloads:  # a tombstone
            self._stride = max(len(records) // 2, _FEW)
            return 0
        subjects = [
            _subjects.get(key) or _subject(key) for key in [record.key() or b"" for record in records]
        ]
        if None in subjects:
            self._stride = max(len(records) // 2, _FEW)
            return 0
        sequences = range(self.wanted, self.wanted + len(records))
        run = repeat(self.parcel.runs[self._at])
        self._found += map(self.parcel.make, run, sequences, subjects, payloads, records)
        self._pass(len(records))
        return len(records)

    def _look(self, records: Sequence[Record], at: int) -> int:
        """Look at a few records one by one; the index behind the last one that was of use."""
        run, end = self._at, min(at + _FEW, len(records))
        for index in range(at, end):
            incarnation, sequence = found = identity_of(records[index])
            if found == NO_MESSAGE:
                self._pass_over(records[index])
            if found < (self.incarnation, self.wanted):
                continue  # no message, or one that is behind us
            if incarnation > self.incarnation:
                sequence = self._stop  # a stream of the same name took its place
            if sequence > self.wanted:
                self._pass(min(sequence, self._stop) - self.wanted)  # removed meanwhile
            if self._at != run:
                return index
            self._find(records[index])
            if self._at != run:
                return index + 1
        return end

    def _find(self, record: Record) -> None:
        """This is the wanted message."""
        parcel, key = self.parcel, record.key() or b""
        payload = record.value() or b""
        extras: Extras | Record = record
        if parcel.lease.headers_only:
            payload, extras = content(parcel.lease, payload, *extras_of(record))
        subject = _subjects.get(key) or _subject(key)
        if subject is None:
            _skipped.add(parcel.lease.topic, record.offset(), _BAD_KEY)
        else:
            self._found.append(parcel.make(parcel.runs[self._at], self.wanted, subject, payload, extras))
        self._pass(1)

    def _pass_over(self, record: Record) -> None:
        """Skip a record that is not a message: a tombstone, or one that cannot be read, which is logged."""
        why = fault_of(record)
        if why is not None:
            _skipped.add(self.parcel.lease.topic, record.offset(), why)

    def _pass(self, count: int) -> None:
        """Count messages that were found, or found to be gone."""
        self.wanted += count
        self.left -= count
        self._passed += count
        if self.wanted == self._stop:
            self._next_run()

    def skip(self, start: int) -> None:
        """Everything from this offset to the end of the log was read: what should be there is gone."""
        while not self.done and self.offset >= start:
            self._pass(self._stop - self.wanted)

    def hand_over(self) -> None:
        """Give the parcel what was found since the last time."""
        if self._passed:
            found, self._found, passed, self._passed = self._found, [], self._passed, 0
            self.parcel.add(found, passed)


def first_from(records: Sequence[Record], at: int, wanted: tuple[int, int]) -> int:
    """The first index from ``at`` on before which every message is below the wanted one; messages rise in a log.

    Several readers of one log pass over each other's records: few of them are looked at.
    """
    end = len(records)
    while at < end:
        middle = probe = (at + end) // 2
        found = identity_of(records[probe])
        while found == NO_MESSAGE and probe + 1 < end:
            probe += 1
            found = identity_of(records[probe])
        if found == NO_MESSAGE or found >= wanted:
            end = middle
        else:
            at = probe + 1
    return at


def _subject(key: bytes) -> str | None:
    """The subject of a record; None if its key does not hold one."""
    subject = log_record.subject_of(key)
    if subject is None:
        return None
    if len(_subjects) >= _SUBJECTS:
        _subjects.clear()
    _subjects[key] = subject
    return subject


class Track:
    """One log, and the cursors that wait for its records."""

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
        """Read records of this log for another cursor."""
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
            self._passed = identity_of(last)
            self._from = (last.offset() or 0) + 1
            del self._held[:used]

    def drop_done(self) -> None:
        """Forget cursors that have everything, or whose parcels are not wanted any more."""
        if any(cursor.done or cursor.parcel.done for cursor in self.cursors):
            self.cursors = deque(one for one in self.cursors if not (one.done or one.parcel.done))

    def end_reached(self, end: int) -> None:
        """The log really ends here: those who waited for something before it wait in vain."""
        for cursor in self.cursors:
            cursor.skip(min(self._from, end))
            cursor.hand_over()
        self.drop_done()

    def gone(self) -> None:
        """The log does not exist any more: its messages are gone."""
        self.end_reached(0)

    def fail(self, error: RailgunError) -> None:
        """Nothing of this log can be read."""
        cursors, self.cursors = self.cursors, deque()
        for cursor in cursors:
            cursor.parcel.fail(error)
