"""Commands to consumers: acknowledgements, pulls, and pulls that are given up.

An acknowledgement that the broker did not take is sent again, once a second; what it still has not taken when the connection
is closed is counted and logged, never dropped in silence.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from railgun.client.acks import Address, messages_in
from railgun.client.transport import CONSUME, Delivered
from railgun.errors import RailgunError
from railgun.model.consumer_wire import AckRun, ConsumerCommand, Pull

if TYPE_CHECKING:
    from railgun.client.connection import Connection

logger = logging.getLogger(__name__)

_PAUSE = 1.0  # seconds before what the broker did not take is sent again


class Teller:
    """Sends commands of one connection. Thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._refused: list[tuple[Address, list[AckRun]]] = []  # what the broker did not take
        self._repeated = 0.0  # when that was last sent again
        self._undelivered = 0  # messages whose acknowledgement the broker has not confirmed

    def tell(
        self,
        address: Address,
        acks: Sequence[AckRun] = (),
        pull: Pull | None = None,
        *,
        cancelled: Sequence[int] = (),
        request: int = 0,
        delivered: Delivered | None = None,
    ) -> None:
        """Send one command. Raises what keeps it from being sent; its acknowledgements are sent again all the same."""
        runs = list(acks)
        count = messages_in(runs)

        def report(error: RailgunError | None) -> None:
            self._ended(address, runs, count, error)
            if delivered is not None:
                delivered(error)

        command = ConsumerCommand(
            address.stream,
            address.incarnation,
            address.consumer,
            address.number,
            self._connection.client,
            request,
            runs,
            pull,
            list(cancelled),
        )
        key = address.stream.encode("utf-8")
        with self._lock:
            self._undelivered += count
        try:
            self._connection.transport.send(address.partition, key, CONSUME, command.encode(), report)
        except RailgunError as error:
            self._ended(address, runs, count, error)
            raise

    def tell_later(
        self,
        address: Address,
        acks: Sequence[AckRun] = (),
        pull: Pull | None = None,
        cancelled: Sequence[int] = (),
    ) -> None:
        """As :meth:`tell`, for callers with nobody to raise to: what goes wrong is logged."""
        try:
            self.tell(address, acks, pull, cancelled=cancelled)
        except RailgunError as error:
            logger.warning("consumer %s/%s could not be told: %s", address.stream, address.consumer, error)

    def _ended(self, address: Address, runs: list[AckRun], count: int, error: RailgunError | None) -> None:
        if not runs:
            return
        with self._lock:
            self._undelivered -= count
            if error is not None:
                self._refused.append((address, runs))
        if error is not None:
            logger.warning(
                "acknowledgements of %d messages of %s/%s did not reach the broker and are sent again: %s",
                count,
                address.stream,
                address.consumer,
                error,
            )

    def repeat(self, now: float) -> None:
        """Send again what the broker did not take, if the last time is long enough ago."""
        with self._lock:
            if not self._refused or now - self._repeated < _PAUSE:
                return
            self._repeated = now
            refused, self._refused = self._refused, []
        for address, runs in refused:
            self.tell_later(address, runs)

    @property
    def untold(self) -> int:
        """How many messages have acknowledgements that the broker has not taken."""
        with self._lock:
            return self._undelivered + sum(messages_in(runs) for _, runs in self._refused)

    def abandon(self) -> None:
        """In a forked child: the lock may be held by a thread that does not exist here."""
        self._lock = threading.Lock()
