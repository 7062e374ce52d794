"""What the rows of sources need of a client, in railgun's words and in nats-py's."""

from __future__ import annotations

import asyncio
import time
from typing import Final, Protocol

from nats.js.api import StreamConfig, StreamSource
from nats.js.errors import NotFoundError

import railgun
from railgun.errors import MessageNotFound
from tests.benchmarks.nats_server import NatsClient

PATIENCE: Final = 300.0
_PAUSE: Final = 0.002  # seconds between two looks at a stream


class Copier(Protocol):
    """Streams that copy others."""

    def create(self, name: str, upstream: str) -> None: ...
    def delete(self, name: str) -> None: ...
    def await_messages(self, name: str, count: int) -> None:
        """Until the stream holds so many."""

    def readable_after(self, name: str, subject: str, payload: bytes, count: int) -> list[float]:
        """Publish one by one; seconds from each ack until a get of the stream that copies returns the message."""


class RailgunCopier:
    """See :class:`Copier`."""

    def __init__(self, rg: railgun.Railgun) -> None:
        self._rg = rg

    def create(self, name: str, upstream: str) -> None:
        self._rg.create_stream(name, sources=[railgun.StreamSource(name=upstream)])

    def delete(self, name: str) -> None:
        self._rg.delete_stream(name)

    def await_messages(self, name: str, count: int) -> None:
        stream, deadline = self._rg.stream(name), time.monotonic() + PATIENCE
        while (found := stream.info().state.messages) < count:
            _check(deadline, name, found, count)
            time.sleep(_PAUSE)

    def readable_after(self, name: str, subject: str, payload: bytes, count: int) -> list[float]:
        stream, taken = self._rg.stream(name), []
        for sequence in range(1, count + 1):
            self._rg.publish(subject, payload)
            begin, deadline = time.perf_counter(), time.monotonic() + PATIENCE
            while not _is_there(stream, sequence):
                _check(deadline, name, sequence - 1, sequence)
            taken.append(time.perf_counter() - begin)
        return taken


def _is_there(stream: railgun.Stream, sequence: int) -> bool:
    try:
        stream.get(sequence)
    except MessageNotFound:
        return False
    return True


class NatsCopier:
    """See :class:`Copier`."""

    def __init__(self, client: NatsClient) -> None:
        self._jetstream, self._run = client.jetstream, client.run

    def create(self, name: str, upstream: str) -> None:
        config = StreamConfig(name=name, sources=[StreamSource(name=upstream)])
        self._run(self._jetstream.add_stream(config))

    def delete(self, name: str) -> None:
        self._run(self._jetstream.delete_stream(name))

    def await_messages(self, name: str, count: int) -> None:
        async def work() -> None:
            deadline = time.monotonic() + PATIENCE
            while (found := (await self._jetstream.stream_info(name)).state.messages) < count:
                _check(deadline, name, found, count)
                await asyncio.sleep(_PAUSE)

        self._run(work())

    def readable_after(self, name: str, subject: str, payload: bytes, count: int) -> list[float]:
        async def is_there(sequence: int) -> bool:
            try:
                await self._jetstream.get_msg(name, seq=sequence)
            except NotFoundError:
                return False
            return True

        async def work() -> list[float]:
            taken = []
            for sequence in range(1, count + 1):
                await self._jetstream.publish(subject, payload)
                begin, deadline = time.perf_counter(), time.monotonic() + PATIENCE
                while not await is_there(sequence):
                    _check(deadline, name, sequence - 1, sequence)
                taken.append(time.perf_counter() - begin)
            return taken

        found: list[float] = self._run(work())
        return found


def _check(deadline: float, name: str, found: int, count: int) -> None:
    if time.monotonic() > deadline:
        raise RuntimeError(f"{name} holds {found} of {count} messages after {PATIENCE:.0f} s")
