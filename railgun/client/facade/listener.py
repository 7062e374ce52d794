"""Plain listeners on a subject: :class:`Listener` and :class:`AsyncListener`, made by ``rg.listen``."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Self

from railgun.client import steps
from railgun.client.consuming.push_buffer import PushBuffer
from railgun.client.facade.message import AsyncMessage, Message

_CHUNK = 32  # messages between two looks at what is left


class Listener:
    """A plain listener; iterate over it, or take what is there. A context manager. Made by ``rg.listen``.

    Messages of a push consumer are acknowledged as any other. Iterating ends when it is closed, from whichever thread.
    """

    def __init__(self, buffer: PushBuffer) -> None:
        self._buffer = buffer
        weakref.finalize(self, buffer.orphaned)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def subject(self) -> str:
        return self._buffer.subject

    def __iter__(self) -> Iterator[Message]:
        ready = self._buffer.ready
        while steps.run(self._buffer.some()):
            for _ in range(_CHUNK):
                try:
                    message = ready.popleft()
                except IndexError:
                    break
                yield message

    def fetch(self, count: int, wait: float = 1.0) -> list[Message]:
        """Up to ``count`` messages; fewer, or none, when ``wait`` seconds are over."""
        return steps.run(self._buffer.take(count, wait))

    def next(self, wait: float = 1.0) -> Message | None:
        """The next message, None when none came in time."""
        found = self.fetch(1, wait)
        return found[0] if found else None

    def close(self) -> None:
        """Listen no more; what was not taken goes back to its consumer."""
        self._buffer.close()


class AsyncListener:
    """As :class:`Listener`; every call is awaited."""

    def __init__(self, buffer: PushBuffer) -> None:
        self._buffer = buffer
        weakref.finalize(self, buffer.orphaned)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def subject(self) -> str:
        return self._buffer.subject

    async def __aiter__(self) -> AsyncIterator[AsyncMessage]:
        ready = self._buffer.ready
        while await steps.run_async(self._buffer.some()):
            for _ in range(_CHUNK):
                try:
                    message: AsyncMessage = ready.popleft()
                except IndexError:
                    break
                yield message

    async def fetch(self, count: int, wait: float = 1.0) -> list[AsyncMessage]:
        """See :meth:`Listener.fetch`."""
        return await steps.run_async(self._buffer.take(count, wait))

    async def next(self, wait: float = 1.0) -> AsyncMessage | None:
        """See :meth:`Listener.next`."""
        found = await self.fetch(1, wait)
        return found[0] if found else None

    async def close(self) -> None:
        """See :meth:`Listener.close`."""
        self._buffer.close()
