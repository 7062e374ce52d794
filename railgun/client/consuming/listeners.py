"""Listening on subjects: deliver subjects of push consumers, and where streams re-emit what they store.

A shard sends only while somebody listens, so this client says so to the shards at once and then every few seconds. A plain
listener gets everything; of the listeners of one queue group each message goes to one. What is pushed and waits here is
kept alive, and given back at the end, as what is pulled.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from railgun.client import steps
from railgun.client.consuming.push_buffer import PushBuffer
from railgun.client.facade.message import AsyncMessage, Message
from railgun.client.steps import Blocking, Steps
from railgun.errors import ConfigError
from railgun.model.subjects import Filter, has_wildcard, is_valid
from railgun.protocol.leases import Lease

if TYPE_CHECKING:
    from railgun.client.consuming.hub import ConsumerHub

_CHUNK = 32


class Listeners:
    """Everything that listens in one connection. Thread-safe."""

    def __init__(self, hub: ConsumerHub) -> None:
        self._hub = hub
        self._lock = threading.Lock()
        self._intakes: list[PushBuffer] = []
        self._filters: dict[str, Filter] = {}  # of subjects with wildcards
        self._turn = 0

    def add(self, intake: PushBuffer) -> None:
        """Listen, and tell the shards. Their answers must be read already."""
        self._hub.hold(intake)
        with self._lock:
            self._intakes.append(intake)
            if has_wildcard(intake.subject):
                self._filters[intake.subject] = Filter((intake.subject,))
        self._hub.announce(self._shards_of(intake))

    def remove(self, intake: PushBuffer) -> None:
        with self._lock:
            if intake not in self._intakes:
                return
            self._intakes.remove(intake)
        self._hub.announce(self._shards_of(intake))

    def _shards_of(self, intake: PushBuffer) -> set[int]:
        if intake.shard is not None:
            return {intake.shard}
        return set(range(self._hub.connection.topology.partitions))

    def subjects(self) -> list[tuple[str, str]]:
        """What is listened to, as shards are told."""
        with self._lock:
            return sorted({(one.subject, one.group) for one in self._intakes})

    def shards(self) -> set[int]:
        """Where this client must be known to listen."""
        with self._lock:
            intakes = list(self._intakes)
        return set().union(*(self._shards_of(one) for one in intakes))

    def take(self, lease: Lease) -> None:
        """Give what was pushed to those who listen; what nobody wants any more goes back."""
        with self._lock:
            hearing = [one for one in self._intakes if one.group == lease.group and self._hears(one, lease)]
            if lease.group and hearing:
                self._turn += 1
                hearing = [hearing[self._turn % len(hearing)]]
        if not hearing:
            self._hub.book.give_back(lease)
        for intake in hearing:
            intake.pushed(lease)

    def _hears(self, intake: PushBuffer, lease: Lease) -> bool:
        known = self._filters.get(intake.subject)
        return intake.subject == lease.subject if known is None else known.matches(lease.subject)


def listen(hub: ConsumerHub, intake: PushBuffer) -> Steps[None]:
    """Begin to listen: fix the positions in the answers first."""
    if not is_valid(intake.subject):
        raise ConfigError(f"{intake.subject!r} is no subject to listen on")
    connection = hub.connection
    shards = range(connection.topology.partitions) if intake.shard is None else (intake.shard,)
    if not connection.prepared(shards):
        yield Blocking(lambda: connection.prepare(shards, connection.timeout))
    hub.listeners.add(intake)


class Listener:
    """A plain listener; iterate over it, or take what is there. A context manager. Made by ``rg.listen``.

    Messages of a push consumer are acknowledged as any other. Iterating ends when it is closed, from whichever thread.
    """

    def __init__(self, intake: PushBuffer) -> None:
        self._intake = intake
        weakref.finalize(self, intake.orphaned)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def subject(self) -> str:
        return self._intake.subject

    def __iter__(self) -> Iterator[Message]:
        ready = self._intake.ready
        while steps.run(self._intake.some()):
            for _ in range(_CHUNK):
                try:
                    message = ready.popleft()
                except IndexError:
                    break
                yield message

    def fetch(self, count: int, wait: float = 1.0) -> list[Message]:
        """Up to ``count`` messages; fewer, or none, when ``wait`` seconds are over."""
        return steps.run(self._intake.take(count, wait))

    def next(self, wait: float = 1.0) -> Message | None:
        """The next message, None when none came in time."""
        found = self.fetch(1, wait)
        return found[0] if found else None

    def close(self) -> None:
        """Listen no more; what was not taken goes back to its consumer."""
        self._intake.close()


class AsyncListener:
    """As :class:`Listener`; every call is awaited."""

    def __init__(self, intake: PushBuffer) -> None:
        self._intake = intake
        weakref.finalize(self, intake.orphaned)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def subject(self) -> str:
        return self._intake.subject

    async def __aiter__(self) -> Any:
        ready = self._intake.ready
        while await steps.run_async(self._intake.some()):
            for _ in range(_CHUNK):
                try:
                    message: AsyncMessage = ready.popleft()
                except IndexError:
                    break
                yield message

    async def fetch(self, count: int, wait: float = 1.0) -> list[AsyncMessage]:
        """See :meth:`Listener.fetch`."""
        return await steps.run_async(self._intake.take(count, wait))

    async def next(self, wait: float = 1.0) -> AsyncMessage | None:
        """See :meth:`Listener.next`."""
        found = await self.fetch(1, wait)
        return found[0] if found else None

    async def close(self) -> None:
        """See :meth:`Listener.close`."""
        self._intake.close()
