"""A delivered message, and what is said about it: the part that sync and async messages have in common.

One is made for every delivery, so it is plain slots. Saying something only notes it and returns; it leaves within a few
milliseconds, together with what is said about other messages. What could not be sent is sent again and logged, and the
message is delivered again if all fails.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from railgun.avro.events import Events
from railgun.client.consuming import fetch
from railgun.client.consuming.ack_box import ACK, NAK, PROGRESS, TERM, AckBox
from railgun.client.consuming.confirm import confirm, hand_over
from railgun.client.consuming.runs import STATUS_RUN, DeliveredRun
from railgun.client.steps import Steps
from railgun.errors import AlreadyAcknowledged, ConfigError, NotPending, RailgunError
from railgun.kafka.record_headers import Record, extras_of
from railgun.model import headers as h
from railgun.model.durations import LONGEST, to_nanos
from railgun.model.messages import MessageViews
from railgun.protocol.commands import AckRun, HandOver, PublishPack
from railgun.protocol.log_record import Extras

Delay = timedelta | float | None


class Delivery(MessageViews):
    """A delivered message, sync or async. One is made for every message of a stream: it is kept small."""

    __slots__ = ("_extras", "_reply", "_resolved", "_run", "payload", "sequence", "subject")

    _reply: str  # of a status; not set on messages

    def __init__(
        self, run: DeliveredRun, sequence: int, subject: str, payload: bytes, extras: Extras | Record
    ) -> None:
        self._run = run
        self._resolved = run.box is None  # a message without a consumer needs no acknowledgement
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
        """Number of deliveries of this message, this one included."""
        return self._run.deliveries

    @property
    def pending(self) -> int:
        """Number of matching messages that were left behind it."""
        return self._run.pending(self.sequence)

    @property
    def headers(self) -> h.Headers:  # type: ignore[override] # nobody writes it
        """The headers that it was published with."""
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
    def _events(self) -> Events | None:
        return self._run.events

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
        """The text of a status; None for an ordinary message."""
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
        if nanos > LONGEST:
            raise ConfigError(f"{delay} is not a valid delay of a nak: give at most 100 years")
        self._resolve(self._said(NAK, nanos))

    def _term(self, reason: str) -> None:
        if not isinstance(reason, str):
            raise ConfigError(f"{reason!r} is not a valid reason: give a text")
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
            return RailgunError("no consumer delivered this message: it needs no acknowledgement")
        return AlreadyAcknowledged(f"message {self.sequence} of {self.stream!r} is already acknowledged")

    def _confirmed(self, timeout: float | None) -> Steps[None]:
        """The ack and its confirmation; what has failed may be tried again (EXO-05)."""
        if self._resolved or self._box is None:
            raise self._refusal()
        self._resolved = True
        try:
            yield from confirm(self._box, self._said(ACK), timeout)
        except BaseException:  # also of a task that was cancelled meanwhile
            self._resolved = False
            raise

    def _hand_over(self, packs: list[PublishPack], size: int, timeout: float | None) -> Steps[None]:
        """The ack together with publishes; what has failed may be tried again, unless another delivery has the message (EXO-11)."""
        if self._resolved or self._box is None:
            raise self._refusal()
        self._resolved = True
        given = HandOver(self.sequence, self.consumer_sequence, self.deliveries, [])
        try:
            yield from hand_over(self._box, given, packs, size, timeout)
        except NotPending:
            raise  # whatever is said about this delivery now would mean nothing
        except BaseException:  # also of a task that was cancelled meanwhile
            self._resolved = False
            raise

    def _next(self, wait: float) -> Steps[Any]:
        """The ack, and a pull of one in the same command."""
        if self._resolved or self._box is None:
            raise self._refusal()
        wait = fetch.bounded(wait)
        self._resolved = True
        try:
            yield from fetch.prepared(self._box.hub, self.stream, self.consumer)
        except RailgunError:
            self._resolved = False  # nothing was sent
            raise
        found = yield from fetch.ack_and_fetch(self._box, self._said(ACK), type(self), wait)
        return found[0] if found else None


def status_message(
    make: type[Delivery], subject: str, status: int, description: str, headers: h.Headers, reply: str
) -> Delivery:
    """A message that carries a status instead of a payload."""
    own = [(h.STATUS, str(status).encode("ascii")), (h.DESCRIPTION, description.encode("utf-8")), *headers]
    message = make(STATUS_RUN, 0, subject, b"", Extras(own, 0))
    message._reply = reply
    return message
