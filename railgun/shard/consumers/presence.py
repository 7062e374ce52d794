"""Presence: the clients that wait or listen, when each was last heard from, and where they listen.

Presence runs by the wall clock, never by the clock of tests. A client that is silent for :data:`SILENCE` is gone. An owner
that was itself away for so long that it could not have heard from any client gives all of them that time again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from railgun.model.durations import NANOS
from railgun.model.subjects import Filter, has_wildcard
from railgun.semantics.consumers.undo import UndoLog

PERIOD = 2 * NANOS  # clients send their presence this often
SILENCE = 3 * PERIOD


class Listener(NamedTuple):
    """A client that listens, for itself or (group not empty) as a member of a queue group."""

    client: str
    group: str


class Presences:
    """The clients that one shard knows of."""

    def __init__(self, undo: UndoLog) -> None:
        self._undo = undo
        self._heard: dict[str, int] = {}  # client: wall clock, ns
        self._listens: dict[str, frozenset[tuple[str, str]]] = {}  # client: (subject, group)
        self._on: dict[str, dict[Listener, None]] = {}  # subject as listened to, wildcards too
        self._patterns: dict[str, Filter] = {}  # of those with wildcards
        self._check_at = 0  # wall clock; 0: no client is there

    def heard_from(self, client: str, now: int) -> None:
        """A record came from the client. Clients that neither wait nor listen are not remembered."""
        if client in self._heard:
            self._heard[client] = now

    def add(self, client: str, now: int) -> None:
        """The client waits or listens from now on."""
        if client not in self._heard:
            self._undo.put(self._heard, client, now)
        self._heard[client] = now
        if not self._check_at:
            self._undo.on_undo(partial(setattr, self, "_check_at", 0))
            self._check_at = now + PERIOD

    def forget(self, client: str) -> None:
        self._undo.drop(self._heard, client)

    # -- listening

    def listen(self, client: str, listens: Iterable[tuple[str, str]]) -> tuple[set[str], set[str]]:
        """The client listens there and nowhere else. Returns the subjects that gained a listener, and those that lost one."""
        before = self._listens.get(client, frozenset())
        after = frozenset(listens)
        for subject, group in after - before:
            if has_wildcard(subject) and subject not in self._patterns:
                self._undo.put(self._patterns, subject, Filter(subject))
            self._undo.add_to(self._on, subject, Listener(client, group))
        for subject, group in before - after:
            self._undo.take_from(self._on, subject, Listener(client, group))
            if subject not in self._on:
                self._undo.drop(self._patterns, subject)
        if after:
            self._undo.put(self._listens, client, after)
        else:
            self._undo.drop(self._listens, client)
        return {subject for subject, _ in after - before}, {subject for subject, _ in before - after}

    def listeners(self, subject: str) -> list[Listener]:
        """Listeners that receive what is sent to the literal subject, each once."""
        found = dict(self._on.get(subject, {}))
        for pattern, compiled in self._patterns.items():
            if compiled.matches(subject):
                found |= self._on[pattern]
        return list(found)

    @property
    def listened(self) -> bool:
        """Whether there is any listener."""
        return bool(self._on)

    # -- silence

    @property
    def next_check(self) -> int | None:
        """The wall clock at which a client may have been silent for too long."""
        return self._check_at or None

    def silent(self, now: int) -> list[str]:
        """Clients that were not heard from for too long."""
        if not self._check_at or now < self._check_at:
            return []
        if now - self._check_at > PERIOD:  # this owner was away
            for client in self._heard:
                self._heard[client] = now
        self._undo.on_undo(partial(setattr, self, "_check_at", self._check_at))
        gone = [client for client, heard in self._heard.items() if heard + SILENCE <= now]
        earliest = min((h for h in self._heard.values() if h + SILENCE > now), default=None)
        self._check_at = 0 if earliest is None else max(earliest + SILENCE, now + PERIOD // 4)
        return gone
