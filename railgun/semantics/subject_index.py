"""What a stream knows of each of its literal subjects: how many messages exist and which is the newest.

It is derived from the blocks, never part of a transaction. Where a per-subject limit above one is set, the sequences of
each subject are kept too, oldest first, so that evicting never searches.

Subjects beyond the shard's budget go to the table's scratch space, those that were not changed for long first. Whoever
drops the index with its drain builds it anew from the blocks, scratch space included.
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter, deque
from collections.abc import Callable

from railgun.model.subjects import Filter
from railgun.semantics.memory import Budget
from railgun.state import keys
from railgun.state.table import Scratch

_COUNT_BITS = 32
_COUNT_MASK = (1 << _COUNT_BITS) - 1
_PACKED = struct.Struct("=QI")


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
        budget: Budget | None = None,
    ) -> None:
        """Without a scratch space or a budget everything stays in memory."""
        self._packed: dict[str, int] = {}  # newest sequence << 32 | count
        self._older: dict[str, int] = {}  # the same, of subjects that did not change for longer
        self._sequences: dict[str, deque[int]] | None = {} if ordered else None
        self._incarnation = incarnation
        self._prefix = keys.number(incarnation)
        self._scratch = scratch
        self._budget = budget
        # How many subjects there are, once some went to the scratch space. There, one that is in memory is out of date.
        self._total: int | None = None
        if scratch is not None:
            scratch.clear(self._prefix)

    @property
    def ordered(self) -> bool:
        """Whether the sequences of each subject are kept."""
        return self._sequences is not None

    def __len__(self) -> int:
        return len(self._packed) if self._total is None else self._total

    def count(self, subject: str) -> int:
        return self._find(subject) & _COUNT_MASK

    def last(self, subject: str) -> int:
        """The newest existing sequence on the subject, 0 if there is none."""
        return self._find(subject) >> _COUNT_BITS

    def oldest(self, subject: str) -> int:
        """The oldest existing sequence on the subject; only where sequences are kept, or there is at most one."""
        if self._sequences is None:
            assert self.count(subject) <= 1, "sequences per subject are not kept"
            return self.last(subject)
        kept = self._sequences.get(subject)
        return kept[0] if kept is not None else self._read(subject)[1][0]

    def matching(self, chosen: Filter | None = None) -> dict[str, int]:
        """Subject to the number of its messages."""
        if chosen is not None and chosen.literal is not None:
            count = self.count(chosen.literal)
            return {chosen.literal: count} if count else {}
        passes = None if chosen is None or chosen.everything else chosen.matches
        found = {
            subject: packed & _COUNT_MASK
            for part in (self._older, self._packed)
            for subject, packed in part.items()
            if passes is None or passes(subject)
        }
        if self._total is not None and self._scratch is not None:
            for key, value in self._scratch.scan(self._prefix):
                subject = key[len(self._prefix) :].decode("utf-8")
                if (passes is None or passes(subject)) and subject not in found:
                    found[subject] = _PACKED.unpack_from(value)[1]
        return found

    def add(self, subject: str, sequence: int) -> None:
        if self._total is not None and subject not in self._packed:
            self._recall(subject)
        self._packed[subject] = sequence << _COUNT_BITS | ((self._packed.get(subject, 0) & _COUNT_MASK) + 1)
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
        if self._total is not None:
            for subject in newest:
                if subject not in packed:
                    self._recall(subject)
        for subject, count in Counter(subjects).items():
            packed[subject] = newest[subject] << _COUNT_BITS | (
                (packed.get(subject, 0) & _COUNT_MASK) + count
            )

    def discard(self, subject: str, sequence: int, before: Callable[[str, int], int]) -> None:
        """A message is gone. ``before(subject, sequence)`` finds the newest one below it, asked only if needed."""
        if self._total is not None and subject not in self._packed:
            self._recall(subject)
        packed = self._packed[subject]
        count = (packed & _COUNT_MASK) - 1
        if self._sequences is not None:
            kept = self._sequences[subject]
            if kept[0] == sequence:
                kept.popleft()
            else:
                kept.remove(sequence)
        if count == 0:
            self._drop(subject)
            return
        last = packed >> _COUNT_BITS
        if last == sequence:
            last = self._sequences[subject][-1] if self._sequences is not None else before(subject, sequence)
        self._packed[subject] = last << _COUNT_BITS | count

    def discard_run(self, subject: str, count: int, newest: int, before: Callable[[str, int], int]) -> None:
        """So many messages are gone, up to ``newest``; as :meth:`discard`, where sequences are not kept."""
        assert self._sequences is None, "sequences per subject are kept"
        if self._total is not None and subject not in self._packed:
            self._recall(subject)
        packed = self._packed[subject]
        left = (packed & _COUNT_MASK) - count
        if left == 0:
            self._drop(subject)
            return
        last = packed >> _COUNT_BITS
        self._packed[subject] = (before(subject, newest) if last == newest else last) << _COUNT_BITS | left

    def clear(self) -> None:
        self._packed.clear()
        self._older.clear()
        if self._sequences is not None:
            self._sequences.clear()
        if self._total is not None and self._scratch is not None:
            self._total = None
            self._scratch.clear(self._prefix)

    def settle(self) -> None:
        """Leave subjects to the scratch space where the shard holds too many."""
        if self._budget is None or self._scratch is None:
            return
        excess = self._budget.excess(self._incarnation, len(self._packed) + len(self._older))
        if not excess:
            return
        if self._total is None:
            self._total = len(self._packed)
        leaving: dict[bytes, bytes | None] = {}
        for _ in range(excess):
            if not self._older:
                self._older, self._packed = self._packed, {}
            subject, packed = self._older.popitem()
            value = _PACKED.pack(packed >> _COUNT_BITS, packed & _COUNT_MASK)
            if self._sequences is not None:
                value += array("q", self._sequences.pop(subject)).tobytes()
            leaving[self._key(subject)] = value
        self._scratch.apply(leaving)
        self._budget.excess(self._incarnation, len(self._packed) + len(self._older))

    # -- inside

    def _find(self, subject: str) -> int:
        found = self._packed.get(subject)
        if found is None:
            found = 0 if self._total is None else self._older.get(subject) or self._read(subject)[0]
        return found

    def _read(self, subject: str) -> tuple[int, deque[int]]:
        """What the scratch space has on the subject: the packed number, 0 if nothing, and its sequences."""
        value = None if self._scratch is None else self._scratch.get(self._key(subject))
        if value is None:
            return 0, deque()
        last, count = _PACKED.unpack_from(value)
        return last << _COUNT_BITS | count, deque(memoryview(value)[_PACKED.size :].cast("q"))

    def _recall(self, subject: str) -> None:
        """The subject is about to change: into memory with it. One that is nowhere is new."""
        assert self._total is not None
        packed = self._older.pop(subject, 0)
        if not packed:
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
        if self._total is not None and self._scratch is not None:
            self._total -= 1
            self._scratch.apply({self._key(subject): None})

    def _key(self, subject: str) -> bytes:
        return self._prefix + subject.encode("utf-8")
