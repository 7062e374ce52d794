"""The contract of a table, the table in memory, and the overlay that a drain writes to.

A table is an ordered map of bytes. Writes reach it only as whole drains (:meth:`Table.apply`), so that a table always
shows a state that was committed. Rules read and write an :class:`Overlay`: committed or dropped as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple, Protocol

from sortedcontainers import SortedDict, SortedList

Changes = Mapping[bytes, bytes | None]  # None: the key is removed
NO_COMPANIONS: Mapping[bytes, bytes] = MappingProxyType({})


class Reached(NamedTuple):
    """How far a table has followed its changelog."""

    position: int  # the next offset
    written: int = 0  # when the record before it was written, by the broker's clock, ms; 0: not known


class Scratch(Protocol):
    """Room beside a table for what is derived from it: no part of a drain, and empty when the table is opened."""

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Entries whose key begins with ``prefix``, ascending, from ``start`` (a full key) on."""

    def apply(self, changes: Changes) -> None:
        """Change at once; a crash may lose it."""

    def clear(self, prefix: bytes) -> None:
        """Remove all whose key begins with ``prefix``."""


class Table(Protocol):
    """An ordered map of bytes that changes by whole drains."""

    @property
    def scratch(self) -> Scratch | None:
        """None where the table has no room but memory."""

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key, or None: cheaper than one by one."""

    def floor(self, prefix: bytes, key: bytes) -> tuple[bytes, bytes] | None:
        """The entry of the greatest key that begins with ``prefix`` and is not above ``key``."""

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Entries whose key begins with ``prefix``, ascending, from ``start`` (a full key) on."""

    def companion(self, key: bytes) -> bytes | None:
        """What was put beside the key's value, if this table kept it."""

    def apply(
        self,
        changes: Changes,
        companions: Mapping[bytes, bytes] = NO_COMPANIONS,
        reached: Reached | None = None,
    ) -> None:
        """All of the changes, or after a crash or an error none of them.

        ``reached``: how far the table has followed its changelog with them; it moves with them or not at all.
        ``companions`` are kept beside the values of their keys, for as long as there is room. They are not part of the
        state: one may be missing at any time, and a table that was restored has none.
        """


class MemoryTable:
    """A table in the process's memory; it dies with it, and keeps no companions."""

    def __init__(self, scratch: Scratch | None = None) -> None:
        self._entries: SortedDict[bytes, bytes] = SortedDict()
        self.scratch = scratch

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._entries.get(key)
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._entries.get(key) for key in keys]

    def floor(self, prefix: bytes, key: bytes) -> tuple[bytes, bytes] | None:
        for found in self._entries.irange(prefix, key, reverse=True):
            return found, self._entries[found]
        return None

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        for key in self._entries.irange(start or prefix):
            if not key.startswith(prefix):
                return
            yield key, self._entries[key]

    def companion(self, key: bytes) -> bytes | None:
        return None

    def apply(
        self,
        changes: Changes,
        companions: Mapping[bytes, bytes] = NO_COMPANIONS,
        reached: Reached | None = None,
    ) -> None:
        for key, value in changes.items():
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = value

    def clear(self, prefix: bytes) -> None:
        for key in [key for key, _ in self.scan(prefix)]:
            del self._entries[key]


class Overlay:
    """What one drain changes, on top of a table: reads see it, the table does not until it is committed."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._changes: dict[bytes, bytes | None] = {}
        # Keys of the changes in order, by their first byte: of those kinds only that were searched since the last drain. Most
        # changes are put and got, and never searched.
        self._ordered: dict[bytes, SortedList[bytes]] = {}

    @property
    def scratch(self) -> Scratch | None:
        """Of the table. What is written there is not part of the drain: an aborted one does not take it back."""
        return self._table.scratch

    @property
    def changes(self) -> Changes:
        return self._changes

    def get(self, key: bytes) -> bytes | None:
        if key in self._changes:
            return self._changes[key]
        return self._table.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """As :meth:`Table.get_many`, with the changes in."""
        changes = self._changes
        away = [key for key in keys if key not in changes] if changes else keys
        stored = self._table.get_many(away)
        if len(away) == len(keys):
            return stored
        found = dict(zip(away, stored, strict=True))
        return [changes[key] if key in changes else found[key] for key in keys]

    def before_or_after(self, key: bytes) -> bytes | None:
        """As :meth:`get`, but of a key that this drain removed, what it was."""
        changed = self._changes.get(key)
        return self._table.get(key) if changed is None else changed

    def versions(self, key: bytes) -> Iterator[bytes | None]:
        """What the drain made of the key, and what it was before."""
        yield self._changes.get(key)
        yield self._table.get(key)

    def companion(self, key: bytes) -> bytes | None:
        """As :meth:`Table.companion`: of what was committed."""
        return self._table.companion(key)

    def put(self, key: bytes, value: bytes) -> None:
        self._change(key, value)

    def delete(self, key: bytes) -> None:
        self._change(key, None)

    def _change(self, key: bytes, value: bytes | None) -> None:
        if self._ordered and key not in self._changes:
            ordered = self._ordered.get(key[:1])
            if ordered is not None:
                ordered.add(key)
        self._changes[key] = value

    def change(self, changes: Changes) -> None:
        """Many puts and deletes at once, which is cheaper than one by one."""
        if any(kind in self._ordered for kind in {key[:1] for key in changes}):
            for key, value in changes.items():
                self._change(key, value)
        else:
            self._changes.update(changes)

    def forget(self, key: bytes) -> None:
        """As :meth:`delete`, of a key that the table does not hold: the drain says nothing of it."""
        if key in self._changes:
            del self._changes[key]
            ordered = self._ordered.get(key[:1])
            if ordered is not None:
                ordered.remove(key)

    def discard(self, key: bytes) -> None:
        """As :meth:`delete`, of a key that the table may not hold: then the drain says nothing of it."""
        if self._table.get(key) is not None:
            self._change(key, None)
        else:
            self.forget(key)

    def floor(self, prefix: bytes, key: bytes) -> tuple[bytes, bytes] | None:
        """As :meth:`Table.floor`, with the changes in."""
        limit = key
        while True:
            stored = self._table.floor(prefix, limit)
            for found in self._keys(prefix).irange(prefix, limit, reverse=True):
                if stored is not None and found < stored[0]:
                    break
                value = self._changes[found]
                if value is not None:
                    return found, value
            if stored is None or stored[0] not in self._changes:
                return stored
            limit = _before(stored[0])  # removed by this drain: look below it

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """As :meth:`Table.scan`, with the changes in; the overlay must not change while it runs."""
        pending = takewhile(lambda key: key.startswith(prefix), self._keys(prefix).irange(start or prefix))
        ahead = next(pending, None)
        for key, value in self._table.scan(prefix, start):
            while ahead is not None and ahead < key:
                changed = self._changes[ahead]
                if changed is not None:
                    yield ahead, changed
                ahead = next(pending, None)
            if ahead == key:
                changed = self._changes[key]
                if changed is not None:
                    yield key, changed
                ahead = next(pending, None)
            else:
                yield key, value
        while ahead is not None:
            changed = self._changes[ahead]
            if changed is not None:
                yield ahead, changed
            ahead = next(pending, None)

    def clear(self) -> None:
        """Forget all changes: the drain is committed, or never was."""
        self._changes = {}
        self._ordered.clear()

    def _keys(self, prefix: bytes) -> SortedList[bytes]:
        """The changed keys of the prefix's kind, in order; of all kinds for an empty prefix."""
        kind = prefix[:1]
        if not kind:
            return SortedList(self._changes)
        ordered = self._ordered.get(kind)
        if ordered is None:
            ordered = self._ordered[kind] = SortedList(key for key in self._changes if key[:1] == kind)
        return ordered


def _before(key: bytes) -> bytes:
    """A bound between ``key`` and every key below it; keys are far shorter than the tail that is put on."""
    if not key or key[-1] == 0:
        return key[:-1]
    return key[:-1] + bytes([key[-1] - 1]) + b"\xff" * 512
