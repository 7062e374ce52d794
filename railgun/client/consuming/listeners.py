"""Listening on subjects: deliver subjects of push consumers, and where streams re-emit what they store.

A shard sends only while a client listens, so this one announces it to the shards at once and then every few seconds. A plain
listener gets everything; of the listeners of one queue group each message goes to one. What is pushed and waits here is
kept alive, and given back at the end, as what is pulled.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from railgun.client.consuming.push_buffer import PushBuffer
from railgun.client.steps import Blocking, Steps
from railgun.errors import ConfigError
from railgun.model.subjects import Filter, has_wildcard, is_valid
from railgun.protocol.leases import Lease

if TYPE_CHECKING:
    from railgun.client.consuming.hub import ConsumerHub


class Listeners:
    """Everything that listens in one connection. Thread-safe."""

    def __init__(self, hub: ConsumerHub) -> None:
        self._hub = hub
        self._lock = threading.Lock()
        self._buffers: list[PushBuffer] = []
        self._filters: dict[str, Filter] = {}  # of subjects with wildcards
        self._turn = 0

    def add(self, buffer: PushBuffer) -> None:
        """Listen, and tell the shards. Their answers must be read already."""
        self._hub.hold(buffer)
        with self._lock:
            self._buffers.append(buffer)
            if has_wildcard(buffer.subject):
                self._filters[buffer.subject] = Filter((buffer.subject,))
        self._hub.announce(self._shards_of(buffer))

    def remove(self, buffer: PushBuffer) -> None:
        with self._lock:
            if buffer not in self._buffers:
                return
            self._buffers.remove(buffer)
        self._hub.announce(self._shards_of(buffer))

    def _shards_of(self, buffer: PushBuffer) -> set[int]:
        if buffer.shard is not None:
            return {buffer.shard}
        return set(range(self._hub.link.partitions))

    def subjects(self) -> list[tuple[str, str]]:
        """The subjects and groups that are listened to, as they are announced to shards."""
        with self._lock:
            return sorted({(one.subject, one.group) for one in self._buffers})

    def shards(self) -> set[int]:
        """The shards that must know that this client listens."""
        with self._lock:
            buffers = list(self._buffers)
        return set().union(*(self._shards_of(one) for one in buffers))

    def deliver(self, lease: Lease) -> None:
        """Give a pushed lease to the listeners of its subject; without one it goes back."""
        with self._lock:
            wanted = [one for one in self._buffers if one.group == lease.group and self._matches(one, lease)]
            if lease.group and wanted:
                self._turn += 1
                wanted = [wanted[self._turn % len(wanted)]]
        if not wanted:
            self._hub.give_back(lease)
        for buffer in wanted:
            buffer.pushed(lease)

    def _matches(self, buffer: PushBuffer, lease: Lease) -> bool:
        known = self._filters.get(buffer.subject)
        return buffer.subject == lease.subject if known is None else known.matches(lease.subject)


def listen(hub: ConsumerHub, buffer: PushBuffer) -> Steps[None]:
    """Begin to listen: fix the positions in the answers first."""
    if not is_valid(buffer.subject):
        raise ConfigError(
            f"{buffer.subject!r} is not a valid subject to listen on: use tokens without spaces, separated by dots"
        )
    link = hub.link
    shards = range(link.partitions) if buffer.shard is None else (buffer.shard,)
    if not link.prepared(shards):
        yield Blocking(lambda: link.prepare(shards, link.timeout))
    hub.listeners.add(buffer)
