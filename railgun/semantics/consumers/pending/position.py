"""Where a consumer is in its stream, and how much lies ahead of it.

The count is made when it is asked for and kept up from there: publishing costs nothing for it, and removing no more with
many consumers than with one. Consumers of one filter count from where one of them is to where the next is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from railgun.model.subjects import Filter
from railgun.semantics.consumers.delivery.selection import count_between, count_from, distance

if TYPE_CHECKING:
    from railgun.semantics.streams.owned_stream import OwnedStream

REMEMBERED = 10_000
FILTERS = 1_000  # of which it is remembered who counted last

Removal = tuple[int, int, Mapping[str, int]]  # [start, end) and how many messages of each subject


class Removals:
    """The newest removals from a stream, for those who counted before; and who these are, the last of each filter."""

    def __init__(self) -> None:
        self._newest: deque[Removal] = deque(maxlen=REMEMBERED)
        self.total = 0
        self.counted: dict[Filter, Position] = {}

    def note(self, start: int, end: int, subjects: Mapping[str, int]) -> None:
        self._newest.append((start, end, subjects))
        self.total += 1

    def since(self, total: int) -> list[Removal] | None:
        """Removals after the first ``total``; None if they are no longer known."""
        count = self.total - total
        known = len(self._newest)
        return None if count > known else list(islice(self._newest, known - count, None))


class Position:
    """The next sequence that one consumer looks at, and the number of existing messages from there on that its filter selects.

    No other consumer moves it (CON-32).
    """

    def __init__(self, stream: OwnedStream, removals: Removals, wanted: Filter, next_sequence: int) -> None:
        self.next = next_sequence
        self._stream = stream
        self._removals = removals
        self._wanted = wanted
        self._count: int | None = None  # of [next, counted_to), as of that many removals
        self._counted_to = 0
        self._as_of = 0

    def pass_by(self, next_sequence: int, selected: int) -> None:
        """Everything below ``next_sequence`` was looked at; ``selected``: how many of it the filter selects."""
        if self._count is not None:
            self._catch_up()
        if self._count is not None:
            if next_sequence <= self._counted_to:
                self._count -= selected
            else:
                self._count, self._counted_to = 0, next_sequence
        self.next = next_sequence

    def jump(self, next_sequence: int) -> None:
        """The messages below are gone, or no concern of the consumer."""
        self.next = max(self.next, next_sequence)
        self._count = None

    def count(self) -> int:
        """Number of messages from the position on that the filter selects."""
        stream = self._stream
        if self._wanted.everything and not stream.num_deleted:
            return count_from(stream, self.next, self._wanted)
        if self._count is not None:
            self._catch_up()
        if self._count is None:
            self._count, self._as_of = self._count_anew(), self._removals.total
        elif self._counted_to <= stream.last_seq:
            self._count += count_between(stream, self._counted_to, stream.last_seq + 1, self._wanted)
        self._counted_to = max(stream.last_seq + 1, self.next)
        return self._count

    def _count_anew(self) -> int:
        """From where another consumer of the same filter has counted, if that is nearer than either end of the stream."""
        stream, wanted, counted = self._stream, self._wanted, self._removals.counted
        other = counted.get(wanted)
        if len(counted) >= FILTERS and other is None:
            counted.clear()
        counted[wanted] = self
        gap = 0 if other is None else abs(other.next - self.next)
        if other is None or other is self or gap > distance(stream, self.next):
            return count_from(stream, self.next, wanted)
        if other._count is not None:
            other._catch_up()
        if other._count is None:
            return count_from(stream, self.next, wanted)
        if self.next <= other.next:
            return other.count() + count_between(stream, self.next, other.next, wanted)
        return other.count() - count_between(stream, other.next, self.next, wanted)

    def _catch_up(self) -> None:
        """Take off what was removed since; start over where that cannot be told."""
        removed = self._removals.since(self._as_of)
        if removed is None:
            self._count = None
            return
        self._as_of = self._removals.total
        for start, end, subjects in removed:
            if end <= self.next or start >= self._counted_to or self._count is None:
                continue
            if start < self.next or end > self._counted_to:
                self._count = None
            else:
                self._count -= sum(n for subject, n in subjects.items() if self._wanted.matches(subject))
