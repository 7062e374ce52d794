"""Endless iteration over a consumer: ``for message in worker.messages()``, and its async twin.

Nothing is asked for before the iteration begins. Messages are leased ahead; leaving the loop, or ``close``, gives back what
was not handed out. It survives restarts of workers and brokers; it ends with an error when the consumer is gone.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Self

from railgun.client import steps
from railgun.client.connection.connection import Connection
from railgun.client.consuming.buffer import Buffer
from railgun.client.facade.message import AsyncMessage, Message
from railgun.client.operations.open_buffer import open_buffer

_CHUNK = 32  # messages between two looks at what is left


class Messages:
    """An endless iteration, made by ``Consumer.messages``. A context manager; leaving the loop ends it too."""

    def __init__(self, connection: Connection, stream: str, consumer: str) -> None:
        self._connection = connection
        self._of = (stream, consumer)
        self._buffer: Buffer | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> Buffer:
        if self._buffer is None:
            self._buffer = steps.run(open_buffer(self._connection, *self._of, Message))
            weakref.finalize(self, self._buffer.orphaned)
            if self._closed:  # by another thread, meanwhile
                self._buffer.close()
        return self._buffer

    def __iter__(self) -> Iterator[Message]:
        try:
            if self._closed:
                return
            buffer = self._opened()
            ready = buffer.ready
            while steps.run(buffer.some()):
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
            buffer = self._opened()
            while steps.run(buffer.some()):
                try:
                    message: Message = buffer.ready.popleft()
                except IndexError:
                    continue
                return message
        raise StopIteration

    def close(self) -> None:
        """End the iteration, from whichever thread, and give back what was not handed out."""
        self._closed = True
        if self._buffer is not None:
            self._buffer.close()


class AsyncMessages:
    """As :class:`Messages`, for ``async for``. Close it, or use ``async with``: a loop that is left ends it only later."""

    def __init__(self, connection: Connection, stream: str, consumer: str) -> None:
        self._connection = connection
        self._of = (stream, consumer)
        self._buffer: Buffer | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _opened(self) -> Buffer:
        if self._buffer is None:
            self._buffer = await steps.run_async(open_buffer(self._connection, *self._of, AsyncMessage))
            weakref.finalize(self, self._buffer.orphaned)
            if self._closed:
                self._buffer.close()
        return self._buffer

    async def __aiter__(self) -> AsyncIterator[AsyncMessage]:
        try:
            if self._closed:
                return
            buffer = await self._opened()
            ready = buffer.ready
            while await steps.run_async(buffer.some()):
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
            buffer = await self._opened()
            while await steps.run_async(buffer.some()):
                try:
                    message: AsyncMessage = buffer.ready.popleft()
                except IndexError:
                    continue
                return message
        raise StopAsyncIteration

    async def close(self) -> None:
        """See :meth:`Messages.close`."""
        self._closed = True
        if self._buffer is not None:
            self._buffer.close()
