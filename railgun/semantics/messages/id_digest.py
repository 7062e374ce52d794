"""Where to look for an id that memory no longer holds: a digest of blocks of ids, 16 bytes for each id.

A digest says which blocks *may* hold an id. It never misses one, and names a block in vain for less than one id in a
hundred, so a new id seldom costs a look into the table. It is derived from the blocks and lives in memory only.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import compress

LARGEST = 1 << 22  # ids: with more than that, 10 bits of each hash would be left to tell ids apart
_SLOT_BITS = 32
_HASH_SHIFT = 40  # the bits that tell ids apart are not those that choose the slot


class IdDigest:
    """Blocks of ids, oldest first, that came out of memory one after the other. They leave in the same order.

    Open addressing with at most every second slot taken: a slot holds some bits of the id's hash and, plus one, the
    number of its block. Before it comes a sieve, four times as wide, through which most new ids fall at the speed of C.
    """

    def __init__(self, capacity: int) -> None:
        """``capacity``: of ids, at least; there are never more blocks than ids."""
        size = 1 << (2 * capacity - 1).bit_length()
        self.room = size // 2
        self._slots = array("I", bytes(4 * size))
        self._sieve = bytearray(4 * size)
        self._hole = (4 * size - 1).__and__  # of a hash; a method, because map() calls nothing faster
        self._number_bits = self.room.bit_length()
        self._mark_mask = (1 << (_SLOT_BITS - self._number_bits)) - 1
        self._bases = array("q")
        self._times = array("q")
        self._counts = array("I")
        self._first = 0  # blocks before this one are gone
        self.ids = 0  # of the blocks that are not gone

    @classmethod
    def after(cls, held: int, needed: int) -> IdDigest:
        """The next digest of a stream that holds this many ids: there are few at any time, and none is out of proportion."""
        return cls(max(min(held, LARGEST), needed))

    def __bool__(self) -> bool:
        return self._first < len(self._bases)

    def add(self, base: int, time: int, ids: Sequence[str]) -> None:
        """A block. There must be room for its ids."""
        self._bases.append(base)
        self._times.append(time)
        self._counts.append(len(ids))
        self.room -= len(ids)
        self.ids += len(ids)
        slots, mask, mark_mask, bits = self._slots, len(self._slots) - 1, self._mark_mask, self._number_bits
        sieve, wide = self._sieve, len(self._sieve) - 1
        number = len(self._bases)
        for hashed in map(hash, ids):
            sieve[hashed & wide] = 1
            slot = hashed & mask
            while slots[slot]:
                slot = slot + 1 & mask
            slots[slot] = (hashed >> _HASH_SHIFT & mark_mask) << bits | number

    def suspects(self, ids: Sequence[str], hashes: Sequence[int]) -> list[str]:
        """Ids that need a closer look; an eighth of the new ones at most."""
        return list(compress(ids, map(self._sieve.__getitem__, map(self._hole, hashes))))

    def blocks_of(self, message_id: str) -> list[int]:
        """The bases of the blocks that may hold the id."""
        slots, mask, bits = self._slots, len(self._slots) - 1, self._number_bits
        hashed = hash(message_id)
        mark = hashed >> _HASH_SHIFT & self._mark_mask
        slot = hashed & mask
        found = []
        while held := slots[slot]:
            if held >> bits == mark:
                number = (held & (1 << bits) - 1) - 1
                if number >= self._first:
                    found.append(self._bases[number])
            slot = slot + 1 & mask
        return found

    def bases(self) -> Sequence[int]:
        """Of all blocks that are not gone."""
        return self._bases[self._first :]

    def expire(self, until: int) -> list[int]:
        """Forget the blocks of that time and before; their bases."""
        start = self._first
        while self and self._times[self._first] <= until:
            self.ids -= self._counts[self._first]
            self._first += 1
        return list(self._bases[start : self._first])
