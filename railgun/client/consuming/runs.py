"""What the messages of one run of a lease have in common, and where the rest of each of them is.

A run is consecutive messages that were delivered together, for the same time: their numbers differ by as much as their
sequences do, so that a message holds little more than its sequence, its payload, and its run.
"""

from __future__ import annotations

from typing import Protocol

from railgun.client.consuming.ack_box import AckBox
from railgun.kafka.record_headers import headers_of
from railgun.protocol import log_record
from railgun.protocol.leases import Lease
from railgun.protocol.log_record import Extras


class Record(Protocol):
    """What is used of a record of the log, in the form in which confluent-kafka brings it."""

    def headers(self) -> list[tuple[str, bytes | None]] | None: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def offset(self) -> int | None: ...


class DeliveredRun:
    """One run of a lease. ``box`` is where its messages are acknowledged; None if no consumer delivered them."""

    __slots__ = ("_new", "_pending", "box", "deliveries", "shift")

    def __init__(self, box: AckBox | None, deliveries: int, shift: int, pending: int) -> None:
        self.box = box
        self.deliveries = deliveries
        self.shift = shift  # from a sequence to the number of its delivery
        self._new = deliveries == 1
        self._pending = pending

    def pending(self, sequence: int) -> int:
        """How many matching messages were left behind this one; redeliveries do not count (CON-28)."""
        return self._pending - sequence if self._new else self._pending

    def goes_on(self, other: DeliveredRun) -> bool:
        """Whether consecutive messages of both are consecutive deliveries."""
        return self.shift == other.shift and self.deliveries == other.deliveries


STATUS_RUN = DeliveredRun(None, 0, 0, 0)  # of what is no message but says something


def delivered_runs(lease: Lease, box: AckBox | None) -> list[DeliveredRun]:
    """The runs of a lease, in its order."""
    columns = zip(lease.sequences, lease.counts, lease.consumer_sequences, lease.deliveries, strict=True)
    left = lease.pending + sum(
        count for count, deliveries in zip(lease.counts, lease.deliveries, strict=True) if deliveries == 1
    )
    runs = []
    for sequence, count, consumer_sequence, deliveries in columns:
        new = deliveries == 1
        pending = left + sequence - 1 if new else left
        runs.append(DeliveredRun(box, deliveries, consumer_sequence - sequence, pending))
        if new:
            left -= count
    return runs


def extras_of(record: Record) -> Extras:
    """Headers and time of a message of the log."""
    return log_record.extras(headers_of(record))


def identity(record: Record) -> tuple[int, int]:
    """Incarnation and sequence of a record; what is no message is below all that are."""
    return log_record.identity(headers_of(record))
