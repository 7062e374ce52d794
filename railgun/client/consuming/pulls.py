"""The pulls of this client that wait, and the owners of the leases that answer them.

A lease that answers a pull without an owner (the pull was given up, or asked for twice around a change of the shard's
owner) goes back at once, and does not count as a delivery. A new owner of a shard knows nothing of waiting pulls: they
are sent to it again, under the same numbers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol

from railgun.client.consuming.ack_box import AckBox, Address
from railgun.client.consuming.parcels import ParcelOwner
from railgun.client.transport import Delivered
from railgun.errors import RailgunError
from railgun.model.durations import NANOS
from railgun.protocol.commands import AckRun, Pull
from railgun.protocol.leases import Lease
from railgun.protocol.statuses import CONSUMER_DELETED

if TYPE_CHECKING:
    from railgun.client.consuming.hub import ConsumerHub


class PullOwner(ParcelOwner, Protocol):
    """The owner of a pull: a caller that waits, or a buffer."""

    def leased(self, pull: OpenPull, lease: Lease) -> None:
        """A lease that answers the pull; ``lease.done`` ends it. Called in the order of the shard, by one thread."""

    def failed(self, error: RailgunError) -> None:
        """The connection has failed: nothing more will come."""


class OpenPull:
    """One pull that waits at a shard."""

    __slots__ = ("address", "again", "asked", "ends", "got", "id", "owner")

    def __init__(
        self, address: Address, owner: PullOwner, pull: Pull, again: Callable[[], None] | None = None
    ) -> None:
        self.address = address
        self.owner = owner
        self.asked = pull
        self.id = pull.id
        self.got = 0  # messages that were leased by now
        self.ends = time.monotonic() + pull.expires / NANOS if pull.expires else None
        self.again = again  # how to send it once more, where that is not a plain pull

    def rest(self) -> Pull:
        """The pull as it is sent to a new owner of the shard: what is missing, and the time that is left."""
        expires, patience = self.asked.expires, self.asked.patience
        if self.ends is not None:
            left = round((self.ends - time.monotonic()) * NANOS)
            patience = patience and max(patience - (expires - left), 1_000_000)
            expires = max(left, 1_000_000)
        return self.asked._replace(
            batch=max(self.asked.batch - self.got, 1), expires=expires, patience=patience
        )


class OpenPulls:
    """The waiting pulls of one connection. Thread-safe; no owner is called while the lock is held."""

    def __init__(self, hub: ConsumerHub) -> None:
        self._hub = hub
        self._lock = threading.Lock()
        self._pulls: dict[int, OpenPull] = {}

    # -- pulls

    def open(
        self, pull: OpenPull, box: AckBox | None, delivered: Delivered, acks: Sequence[AckRun] = ()
    ) -> None:
        """Send a pull, and before it in the same command what the box holds, and ``acks``.

        Raises what keeps it from being sent.
        """
        self.add(pull)
        try:
            with nullcontext() if box is None else box.sending:
                held = [] if box is None else box.take_all()
                if box is not None and held:
                    pull.address = box.address
                self._hub.commands.send(
                    pull.address, pull.asked, box=box, acks=[*held, *acks], delivered=delivered
                )
        except BaseException:
            self.forget(pull)
            raise

    def add(self, pull: OpenPull) -> None:
        """Wait for a pull that the caller sends."""
        with self._lock:
            self._pulls[pull.id] = pull

    def forget(self, pull: OpenPull) -> bool:
        """Stop waiting for the pull; whether it was waited for until now."""
        with self._lock:
            return self._pulls.pop(pull.id, None) is not None

    def cancel(self, pull: OpenPull) -> None:
        """Give the pull up, and tell the shard."""
        if self.forget(pull) and not self._hub.closed:
            self._hub.commands.send_or_log(pull.address, cancelled=[pull.id])

    def waiting(self) -> list[OpenPull]:
        with self._lock:
            return list(self._pulls.values())

    def renew(self, partition: int) -> None:
        """Send the waiting pulls to the new owner of a shard, which does not know them."""
        for pull in self.waiting():
            if pull.address.partition != partition:
                continue
            if pull.again is not None:
                pull.again()
            else:
                self._hub.commands.send_or_log(pull.address, pull=pull.rest())

    # -- leases

    def deliver(self, lease: Lease) -> None:
        """Give a lease to the owner of the pull that it answers."""
        with self._lock:
            pull = self._pulls.get(lease.pull)
        if pull is None:
            self._hub.give_back(lease)
            return
        pull.got += sum(lease.counts)
        if lease.done:
            if self._moved_on(pull, lease):
                return
            self.forget(pull)
        pull.owner.leased(pull, lease)

    def _moved_on(self, pull: OpenPull, lease: Lease) -> bool:
        """Ask the consumer that now lives under the name, once, if the one that was asked is gone."""
        if (
            lease.description != CONSUMER_DELETED.description
            or not pull.address.number
            or pull.again is not None
        ):
            return False
        pull.address = pull.address._replace(incarnation=0, number=0)
        if lease.sequences:
            pull.owner.leased(pull, lease._replace(done=False, status=0))
        self._hub.later(lambda: self._hub.commands.send_or_log(pull.address, pull=pull.rest()))
        return True
