"""The index of a stream's messages: which exist, on which subject, how large, since when.

Messages appended by the current drain are plain columns (:mod:`~railgun.semantics.messages.tail`) until :meth:`MessageIndex.flush`
turns them into blocks. Everything older is found by floor in the table. Memory is bounded: a few decoded blocks, nothing per message. A block
leaves the table at the end of the drain in which its last message goes, whatever older messages live.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from railgun.model.subjects import Filter
from railgun.semantics.messages.block_store import BlockStore, Following
from railgun.semantics.messages.blocks import Block, Entry, Removed
from railgun.semantics.messages.budget import Caches
from railgun.semantics.messages.tail import NONE, Tail
from railgun.state import keys
from railgun.state.table import Overlay

FORGOTTEN_BLOCKS = 1_000  # at most in one drain


class MessageIndex(BlockStore):
    """Entries by sequence over the blocks in an overlay, with the tail of the drain that runs."""

    def __init__(self, overlay: Overlay, incarnation: int, next_sequence: int, caches: Caches) -> None:
        super().__init__(overlay, incarnation, caches)
        # blocks in the table without any message, from before they were dropped at once
        self._useless: dict[int, None] = {}
        self._dropped: set[int] = set()  # by the last drain
        self._offsets: dict[int, int] = {}  # exact offsets that the table does not hold yet
        # base and exact offset of the block asked for last
        self._found_offset: tuple[int, int | None] = (0, None)
        self._lowest = 0  # no block begins below: spares a scan over what was removed long ago
        self._tail = Tail(next_sequence)

    # -- reading

    @property
    def tail_base(self) -> int:
        """Messages below this sequence lie in blocks."""
        return self._tail.base

    def is_in_memory(self, sequence: int) -> bool:
        """Whether looking at the message reads nothing from the table."""
        return sequence >= self._tail.base or self._cached(sequence) is not None

    def entry(self, sequence: int) -> Entry | None:
        """The message, or None where there is none (any more)."""
        if sequence >= self._tail.base:
            return self._tail.entry(sequence)
        block = self._block_of(sequence)
        if block is None or block.is_removed(sequence - block.base):
            return None
        return block.entry(sequence - block.base)

    def trace(self, sequence: int) -> Entry | None:
        """The message even if it was removed, for as long as its block is there: until the drain is sealed, at least."""
        if sequence >= self._tail.base:
            return self._tail.trace(sequence)
        block = self._block_of(sequence)
        return None if block is None else block.entry(sequence - block.base)

    def ascending(self, start: int, subjects: Filter | None = None) -> Iterator[Entry]:
        """Existing messages from ``start`` on; a block without a matching subject is passed over whole."""
        sequence = start
        while sequence < self._tail.base:
            block = self._block_of(sequence) or self._block_after(sequence)
            if block is None:
                break
            yield from _of_block(block, max(0, sequence - block.base), block.count, 1, subjects)
            sequence = block.end
        yield from self._tail.ascending(start, subjects)

    def blocks(self, start: int) -> Iterator[Block]:
        """All blocks that hold messages from ``start`` on, ascending; without the tail."""
        block = self._block_of(start)
        while block is not None:
            yield block
            start = block.end
            block = self._dirty.get(start) or self._cache.get(start)
        if start >= self._tail.base:
            return
        prefix = keys.all_of(keys.BLOCK, self._incarnation)
        lowest = self._overlay.floor(prefix, prefix + keys.number(start))
        lowest_base = 0 if lowest is None else keys.sequence_in(lowest[0])
        removed = keys.all_of(keys.REMOVED, self._incarnation)
        bitmaps = Following(self._overlay.scan(removed, removed + keys.number(lowest_base)))
        for key, data in self._overlay.scan(prefix, prefix + keys.number(lowest_base)):
            block = self._load(keys.sequence_in(key), data, bitmaps)
            if block.end > start:
                yield block

    def descending(self, start: int, lowest: int, subjects: Filter | None = None) -> Iterator[Entry]:
        """Existing messages from ``start`` down to ``lowest``."""
        yield from self._tail.descending(start, lowest, subjects)
        sequence = min(start, self._tail.base - 1)
        while sequence >= lowest:
            block = self._block_at_or_below(sequence)
            if block is None:
                return
            last = min(sequence - block.base, block.count - 1)
            yield from _of_block(block, last, max(-1, lowest - block.base - 1), -1, subjects)
            sequence = block.base - 1

    def block_up_to(self, sequence: int) -> Block | None:
        """The last stored block that begins at the sequence or below it."""
        return self._block_at_or_below(min(sequence, self._tail.base - 1))

    def block_of(self, sequence: int) -> Block | None:
        """The stored block of this message, even if it was removed; None for one of the drain that runs."""
        return None if sequence >= self._tail.base else self._block_of(sequence)

    def offset(self, sequence: int, default: int) -> int:
        """Where to begin reading the log for this message: exact, or below it."""
        if sequence >= self._tail.base:
            return default
        block = self._block_of(sequence)
        if block is None:
            return default
        exact = self._offsets.get(block.base)
        if exact is None and self._found_offset[0] == block.base:
            exact = self._found_offset[1]
        if exact is None:
            stored = self._overlay.get(keys.of(keys.OFFSET, self._incarnation, block.base))
            if stored is not None:
                exact = int.from_bytes(stored, "big")
                self._found_offset = block.base, exact
        if exact is None:
            return block.offset_floor
        index = sequence - block.base
        return exact + index - block.never_stored(index)

    def sizes(self, start: int, end: int) -> Sequence[int]:
        """The sizes of the messages [start, end), which all lie in blocks."""
        found: list[int] = []
        while True:
            block = self._block_of(start)
            assert block is not None, f"no message {start}"
            sizes = block.sizes[start - block.base : end - block.base]
            if block.end >= end:
                return [*found, *sizes] if found else sizes
            found += sizes
            start = block.end

    # -- changing

    def append(self, subject: str, size: int, time: int, expiry: int, *, tombstone: bool = False) -> int:
        """One more message; its sequence."""
        return self._tail.append(subject, size, time, expiry, tombstone=tombstone)

    def extend(
        self,
        subjects: list[str],
        sizes: list[int],
        time: int,
        expiries: Mapping[int, int],
        tombstones: Collection[int] = (),
    ) -> int:
        """Append many at once; the sequence of the first. ``expiries``: of those that have one, by their place."""
        return self._tail.extend(subjects, sizes, time, expiries, tombstones)

    def extend_at(
        self,
        subjects: list[str],
        sizes: list[int],
        times: list[int],
        tombstones: Collection[int] = (),
        expiries: Mapping[int, int] = NONE,
    ) -> int:
        """Append many at once, each with a time of its own; the sequence of the first."""
        return self._tail.extend_at(subjects, sizes, times, tombstones, expiries)

    def begin_at(self, sequence: int) -> None:
        """The next message gets this sequence, after :meth:`flush`: the tail is empty."""
        assert not len(self._tail), "messages of the tail would be lost"
        self._tail = Tail(sequence)

    def skip(self, time: int) -> int:
        """Give a sequence to a message that is not stored."""
        return self._tail.skip(time)

    def remove_run(self, start: int, end: int) -> Iterator[Removed]:
        """The messages of [start, end), which all lie in blocks, are gone; what they were, block by block."""
        for block in self.blocks(start):
            if block.base >= end:
                return
            self._dirty[block.base] = block
            yield block.remove_range(max(0, start - block.base), min(end - block.base, block.count))

    def remove(self, sequence: int) -> Entry | None:
        """The message is gone; what it was, or None if it was not there."""
        entry = self.entry(sequence)
        if entry is None:
            return None
        if sequence >= self._tail.base:
            self._tail.remove(sequence)
        else:
            block = self._block_of(sequence)
            assert block is not None
            block.mark_removed(sequence - block.base)
            self._dirty[block.base] = block
        return entry

    def remove_some(self, sequences: list[int]) -> int:
        """The messages, which all exist, are gone; how many bytes they were."""
        freed, start, end, removed = 0, 0, 0, bytearray()
        sizes: Sequence[int] = ()
        for sequence in sorted(sequences):
            if sequence >= self._tail.base:
                freed += self._tail.remove(sequence)
                continue
            if sequence >= end:
                block = self._block_of(sequence)
                assert block is not None, f"no message {sequence}"
                removed, self._dirty[block.base] = block.bitmap(), block
                start, end, sizes = block.base, block.end, block.sizes
            index = sequence - start
            removed[index >> 3] |= 1 << (index & 7)
            freed += sizes[index]
        return freed

    def hide_below(self, next_sequence: int) -> None:
        """Nothing is stored any more; the next message gets ``next_sequence``. The blocks go with later drains."""
        self._dirty.clear()
        self._useless.clear()
        self._offsets.clear()
        self._hint = None
        self._tail = Tail(next_sequence)

    def give_up(self, block: Block) -> None:
        """The block holds no message, and the drain that emptied it left it in the table."""
        self._useless[block.base] = None

    def flush(self, offset_floor: int) -> list[int]:
        """Turn the tail into blocks, so that it can be read as they are. Their bases."""
        bases = []
        for block in self._tail.blocks(offset_floor):
            bases.append(block.base)
            self._overlay.put(keys.of(keys.BLOCK, self._incarnation, block.base), block.encode())
            self._remember(block)
            if block.removed is not None:
                self._dirty[block.base] = block
        self._tail = Tail(self._tail.end)
        return bases

    def seal(self, first: int) -> None:
        """End the drain, after :meth:`flush`: write bitmaps and offsets, drop blocks without messages.

        Blocks below ``first``, the first message, which are gone without having been looked at, are dropped so many a
        drain that no transaction grows without bound.
        """
        self._dropped = {base for base, block in self._dirty.items() if block.is_gone}
        self._dropped.update(islice(self._useless, FORGOTTEN_BLOCKS), self._below(first))
        for base in self._dropped:
            self._drop(base)
        for base, block in self._dirty.items():
            assert block.removed is not None
            self._overlay.put(keys.of(keys.REMOVED, self._incarnation, base), bytes(block.removed))
        self._dirty.clear()
        for base, offset in self._offsets.items():
            self._overlay.put(keys.of(keys.OFFSET, self._incarnation, base), keys.number(offset))
        self._offsets.clear()

    def _below(self, first: int) -> list[int]:
        """Blocks that lie wholly below the sequence, the lowest ones."""
        prefix = keys.all_of(keys.BLOCK, self._incarnation)
        found: list[int] = []
        for key, data in self._overlay.scan(prefix, prefix + keys.number(self._lowest)):
            self._lowest = keys.sequence_in(key)
            if (
                len(found) == FORGOTTEN_BLOCKS
                or self._lowest >= first
                or self._load(self._lowest, data).end > first
            ):
                break
            found.append(self._lowest)
        return found

    def _drop(self, base: int) -> None:
        for kind in (keys.BLOCK, keys.REMOVED, keys.OFFSET):
            self._overlay.discard(keys.of(kind, self._incarnation, base))
        known: dict[int, Any]
        for known in (self._offsets, self._useless):
            known.pop(base, None)
        self._forget(base)

    def note_offsets(self, offsets: Mapping[int, int]) -> None:
        """The drain is committed: base of each of its blocks to the offset in the log."""
        self._offsets.update((base, at) for base, at in offsets.items() if base not in self._dropped)


def _of_block(block: Block, start: int, stop: int, step: int, subjects: Filter | None) -> Iterator[Entry]:
    if subjects is not None and not subjects.everything:
        wanted = {subject for subject in block.subjects if subjects.matches(subject)}
        if not wanted:
            return
        for index in range(start, stop, step):
            if not block.is_removed(index) and block.subject(index) in wanted:
                yield block.entry(index)
        return
    for index in range(start, stop, step):
        if not block.is_removed(index):
            yield block.entry(index)
