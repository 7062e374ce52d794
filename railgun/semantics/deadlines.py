"""Deadlines by key: when to look at something again."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
_NEVER = 1 << 62
_SLACK = 64  # entries that no longer count, before the heap is built anew


class Deadlines(Generic[K]):
    """One deadline for each key. It is never too late; one that turns out too early costs a look.

    So a wait that becomes shorter must be told, and one that ends need not.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, K]] = []
        self._set: dict[K, int] = {}

    def watch(self, key: K, due: int | None) -> None:
        """Look at the key then at the latest; None changes nothing."""
        if due is not None and due < self._set.get(key, _NEVER):
            self._set[key] = due
            heapq.heappush(self._heap, (due, key))
            if len(self._heap) > 2 * len(self._set) + _SLACK:
                self._heap = [(when, one) for one, when in self._set.items()]
                heapq.heapify(self._heap)

    def __len__(self) -> int:
        """How much is kept, including what no longer counts."""
        return len(self._heap)

    def forget(self, key: K) -> None:
        """The key is gone."""
        self._set.pop(key, None)

    @property
    def earliest(self) -> int | None:
        """The earliest deadline, which may turn out too early."""
        while self._heap and self._set.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: int) -> list[K]:
        """The keys that are due; each must be watched again for what it still waits for."""
        keys = []
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            if self._set.get(key) == due:
                del self._set[key]
                keys.append(key)
        return keys

    def next(self, actual: Callable[[K], int | None]) -> int | None:
        """The earliest deadline; ``actual`` says when a key is really due, so that no look comes too early."""
        while (due := self.earliest) is not None:
            key = self._heap[0][1]
            really = actual(key)
            if really is not None and really <= due:
                return due
            del self._set[key]
            heapq.heappop(self._heap)
            self.watch(key, really)
        return None
