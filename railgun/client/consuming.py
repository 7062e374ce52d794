"""What a client says to its consumers: acknowledgements, pulls, presence; and the one thread that says it.

The thread empties boxes of acknowledgements a few milliseconds after the first one was put there, keeps alive what was
leased and not yet handed out, and announces this client to the shards where it waits or listens. If it fails, so does
the connection. Acknowledgements that the broker did not take are sent again; :meth:`Consuming.close` sends everything, and
says in the log how many could not be sent.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from railgun.client.acks import AckBox, Address, messages_in
from railgun.client.feeds import Feed
from railgun.client.fetching import WaitingPull
from railgun.client.futures import Settlement
from railgun.client.leases import LeaseBook
from railgun.client.listening import Listeners
from railgun.client.transport import CONSUME, PRESENCE, Delivered
from railgun.errors import ConnectionClosed, RailgunError
from railgun.model.partitioning import partition_of
from railgun.model.wire import AckRun, ConsumerCommand, Lease, Presence, Pull

if TYPE_CHECKING:
    from railgun.client.connection import Connection

logger = logging.getLogger(__name__)

COLLECT = 0.003  # seconds that acknowledgements wait for company
PRESENCE_SECONDS = 2.0
_TICK = 0.1
_PAUSE = 1.0  # seconds before what the broker did not take is sent again
_RUNS = 4_000  # in one command


class Held(Protocol):
    """Something that holds leased messages which nobody has seen yet."""

    def tick(self, now: float) -> None:
        """Keep them alive. Called several times a second."""

    def close(self) -> None:
        """Give them back."""

    def failed(self, error: RailgunError) -> None:
        """The connection is of no more use."""


class Drains(Protocol):
    """Something whose handlers may still run when the connection is closed."""

    def ended(self, timeout: float) -> bool:
        """Wait until none of them runs; whether that is so."""


class Consuming:
    """The consumers' side of one connection. Thread-safe."""

    def __init__(self, connection: Connection, feed: Feed) -> None:
        self.connection = connection
        self.feed = feed
        self.book = LeaseBook(self)
        self.listeners = Listeners(self)
        self._boxes: weakref.WeakValueDictionary[tuple[str, int, str, int], AckBox]
        self._boxes = weakref.WeakValueDictionary()
        self._latest: weakref.WeakValueDictionary[tuple[str, str], AckBox] = weakref.WeakValueDictionary()
        self._wanted = threading.Condition()
        self._queue: deque[AckBox] = deque()
        self._held: set[Held] = set()
        self._deferred: deque[Callable[[], None]] = deque()
        self._refused: list[tuple[Address, list[AckRun]]] = []  # what the broker did not take
        self._resent = 0.0  # when that was last sent again
        self._orphans: deque[Held] = deque()
        self._running: set[Drains] = set()
        self._undelivered = 0  # messages whose acknowledgement the broker has not confirmed
        self._present: set[int] = set()  # shards that know of this client
        self._announced = 0.0
        self._closed: RailgunError | None = None
        self._thread: threading.Thread | None = None

    @property
    def closed(self) -> bool:
        """Whether nothing can be said any more."""
        return self._closed is not None

    # -- addresses

    def address(self, stream: str, consumer: str) -> Address:
        """The consumer of that name, whichever lives."""
        known = self.connection.registry_view.stream(stream)
        partitions = self.connection.topology.partitions
        return Address(
            stream, 0, consumer, 0, partition_of(stream, partitions) if known is None else known.partition
        )

    def box_of(self, lease: Lease) -> AckBox | None:
        """Where acknowledgements of the lease's messages go; None for messages that no consumer delivers."""
        if not lease.consumer:
            return None
        key = (lease.stream, lease.incarnation, lease.consumer, lease.number)
        with self._wanted:
            box = self._boxes.get(key)
            if box is None:
                partition = self.address(lease.stream, lease.consumer).partition
                box = self._boxes[key] = AckBox(self, Address(*key, partition))
                self._latest[lease.stream, lease.consumer] = box
            return box

    def latest_box(self, stream: str, consumer: str) -> AckBox | None:
        """The box of the consumer that was last heard of under this name, if anybody uses it."""
        with self._wanted:
            return self._latest.get((stream, consumer))

    # -- what shards say

    def take(self, leases: Iterable[Lease]) -> None:
        """Leases that came together, in their order. Nothing is sent before all of them are where they belong."""
        for lease in leases:
            if lease.pull:
                self.book.take(lease)
            else:
                self.listeners.take(lease)
        while self._deferred:
            try:
                call = self._deferred.popleft()
            except IndexError:
                return
            call()

    def later(self, call: Callable[[], None]) -> None:
        """Do it once the leases that came together are all where they belong. Only while leases are taken."""
        self._deferred.append(call)

    # -- telling

    def wake(self, box: AckBox) -> None:
        """The box holds something: empty it soon. Raises ConnectionClosed if nobody will."""
        with self._wanted:
            if self._closed is not None:
                raise self._closed.with_traceback(None)
            if box.queued:
                return
            box.queued = True
            self._queue.append(box)
            self._started()
            self._wanted.notify()

    def flush(self, box: AckBox) -> None:
        """Send what the box holds."""
        runs = box.take()
        for start in range(0, len(runs), _RUNS):
            self.tell_later(box.address, runs[start : start + _RUNS])

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
        """Send one command. Acks that the broker does not take are sent again. Raises what keeps it from being sent."""
        runs = list(acks)
        count = messages_in(runs)

        def report(error: RailgunError | None) -> None:
            with self._wanted:
                self._undelivered -= count
            if error is not None and runs:
                self._again(address, runs, error)
            if delivered is not None:
                delivered(error)

        with self._wanted:
            self._undelivered += count
        command = ConsumerCommand(
            address.stream,
            address.incarnation,
            address.consumer,
            address.number,
            self.connection.client,
            request,
            runs,
            pull,
            list(cancelled),
        )
        key = address.stream.encode("utf-8")
        try:
            self.connection.transport.send(address.partition, key, CONSUME, command.encode(), report)
        except RailgunError as error:
            with self._wanted:
                self._undelivered -= count
            if runs:
                self._again(address, runs, error)
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

    def _again(self, address: Address, runs: list[AckRun], error: RailgunError) -> None:
        logger.warning(
            "acknowledgements of %d messages of %s/%s did not reach the broker and are sent again: %s",
            messages_in(runs),
            address.stream,
            address.consumer,
            error,
        )
        with self._wanted:
            self._refused.append((address, runs))

    # -- holding, being present

    def hold(self, held: Held) -> None:
        """Keep alive what it holds, until :meth:`release`. Raises ConnectionClosed."""
        with self._wanted:
            if self._closed is not None:
                raise self._closed.with_traceback(None)
            self._held.add(held)
            self._started()

    def release(self, held: Held) -> None:
        with self._wanted:
            self._held.discard(held)

    def orphan(self, held: Held) -> None:
        """Its user is gone without closing it. Called by the garbage collector: nothing is locked here."""
        self._orphans.append(held)

    def runs(self, running: Drains) -> None:
        """Wait for it when the connection is closed."""
        with self._wanted:
            self._running.add(running)

    def ran(self, running: Drains) -> None:
        with self._wanted:
            self._running.discard(running)

    def announce(self, shards: set[int], *, leaving: bool = False) -> None:
        """Tell these shards that this client is there, and what it listens to."""
        value = Presence(self.connection.client, leaving, self.listeners.subjects()).encode()
        for shard in sorted(shards):
            try:
                self.connection.transport.send(shard, b"", PRESENCE, value, lambda error: None)
            except RailgunError as error:
                logger.info("shard %d could not be told that this client is there: %s", shard, error)
                return
        self._present |= shards

    def new_owner(self, partition: int) -> None:
        """The shard changed hands: pulls and presence are told again."""
        if self._closed is None and (
            partition in self._present or any(t.address.partition == partition for t in self.book.waiting())
        ):
            self.announce({partition})
            self.book.renew(partition)

    def waiting(self) -> list[tuple[float, Settlement[Any], Callable[[RailgunError], None]]]:
        """Deadline, settlement and ending of the pulls whose callers wait."""
        owners = [ticket.owner for ticket in self.book.waiting()]
        return [(one.deadline, one, one.failed) for one in owners if isinstance(one, WaitingPull)]

    # -- the thread

    def start(self) -> None:
        """Somebody waits at a shard: be present from now on."""
        with self._wanted:
            if self._closed is not None:
                raise self._closed.with_traceback(None)
            self._started()

    def _started(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="railgun-consuming", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            due = time.monotonic() + _TICK
            while self._closed is None:
                with self._wanted:
                    if not self._queue:
                        self._wanted.wait(max(due - time.monotonic(), 0.0))
                    boxes, self._queue = self._queue, deque()
                if boxes:
                    time.sleep(COLLECT)  # for company, not for luck
                    for box in boxes:
                        self.flush(box)
                now = time.monotonic()
                if now >= due:
                    due = now + _TICK
                    self._tick(now)
        except Exception as error:
            logger.exception("the thread of the consumers ended")
            self.connection.failed(RailgunError(f"the thread of the consumers ended: {error!r}"))

    def _tick(self, now: float) -> None:
        while self._orphans:
            self._orphans.popleft().close()
        refused: list[tuple[Address, list[AckRun]]] = []
        with self._wanted:
            if self._refused and now - self._resent >= _PAUSE:
                self._resent = now
                refused, self._refused = self._refused, []
            held = list(self._held)
        for address, runs in refused:
            self.tell_later(address, runs)
        for one in held:
            one.tick(now)
        if now - self._announced >= PRESENCE_SECONDS:
            self._announced = now
            shards = {ticket.address.partition for ticket in self.book.waiting()} | self.listeners.shards()
            if shards:
                self.announce(shards)

    # -- the end

    def close(self, timeout: float) -> None:
        """Give back what nobody has seen, let handlers end, send all acknowledgements, leave.

        The transport must still take commands.
        """
        with self._wanted:
            held = list(self._held)
        for one in held:
            one.close()
        deadline = time.monotonic() + timeout
        with self._wanted:
            running = list(self._running)
        for busy in running:
            if not busy.ended(max(deadline - time.monotonic(), 0.0)):
                logger.warning("closed while %r has handlers that run: they cannot acknowledge any more", busy)
        over = ConnectionClosed("the connection was closed before the pull was answered")
        for ticket in self.book.waiting():
            self.book.cancel(ticket)
            ticket.owner.failed(over)
        with self._wanted:
            if self._closed is None:
                self._closed = ConnectionClosed("the connection is closed")
            boxes, self._queue = self._queue, deque()
            refused, self._refused = self._refused, []
            self._wanted.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(5.0)
        for address, runs in refused:
            self.tell_later(address, runs)
        for box in boxes:
            self.flush(box)
        if self._present:
            self.announce(self._present, leaving=True)
        self.feed.close()

    def report(self) -> None:
        """After the broker was given its time: say what it has not taken."""
        with self._wanted:
            lost = self._undelivered + sum(messages_in(runs) for _, runs in self._refused)
        if lost:
            logger.error(
                "closed before the broker had the acknowledgements of %d messages: they will be delivered again",
                lost,
            )

    def failed(self, error: RailgunError) -> None:
        """The connection is of no more use: everybody who waits is told, and no acknowledgement is taken any more."""
        with self._wanted:
            if self._closed is not None:
                return
            self._closed = error
            held = list(self._held)
            waiting = sum(len(box.entries) for box in self._boxes.values())
            self._wanted.notify_all()
        if waiting:
            logger.error("acknowledgements of %d messages could not be sent: %s", waiting, error)
        for one in held:
            one.failed(error)
        for ticket in self.book.waiting():
            ticket.owner.failed(error)
        self.feed.close()

    def abandon(self, error: RailgunError) -> None:
        """In a forked child: the lock may be held by a thread that does not exist here."""
        self._wanted = threading.Condition()
        self._closed = error
        self._held, self._running = set(), set()
        self.book = LeaseBook(self)
        self.listeners = Listeners(self)
