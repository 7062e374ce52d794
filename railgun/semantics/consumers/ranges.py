"""A few ranges of sequences, kept apart and in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable


class Ranges:
    """Sequences as bounds: begin and end of one range after the other. Made for few of them."""

    def __init__(self, bounds: Iterable[int] = ()) -> None:
        self.bounds = list(bounds)

    def __contains__(self, sequence: int) -> bool:
        return bisect_right(self.bounds, sequence) % 2 == 1

    def meets(self, start: int, end: int) -> bool:
        """Whether any sequence of [start, end) is here."""
        return start in self or bisect_right(self.bounds, start) != bisect_left(self.bounds, end)

    def add(self, start: int, end: int) -> None:
        low, high = bisect_left(self.bounds, start), bisect_right(self.bounds, end)
        self.bounds[low:high] = [start] * (low % 2 == 0) + [end] * (high % 2 == 0)

    def remove(self, start: int, end: int) -> None:
        low, high = bisect_left(self.bounds, start), bisect_right(self.bounds, end)
        self.bounds[low:high] = [start] * (low % 2 == 1) + [end] * (high % 2 == 1)
