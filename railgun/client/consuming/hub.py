"""The hub of a client's consumers: acknowledgements, pulls, presence, and the one thread that sends them.

The thread empties boxes of acknowledgements a few milliseconds after the first one was put there, keeps alive what was
leased and not yet handed out, and announces this client to the shards where it waits or listens. If it fails, so does
the connection. :meth:`ConsumerHub.close` sends everything, and says in the log how many could not be sent.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from railgun.client.consuming.ack_box import BACK, AckBox, Address, lease_runs, return_runs
from railgun.client.consuming.commands import CommandSender
from railgun.client.consuming.delivery import Delivery
from railgun.client.consuming.fetch import WaitingPull
from railgun.client.consuming.handing import WaitingHandOver
from railgun.client.consuming.kept_alive import Held, KeptAlive
from railgun.client.consuming.listeners import Listeners
from railgun.client.consuming.parcels import Feed, Parcel, ParcelOwner, carried, unpack
from railgun.client.consuming.pulls import OpenPulls
from railgun.client.link import Link
from railgun.client.settlements import Settlement
from railgun.errors import ConnectionClosed, RailgunError
from railgun.protocol.commands import PRESENCE, Presence
from railgun.protocol.leases import Lease
from railgun.protocol.routing import partition_of

logger = logging.getLogger(__name__)

COLLECT = 0.003  # seconds in which acknowledgements are collected into one command
PRESENCE_SECONDS = 2.0
_FORGOTTEN = 2.5 * PRESENCE_SECONDS  # a client that says nothing for three periods is gone for a shard
_TICK = 0.1
_RUNS = 4_000  # in one command


class ConsumerHub:
    """The consumers' side of one connection. Thread-safe."""

    def __init__(self, link: Link, feed: Feed) -> None:
        self.link = link
        self.feed = feed
        self.pulls = OpenPulls(self)
        self.listeners = Listeners(self)
        self.kept_alive = KeptAlive()
        self.commands = CommandSender(link, self.flush)
        self._boxes: weakref.WeakValueDictionary[tuple[str, int, str, int], AckBox]
        self._boxes = weakref.WeakValueDictionary()
        self._latest: weakref.WeakValueDictionary[tuple[str, str], AckBox] = weakref.WeakValueDictionary()
        self._wanted = threading.Condition()
        self._queue: deque[AckBox] = deque()
        self._handing: deque[AckBox] = deque()  # boxes with hand-overs that wait
        self._deferred: deque[Callable[[], None]] = deque()
        self._present: set[int] = set()  # shards that know of this client
        self._due = 0.0  # when presence was last sent to them
        self._last_present = 0.0  # when the broker last took that
        self._renew = False
        self._closed: RailgunError | None = None
        self._thread: threading.Thread | None = None

    @property
    def closed(self) -> bool:
        """Whether the hub is closed: nothing is sent any more."""
        return self._closed is not None

    # -- addresses

    def address(self, stream: str, consumer: str) -> Address:
        """The address of the consumer that lives under that name."""
        known = self.link.stream(stream)
        partition = partition_of(stream, self.link.partitions) if known is None else known.partition
        return Address(stream, 0, consumer, 0, partition)

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
        """The box of the consumer that last delivered under this name, while one of its messages is in use."""
        with self._wanted:
            return self._latest.get((stream, consumer))

    # -- leases

    def distribute(self, leases: Iterable[Lease]) -> None:
        """Give leases that came together to their owners, in order. Nothing is sent before all of them have theirs."""
        for lease in leases:
            if lease.pull:
                self.pulls.deliver(lease)
            else:
                self.listeners.deliver(lease)
        while self._deferred:
            try:
                call = self._deferred.popleft()
            except IndexError:
                return
            call()

    def receive(self, lease: Lease, make: type[Delivery], owner: ParcelOwner) -> None:
        """Get the messages of a lease to their owner: out of the lease, or from the log. What it does not accept goes back."""
        parcel = Parcel(lease, self.box_of(lease), make, owner, self.link.events)
        if not owner.accept(parcel):
            self.give_back(lease)
        elif carried(lease):
            unpack(parcel)
        else:
            self.feed.read(parcel)

    def give_back(self, lease: Lease) -> None:
        """Return the messages of a lease to their consumer, without counting as a delivery."""
        box = self.box_of(lease)
        if box is not None and lease.sequences:
            return_runs(box, lease_runs(BACK, lease))

    def later(self, call: Callable[[], None]) -> None:
        """Call it once all leases that came together have their owners. Only while leases are distributed."""
        self._deferred.append(call)

    # -- sending acknowledgements

    def wake(self, box: AckBox) -> None:
        """Empty the box soon: it holds something. Raises ConnectionClosed if the thread has ended."""
        with self._wanted:
            if self._closed is not None:
                raise self._closed.with_traceback(None)
            if box.queued:
                return
            box.queued = True
            self._queue.append(box)
            self._started()
            self._wanted.notify()

    def hand_over(self, box: AckBox, given: WaitingHandOver) -> None:
        """Send a hand-over soon, with others, behind the acknowledgements that wait. Raises ConnectionClosed."""
        if not box.is_empty:
            self.flush(box)
        with self._wanted:
            if self._closed is not None:
                raise self._closed.with_traceback(None)
            box.handed.append(given)
            if box not in self._handing:
                self._handing.append(box)
                self._started()
                self._wanted.notify()

    def flush(self, box: AckBox) -> None:
        """Send the acknowledgements that the box holds."""
        with box.sending:
            runs = box.take_all()
            for start in range(0, len(runs), _RUNS):
                self.commands.send_or_log(box.address, box=box, acks=runs[start : start + _RUNS])

    # -- holding, being present

    def hold(self, held: Held) -> None:
        """Keep alive what it holds, until it is released. Raises ConnectionClosed."""
        self.start()
        self.kept_alive.add(held)

    def announce(self, shards: set[int], *, leaving: bool = False) -> None:
        """Tell these shards that this client is there, and what it listens to."""
        value = Presence(self.link.client, leaving, self.listeners.subjects()).encode()
        for shard in sorted(shards):
            try:
                self.link.send(shard, b"", PRESENCE, value, self._announced)
            except RailgunError as error:
                logger.info("the presence of this client could not be sent to shard %d: %s", shard, error)
                return
        self._present |= shards

    def _announced(self, error: RailgunError | None) -> None:
        """Send the waiting pulls again after a silence of this client, in which the shards forgot them."""
        now = time.monotonic()
        if error is None:
            if self._last_present and now - self._last_present > _FORGOTTEN:
                self._renew = True
            self._last_present = now

    def new_owner(self, partition: int) -> None:
        """Send pulls and presence again: the shard has a new owner."""
        if self._closed is None and (
            partition in self._present
            or any(pull.address.partition == partition for pull in self.pulls.waiting())
        ):
            self.announce({partition})
            self.pulls.renew(partition)

    def waiting(self) -> list[tuple[float, Settlement[Any], Callable[[RailgunError], None]]]:
        """Deadline, settlement and ending of the pulls whose callers wait."""
        owners = [pull.owner for pull in self.pulls.waiting()]
        return [(one.deadline, one, one.failed) for one in owners if isinstance(one, WaitingPull)]

    # -- the thread

    def start(self) -> None:
        """Start the thread, which keeps this client present. Raises ConnectionClosed."""
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
                    if not self._queue and not self._handing:
                        self._wanted.wait(max(due - time.monotonic(), 0.0))
                    boxes, self._queue = self._queue, deque()
                    handing, self._handing = self._handing, deque()
                for box in handing:
                    self.commands.send_handed(box)
                if boxes:
                    time.sleep(COLLECT)  # collect more acks into one command
                    for box in boxes:
                        self.flush(box)
                now = time.monotonic()
                if now >= due:
                    due = now + _TICK
                    self._tick(now)
        except Exception as error:
            logger.exception("the thread of the consumers ended")
            self.link.failed(RailgunError(f"the thread of the consumers ended: {error!r}"))

    def _tick(self, now: float) -> None:
        self.commands.repeat(now)
        self.kept_alive.tick(now)
        if now - self._due >= PRESENCE_SECONDS:
            self._due = now
            shards = {pull.address.partition for pull in self.pulls.waiting()} | self.listeners.shards()
            if shards:
                self.announce(shards)
            else:
                self._last_present = 0.0
        if self._renew:
            self._renew = False
            for shard in {pull.address.partition for pull in self.pulls.waiting()}:
                self.pulls.renew(shard)

    # -- the end

    def close(self, timeout: float) -> None:
        """Give back what was not handed out, let handlers end, send all acknowledgements, leave.

        The transport must still take commands.
        """
        self.kept_alive.close(timeout)
        over = ConnectionClosed("the connection was closed before the pull was answered")
        for pull in self.pulls.waiting():
            self.pulls.cancel(pull)
            pull.owner.failed(over)
        with self._wanted:
            if self._closed is None:
                self._closed = ConnectionClosed("the connection is closed")
            boxes, self._queue = self._queue, deque()
            handing, self._handing = self._handing, deque()
            self._wanted.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(5.0)
        self.commands.repeat(math.inf)
        for box in handing:
            self.commands.send_handed(box)
        for box in boxes:
            self.flush(box)
        if self._present:
            self.announce(self._present, leaving=True)
        self.feed.close()

    def report(self) -> None:
        """Log the acknowledgements that the broker has not taken, after it was given its time."""
        if self.commands.unsent:
            logger.error(
                "closed before the broker had the acknowledgements of %d messages: they will be delivered again",
                self.commands.unsent,
            )

    def failed(self, error: RailgunError) -> None:
        """The connection has failed: all that wait end with the error, and no acknowledgement is taken any more."""
        with self._wanted:
            if self._closed is not None:
                return
            self._closed = error
            waiting = sum(box.waiting for box in self._boxes.values())
            self._wanted.notify_all()
        if waiting:
            logger.error("acknowledgements of %d messages could not be sent: %s", waiting, error)
        self.kept_alive.failed(error)
        for pull in self.pulls.waiting():
            pull.owner.failed(error)
        self.feed.close()

    def abandon(self, error: RailgunError) -> None:
        """In a forked child: the lock may be held by a thread that does not exist here."""
        self._wanted = threading.Condition()
        self._closed = error
        self.commands.abandon()
        self.kept_alive.abandon()
        self.pulls, self.listeners, self.kept_alive = OpenPulls(self), Listeners(self), KeptAlive()
