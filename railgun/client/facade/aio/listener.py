"""A plain listener on a subject, made by ``rg.listen``."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator

from railgun.client import steps
from railgun.client.consuming.push_buffer import PushBuffer
from railgun.client.facade.aio.closing import AsyncCloses
from railgun.client.facade.aio.message import AsyncMessage

_CHUNK = 32  # messages between two looks at what is left


class AsyncListener(AsyncCloses):
    """A plain listener; iterate over it, or take what is there. A context manager. Made by ``rg.listen``.

    Messages of a push consumer are acknowledged as any other. Iterating ends when it is closed, from whichever thread.
    """

    def __init__(self, buffer: PushBuffer) -> None:
        self._buffer = buffer
        weakref.finalize(self, buffer.orphaned)

    @property
    def subject(self) -> str:
        """The subject that is listened on."""
        return self._buffer.subject

    async def __aiter__(self) -> AsyncIterator[AsyncMessage]:
        ready = self._buffer.ready
        while await steps.run_async(self._buffer.some()):
            for _ in range(_CHUNK):
                try:
                    message = ready.popleft()
                except IndexError:
                    break
                yield message

    async def fetch(self, count: int, wait: float = 1.0) -> list[AsyncMessage]:
        """Up to ``count`` messages; fewer, or none, when ``wait`` seconds are over."""
        return await steps.run_async(self._buffer.take(count, wait))

    async def next(self, wait: float = 1.0) -> AsyncMessage | None:
        """The next message, None when none came in time."""
        found = await self.fetch(1, wait)
        return found[0] if found else None

    async def close(self) -> None:
        """Listen no more; what was not taken goes back to its consumer."""
        self._buffer.close()
