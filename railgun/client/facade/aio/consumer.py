"""The handle of one consumer. It holds a name, no state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railgun.client import steps
from railgun.client.consuming import fetch
from railgun.client.facade.aio.message import AsyncMessage
from railgun.client.facade.aio.messages import AsyncMessages
from railgun.client.facade.subscription import AsyncMessageHandler, AsyncSubscription
from railgun.client.operations import consumers
from railgun.model.consumer_info import ConsumerInfo

if TYPE_CHECKING:
    from railgun.client.facade.aio.calls import AsyncCalls


class AsyncConsumer:
    """One consumer of a stream. Calls raise ConsumerNotFound if there is none of that name, StreamNotFound, NoWorker."""

    def __init__(self, railgun: AsyncCalls, stream: str, name: str) -> None:
        self._railgun = railgun
        self._hub = railgun.connection.consuming
        self.stream = stream
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.stream!r}, {self.name!r})"

    async def info(self) -> ConsumerInfo:
        """Configuration and state: what was delivered, what is unresolved, what is left (CON-27)."""
        return await self._railgun.call(consumers.consumer_info(self.stream, self.name))

    async def fetch(self, count: int, wait: float = 1.0) -> list[AsyncMessage]:
        """Up to ``count`` messages: as soon as all are there, or what came within ``wait`` seconds.

        An empty list means that there was nothing: the stream's owner says so when the wait is over. If the
        owner does not answer, that is an error and never an empty list: NoWorker, ConnectionLost, RequestTimeout. Several workers that
        fetch from one consumer share its messages (PUL-15).
        """
        return await steps.run_async(
            fetch.fetch(self._hub, self.stream, self.name, AsyncMessage, count, wait)
        )

    async def next(self, wait: float = 1.0) -> AsyncMessage | None:
        """The next message, or None when there was none within ``wait`` seconds. Raises as ``fetch`` does."""
        found = await self.fetch(1, wait)
        return found[0] if found else None

    def messages(self) -> AsyncMessages:
        """All messages, for ever: ``async for message in worker.messages()``. Leased ahead, pulled or pushed.

        Leaving the loop gives back what was leased ahead, without counting as a delivery. With ack policy ``none`` what
        is leased counts as done, so there is nothing to give back: ``fetch`` takes exactly what it hands out.
        """
        return AsyncMessages(self._railgun.connection, self.stream, self.name)

    async def subscribe(self, handler: AsyncMessageHandler, *, concurrency: int = 1) -> AsyncSubscription:
        """Call ``handler(message)`` for every message, for up to ``concurrency`` of them at a time; pull and push alike.

        The handler acknowledges. What it raises is logged, and the message comes again after the ack wait. Raises
        ConsumerBound if another subscription has the push consumer and it has no group.

        Async: the handler is a coroutine function, and runs in tasks of this event loop.
        """
        return await AsyncSubscription.open(
            self._railgun.connection, self.stream, self.name, handler, concurrency
        )
