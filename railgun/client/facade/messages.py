"""Endless iteration over a consumer: ``for message in worker.messages()``, and its async twin.

Nothing is asked for before the iteration begins. Messages are leased ahead; leaving the loop, or ``close``, gives back what
was not handed out. It survives restarts of workers and brokers; it ends with an error when the consumer is gone.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from railgun.client import steps
from railgun.client.consuming.buffer import Buffer
from railgun.client.consuming.fetch import prepared
from railgun.client.consuming.listeners import listen
from railgun.client.consuming.pull_buffer import PullBuffer
from railgun.client.consuming.push_buffer import BoundBuffer
from railgun.client.facade.message import AsyncMessage, Delivery, Message
from railgun.client.operations import consumers as consumer_operations
from railgun.client.operations import flows as session
from railgun.client.steps import Steps
from railgun.errors import ConsumerBound
from railgun.model.consumer_info import ConsumerInfo

if TYPE_CHECKING:
    from railgun.client.consuming.hub import ConsumerHub

LEAST = 64  # messages that an iteration leases ahead at least
_CHUNK = 32  # messages between two looks at what is left


def open_intake(
    hub: ConsumerHub, stream: str, consumer: str, make: type[Delivery], *, least: int = LEAST
) -> Steps[Buffer]:
    """What a consumer delivers, pulled or pushed as it is configured. Raises ConsumerNotFound, ConsumerBound (PSH-05)."""
    connection = hub.connection
    info: ConsumerInfo = yield from session.call(
        connection, consumer_operations.consumer_info(stream, consumer), connection.timeout
    )
    address = yield from prepared(hub, stream, consumer)
    config = info.config
    if config.deliver_subject:
        if info.push_bound and not config.deliver_group:
            raise ConsumerBound(consumer)
        pushed = BoundBuffer(hub, make, address, config)
        yield from listen(hub, pushed)
        return pushed
    pulled = PullBuffer(hub, make, address, config, least=least)
    hub.hold(pulled)
    return pulled


class Messages:
    """An endless iteration, made by ``Consumer.messages``. A context manager; leaving the loop ends it too."""

    def __init__(self, hub: ConsumerHub, stream: str, consumer: str) -> None:
        self._hub = hub
        self._of = (stream, consumer)
        self._intake: Buffer | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> Buffer:
        if self._intake is None:
            self._intake = steps.run(open_intake(self._hub, *self._of, Message))
            weakref.finalize(self, self._intake.orphaned)
            if self._closed:  # by another thread, meanwhile
                self._intake.close()
        return self._intake

    def __iter__(self) -> Iterator[Message]:
        try:
            if self._closed:
                return
            intake = self._opened()
            ready = intake.ready
            while steps.run(intake.some()):
                for _ in range(_CHUNK):
                    try:
                        message = ready.popleft()
                    except IndexError:
                        break
                    yield message
        finally:
            self.close()

    def __next__(self) -> Message:
        if not self._closed:
            intake = self._opened()
            while steps.run(intake.some()):
                try:
                    message: Message = intake.ready.popleft()
                except IndexError:
                    continue
                return message
        raise StopIteration

    def close(self) -> None:
        """End the iteration, from whichever thread, and give back what was not handed out."""
        self._closed = True
        if self._intake is not None:
            self._intake.close()


class AsyncMessages:
    """As :class:`Messages`, for ``async for``. Close it, or use ``async with``: a loop that is left ends it only later."""

    def __init__(self, hub: ConsumerHub, stream: str, consumer: str) -> None:
        self._hub = hub
        self._of = (stream, consumer)
        self._intake: Buffer | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _opened(self) -> Buffer:
        if self._intake is None:
            self._intake = await steps.run_async(open_intake(self._hub, *self._of, AsyncMessage))
            weakref.finalize(self, self._intake.orphaned)
            if self._closed:
                self._intake.close()
        return self._intake

    async def __aiter__(self) -> AsyncIterator[AsyncMessage]:
        try:
            if self._closed:
                return
            intake = await self._opened()
            ready = intake.ready
            while await steps.run_async(intake.some()):
                for _ in range(_CHUNK):
                    try:
                        message = ready.popleft()
                    except IndexError:
                        break
                    yield message
        finally:
            await self.close()

    async def __anext__(self) -> AsyncMessage:
        if not self._closed:
            intake = await self._opened()
            while await steps.run_async(intake.some()):
                try:
                    message: AsyncMessage = intake.ready.popleft()
                except IndexError:
                    continue
                return message
        raise StopAsyncIteration

    async def close(self) -> None:
        """See :meth:`Messages.close`."""
        self._closed = True
        if self._intake is not None:
            self._intake.close()
