"""The handle of a counter: a subject of a stream that counts. It holds no state of the counter and is free to make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railgun.client.facade.aio.stream import AsyncStream
from railgun.client.operations import counters
from railgun.model.counters import Increment

if TYPE_CHECKING:
    from railgun.client.facade.aio.calls import AsyncCalls


class AsyncCounter:
    """One counter. Calls raise NoStreamResponse if no stream captures the subject, CounterRefused if it cannot count there."""

    def __init__(self, railgun: AsyncCalls, subject: str) -> None:
        self._railgun = railgun
        self.subject = subject

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.subject!r})"

    async def add(self, n: int = 1, *, msg_id: str | None = None, timeout: float | None = None) -> int:
        """Add ``n``, which may be negative, and return the new total, durably (CTR-05).

        ``msg_id``: a second add with it, within the stream's window, counts nothing and returns the total as it is now.
        Raises ConfigError if ``n`` is not an int of 64 bits, CounterRefused if the total would not be one.
        """
        ack = await self._railgun.publish_message(
            self.subject, b"", msg_id or "", counters.increment_headers(n), timeout
        )
        return await self.value() if ack.value is None else ack.value

    async def value(self) -> int:
        """The total; 0 where nothing was counted, or everything was purged."""
        connection = self._railgun.connection
        stream, subject = await self._place()
        found = await self._railgun.run_steps(counters.newest(connection, stream, subject))
        return 0 if found is None else found.total

    async def history(self) -> list[Increment]:
        """The increments that are still stored, oldest first, up to the newest at the time of the call."""
        stream, subject = await self._place()
        found = AsyncStream(self._railgun, stream).read(subject)
        return [counters.increment_of(message, stream) async for message in found]

    async def _place(self) -> tuple[str, str]:
        connection = self._railgun.connection
        return await self._railgun.run_steps(counters.place_of(connection, self.subject, connection.timeout))
