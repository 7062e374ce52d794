"""What a stream knows of each of its literal subjects: how many messages exist and which is the newest.

It is derived from the blocks, never stored. Where a per-subject limit above one is set, the sequences of each subject are
kept too, oldest first, so that evicting never searches.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator

_COUNT_BITS = 32
_COUNT_MASK = (1 << _COUNT_BITS) - 1


class SubjectIndex:
    """Count and newest sequence per subject, packed into one number each: a million subjects fit into memory."""

    def __init__(self, *, ordered: bool) -> None:
        self._packed: dict[str, int] = {}  # newest sequence << 32 | count
        self._sequences: dict[str, deque[int]] | None = {} if ordered else None

    @property
    def ordered(self) -> bool:
        """Whether the sequences of each subject are kept."""
        return self._sequences is not None

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def count(self, subject: str) -> int:
        return self._packed.get(subject, 0) & _COUNT_MASK

    def last(self, subject: str) -> int:
        """The newest existing sequence on the subject, 0 if there is none."""
        return self._packed.get(subject, 0) >> _COUNT_BITS

    def oldest(self, subject: str) -> int:
        """The oldest existing sequence on the subject; only where sequences are kept, or there is at most one."""
        if self._sequences is None:
            assert self.count(subject) <= 1, "sequences per subject are not kept"
            return self.last(subject)
        return self._sequences[subject][0]

    def add(self, subject: str, sequence: int) -> None:
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
        for subject, count in Counter(subjects).items():
            packed[subject] = newest[subject] << _COUNT_BITS | (
                (packed.get(subject, 0) & _COUNT_MASK) + count
            )

    def discard(self, subject: str, sequence: int, before: Callable[[str, int], int]) -> None:
        """A message is gone. ``before(subject, sequence)`` finds the newest one below it, asked only if needed."""
        packed = self._packed[subject]
        count = (packed & _COUNT_MASK) - 1
        if self._sequences is not None:
            kept = self._sequences[subject]
            if kept[0] == sequence:
                kept.popleft()
            else:
                kept.remove(sequence)
        if count == 0:
            del self._packed[subject]
            if self._sequences is not None:
                del self._sequences[subject]
            return
        last = packed >> _COUNT_BITS
        if last == sequence:
            last = self._sequences[subject][-1] if self._sequences is not None else before(subject, sequence)
        self._packed[subject] = last << _COUNT_BITS | count

    def discard_run(self, subject: str, count: int, newest: int, before: Callable[[str, int], int]) -> None:
        """So many messages are gone, up to ``newest``; as :meth:`discard`, where sequences are not kept."""
        assert self._sequences is None, "sequences per subject are kept"
        packed = self._packed[subject]
        left = (packed & _COUNT_MASK) - count
        if left == 0:
            del self._packed[subject]
            return
        last = packed >> _COUNT_BITS
        self._packed[subject] = (before(subject, newest) if last == newest else last) << _COUNT_BITS | left

    def clear(self) -> None:
        self._packed.clear()
        if self._sequences is not None:
            self._sequences.clear()

    def counts(self, subjects: Iterable[str]) -> dict[str, int]:
        return {subject: self._packed[subject] & _COUNT_MASK for subject in subjects}
