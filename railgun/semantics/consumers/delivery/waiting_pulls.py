"""Waiting pulls of one consumer (PUL): which is served next, what each has got, and the statuses that end them.

Requests are served first come, first served; one that got something and wants more goes to the end of the line, so that
messages which arrive one by one go one to each in turn (PUL-07). Pure: time is handed in, changes go through the undo log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sortedcontainers import SortedDict

from railgun.model import headers as h
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.durations import NANOS, duration_text, to_nanos
from railgun.protocol import statuses
from railgun.protocol.commands import Pull
from railgun.protocol.statuses import Status
from railgun.semantics.consumers.undo import UndoLog

if TYPE_CHECKING:
    from railgun.semantics.consumers.consumer_state import Taken

_PATIENCE = 5 * NANOS  # how much longer than its pull a client is taken to wait, if it has not said how long

PullKey = tuple[str, int]  # client and number of the request


def idle_heartbeat(consumer_sequence: int, stream_sequence: int) -> Status:
    """Nothing to deliver, but the owner is there; with the last delivery."""
    last = [(h.LAST_CONSUMER, b"%d" % consumer_sequence), (h.LAST_STREAM, b"%d" % stream_sequence)]
    return statuses.IDLE_HEARTBEAT._replace(headers=last)


class Waiting(NamedTuple):
    """A pull that waits; times are moments of the shard's clock, 0 for never."""

    client: str
    id: int
    left: int  # messages that it still wants
    room: int = 0  # bytes that it still takes, where it is limited
    limited: bool = False
    expires: int = 0
    no_wait: bool = False
    heartbeat: int = 0
    beats: int = 0  # when the next heartbeat is due
    delivered: int = 0
    late: bool = (
        False  # its time was over when it was read, but not its caller's patience: it gets what is there
    )

    @property
    def key(self) -> PullKey:
        return self.client, self.id

    @property
    def impatient(self) -> bool:
        """Whether it ends as soon as there is nothing to deliver (PUL-03, PUL-05)."""
        return self.late or (self.no_wait and (not self.expires or self.delivered > 0))

    @property
    def due(self) -> int:
        """When it must be looked at although nothing arrives; 0: never."""
        if self.expires and self.beats:
            return min(self.expires, self.beats)
        return self.expires or self.beats

    @property
    def allowed_bytes(self) -> int:
        """What :meth:`take` is given: no message fits into the last byte, and 0 would mean no limit."""
        return max(self.room, 1) if self.limited else 0

    def _left_over(self, status: Status) -> Status:
        left = [(h.PENDING_MESSAGES, b"%d" % self.left), (h.PENDING_BYTES, b"%d" % self.room)]
        return status._replace(headers=left)

    def nothing_there(self) -> Status:
        """How an impatient pull ends."""
        return self.timed_out() if self.late else statuses.NO_MESSAGES

    def timed_out(self) -> Status:
        return self._left_over(statuses.REQUEST_TIMEOUT)  # PUL-04

    def too_big(self) -> Status:
        return self._left_over(statuses.MESSAGE_TOO_BIG)  # PUL-06

    def completed(self) -> Status:
        return self._left_over(statuses.BATCH_COMPLETED)


def is_stale(pull: Pull, late: int) -> bool:
    """Whether a pull that was received so long ago has surely no caller any more: it must not be given anything."""
    patience = pull.patience or pull.expires + _PATIENCE
    return pull.expires > 0 and late > max(patience, pull.expires)


def begin(pull: Pull, client: str, now: int, late: int = 0) -> Waiting:
    """A pull that was received so long ago: what is left of its time counts from now."""
    over = 0 < pull.expires <= late
    heartbeat = 0 if over else max(pull.heartbeat, 0)
    return Waiting(
        client,
        pull.id,
        max(pull.batch, 1),
        max(pull.max_bytes, 0),
        pull.max_bytes > 0,
        now + pull.expires - late if pull.expires > 0 and not over else 0,
        pull.no_wait,
        heartbeat,
        now + heartbeat if heartbeat else 0,
        late=over,
    )


def refusal(pull: Pull, config: ConsumerConfig) -> Status | None:
    """Why the consumer does not take such a pull (PUL-09, PUL-11); None if it does."""
    if config.is_push:
        return statuses.PUSH_BASED
    if pull.heartbeat * 2 > max(pull.expires, 0):
        return statuses.HEARTBEAT_TOO_LARGE  # PUL-10: there is none without an end
    if config.max_batch and pull.batch > config.max_batch > 0:
        return statuses.exceeded("MaxRequestBatch", config.max_batch)
    longest = to_nanos(config.max_expires) if config.max_expires else 0
    if 0 < longest < pull.expires:
        return statuses.exceeded("MaxRequestExpires", duration_text(longest))
    if config.max_bytes and pull.max_bytes > config.max_bytes > 0:
        return statuses.exceeded("MaxRequestMaxBytes", config.max_bytes)
    return None


def served(pull: Waiting, taken: Taken, now: int) -> tuple[Waiting | None, Status | None]:
    """What becomes of a pull that was given what there was: the pull if it waits on, and the status that ends it."""
    after = pull._replace(
        left=pull.left - taken.count,
        room=max(pull.room - taken.size, 0),
        delivered=pull.delivered + taken.count,
        beats=now + pull.heartbeat if taken.count and pull.heartbeat else pull.beats,
    )
    if after.left <= 0:
        return None, after.completed() if after.limited and after.room else None
    if taken.stopped == "bytes":
        return None, after.too_big()
    if (taken.stopped == "empty" and after.impatient) or (taken.stopped == "wall" and after.late):
        return None, after.nothing_there()
    return after, None


class WaitingPulls:
    """The line of one consumer. A pull is known by its client and number; the same one twice is one."""

    def __init__(self, undo: UndoLog) -> None:
        self._undo = undo
        self._pulls: dict[PullKey, tuple[int, Waiting]] = {}  # with the ticket
        self._line: SortedDict[int, PullKey] = SortedDict()
        self._impatient: dict[PullKey, None] = {}
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._pulls)

    def get(self, key: PullKey) -> Waiting | None:
        found = self._pulls.get(key)
        return None if found is None else found[1]

    def keys(self) -> list[PullKey]:
        return list(self._pulls)

    def first(self) -> Waiting | None:
        """The pull that is served next."""
        return self._pulls[self._line.peekitem(0)[1]][1] if self._line else None

    def impatient(self) -> list[Waiting]:
        """Pulls that end as soon as it is known that there is nothing to deliver."""
        return [self._pulls[key][1] for key in self._impatient]

    def late(self) -> list[Waiting]:
        """Pulls that also end when nothing may be delivered."""
        return [pull for pull in self.impatient() if pull.late]

    def join(self, pull: Waiting) -> None:
        """Go to the end of the line, from wherever it was."""
        self.leave(pull.key)
        self._tickets += 1
        self._enter(self._tickets, pull)

    def change(self, pull: Waiting) -> None:
        """The pull is another now, at the same place."""
        ticket = self._pulls[pull.key][0]
        self.leave(pull.key)
        self._enter(ticket, pull)

    def leave(self, key: PullKey) -> Waiting | None:
        """It waits no longer; what it was, None if it did not wait."""
        found = self._undo.drop(self._pulls, key)
        if found is None:
            return None
        self._undo.drop(self._line, found[0])
        self._undo.drop(self._impatient, key)
        return found[1]

    def _enter(self, ticket: int, pull: Waiting) -> None:
        self._undo.put(self._pulls, pull.key, (ticket, pull))
        self._undo.put(self._line, ticket, pull.key)
        if pull.impatient:
            self._undo.put(self._impatient, pull.key, None)
