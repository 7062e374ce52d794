"""From leases to messages: what a lease carries is unpacked, what it only points to is read from the stream's log.

A :class:`Parcel` is one lease on its way to its owner. Its messages come in order, in pieces, from the thread
that reads; a message that was removed meanwhile is left out. Every parcel ends, with all its messages or with an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from railgun.avro.events import Events
from railgun.client.consuming.ack_box import AckBox, lease_runs
from railgun.client.consuming.runs import DeliveredRun, delivered_runs
from railgun.errors import RailgunError
from railgun.model import headers as h
from railgun.model.messages import StoredMessage
from railgun.protocol.commands import AckRun
from railgun.protocol.leases import Lease
from railgun.protocol.log_record import Extras
from railgun.protocol.replies import Located

if TYPE_CHECKING:
    from railgun.client.consuming.delivery import Delivery

ReadLog = Callable[[Sequence[Located], float], list[StoredMessage | None]]


class ParcelOwner(Protocol):
    """The owner of a parcel: a pull that waits, or a buffer."""

    lock: threading.Lock  # guards its parcels

    def accept(self, parcel: Parcel) -> bool:
        """Note the parcel before it is read; whether it is still wanted. Called without the lock."""

    def moved(self, parcel: Parcel) -> None:
        """``parcel.messages`` has grown, or the parcel has ended. Called from the thread that reads, without the lock."""


class Parcel:
    """The messages of one lease, as they are read."""

    __slots__ = ("box", "count", "done", "error", "lease", "make", "messages", "owner", "passed", "runs")

    def __init__(
        self,
        lease: Lease,
        box: AckBox | None,
        make: type[Delivery],
        owner: ParcelOwner,
        events: Events | None = None,
    ) -> None:
        self.lease = lease
        self.box = box
        self.runs = delivered_runs(lease, box, events)
        self.make = make
        self.owner = owner
        self.count = sum(lease.counts)
        self.messages: list[Delivery] = []  # read, and not yet taken by the owner
        self.passed = 0  # messages of the lease that were read or found removed
        self.done = False
        self.error: RailgunError | None = None

    def add(self, messages: list[Delivery], passed: int) -> None:
        """More of it was read: ``passed`` messages of the lease, those that are still there. The last piece ends it."""
        with self.owner.lock:
            if self.done:
                return
            self.messages += messages
            self.passed += passed
            self.done = self.passed >= self.count
        self.owner.moved(self)

    def fail(self, error: RailgunError) -> None:
        """The rest cannot be read."""
        with self.owner.lock:
            if self.done:
                return
            self.error, self.done = error, True
        self.owner.moved(self)

    def drop(self) -> None:
        """The owner wants no more of it; it holds its own lock."""
        self.done = True

    def places(self) -> Iterator[tuple[DeliveredRun, int]]:
        """Run and sequence of each of its messages."""
        for run, sequence, count in zip(self.runs, self.lease.sequences, self.lease.counts, strict=True):
            for step in range(count):
                yield run, sequence + step

    def unread(self, kind: str) -> list[AckRun]:
        """Runs of one kind for the messages of the lease that were not read yet."""
        return [] if self.box is None else lease_runs(kind, self.lease, self.passed)


class Feed(Protocol):
    """Reads the messages of parcels from the logs. Thread-safe."""

    def read(self, parcel: Parcel) -> None:
        """Begin to read; the messages are added to the parcel. Never blocks for long."""

    def close(self) -> None:
        """End everything; parcels that are not done fail."""


class DirectFeed:
    """Reads at once, in the caller's thread, with the transport's own ``read_log``: for logs in memory."""

    def __init__(self, read_log: ReadLog, timeout: float) -> None:
        self._read_log = read_log
        self._timeout = timeout

    def read(self, parcel: Parcel) -> None:
        lease = parcel.lease
        places = [
            Located("direct", lease.topic, offset + step, sequence + step, lease.incarnation, False)
            for sequence, count, offset in zip(lease.sequences, lease.counts, lease.offsets, strict=True)
            for step in range(count)
        ]
        try:
            found = self._read_log(places, self._timeout)
        except RailgunError as error:
            parcel.fail(error)
            return
        messages = [
            parcel.make(run, sequence, one.subject, *content(lease, one.payload, one.headers, one.time_ns))
            for one, (run, sequence) in zip(found, parcel.places(), strict=True)
            if one is not None
        ]
        parcel.add(messages, parcel.count)

    def close(self) -> None:
        """Nothing is open."""


def content(lease: Lease, payload: bytes, headers: h.Headers, time_ns: int) -> tuple[bytes, Extras]:
    """Payload and the rest as they are delivered: without the payload if the consumer wants headers only (CON-26)."""
    if not lease.headers_only:
        return payload, Extras(headers, time_ns)
    return b"", Extras([*headers, (h.MSG_SIZE, str(len(payload)).encode("ascii"))], time_ns)


def carried(lease: Lease) -> bool:
    """Whether the lease has its messages with it."""
    return len(lease.subjects) == sum(lease.counts)


def unpack(parcel: Parcel) -> None:
    """Take the messages out of a lease that carries them."""
    lease = parcel.lease
    headers: Sequence[h.Headers] = lease.headers or [()] * parcel.count
    messages = [
        parcel.make(run, sequence, subject, *content(lease, payload, given, time))
        for subject, payload, given, time, (run, sequence) in zip(
            lease.subjects, lease.payloads, headers, lease.times, parcel.places(), strict=True
        )
    ]
    parcel.add(messages, parcel.count)
