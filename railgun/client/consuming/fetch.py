"""Fetching a batch, as steps that the sync and the async driver run.

A pull is given up when its caller goes away (an exception, a cancelled task): the shard is told, and messages that came
meanwhile go back without counting as a delivery.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from railgun.client.consuming.ack_box import BACK, AckBox, Address, return_runs, runs_of
from railgun.client.consuming.pulls import OpenPull
from railgun.client.settlements import Settlement, Wakeups
from railgun.client.steps import LONGEST_WAIT, Blocking, Steps, Until
from railgun.errors import (
    ApiError,
    ConfigError,
    ConsumerNotFound,
    Overloaded,
    RailgunError,
    RequestTimeout,
    StreamNotFound,
)
from railgun.model.durations import NANOS
from railgun.protocol import statuses
from railgun.protocol.commands import AckRun, Pull
from railgun.protocol.leases import Lease

if TYPE_CHECKING:
    from railgun.client.consuming.delivery import Delivery
    from railgun.client.consuming.hub import ConsumerHub
    from railgun.client.consuming.parcels import Parcel

_SHORTEST = (
    0.001  # a pull that should not wait; not ``no_wait``, which waits for ever at max_ack_pending (RDL-12)
)


class WaitingPull(Settlement[list[Any]]):
    """One pull whose caller waits for all of its answer."""

    __slots__ = ("_hub", "_make", "_over", "batch", "deadline", "lock", "parts", "pull")

    def __init__(
        self, hub: ConsumerHub, make: type[Delivery], address: Address, pull: Pull, patience: float
    ) -> None:
        super().__init__()
        self._hub = hub
        self._make = make
        self._over = False  # nothing more comes, or the caller does not wait any longer
        self.lock = threading.Lock()
        self.batch = pull.batch
        self.parts: list[Parcel | Lease] = []  # parcels of messages, and leases that only carry a status
        self.pull = OpenPull(address, self, pull)
        self.deadline = time.monotonic() + patience

    # -- what comes

    def leased(self, pull: OpenPull, lease: Lease) -> None:
        if lease.sequences:
            self._hub.receive(lease, self._make, self)
        with self.lock:
            if not self._over:
                if lease.status:
                    self.parts.append(lease)
                self._over = lease.done
        self._look()

    def accept(self, parcel: Parcel) -> bool:
        with self.lock:
            if not self._over:
                self.parts.append(parcel)
            return not self._over

    def moved(self, parcel: Parcel) -> None:
        self._look()

    def _look(self) -> None:
        with self.lock:
            if not self._over or not all(isinstance(part, Lease) or part.done for part in self.parts):
                return
        self._settle(None)

    def _settle(self, error: RailgunError | None) -> None:
        wakeups = Wakeups()
        self.settle([], error, wakeups)
        wakeups.deliver()

    # -- how it ends

    def sent(self, error: RailgunError | None) -> None:
        """Note whether the broker has the pull."""
        self.delivered = error is None
        if error is not None:
            self.failed(error)

    def failed(self, error: RailgunError) -> None:
        """Nothing more will come: the caller gets what is there, or this error."""
        self.give_up()
        self._settle(error)

    def overdue(self, seconds: float) -> RequestTimeout:
        """The error of a pull that was not answered at all: it is unknown whether there are messages."""
        who = "the owner of the stream" if self.delivered else "the broker"
        return RequestTimeout(
            f"{who} has not answered the fetch within {seconds:g} s: there may be messages, fetch again"
        )

    def give_up(self) -> None:
        """The caller does not wait any longer."""
        self._hub.pulls.cancel(self.pull)
        back: list[tuple[AckBox, list[AckRun]]] = []
        with self.lock:
            self._over = True
            for part in self.parts:
                if not isinstance(part, Lease) and not part.done and part.box is not None:
                    back.append((part.box, part.unread(BACK)))
                    part.drop()
        for box, runs in back:
            return_runs(box, runs)

    def messages(self) -> list[Delivery]:
        """The messages that came, in order, for the caller to keep; it owns them from now on."""
        with self.lock:
            found = [one for part in self.parts if not isinstance(part, Lease) for one in part.messages]
            for part in self.parts:
                if not isinstance(part, Lease):
                    part.messages = []
        return found

    def status(self) -> Lease | None:
        """The status that ended it, if that was not its last message."""
        last = self.parts[-1] if self.parts else None
        return last if isinstance(last, Lease) else None

    def reading_error(self) -> RailgunError | None:
        """The error of reading leased messages from the log, if there was one."""
        return next((part.error for part in self.parts if not isinstance(part, Lease) and part.error), None)


# -- steps


def prepared(hub: ConsumerHub, stream: str, consumer: str) -> Steps[Address]:
    """The address of a consumer whose shard is listened to. Raises StreamNotFound, NoWorker, ConnectionLost."""
    link = hub.link
    link.check()
    if link.stream(stream) is None:
        yield Blocking(lambda: link.sync_registry(link.timeout))
        if link.stream(stream) is None:
            raise StreamNotFound(404, 10059, "stream not found", stream=stream)
    address = hub.address(stream, consumer)
    shards = (address.partition,)
    if not link.prepared(shards):
        yield Blocking(lambda: link.prepare(shards, link.timeout))
    hub.start()
    return address


def fetch(
    hub: ConsumerHub, stream: str, consumer: str, make: type[Delivery], batch: int, wait: float
) -> Steps[list[Any]]:
    """Up to ``batch`` messages; fewer, or none, when the owner says that ``wait`` seconds are over.

    Raises NoWorker, ConnectionLost or RequestTimeout if the owner does not answer and nothing came.
    """
    if batch < 1:
        raise ConfigError("the count of a fetch must be at least 1")
    wait = bounded(wait)
    address = yield from prepared(hub, stream, consumer)
    return (yield from _pulled(hub, address, hub.latest_box(stream, consumer), (), make, batch, wait))


def bounded(wait: object) -> float:
    """The wait of a fetch, in seconds, as far as anybody can wait. Raises ConfigError for what is not a time."""
    if not isinstance(wait, int | float) or wait != wait:
        raise ConfigError(f"{wait!r:.100} is not a valid wait: give seconds")
    return min(max(wait, 0.0), LONGEST_WAIT)


def ack_and_fetch(box: AckBox, run: AckRun, make: type[Delivery], wait: float) -> Steps[list[Any]]:
    """Acknowledge one message, and get the next, in one command (ACK-09); its consumer is :func:`prepared`, ``wait`` :func:`bounded`."""
    return (yield from _pulled(box.hub, box.address, box, (run,), make, 1, wait))


def _pulled(
    hub: ConsumerHub,
    address: Address,
    box: AckBox | None,
    acks: Sequence[AckRun],
    make: type[Delivery],
    batch: int,
    wait: float,
) -> Steps[list[Any]]:
    """A pull, with what the box holds and ``acks`` in the same command."""
    patience = wait + hub.link.timeout
    number = hub.link.requests.numbers.take()
    expires = round(max(wait, _SHORTEST) * NANOS)
    pull = Pull(number, batch, 0, expires, patience=round(patience * NANOS))
    waiting = WaitingPull(hub, make, address, pull, patience)
    try:
        hub.pulls.open(waiting.pull, box, waiting.sent, acks)
        if not waiting.done and not (yield Until(waiting, patience)):
            waiting.failed(waiting.overdue(patience))
        found = waiting.messages()
        surplus = found[batch:]  # asked for twice around a change of the shard's owner
        if surplus and surplus[0]._box is not None:
            return_runs(surplus[0]._box, runs_of(BACK, surplus))
        if not found:
            _complain(waiting, address)
        return found[:batch]
    finally:
        waiting.give_up()
        rest = waiting.messages()  # the caller is gone
        if rest and rest[0]._box is not None:
            return_runs(rest[0]._box, runs_of(BACK, rest))


def _complain(waiting: WaitingPull, address: Address) -> None:
    """Raises the reason why a pull brought nothing, unless there was nothing to bring."""
    if waiting.error is not None:
        raise waiting.error.with_traceback(None)
    error = waiting.reading_error()
    if error is not None:
        raise error.with_traceback(None)
    status = waiting.status()
    if status is not None:
        refusal = pull_refused(status, address)
        if refusal is not None:
            raise refusal


def pull_refused(status: Lease, address: Address) -> ApiError | None:
    """The error that a status of a pull stands for; None for an ordinary end."""
    if not statuses.refuses_pull(status.status, status.description):
        return None
    if status.description == statuses.CONSUMER_DELETED.description:
        return ConsumerNotFound(404, 10014, "consumer not found", stream=address.stream)
    if status.description == statuses.EXCEEDED_MAX_WAITING.description:
        return Overloaded(status.status, 0, status.description, stream=address.stream)
    return ApiError(status.status, 0, status.description, stream=address.stream)
