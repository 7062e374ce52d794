"""Endless iteration over a consumer: ``async for message in worker.messages()``.

Nothing is asked for before the iteration begins. Messages are leased ahead; leaving the loop, or ``close``, gives back what
was not handed out. It survives restarts of workers and brokers; it ends with an error when the consumer is gone.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator

from railgun.client import steps
from railgun.client.connection.connection import Connection
from railgun.client.consuming.buffer import Buffer
from railgun.client.facade.aio.closing import AsyncCloses
from railgun.client.facade.aio.message import AsyncMessage
from railgun.client.operations.open_buffer import open_buffer

_CHUNK = 32  # messages between two looks at what is left


class AsyncMessages(AsyncCloses):
    """An endless iteration, made by ``Consumer.messages``. A context manager; leaving the loop ends it too.

    Async: a loop that is left ends the iteration only later. Close it, or use ``async with``.
    """

    def __init__(self, connection: Connection, stream: str, consumer: str) -> None:
        self._connection = connection
        self._of = (stream, consumer)
        self._buffer: Buffer | None = None
        self._closed = False

    async def _opened(self) -> Buffer:
        if self._buffer is None:
            self._buffer = await steps.run_async(open_buffer(self._connection, *self._of, AsyncMessage))
            weakref.finalize(self, self._buffer.orphaned)
            if self._closed:  # meanwhile, by another caller
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
        """End the iteration, from whichever thread, and give back what was not handed out."""
        self._closed = True
        if self._buffer is not None:
            self._buffer.close()
