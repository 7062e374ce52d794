"""The messages that the current drain has appended: plain columns, until they become blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from railgun.model.subjects import Filter
from railgun.protocol.columnar.columns import pack_bits
from railgun.semantics.messages.blocks import BLOCK_SIZE, Block, Entry, build

NONE: Mapping[int, int] = MappingProxyType({})


class Tail:
    """Consecutive messages from :attr:`base` on. What is removed from it keeps its place."""

    def __init__(self, base: int) -> None:
        self.base = base
        self._subjects: list[str] = []
        self._sizes: list[int] = []
        self._times: list[int] = []
        self._expiries: dict[int, int] = {}  # by index
        self._tombstones: set[int] = set()
        self._removed: set[int] = set()

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def end(self) -> int:
        """The sequence that the next message gets."""
        return self.base + len(self._sizes)

    # -- reading

    def entry(self, sequence: int) -> Entry | None:
        """The message, or None where there is none (any more)."""
        return None if sequence - self.base in self._removed else self.trace(sequence)

    def trace(self, sequence: int) -> Entry | None:
        """The message even if it was removed."""
        index = sequence - self.base
        return self._entry(index) if 0 <= index < len(self._sizes) else None

    def ascending(self, start: int, subjects: Filter | None) -> Iterator[Entry]:
        """Existing messages from ``start`` on."""
        return self._chosen(range(max(0, start - self.base), len(self._sizes)), subjects)

    def descending(self, start: int, lowest: int, subjects: Filter | None) -> Iterator[Entry]:
        """Existing messages from ``start`` down to ``lowest``."""
        first, last = max(0, lowest - self.base), min(start - self.base, len(self._sizes) - 1)
        return self._chosen(range(last, first - 1, -1), subjects)

    def _chosen(self, indexes: range, subjects: Filter | None) -> Iterator[Entry]:
        for index in indexes:
            if index not in self._removed and (subjects is None or subjects.matches(self._subjects[index])):
                yield self._entry(index)

    def _entry(self, index: int) -> Entry:
        return Entry(
            self.base + index,
            self._subjects[index],
            self._sizes[index],
            self._times[index],
            self._expiries.get(index, 0),
            index in self._tombstones,
        )

    # -- changing

    def append(self, subject: str, size: int, time: int, expiry: int, *, tombstone: bool = False) -> int:
        """One more message; its sequence."""
        sequence = self.end
        if tombstone:
            self._tombstones.add(len(self._sizes))
        if expiry:
            self._expiries[len(self._sizes)] = expiry
        self._subjects.append(subject)
        self._sizes.append(size)
        self._times.append(time)
        return sequence

    def extend(
        self,
        subjects: list[str],
        sizes: list[int],
        time: int,
        expiries: Mapping[int, int],
        tombstones: Collection[int] = (),
    ) -> int:
        """Many more at once; the sequence of the first. ``expiries``: of those that have one, by their place."""
        return self.extend_at(subjects, sizes, [time] * len(sizes), tombstones, expiries)

    def extend_at(
        self,
        subjects: list[str],
        sizes: list[int],
        times: list[int],
        tombstones: Collection[int] = (),
        expiries: Mapping[int, int] = NONE,
    ) -> int:
        """Many more at once, each with a time of its own; the sequence of the first."""
        sequence, before = self.end, len(self._sizes)
        self._tombstones.update(before + place for place in tombstones)
        for place, expiry in expiries.items():
            self._expiries[before + place] = expiry
        self._subjects += subjects
        self._sizes += sizes
        self._times += times
        return sequence

    def skip(self, time: int) -> int:
        """A sequence for a message that is not stored. Behind others it is a message that never existed."""
        if not self._sizes:
            self.base += 1
            return self.base - 1
        self._removed.add(len(self._sizes))
        return self.append("", 0, time, 0)

    def remove(self, sequence: int) -> int:
        """The message, which exists, is gone; how many bytes it was."""
        self._removed.add(sequence - self.base)
        return self._sizes[sequence - self.base]

    # -- the end

    def blocks(self, offset_floor: int) -> Iterator[Block]:
        """The messages as blocks, with what was removed from each."""
        for start in range(0, len(self._sizes), BLOCK_SIZE):
            yield self._block(start, min(start + BLOCK_SIZE, len(self._sizes)), offset_floor)

    def _block(self, start: int, stop: int, offset_floor: int) -> Block:
        expiries = [self._expiries.get(index, 0) for index in range(start, stop)] if self._expiries else []
        block = build(
            self.base + start,
            self._subjects[start:stop],
            self._sizes[start:stop],
            self._times[start:stop],
            expiries if any(expiries) else [],
            offset_floor,
            self._stones(start, stop),
        )
        for index in self._removed:
            if start <= index < stop:
                block.mark_removed(index - start)
        return block

    def _stones(self, start: int, stop: int) -> bytes:
        if not self._tombstones:
            return b""
        return pack_bits((place - start for place in self._tombstones if start <= place < stop), stop - start)
