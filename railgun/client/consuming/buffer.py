"""Messages that were leased ahead, until the user takes them.

A :class:`Buffer` holds messages in the order of their leases until they are taken one by one. As long as they wait here
their ack wait is renewed, and what was not taken by the end goes back without counting as a delivery. Taking needs no lock:
``ready.popleft()`` is one step of the interpreter, and a message is either taken or given back, never both.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from railgun.client.consuming.ack_box import BACK, PROGRESS, AckBox, return_runs, runs_of
from railgun.client.consuming.parcels import Parcel
from railgun.client.settlements import Settlement, Wakeups
from railgun.client.steps import Steps, Until
from railgun.errors import RailgunError
from railgun.model.consumer_config import ConsumerConfig
from railgun.protocol.leases import Lease

if TYPE_CHECKING:
    from railgun.client.consuming.delivery import Delivery
    from railgun.client.consuming.hub import ConsumerHub

logger = logging.getLogger(__name__)

_LOOK = 60.0  # seconds that a waiting caller sleeps at most; whatever happens wakes it


class Buffer:
    """Leased messages on their way to one user. Thread-safe; any number of threads and tasks may take from it."""

    def __init__(self, hub: ConsumerHub, make: type[Delivery]) -> None:
        self.lock = threading.Lock()
        self.ready: deque[Any] = deque()  # messages of the class that ``make`` is
        self.closed = False
        self.dry = 0  # how often a caller found nothing to take
        self.hub = hub
        self._make = make
        self._parcels: deque[Parcel] = deque()
        self._error: RailgunError | None = None
        self._arrival: Settlement[bool] | None = None
        self.renewal = 0.0  # seconds between two renewals; 0: nothing is renewed
        self._renewed = time.monotonic()

    def keep_alive(self, config: ConsumerConfig) -> None:
        """Renew what waits here well before the consumer's ack wait is over."""
        self.renewal = renewal_of(config)

    # -- what comes

    def put(self, lease: Lease) -> None:
        """Take the messages of a lease in, behind those of earlier ones."""
        self.hub.receive(lease, self._make, self)

    def accept(self, parcel: Parcel) -> bool:
        with self.lock:
            wanted = not self.closed and self._error is None
            if wanted:
                self._parcels.append(parcel)
        return wanted

    def moved(self, parcel: Parcel) -> None:
        with self.lock:
            if self.closed:
                unseen, parcel.messages = parcel.messages, []
            else:
                unseen = []
                self._advance()
        if unseen:
            give_back(unseen)
        self._wake()

    def _advance(self) -> None:
        """Everything that is read, up to the first parcel that is not read to its end."""
        parcels = self._parcels
        while parcels:
            head = parcels[0]
            if head.messages:
                self.ready.extend(head.messages)
                self.arrived(head.messages)
                head.messages = []
            if not head.done:
                return
            if head.error is not None and self._error is None:
                self._error = head.error
            parcels.popleft()

    def arrived(self, messages: list[Delivery]) -> None:
        """Messages came into ``ready``; the lock is held."""

    def _wake(self) -> None:
        with self.lock:
            if not self.ready and self._error is None and not self.closed:
                return
            arrival, self._arrival = self._arrival, None
        if arrival is not None:
            wakeups = Wakeups()
            arrival.settle(True, None, wakeups)
            wakeups.deliver()

    # -- taking

    def some(self, patience: float = math.inf) -> Steps[bool]:
        """Wait until ``ready`` holds something, or the patience is over; False once this is closed. Raises what ended it."""
        deadline = time.monotonic() + patience
        while True:
            self.refill()
            if self.ready:
                return True
            with self.lock:
                if self.closed:
                    return False
                if self._error is not None:
                    raise self._error.with_traceback(None)
                if self.ready:
                    return True
                self.dry += 1
                arrival = self._arrival
                if arrival is None:
                    arrival = self._arrival = Settlement()
            self.run_dry()
            yield Until(arrival, min(_LOOK, patience))
            if patience < math.inf and time.monotonic() >= deadline:
                return not self.closed

    def take(self, count: int, wait: float) -> Steps[list[Any]]:
        """Up to ``count`` messages; fewer when the time is over."""
        deadline = time.monotonic() + max(wait, 0.0)
        found: list[Any] = []
        while len(found) < count:
            try:
                found.append(self.ready.popleft())
                continue
            except IndexError:
                pass
            self.refill()
            left = deadline - time.monotonic()
            with self.lock:
                if self.ready:
                    continue
                if self.closed or self._error is not None or left <= 0:
                    break
                arrival = self._arrival = self._arrival or Settlement()
            yield Until(arrival, left)
        self.refill()
        if not found and self._error is not None:
            raise self._error.with_traceback(None)
        return found

    @property
    def empty(self) -> bool:
        """Whether nothing is here, nor on its way from the log."""
        with self.lock:
            return not self.ready and not self._parcels

    def refill(self) -> None:
        """Ask for more, if it is time to."""

    def run_dry(self) -> None:
        """Called when a caller begins to wait."""

    # -- keeping alive, giving back

    def tick(self, now: float) -> None:
        if self.renewal and now - self._renewed >= self.renewal:
            self._renewed = now
            with self.lock:
                waiting: list[Delivery] = list(self.ready)
                waiting += [one for parcel in self._parcels for one in parcel.messages]
                unread = [(parcel.box, parcel.unread(PROGRESS)) for parcel in self._parcels]
            for box, runs in (*by_box(waiting, PROGRESS), *unread):
                if box is not None:
                    return_runs(box, runs)

    def close(self) -> None:
        """Take nothing more in; what was not taken out goes back. The second call does nothing."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            unread = [(parcel.box, parcel.unread(BACK)) for parcel in self._parcels]
            unseen = [one for parcel in self._parcels for one in parcel.messages]
            for parcel in self._parcels:
                parcel.messages = []
                parcel.drop()
            self._parcels.clear()
        while True:
            try:
                unseen.append(self.ready.popleft())
            except IndexError:
                break
        give_back(unseen)
        for box, runs in unread:
            if box is not None:
                return_runs(box, runs)
        self.hub.kept_alive.release(self)
        self._wake()

    def orphaned(self) -> None:
        """The user object was garbage-collected without being closed."""
        if not self.closed:
            self.hub.kept_alive.orphan(self)

    def failed(self, error: RailgunError) -> None:
        """Nothing more will come: callers get what is here, and then this error."""
        with self.lock:
            if self._error is None:
                self._error = error
        self._wake()


def renewal_of(config: ConsumerConfig) -> float:
    """Seconds between two renewals of an ack wait, well before it is over; 0: nothing needs to be renewed."""
    waits = list(config.backoff or ())
    if not waits and config.ack_wait is not None:
        waits = [config.ack_wait]
    shortest = min((wait.total_seconds() for wait in waits), default=0.0)
    return 0.0 if config.ack_policy == "none" else max(shortest, 0.0) / 3


def by_box(messages: Iterable[Delivery], kind: str) -> list[tuple[AckBox, Any]]:
    """Runs of one kind for the messages, for each consumer that they are from."""
    of: dict[AckBox, list[Delivery]] = {}
    for message in messages:
        if message._box is not None and not message._resolved:
            of.setdefault(message._box, []).append(message)
    return [(box, runs_of(kind, mine)) for box, mine in of.items()]


def give_back(messages: Iterable[Delivery]) -> None:
    """Give back messages that were not handed out."""
    for box, runs in by_box(messages, BACK):
        return_runs(box, runs)
