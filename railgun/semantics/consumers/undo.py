"""An undo log for what an owner keeps in memory only: waiting pulls, listeners, windows, timers.

A drain that is aborted must leave it as it was, at a cost that grows with what the drain changed and not with what there is.
So all of it lives in mappings of immutable values, and every change goes through the undo log of the shard.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_ABSENT: Any = object()


class UndoLog:
    """Remembers how to take back what was changed since the last :meth:`clear`."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def put(self, mapping: MutableMapping[K, V], key: K, value: V) -> None:
        """Set an entry."""
        before = mapping.get(key, _ABSENT)
        mapping[key] = value
        self._undo.append(lambda: _restore(mapping, key, before))

    def drop(self, mapping: MutableMapping[K, V], key: K) -> V | None:
        """Remove an entry, if it is there; what it was."""
        before = mapping.pop(key, _ABSENT)
        if before is _ABSENT:
            return None
        self._undo.append(lambda: _restore(mapping, key, before))
        return before  # type: ignore[no-any-return]

    def add_to(self, mapping: MutableMapping[K, dict[V, None]], key: K, member: V) -> None:
        """Put a member into the set (a dict without values, which keeps its order) under the key."""
        members = mapping.get(key)
        if members is None:
            members = {}
            self.put(mapping, key, members)
        if member not in members:
            self.put(members, member, None)

    def take_from(self, mapping: MutableMapping[K, dict[V, None]], key: K, member: V) -> None:
        """Take a member out of the set under the key; an empty set goes with it."""
        members = mapping.get(key)
        if members is not None and member in members:
            self.drop(members, member)
            if not members:
                self.drop(mapping, key)

    def on_undo(self, action: Callable[[], None]) -> None:
        """Something else that takes a change back."""
        self._undo.append(action)

    def undo(self) -> None:
        """As if nothing had been changed since the last :meth:`clear`."""
        while self._undo:
            self._undo.pop()()

    def clear(self) -> None:
        """What was changed stays."""
        self._undo.clear()


def _restore(mapping: MutableMapping[K, V], key: K, before: V) -> None:
    if before is _ABSENT:
        mapping.pop(key, None)
    else:
        mapping[key] = before
