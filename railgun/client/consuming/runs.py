"""Runs of a lease: what their messages have in common, and where the rest of each message is.

A run is consecutive messages that were delivered together, for the same time: their numbers differ by as much as their
sequences do, so that a message holds little more than its sequence, its payload, and its run.
"""

from __future__ import annotations

from railgun.avro.events import Events
from railgun.client.consuming.ack_box import AckBox
from railgun.protocol.leases import Lease


class DeliveredRun:
    """One run of a lease. ``box`` is where its messages are acknowledged; None if no consumer delivered them."""

    __slots__ = ("_new", "_pending", "box", "deliveries", "events", "shift")

    def __init__(
        self, box: AckBox | None, deliveries: int, shift: int, pending: int, events: Events | None = None
    ) -> None:
        self.box = box
        self.events = events  # what reads their payloads as models
        self.deliveries = deliveries
        self.shift = shift  # from a sequence to the number of its delivery
        self._new = deliveries == 1
        self._pending = pending

    def pending(self, sequence: int) -> int:
        """Number of matching messages that were left behind this one; redeliveries do not count (CON-28)."""
        return self._pending - sequence if self._new else self._pending

    def goes_on(self, other: DeliveredRun) -> bool:
        """Whether consecutive messages of both are consecutive deliveries."""
        return self.shift == other.shift and self.deliveries == other.deliveries


STATUS_RUN = DeliveredRun(None, 0, 0, 0)  # for status-only frames, which carry no message


def delivered_runs(lease: Lease, box: AckBox | None, events: Events | None = None) -> list[DeliveredRun]:
    """The runs of a lease, in its order."""
    columns = zip(lease.sequences, lease.counts, lease.consumer_sequences, lease.deliveries, strict=True)
    left = lease.pending + sum(
        count for count, deliveries in zip(lease.counts, lease.deliveries, strict=True) if deliveries == 1
    )
    runs = []
    for sequence, count, consumer_sequence, deliveries in columns:
        new = deliveries == 1
        pending = left + sequence - 1 if new else left
        runs.append(DeliveredRun(box, deliveries, consumer_sequence - sequence, pending, events))
        if new:
            left -= count
    return runs
