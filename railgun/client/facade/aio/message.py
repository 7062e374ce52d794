"""A delivered message as programs see it.

Everything but ``ack_sync``, ``ack_next`` and a transaction only notes what was said and returns; it leaves within a few milliseconds,
together with what is said about other messages.
"""

from __future__ import annotations

from railgun.client import steps
from railgun.client.consuming.delivery import Delay
from railgun.client.facade.acks import AsyncAcks
from railgun.client.facade.aio.transaction import AsyncTransaction
from railgun.client.operations.handed_messages import HandedMessages


class AsyncMessage(AsyncAcks):
    """A message that a consumer delivered. Say what became of it once; a second time raises AlreadyAcknowledged (ACK-19).

    ``sequence`` is its place in the stream, ``consumer_sequence`` the number of this delivery. What is not acknowledged
    within the consumer's ack wait is delivered again, to any client that asks.
    """

    __slots__ = ()

    async def ack_sync(self, timeout: float | None = None) -> None:
        """Done, and wait until that is durable: it is never delivered again (EXO-03).

        Raises RequestTimeout when no confirmation came; the outcome is unknown then, and calling it again is safe (EXO-05).
        Raises ConsumerNotFound when the consumer is gone.
        """
        await steps.run_async(self._confirmed(timeout))

    def transaction(self, *, timeout: float | None = None) -> AsyncTransaction:
        """Done, together with publishes to any streams: all of it happens, exactly once, or nothing (EXO-08).

        ``async with message.transaction() as t: t.publish("done.resize", b"…")``. What a stream refuses afterwards, by its limits or a
        condition, becomes a dead letter (EXO-10).
        """
        return AsyncTransaction(HandedMessages(self, timeout))

    async def nak(self, delay: Delay = None) -> None:
        """Not now: deliver it again, at once or after the delay (seconds or timedelta); only this message waits (ACK-07)."""
        self._nak(delay)

    async def term(self, reason: str = "") -> None:
        """Never again, although it was not done. With a dead-letter stream a copy goes there, with the reason (ACK-11)."""
        self._term(reason)

    async def in_progress(self) -> None:
        """Still at it: the ack wait begins anew. May be said any number of times (ACK-08)."""
        self._in_progress()

    async def ack_next(self, wait: float = 1.0) -> AsyncMessage | None:
        """Done, and the next one, please: it, or None when none came within ``wait`` seconds. Pull only (ACK-09)."""
        found: AsyncMessage | None = await steps.run_async(self._next(wait))
        return found
