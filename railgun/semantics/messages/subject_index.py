"""What a stream knows of each of its literal subjects: how many messages exist and which is the newest.

It is derived from the blocks, never part of a transaction. Where a per-subject limit above one is set, the sequences of
each subject are kept too, oldest first, so that evicting never searches.

Subjects beyond the shard's budget go to the table's scratch space, those that were not changed for long first. An
index that is dropped with its drain is built anew from the blocks, scratch space included.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from itertools import islice, repeat
from typing import NamedTuple

from railgun.model.subjects import Filter
from railgun.semantics.messages.budget import SEQUENCES_BYTES, SUBJECT_BYTES, Share
from railgun.semantics.messages.subject_scratch import COUNT_BITS, COUNT_MASK, SubjectScratch
from railgun.semantics.messages.subject_search import BEGINNING, Place, SortedSubjects, scan
from railgun.state.table import Scratch

_SAMPLE = 16  # subjects by which the size of all is told
_ALL_STEPS = 1 << 62


class FoundSubject(NamedTuple):
    """A subject that a search found: how many messages it has, and the newest sequence."""

    subject: str
    messages: int
    last: int
    again: bool = False  # found in memory before, unless it came there while the search was under way


class SubjectIndex:
    """Count and newest sequence per subject, packed into one number each.

    Reading never brings anything into memory; changing does, until :meth:`settle` at the end of the drain.
    """

    def __init__(
        self,
        *,
        ordered: bool,
        incarnation: int = 0,
        scratch: Scratch | None = None,
        budget: Share | None = None,
    ) -> None:
        """Without a scratch space or a budget everything stays in memory."""
        self._packed: dict[str, int] = {}  # newest sequence << 32 | count
        self._older: dict[str, int] = {}  # the same, of subjects that did not change for longer
        self._sequences: dict[str, deque[int]] | None = {} if ordered else None
        self._incarnation = incarnation
        self._beyond = None if scratch is None else SubjectScratch(scratch, incarnation)
        self._budget = budget
        # How many subjects there are, once some went to the scratch space. There, one that is in memory is out of date.
        self._total: int | None = None
        self._view = SortedSubjects()  # of those in memory
        self.gone: Callable[[str], None] | None = None  # told of a subject whose last message goes by itself

    @property
    def ordered(self) -> bool:
        """Whether the sequences of each subject are kept."""
        return self._sequences is not None

    @property
    def is_sorted(self) -> bool:
        """Whether the subjects in memory are kept in order, because there was a search."""
        return self._view.kept

    def __len__(self) -> int:
        return len(self._packed) if self._total is None else self._total

    def count(self, subject: str) -> int:
        return self._find(subject) & COUNT_MASK

    def last(self, subject: str) -> int:
        """The newest existing sequence on the subject, 0 if there is none."""
        return self._find(subject) >> COUNT_BITS

    def last_of_each(self, subjects: list[str]) -> list[int]:
        """As :meth:`last`, of many."""
        found: Iterable[int] = map(self._packed.get, subjects, repeat(0))
        if self._total is not None:
            found = [packed or self._find(subject) for packed, subject in zip(found, subjects, strict=True)]
        return [packed >> COUNT_BITS for packed in found]

    def held_last(self, subject: str) -> int:
        """As :meth:`last`, 0 too if memory does not hold the subject."""
        return self._held(subject) >> COUNT_BITS

    def oldest(self, subject: str) -> int:
        """The oldest existing sequence on the subject; only where sequences are kept, or there is at most one."""
        if self._sequences is None:
            assert self.count(subject) <= 1, "sequences per subject are not kept"
            return self.last(subject)
        kept = self._sequences.get(subject)
        return kept[0] if kept is not None else self._read(subject)[1][0]

    def next(self, subject: str, start: int) -> int | None:
        """The oldest existing sequence on the subject from ``start`` on, 0 if there is none; None if that is not known here."""
        packed = self._find(subject)
        last = packed >> COUNT_BITS
        if last < start:
            return 0
        if last == start or packed & COUNT_MASK == 1:
            return last
        if self._sequences is None:
            return None
        kept = self._sequences.get(subject) or self._read(subject)[1]
        return kept[bisect_left(kept, start)]

    def sequences(self, subject: str) -> Collection[int] | None:
        """The existing sequences on the subject, ascending; None if that is not known here."""
        packed = self._find(subject)
        if not packed:
            return ()
        if packed & COUNT_MASK == 1:
            return (packed >> COUNT_BITS,)
        return None if self._sequences is None else self._sequences.get(subject) or self._read(subject)[1]

    def matching(self, chosen: Filter | None = None) -> dict[str, int]:
        """Subject to the number of its messages."""
        if chosen is not None and chosen.literal is not None:
            count = self.count(chosen.literal)
            return {chosen.literal: count} if count else {}
        if chosen is not None and not chosen.everything:
            return {one.subject: one.messages for one in self.search(chosen, BEGINNING, _ALL_STEPS)[0]}
        found = {
            subject: packed & COUNT_MASK
            for part in (self._older, self._packed)
            for subject, packed in part.items()
        }
        if self._total is not None and self._beyond is not None:
            for subject, count in self._beyond.counts():
                found.setdefault(subject, count)
        return found

    def search(self, chosen: Filter, place: Place, steps: int) -> tuple[list[FoundSubject], Place | None]:
        """Matching subjects from a place on, in about ``steps`` steps; where to go on, None if that was all.

        What changes while a search is under way may be found twice or not at all; what does not change is found.
        """
        found: list[FoundSubject] = []
        beyond, number, text = place
        if not beyond:
            size = len(self._packed) + len(self._older)
            self._view.bring_up_to_date(size, lambda: (*self._older, *self._packed))
        while steps > 0:
            if number == len(chosen.patterns):
                if beyond or self._total is None:
                    return found, None
                beyond, number = True, 0
                continue
            seek = self._beyond.seek if beyond and self._beyond is not None else self._view.seek
            subjects, further, steps = scan(seek, chosen.patterns[number], text, steps)
            for subject in subjects:
                held = self._held(subject)
                packed = held or (self._read(subject)[0] if beyond else 0)
                if packed:
                    again = beyond and held > 0
                    found.append(FoundSubject(subject, packed & COUNT_MASK, packed >> COUNT_BITS, again))
            if further is None:
                number, text = number + 1, ""
            else:
                text = further
        return found, Place(beyond, number, text)

    def add(self, subject: str, sequence: int) -> None:
        if subject not in self._packed:
            self._recall(subject)
        self._packed[subject] = sequence << COUNT_BITS | ((self._packed.get(subject, 0) & COUNT_MASK) + 1)
        if self._sequences is not None:
            self._sequences.setdefault(subject, deque()).append(sequence)

    def add_run(self, subjects: list[str], first: int) -> None:
        """One message on each of the subjects, with consecutive sequences."""
        if self._sequences is not None:
            for sequence, subject in enumerate(subjects, first):
                self.add(subject, sequence)
            return
        packed = self._packed
        newest = dict(zip(subjects, range(first, first + len(subjects)), strict=True))
        if self._total is not None or self._view.kept:
            for subject in newest:
                if subject not in packed:
                    self._recall(subject)
        # To count them would take longer than all else, where most are different.
        counts = dict.fromkeys(newest, 1) if len(newest) == len(subjects) else Counter(subjects)
        for subject, count in counts.items():
            packed[subject] = newest[subject] << COUNT_BITS | ((packed.get(subject, 0) & COUNT_MASK) + count)

    def add_capped(
        self, subjects: list[str], first: int, limit: int, rolled_up: Collection[int]
    ) -> list[tuple[int, str]]:
        """As :meth:`add_run`, where a subject has no more than ``limit`` messages, before and after.

        ``rolled_up``: places of messages that leave none but themselves. What goes for others: sequence and subject, in that order.
        """
        gone: list[tuple[int, str]] = []
        packed = self._packed
        if self._sequences is not None:
            for place, subject in enumerate(subjects):
                self.add(subject, first + place)
                kept = self._sequences[subject]
                for _ in range(len(kept) - (1 if place in rolled_up else limit)):
                    gone.append((kept.popleft(), subject))
                    packed[subject] -= 1
            return gone
        assert limit == 1, "sequences per subject are not kept"
        elsewhere = self._total is not None or self._view.kept
        for sequence, subject in enumerate(subjects, first):
            if elsewhere and subject not in packed:
                self._recall(subject)
            former = packed.get(subject)
            if former is not None:
                gone.append((former >> COUNT_BITS, subject))
            packed[subject] = sequence << COUNT_BITS | 1
        return gone

    def discard(self, subject: str, sequence: int, before: Callable[[str, int], int]) -> None:
        """A message is gone. ``before(subject, sequence)`` finds the newest one below it, asked only if needed."""
        if self._total is not None and subject not in self._packed:
            self._recall(subject)
        packed = self._packed[subject]
        count = (packed & COUNT_MASK) - 1
        if self._sequences is not None:
            kept = self._sequences[subject]
            if kept[0] == sequence:
                kept.popleft()
            else:
                kept.remove(sequence)
        if count == 0:
            self._drop(subject)
            return
        last = packed >> COUNT_BITS
        if last == sequence:
            last = self._sequences[subject][-1] if self._sequences is not None else before(subject, sequence)
        self._packed[subject] = last << COUNT_BITS | count

    def discard_run(self, subject: str, count: int, newest: int, before: Callable[[str, int], int]) -> None:
        """So many messages are gone, up to ``newest``; as :meth:`discard`, where sequences are not kept."""
        assert self._sequences is None, "sequences per subject are kept"
        if self._total is not None and subject not in self._packed:
            self._recall(subject)
        packed = self._packed[subject]
        left = (packed & COUNT_MASK) - count
        if left == 0:
            self._drop(subject)
            return
        last = packed >> COUNT_BITS
        self._packed[subject] = (before(subject, newest) if last == newest else last) << COUNT_BITS | left

    def clear(self) -> None:
        self._packed.clear()
        self._older.clear()
        self._view.clear()
        if self._sequences is not None:
            self._sequences.clear()
        if self._total is not None and self._beyond is not None:
            self._total = None
            self._beyond.clear()

    def settle(self) -> None:
        """Leave subjects to the scratch space where the shard holds too many."""
        if self._budget is None or self._beyond is None:
            return
        held, each = len(self._packed) + len(self._older), self._bytes_of_one()
        excess = self._budget.excess(self._incarnation, held * each)
        if not excess:
            return
        if self._total is None:
            self._total = len(self._packed)
        leaving: list[tuple[str, int, Collection[int]]] = []
        for _ in range(min(-(-excess // each), held)):
            if not self._older:
                self._older, self._packed = self._packed, {}
            subject, packed = self._older.popitem()
            leaving.append((subject, packed, () if self._sequences is None else self._sequences.pop(subject)))
        self._beyond.put(leaving)
        self._budget.excess(self._incarnation, (len(self._packed) + len(self._older)) * each)

    def _bytes_of_one(self) -> int:
        """What a subject takes in memory, by a few of the newest."""
        some = list(islice(reversed(self._packed), _SAMPLE)) or list(islice(self._older, _SAMPLE))
        length = sum(map(len, some)) // len(some) if some else 0
        kept = 0
        if self._sequences is not None and some:
            numbers = sum(len(self._sequences.get(one, ())) for one in some)
            kept = SEQUENCES_BYTES + 40 * numbers // len(some)
        return SUBJECT_BYTES + length + kept

    # -- inside

    def _find(self, subject: str) -> int:
        found = self._packed.get(subject)
        if found is None:
            found = 0 if self._total is None else self._older.get(subject) or self._read(subject)[0]
        return found

    def _held(self, subject: str) -> int:
        return self._packed.get(subject) or self._older.get(subject, 0)

    def _read(self, subject: str) -> tuple[int, deque[int]]:
        """What is beyond memory on the subject: the packed number, 0 if nothing, and its sequences."""
        return (0, deque()) if self._beyond is None else self._beyond.get(subject)

    def _recall(self, subject: str) -> None:
        """The subject is about to change: into memory with it. One that is nowhere is new."""
        packed = self._older.pop(subject, 0)
        if not packed:
            if self._view.kept:
                self._view.add(subject)
            if self._total is None:
                return
            packed, sequences = self._read(subject)
            if not packed:
                self._total += 1
                return
            if self._sequences is not None:
                self._sequences[subject] = sequences
        self._packed[subject] = packed

    def _drop(self, subject: str) -> None:
        """The last message on the subject is gone."""
        del self._packed[subject]
        if self._sequences is not None:
            del self._sequences[subject]
        if self._total is not None and self._beyond is not None:
            self._total -= 1
            self._beyond.drop(subject)
        if self.gone is not None:
            self.gone(subject)
