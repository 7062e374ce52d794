"""The blocks of a stream in the table, and the few of them that are decoded in memory.

A block is in memory once: a change of its bitmap is seen by everybody who looks at it. One that changed in the drain that
runs stays there until the drain is sealed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial

from railgun.semantics.messages.blocks import Block
from railgun.semantics.messages.budget import Caches
from railgun.state import keys
from railgun.state.table import Overlay
from railgun.state.unreadable_entries import decoded

CACHED_BLOCKS = 512  # of one stream, at most: what all streams hold together has a bound of its own


class BlockStore:
    """Blocks by sequence, found by floor in the table."""

    def __init__(self, overlay: Overlay, incarnation: int, caches: Caches) -> None:
        self._overlay = overlay
        self._caches = caches
        self._incarnation = incarnation
        self._cache: OrderedDict[int, Block] = OrderedDict()
        self._bases: list[int] = []  # of the cache, ascending
        self._dirty: dict[int, Block] = {}  # blocks whose bitmap changed in this drain
        self._hint: Block | None = None  # where the last look-up ended: neighbours follow each other

    def _remember(self, block: Block) -> None:
        if block.base not in self._cache:
            insort(self._bases, block.base)
        self._cache[block.base] = block
        self._caches.keep(self._incarnation, block.base, block.memory, partial(self._let_go, block.base))
        if len(self._cache) > CACHED_BLOCKS:
            oldest = next(iter(self._cache))
            self._caches.drop(self._incarnation, oldest)
            self._let_go(oldest)

    def _let_go(self, base: int) -> None:
        dropped = self._uncache(base)
        if dropped is not None and dropped is self._hint:
            self._hint = None  # a second copy of the block must not live beside this one

    def _uncache(self, base: int) -> Block | None:
        dropped = self._cache.pop(base, None)
        if dropped is not None:
            del self._bases[bisect_left(self._bases, base)]
        return dropped

    def _cached(self, sequence: int) -> Block | None:
        """The block of this message, if it is in memory."""
        at = bisect_right(self._bases, sequence)
        block = self._cache[self._bases[at - 1]] if at else None
        return None if block is None or sequence >= block.end else block

    def _load(self, base: int, data: bytes, bitmaps: Following | None = None) -> Block:
        """The block; ``bitmaps`` are those of it and all that follow, if they are at hand."""
        block = self._dirty.get(base) or self._cache.get(base)
        if block is None:
            block = decoded(keys.of(keys.BLOCK, self._incarnation, base), Block.decode, base, data)
            key = keys.of(keys.REMOVED, self._incarnation, base)
            removed = self._overlay.get(key) if bitmaps is None else bitmaps.find(key)
            if removed is not None:
                decoded(key, block.load_removed, removed)
            self._remember(block)
        return block

    def _block_at_or_below(self, sequence: int) -> Block | None:
        prefix = keys.all_of(keys.BLOCK, self._incarnation)
        found = self._overlay.floor(prefix, prefix + keys.number(sequence))
        return None if found is None else self._load(keys.sequence_in(found[0]), found[1])

    def _block_of(self, sequence: int) -> Block | None:
        block = self._hint
        if block is None or not block.base <= sequence < block.end:
            block = self._cached(sequence) or self._block_at_or_below(sequence)
            if block is None or sequence >= block.end:
                return None
            self._hint = block
        return block

    def _block_after(self, sequence: int) -> Block | None:
        prefix = keys.all_of(keys.BLOCK, self._incarnation)
        for key, data in self._overlay.scan(prefix, prefix + keys.number(sequence)):
            return self._load(keys.sequence_in(key), data)
        return None

    def _forget(self, base: int) -> None:
        """The block is gone from the table."""
        self._uncache(base)
        self._dirty.pop(base, None)
        self._caches.drop(self._incarnation, base)
        if self._hint is not None and self._hint.base == base:
            self._hint = None


class Following:
    """Values by key, found in one pass: each key that is asked for is greater than the one before."""

    def __init__(self, entries: Iterator[tuple[bytes, bytes]]) -> None:
        self._entries = entries
        self._next = next(entries, None)

    def find(self, key: bytes) -> bytes | None:
        while self._next is not None and self._next[0] < key:
            self._next = next(self._entries, None)
        return self._next[1] if self._next is not None and self._next[0] == key else None
