"""Messages that ran out of deliveries, were never answered, and are still in the stream.

Kept as bitmaps over stretches of 2,048 stream sequences, each of which is one record of the table: a drain writes the
stretches that it changed. A message that leaves the stream leaves them too, so there is never more than what is live.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from railgun.state import keys
from railgun.state.table import Overlay

_SHIFT = 11


class GivenUp:
    """The sequences of one consumer."""

    def __init__(self, overlay: Overlay, incarnation: int, number: int) -> None:
        self._overlay = overlay
        self._incarnation = incarnation
        self._number = number
        self._stretches: dict[int, int] = {}  # a bit for each sequence, the lowest for the first
        self._changed: set[int] = set()

    def load(self, bounds: Iterable[int]) -> None:
        """Read everything back from the table; ``bounds``: begin and end of ranges, as the consumer's record had them once."""
        for key, data in self._overlay.scan(keys.all_given_up(self._incarnation, self._number)):
            self._stretches[keys.sequence_in(key)] = int.from_bytes(data, "little")
        ends = iter(bounds)
        for start, end in zip(ends, ends, strict=True):
            self.add(start, end)

    # -- reading

    def __bool__(self) -> bool:
        return bool(self._stretches)

    def __contains__(self, sequence: int) -> bool:
        return self.meets(sequence, sequence + 1)

    def lowest(self) -> int | None:
        """The first of them."""
        if not self._stretches:
            return None
        number = min(self._stretches)
        bits = self._stretches[number]
        return (number << _SHIFT) + (bits & -bits).bit_length() - 1

    def meets(self, start: int, end: int) -> bool:
        """Whether any sequence of [start, end) is here."""
        return any(self._stretches[number] & mask for number, mask in self._known(start, end))

    # -- changing

    def add(self, start: int, end: int) -> None:
        for number in range(start >> _SHIFT, (end - 1 >> _SHIFT) + 1):
            self._set(number, self._stretches.get(number, 0) | _mask(number, start, end))

    def remove(self, start: int, end: int) -> bool:
        """Forget those of [start, end); whether there were any."""
        found = [(number, mask) for number, mask in self._known(start, end) if self._stretches[number] & mask]
        for number, mask in found:
            self._set(number, self._stretches[number] & ~mask)
        return bool(found)

    def seal(self) -> None:
        """Write what changed into the overlay."""
        for number in self._changed:
            key = keys.given_up(self._incarnation, self._number, number)
            bits = self._stretches.get(number)
            if bits is None:
                self._overlay.discard(key)
            else:
                self._overlay.put(key, bits.to_bytes(bits.bit_length() + 7 >> 3, "little"))
        self._changed.clear()

    # -- inside

    def _known(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The stretches of [start, end) in which there are some, each with the bits that lie within."""
        numbers = range(start >> _SHIFT, (end - 1 >> _SHIFT) + 1)
        known = self._stretches
        found = (one for one in numbers if one in known) if len(numbers) <= len(known) else known
        for number in list(found):
            if number in numbers:
                yield number, _mask(number, start, end)

    def _set(self, number: int, bits: int) -> None:
        self._changed.add(number)
        if bits:
            self._stretches[number] = bits
        else:
            del self._stretches[number]


def _mask(number: int, start: int, end: int) -> int:
    """The bits of [start, end) within a stretch that it overlaps."""
    base = number << _SHIFT
    low, high = max(start - base, 0), min(end - base, 1 << _SHIFT)
    return (1 << high) - (1 << low)
