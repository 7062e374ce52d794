"""What a consumer was given and has not answered for, as runs of consecutive messages.

Kept in blocks of 2,048 stream sequences, each of which is one record of the table: a drain writes the blocks that it changed.
Larger ones would cost those who answer out of order, one at a time; smaller ones those whose messages lie far apart.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from railgun.protocol import avro as wire
from railgun.state import keys
from railgun.state.table import Overlay
from railgun.state.unreadable_entries import decoded

_SHIFT = 11
READY = 1  # a ``due`` that is always over: delivered again with the next take
_COLUMNS = (
    "starts",
    "counts",
    "first_consumer_sequences",
    "last_consumer_sequences",
    "deliveries",
    "times",
    "dues",
)


class PendingRun(NamedTuple):
    """Consecutive messages with the same story; ``first`` and ``last`` advance by one with the sequence, unless 0.

    A run with ``deliveries`` 0 is parked: the consumer is past it in the stream and has still to deliver it. It waits for its turn,
    or came back without having been handed out.
    """

    sequence: int
    length: int
    first: int  # consumer sequence of the first delivery of the first message
    last: int  # of its newest delivery
    deliveries: int
    time: int  # of the newest delivery or sign of progress, ns
    due: int = 0  # 0: the ack wait decides; else to be delivered again from then on, ns

    @property
    def end(self) -> int:
        """The sequence after the last message of the run."""
        return self.sequence + self.length

    def part(self, start: int, end: int) -> PendingRun:
        """The run as far as it lies within [start, end), which it overlaps."""
        skipped = max(start - self.sequence, 0)
        length = min(end, self.sequence + self.length) - self.sequence - skipped
        if length == self.length:
            return self
        return self._replace(
            sequence=self.sequence + skipped,
            length=length,
            first=self.first and self.first + skipped,
            last=self.last and self.last + skipped,
        )

    def continues(self, before: PendingRun) -> bool:
        """Whether the two are one run."""
        return (
            self.sequence == before.sequence + before.length
            and self[4:] == before[4:]
            and self.first == (before.first and before.first + before.length)
            and self.last == (before.last and before.last + before.length)
        )


def parked_run(sequence: int, length: int) -> PendingRun:
    """Messages that the consumer is past and that have not been delivered."""
    return PendingRun(sequence, length, 0, 0, 0, 0, READY)


def blocks_of(start: int, end: int) -> range:
    """The numbers of the blocks that hold the sequences [start, end)."""
    return range(start >> _SHIFT, (end - 1 >> _SHIFT) + 1)


class PendingRuns:
    """The pending runs of one consumer, by stream sequence."""

    def __init__(self, overlay: Overlay, incarnation: int, number: int) -> None:
        self._overlay = overlay
        self._incarnation = incarnation
        self._number = number
        self._blocks: dict[int, list[PendingRun]] = {}
        self._changed: set[int] = set()
        self._stored: set[int] = set()  # blocks that the table holds
        self.delivered = 0  # messages that wait for an answer
        self.redelivered = 0  # those of them that were delivered more than once
        self.parked = 0

    def load(self) -> None:
        """Read everything back from the table."""
        for key, data in self._overlay.scan(keys.all_pending(self._incarnation, self._number)):
            number = keys.sequence_in(key)
            self._blocks[number] = decoded(key, _decode, number, data)
            self._stored.add(number)
            for run in self._blocks[number]:
                self._count(run, 1)

    # -- reading

    def __len__(self) -> int:
        return self.delivered + self.parked

    def __iter__(self) -> Iterator[PendingRun]:
        """All runs, in stream order."""
        for number in sorted(self._blocks):
            yield from self._blocks[number]

    def __contains__(self, sequence: int) -> bool:
        return self.first_in(sequence, sequence + 1) is not None

    def block(self, number: int) -> list[PendingRun]:
        """The runs of one block; not to be kept."""
        return self._blocks.get(number, [])

    def lowest(self) -> int | None:
        """The first sequence that is pending."""
        return self._blocks[min(self._blocks)][0].sequence if self._blocks else None

    def oldest_attempt(self) -> int | None:
        """The lowest consumer sequence of a first delivery that is unanswered."""
        return min((run.first for run in self if run.deliveries), default=None)

    def first_in(self, start: int, end: int) -> PendingRun | None:
        """The first piece of a run within [start, end)."""
        for number in self._numbers(start, end):
            runs = self._blocks.get(number)
            if runs is not None:
                at = _place(runs, start)
                if at < len(runs) and runs[at].sequence < end:
                    return runs[at].part(start, end)
        return None

    # -- changing

    def add(self, run: PendingRun) -> None:
        """Messages that are not pending yet."""
        numbers = blocks_of(run.sequence, run.end)
        for number in numbers:
            piece = run if len(numbers) == 1 else run.part(number << _SHIFT, number + 1 << _SHIFT)
            self._changed.add(number)
            runs = self._blocks.get(number)
            if runs is None:
                self._blocks[number] = [piece]
                continue
            at = len(runs) if runs[-1].end <= piece.sequence else _place(runs, piece.sequence)
            if at and piece.continues(runs[at - 1]):
                runs[at - 1] = runs[at - 1]._replace(length=runs[at - 1].length + piece.length)
            else:
                runs.insert(at, piece)
        self._count(run, 1)

    def extend(self, runs: list[PendingRun]) -> None:
        """Messages that are not pending yet: runs of one delivery, ascending, none of which continues another."""
        for run in runs:
            number = run.sequence >> _SHIFT
            known = self._blocks.get(number)
            if known is None and run.end <= number + 1 << _SHIFT:
                self._blocks[number] = [run]
            elif known is not None and known[-1].end < run.sequence and run.end <= number + 1 << _SHIFT:
                known.append(run)
            else:
                self.add(run)
                continue
            self._changed.add(number)
            self._count(run, 1)

    def remove(self, start: int, end: int) -> list[PendingRun]:
        """What was pending within [start, end), in stream order."""
        first = self._blocks.get(start >> _SHIFT)
        if first is not None and first[0].sequence == start and first[0].end == end:
            return [self._remove_first(start >> _SHIFT)]  # one answer after the other, in order
        removed: list[PendingRun] = []
        for number in self._numbers(start, end):
            runs = self._blocks.get(number)
            if runs is None:
                continue
            low = high = 0 if runs[0].sequence >= start else _place(runs, start)
            kept = []
            while high < len(runs) and runs[high].sequence < end:
                run = runs[high]
                removed.append(run.part(start, end))
                if run.sequence < start:
                    kept.append(run.part(0, start))
                if run.end > end:
                    kept.append(run.part(end, run.end))
                high += 1
            if high > low:
                runs[low:high] = kept
                self._changed.add(number)
                if not runs:
                    del self._blocks[number]
        for run in removed:
            self._count(run, -1)
        return removed

    def _remove_first(self, number: int) -> PendingRun:
        runs = self._blocks[number]
        run = runs.pop(0)
        if not runs:
            del self._blocks[number]
        self._changed.add(number)
        self._count(run, -1)
        return run

    def seal(self) -> None:
        """Write what changed into the overlay."""
        for number in self._changed:
            key = keys.pending(self._incarnation, self._number, number)
            runs = self._blocks.get(number)
            if runs is not None:
                self._overlay.put(key, _encode(number, runs))
                self._stored.add(number)
            elif number in self._stored:
                self._overlay.delete(key)
                self._stored.discard(number)
        self._changed.clear()

    # -- inside

    def _numbers(self, start: int, end: int) -> Iterable[int]:
        """The blocks to look at for [start, end): never more than there are."""
        if start >= end:
            return ()
        numbers = blocks_of(start, end)
        if len(numbers) <= len(self._blocks):
            return numbers
        return sorted(number for number in self._blocks if number in numbers)

    def _count(self, run: PendingRun, sign: int) -> None:
        if not run.deliveries:
            self.parked += sign * run.length
            return
        self.delivered += sign * run.length
        if run.deliveries > 1:
            self.redelivered += sign * run.length


def _place(runs: list[PendingRun], sequence: int) -> int:
    """The index of the first run that ends above the sequence."""
    at = bisect_right(runs, sequence, key=_start)
    return at - 1 if at and runs[at - 1].end > sequence else at


def _start(run: PendingRun) -> int:
    return run.sequence


def _encode(number: int, runs: list[PendingRun]) -> bytes:
    columns: dict[str, Any] = dict(zip(_COLUMNS, map(list, zip(*runs, strict=True)), strict=True))
    base = number << _SHIFT
    columns["starts"] = [start - base for start in columns["starts"]]
    return wire.encode("pending_block", columns)


def _decode(number: int, data: bytes) -> list[PendingRun]:
    columns = wire.decode("pending_block", data)
    base = number << _SHIFT
    columns["starts"] = [start + base for start in columns["starts"]]
    return [PendingRun(*values) for values in zip(*(columns[name] for name in _COLUMNS), strict=True)]
