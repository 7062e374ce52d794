"""Commands to consumers: acknowledgements, pulls, and pulls that are given up.

An acknowledgement that the broker did not take goes back into its box and is sent again, after a second or with what is said
next about the consumer; what the broker still has not taken when the connection is closed is counted and logged, never dropped in
silence.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from railgun.client.consuming.ack_box import AckBox, Address, messages_in
from railgun.client.consuming.handing import send_together
from railgun.client.link import Link
from railgun.client.transport import Delivered
from railgun.errors import RailgunError
from railgun.protocol.commands import CONSUME, AckRun, ConsumerCommand, HandOver, Pull

logger = logging.getLogger(__name__)

_PAUSE = 1.0  # seconds before what the broker did not take is sent again


class CommandSender:
    """Sends commands of one connection. Thread-safe."""

    def __init__(self, link: Link, flush: Callable[[AckBox], None]) -> None:
        self._link = link
        self._flush = flush
        self._lock = threading.Lock()
        self._refused: set[AckBox] = set()  # with something that the broker did not take
        self._repeated = 0.0  # when that was last sent again
        self._undelivered = 0  # messages whose acknowledgement the broker has not confirmed

    def send(
        self,
        address: Address,
        pull: Pull | None = None,
        *,
        box: AckBox | None = None,
        acks: Sequence[AckRun] = (),
        once: Sequence[AckRun] = (),
        hand_over: HandOver | None = None,
        cancelled: Sequence[int] = (),
        request: int = 0,
        delivered: Delivered | None = None,
    ) -> None:
        """Send one command. Raises what keeps it from being sent.

        ``acks`` were taken out of ``box``, whose ``sending`` the caller holds; they are sent again if the broker does not take
        them. The runs of ``once`` and the hand-over are not sent again: their caller waits for the outcome and decides.
        """
        if box is not None and box.handed:
            send_together(box, self._link)  # which were begun before
        runs = list(acks)
        count = messages_in(runs)
        number = 0 if box is None else box.begin()

        def report(error: RailgunError | None) -> None:
            if box is not None and runs:
                self._ended(box, number, runs, count, error)
            if delivered is not None:
                delivered(error)

        command = ConsumerCommand(
            address.stream,
            address.incarnation,
            address.consumer,
            address.number,
            self._link.client,
            request,
            [*runs, *once],
            pull,
            list(cancelled),
            hand_over,
        )
        key = address.stream.encode("utf-8")
        with self._lock:
            self._undelivered += count
        try:
            self._link.send(address.partition, key, CONSUME, command.encode(), report)
        except RailgunError as error:
            if box is not None and runs:
                self._ended(box, number, runs, count, error)
            raise

    def send_handed(self, box: AckBox) -> None:
        """Send the hand-overs that wait in the box."""
        with box.sending:
            send_together(box, self._link)

    def send_or_log(
        self,
        address: Address,
        pull: Pull | None = None,
        *,
        box: AckBox | None = None,
        acks: Sequence[AckRun] = (),
        cancelled: Sequence[int] = (),
    ) -> None:
        """As :meth:`send`, for callers that cannot raise: a failure is logged."""
        try:
            self.send(address, pull, box=box, acks=acks, cancelled=cancelled)
        except RailgunError as error:
            logger.warning(
                "a command to consumer %s/%s could not be sent: %s", address.stream, address.consumer, error
            )

    def _ended(
        self, box: AckBox, number: int, runs: list[AckRun], count: int, error: RailgunError | None
    ) -> None:
        with self._lock:
            self._undelivered -= count
            if error is not None:
                box.give_back(number, runs)
                self._refused.add(box)
        if error is not None:
            logger.warning(
                "acknowledgements of %d messages of %s/%s did not reach the broker and are sent again: %s",
                count,
                box.stream,
                box.consumer,
                error,
            )

    def repeat(self, now: float) -> None:
        """Send again what the broker did not take, if the last time is long enough ago."""
        with self._lock:
            if not self._refused or now - self._repeated < _PAUSE:
                return
            self._repeated = now
            refused, self._refused = self._refused, set()
        for box in refused:
            self._flush(box)

    @property
    def unsent(self) -> int:
        """Number of messages whose acknowledgements the broker has not taken."""
        with self._lock:
            return self._undelivered + sum(box.waiting for box in self._refused)

    def abandon(self) -> None:
        """In a forked child: the lock may be held by a thread that does not exist here."""
        self._lock = threading.Lock()
