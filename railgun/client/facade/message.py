"""A delivered message and what can be said about it: :class:`Message`, and :class:`AsyncMessage` with awaited answers.

One is made for every delivery, so both are plain slots. Everything but ``ack_sync`` and ``ack_next`` only notes what was
said and returns; it leaves within a few milliseconds, together with what is said about other messages. What could not be
sent is sent again and logged, and the message is delivered again if all fails.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from railgun.client import steps
from railgun.client.consuming import fetch as fetching
from railgun.client.consuming.ack_box import ACK, NAK, PROGRESS, TERM, AckBox
from railgun.client.consuming.runs import STATUS_RUN, DeliveredRun, Record, extras_of
from railgun.errors import AlreadyAcknowledged, ConfigError, RailgunError
from railgun.model import headers as h
from railgun.model.durations import to_nanos
from railgun.model.messages import MessageViews
from railgun.protocol.commands import AckRun
from railgun.protocol.log_record import Extras

Delay = timedelta | float | None


class Delivery(MessageViews):
    """What a delivered message holds, sync or async. Every message of a stream becomes one of these: it is kept small."""

    __slots__ = ("_extras", "_reply", "_resolved", "_run", "payload", "sequence", "subject")

    _reply: str  # of a status; not set on messages

    def __init__(
        self, run: DeliveredRun, sequence: int, subject: str, payload: bytes, extras: Extras | Record
    ) -> None:
        self._run = run
        self._resolved = run.box is None  # what no consumer delivered needs no answer
        self._extras = extras
        self.sequence = sequence
        self.subject = subject
        self.payload = payload

    def __repr__(self) -> str:
        where = f"{self.stream!r} {self.sequence}" if self.stream else "without a consumer"
        return f"<{type(self).__name__} {self.subject!r} of {where}, delivery {self.deliveries}>"

    # -- what it is

    @property
    def consumer_sequence(self) -> int:
        """The number of this delivery by its consumer."""
        return self.sequence + self._run.shift

    @property
    def deliveries(self) -> int:
        """How often it was delivered by now."""
        return self._run.deliveries

    @property
    def pending(self) -> int:
        """How many matching messages were left behind it."""
        return self._run.pending(self.sequence)

    @property
    def headers(self) -> h.Headers:  # type: ignore[override] # nobody writes it
        """What was published with it."""
        return self._rest().headers

    @property
    def time_ns(self) -> int:  # type: ignore[override] # nobody writes it
        """When the owner received it, in nanoseconds since 1970."""
        return self._rest().time_ns

    def _rest(self) -> Extras:
        extras = self._extras
        if not isinstance(extras, Extras):
            extras = self._extras = extras_of(extras)
        return extras

    @property
    def _box(self) -> AckBox | None:
        return self._run.box

    @property
    def stream(self) -> str:
        """The stream that it is from; empty for a message that no consumer delivered."""
        return self._run.box.stream if self._run.box else ""

    @property
    def consumer(self) -> str:
        """The consumer that delivered it; empty if none did."""
        return self._run.box.consumer if self._run.box else ""

    @property
    def reply(self) -> str:
        """The address that acknowledgements go to, with the numbers of this delivery (PUL-13)."""
        if self._box is None:
            return getattr(self, "_reply", "")
        return (
            f"$JS.ACK.{self.stream}.{self.consumer}.{self.deliveries}.{self.sequence}.{self.consumer_sequence}."
            f"{self.time_ns}.{self.pending}"
        )

    @property
    def status(self) -> int | None:
        """The number of a status (100: heartbeat or flow control); None for an ordinary message."""
        return int(self.header(h.STATUS) or 0) or None if self.sequence == 0 else None

    @property
    def description(self) -> str | None:
        """What a status says."""
        return self.header(h.DESCRIPTION) if self.sequence == 0 else None

    @property
    def acknowledged(self) -> bool:
        """Whether nothing more can be said about it: done, not now, or never again."""
        return self._resolved

    # -- what is said about it

    def _ack(self) -> None:
        """Done: do not deliver it again. At least once: an ack that is lost with this process is a second delivery (EXO-06).

        Raises AlreadyAcknowledged, ConnectionClosed.
        """
        if self._resolved:
            raise self._refusal()
        self._resolved = True
        box: AckBox = self._run.box  # type: ignore[assignment] # what has no box is resolved from the beginning
        box.entries.append(self)
        if not box.queued:
            try:
                box.hub.wake(box)
            except RailgunError:
                self._resolved = False
                raise

    def _nak(self, delay: Delay) -> None:
        nanos = 0 if delay is None else to_nanos(delay)
        if nanos < 0:
            raise ConfigError("the delay of a nak cannot be negative")
        self._resolve(self._said(NAK, nanos))

    def _term(self, reason: str) -> None:
        self._resolve(self._said(TERM, 0, reason))

    def _in_progress(self) -> None:
        if self._resolved or self._box is None:
            raise self._refusal()
        self._box.add(self._said(PROGRESS))

    def _resolve(self, run: AckRun) -> None:
        if self._resolved or self._box is None:
            raise self._refusal()
        self._box.add(run)
        self._resolved = True

    def _said(self, kind: str, delay: int = 0, reason: str = "") -> AckRun:
        return AckRun(kind, self.sequence, 1, self.consumer_sequence, self.deliveries, delay, reason)

    def _refusal(self) -> RailgunError:
        if self._box is None:
            return RailgunError("no consumer delivered this message: there is nobody to acknowledge it to")
        return AlreadyAcknowledged(f"message {self.sequence} of {self.stream!r} is already acknowledged")

    def _confirmed(self, timeout: float | None) -> steps.Steps[None]:
        """The ack and its confirmation; what has failed may be tried again (EXO-05)."""
        if self._resolved or self._box is None:
            raise self._refusal()
        self._resolved = True
        try:
            yield from fetching.confirm(self._box, self._said(ACK), timeout)
        except RailgunError:
            self._resolved = False
            raise

    def _next(self, wait: float) -> steps.Steps[Any]:
        """The ack, and a pull of one in the same command."""
        if self._resolved or self._box is None:
            raise self._refusal()
        self._resolved = True
        try:
            yield from fetching.prepared(self._box.hub, self.stream, self.consumer)
        except RailgunError:
            self._resolved = False  # nothing was sent
            raise
        found = yield from fetching.ack_and_fetch(self._box, self._said(ACK), type(self), wait)
        return found[0] if found else None


class Message(Delivery):
    """A message that a consumer delivered. Say what became of it once; a second time raises AlreadyAcknowledged (ACK-19).

    ``sequence`` is its place in the stream, ``consumer_sequence`` the number of this delivery. What is not acknowledged
    within the consumer's ack wait is delivered again, to whoever asks.
    """

    __slots__ = ()

    ack = Delivery._ack  # not a call to it: every message is acknowledged

    def ack_sync(self, timeout: float | None = None) -> None:
        """Done, and wait until that is durable: it is never delivered again (EXO-03).

        Raises RequestTimeout when no confirmation came; the outcome is unknown then, and calling it again is safe (EXO-05).
        Raises ConsumerNotFound when the consumer is gone.
        """
        steps.run(self._confirmed(timeout))

    def nak(self, delay: Delay = None) -> None:
        """Not now: deliver it again, at once or after the delay (seconds or timedelta); only this message waits (ACK-07)."""
        self._nak(delay)

    def term(self, reason: str = "") -> None:
        """Never again, although it was not done. With a dead-letter stream a copy goes there, with the reason (ACK-11)."""
        self._term(reason)

    def in_progress(self) -> None:
        """Still at it: the ack wait begins anew. May be said any number of times (ACK-08)."""
        self._in_progress()

    def ack_next(self, wait: float = 1.0) -> Message | None:
        """Done, and the next one, please: it, or None when none came within ``wait`` seconds. Pull only (ACK-09)."""
        found: Message | None = steps.run(self._next(wait))
        return found


class AsyncMessage(Delivery):
    """As :class:`Message`; what is said about it is awaited."""

    __slots__ = ()

    async def ack(self) -> None:
        """See :meth:`Message.ack`."""
        self._ack()

    async def ack_sync(self, timeout: float | None = None) -> None:
        """See :meth:`Message.ack_sync`."""
        await steps.run_async(self._confirmed(timeout))

    async def nak(self, delay: Delay = None) -> None:
        """See :meth:`Message.nak`."""
        self._nak(delay)

    async def term(self, reason: str = "") -> None:
        """See :meth:`Message.term`."""
        self._term(reason)

    async def in_progress(self) -> None:
        """See :meth:`Message.in_progress`."""
        self._in_progress()

    async def ack_next(self, wait: float = 1.0) -> AsyncMessage | None:
        """See :meth:`Message.ack_next`."""
        found: AsyncMessage | None = await steps.run_async(self._next(wait))
        return found


def status_message(
    make: type[Delivery], subject: str, status: int, description: str, headers: h.Headers, reply: str
) -> Delivery:
    """A message that carries a status instead of a payload."""
    own = [(h.STATUS, str(status).encode("ascii")), (h.DESCRIPTION, description.encode("utf-8")), *headers]
    message = make(STATUS_RUN, 0, subject, b"", Extras(own, 0))
    message._reply = reply
    return message
