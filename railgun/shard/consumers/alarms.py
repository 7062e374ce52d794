"""Alarms: the moments at which consumers must be looked at again, one for each key, exact and with undo.

:class:`~railgun.semantics.deadlines.Deadlines` is cheaper, but its deadlines only ever move forward to an earlier
moment and may turn out too early; an alarm can be put off, and an aborted drain takes it back.
"""

from __future__ import annotations

import heapq
from typing import Any, Generic, TypeVar

from railgun.semantics.consumers.undo import UndoLog

K = TypeVar("K", bound=tuple[Any, ...])
_SLACK = 256  # entries that no longer count, before the heap is built anew


class Alarms(Generic[K]):
    """Moments by key. Setting, changing and dropping cost the logarithm of their number; changes can be undone.

    Keys of one moment are due in their own order: the order in which they were set would change with an undo.
    """

    def __init__(self, undo: UndoLog) -> None:
        self._undo = undo
        # Entries that no longer count are dropped when they come up.
        self._heap: list[tuple[int, K]] = []
        self._due: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: K, due: int) -> None:
        """The key is due then, and at no other moment; 0: never."""
        before = self._due.get(key, 0)
        if before != due:
            self._apply(key, due)
            self._undo.on_undo(lambda: self._apply(key, before))

    def get(self, key: K) -> int:
        """The moment at which the key is due; 0: never."""
        return self._due.get(key, 0)

    def _apply(self, key: K, due: int) -> None:
        if due:
            self._due[key] = due
            heapq.heappush(self._heap, (due, key))
            if len(self._heap) > 2 * len(self._due) + _SLACK:
                self._heap = [(when, one) for one, when in self._due.items()]
                heapq.heapify(self._heap)
        else:
            self._due.pop(key, None)

    @property
    def next(self) -> int | None:
        """The earliest of all."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self, moment: int) -> list[tuple[K, int]]:
        """Every key that is due by the moment, with its time, earliest first; they are no longer set."""
        found = []
        while (due := self.next) is not None and due <= moment:
            key = self._heap[0][1]
            self.set(key, 0)
            found.append((key, due))
        return found
