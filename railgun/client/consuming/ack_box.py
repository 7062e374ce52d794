"""Acknowledgements that wait to be sent, gathered as runs.

An :class:`AckBox` belongs to one consumer of one client. Acknowledging a message only appends to it; the runs are made when
the box is emptied, a few milliseconds later, or at once together with the next pull. The order in which acknowledgements
were given is kept, also of those that the broker did not take: they come back into the box, in front of what was said later.
"""

from __future__ import annotations

import logging
import threading
from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from railgun.errors import RailgunError
from railgun.protocol.commands import AckRun
from railgun.protocol.leases import Lease

if TYPE_CHECKING:
    from railgun.client.consuming.delivery import Delivery
    from railgun.client.consuming.handing import WaitingHandOver
    from railgun.client.consuming.hub import ConsumerHub
    from railgun.client.consuming.runs import DeliveredRun
    from railgun.client.requests import PendingCall

logger = logging.getLogger(__name__)

ACK, NAK, PROGRESS, TERM, BACK = "ack", "nak", "progress", "term", "back"


class Address(NamedTuple):
    """A consumer, as commands name it. A number or incarnation of 0 means the one that lives."""

    stream: str
    incarnation: int
    consumer: str
    number: int
    partition: int


class AckBox:
    """The acknowledgements of one consumer's deliveries that are not sent yet.

    ``entries`` holds messages, each of which is acked, and runs of other kinds. Appending needs no lock: it is one step of the
    interpreter, and emptying the box removes only what was copied before. ``sending`` is held from emptying the box
    until what it held is sent: what was said first is sent first.
    """

    __slots__ = (
        "__weakref__",
        "_lock",
        "_number",
        "_returned",
        "address",
        "consumer",
        "entries",
        "handed",
        "hub",
        "partition",
        "queued",
        "sending",
        "stream",
        "under_way",
    )

    def __init__(self, hub: ConsumerHub, address: Address) -> None:
        self.hub = hub
        self.address = address
        self.stream = address.stream
        self.consumer = address.consumer
        self.partition = address.partition
        self.entries: list[Delivery | AckRun] = []
        self.queued = False  # the thread of the hub will empty it soon
        self.handed: deque[WaitingHandOver] = deque()  # hand-overs that leave together
        self.under_way: PendingCall | None = None  # the hand-over that was begun last
        self.sending = threading.RLock()
        self._lock = threading.Lock()
        self._number = 0  # of the last command with what was in the box
        self._returned: list[tuple[int, list[AckRun]]] = []  # by number, what the broker did not take

    def add(self, *runs: AckRun) -> None:
        """Put acknowledgements into the box. Raises ConnectionClosed once they would not be sent."""
        self.entries.extend(runs)
        if not self.queued:
            self.hub.wake(self)

    def take_all(self) -> list[AckRun]:
        """Empty the box: what it held, as runs."""
        with self._lock:
            self.queued = False  # before the entries are copied: a later one wakes the thread again
            count = len(self.entries)
            taken = self.entries[:count]
            del self.entries[:count]
            returned, self._returned = self._returned, []
        return [*(run for _, runs in returned for run in runs), *coalesced(taken)]

    def begin(self) -> int:
        """The number of a command that is about to be sent; the caller holds ``sending``."""
        self._number += 1
        return self._number

    def give_back(self, number: int, runs: list[AckRun]) -> None:
        """Keep what a command said that the broker did not take: it is sent again, before anything later."""
        with self._lock:
            insort(self._returned, (number, runs))

    @property
    def is_empty(self) -> bool:
        """Whether no acknowledgement waits."""
        return not self.entries and not self._returned

    @property
    def waiting(self) -> int:
        """Number of messages that the box holds acknowledgements of."""
        with self._lock:
            returned = sum(messages_in(runs) for _, runs in self._returned)
            return returned + sum(one.length if isinstance(one, AckRun) else 1 for one in self.entries)


def coalesced(entries: Iterable[Delivery | AckRun]) -> list[AckRun]:
    """The entries in their order, consecutive deliveries of messages that are done as one run."""
    runs: list[AckRun] = []
    last: DeliveredRun | None = None  # of the run of acks that is being extended
    start = end = 0
    for entry in entries:
        if isinstance(entry, AckRun):
            if last is not None:
                runs.append(_acked(last, start, end))
                last = None
            runs.append(entry)
            continue
        run = entry._run
        if entry.sequence == end and (run is last or (last is not None and run.goes_on(last))):
            end += 1
            continue
        if last is not None:
            runs.append(_acked(last, start, end))
        last, start, end = run, entry.sequence, entry.sequence + 1
    if last is not None:
        runs.append(_acked(last, start, end))
    return runs


def _acked(run: DeliveredRun, start: int, end: int) -> AckRun:
    return AckRun(ACK, start, end - start, start + run.shift, run.deliveries)


def runs_of(kind: str, messages: Iterable[Delivery]) -> list[AckRun]:
    """Runs of one kind for all these messages."""
    return [run._replace(kind=kind) for run in coalesced(messages)]


def lease_runs(kind: str, lease: Lease, skip: int = 0) -> list[AckRun]:
    """Runs of one kind for all messages of a lease but the first ``skip``."""
    runs = []
    columns = zip(lease.sequences, lease.counts, lease.consumer_sequences, lease.deliveries, strict=True)
    for sequence, count, consumer_sequence, deliveries in columns:
        gone = min(skip, count)
        skip -= gone
        if count > gone:
            runs.append(AckRun(kind, sequence + gone, count - gone, consumer_sequence + gone, deliveries))
    return runs


def messages_in(runs: Sequence[AckRun]) -> int:
    """Number of messages in the runs."""
    return sum(run.length for run in runs)


def return_runs(box: AckBox, runs: Sequence[AckRun]) -> None:
    """Give back deliveries that were not handed out. Once the connection has ended, their ack wait does so."""
    if not runs:
        return
    try:
        box.add(*runs)
    except RailgunError as error:
        logger.info("%d leased messages of %s were not given back: %s", messages_in(runs), box.stream, error)
