"""The handle of a counter: a subject of a stream that counts. It holds no state of the counter and is free to make."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from railgun.client.facade.aio.stream import AsyncStream
from railgun.client.operations import counters, streams
from railgun.errors import ConsumerNotFound, MessageNotFound, RequestTimeout
from railgun.model.counters import Increment

if TYPE_CHECKING:
    from railgun.client.facade.aio.calls import AsyncCalls

_AT_ONCE = 500  # increments that are read together


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
        found = await self._railgun.run_steps(
            counters.newest(connection, stream, subject, connection.timeout)
        )
        return 0 if found is None else found.total

    async def history(self) -> list[Increment]:
        """The increments that are still stored, oldest first, up to the newest at the time of the call.

        A consumer reads them, which is gone afterwards. Raises RequestTimeout if nothing more comes.
        """
        connection = self._railgun.connection
        stream, subject = await self._place()
        newest = await self._railgun.run_steps(
            counters.newest(connection, stream, subject, connection.timeout)
        )
        if newest is None:
            return []
        increments: list[Increment] = []
        of = AsyncStream(self._railgun, stream)
        following, deadline = 1, time.monotonic() + connection.timeout
        while True:
            found = await self._read(of, subject, following, newest.sequence)
            increments += found
            if found:
                following, deadline = found[-1].sequence + 1, time.monotonic() + connection.timeout
            if following > newest.sequence or not await self._more(
                stream, subject, following, newest.sequence
            ):
                return increments  # what is missing was removed meanwhile
            if time.monotonic() > deadline:
                raise RequestTimeout(
                    f"the increments from {following} on did not come within {connection.timeout:g} s"
                )

    async def _read(self, of: AsyncStream, subject: str, start: int, end: int) -> list[Increment]:
        """Increments from ``start`` to ``end``, in order and without a gap; the last ones may be missing."""
        increments: list[Increment] = []
        reader = await of.create_consumer(
            ack_policy="none",
            filter_subject=subject,
            mem_storage=True,
            deliver_policy="by_start_sequence",
            opt_start_seq=start,
        )
        try:
            while not increments or increments[-1].sequence < end:
                messages = await reader.fetch(_AT_ONCE, 0.05)
                numbers = [one.consumer_sequence for one in messages]
                first = len(increments) + 1
                if not messages or numbers != list(range(first, first + len(numbers))):
                    break
                increments += [counters.increment_of(one, of.name) for one in messages]
        except ConsumerNotFound:
            pass  # nothing was heard of it for too long: the next one goes on from here
        finally:
            with suppress(ConsumerNotFound):
                await of.delete_consumer(reader.name)
        return [one for one in increments if one.sequence <= end]

    async def _more(self, stream: str, subject: str, start: int, end: int) -> bool:
        """Whether the subject has a message from ``start`` to ``end``."""
        asked = streams.get_message(stream, seq=start, next_by_subj=subject)
        try:
            return (await self._railgun.call(asked)).sequence <= end
        except MessageNotFound:
            return False

    async def _place(self) -> tuple[str, str]:
        connection = self._railgun.connection
        return await self._railgun.run_steps(counters.place_of(connection, self.subject, connection.timeout))
