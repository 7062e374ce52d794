"""Sourcing: the copying stream's side of mirrors and sources (MIR, SRC).

The owner of a stream asks the owners of its upstreams for messages (``attach``), copies what they send and confirms it (``ack``).
The position is in the drain that stores the copies. A *session* begins with each attach: leases of an earlier one are void, so a stream that
cannot take a message now simply asks again from its position later. Everything here is in the table; only the
deadlines are in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.durations import NANOS
from railgun.model.refusals import Refusal
from railgun.model.stream_config import StreamSource
from railgun.protocol.commands import Forward
from railgun.protocol.routing import partition_of
from railgun.protocol.sourcing import SOURCE, SourceCommand, SourceLease
from railgun.semantics.deadlines import Deadlines
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.sourcing.copied_columns import copy_columns
from railgun.semantics.streams.sourcing.copying import Target, copy_one, messages_of, room_of, takes
from railgun.semantics.streams.sourcing.origins import (
    FIRST_AFTER_WAIT,
    MIRROR,
    WINDOW,
    Origin,
    SourceMapping,
    mapping_of,
)
from railgun.shard.consumers.dead_letters import as_record
from railgun.shard.log_bodies import ReadLog, body_reader
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams
from railgun.shard.streams.publishing import note_last

UNANSWERED = 30 * NANOS  # an upstream that owes messages and says nothing for so long is asked again
IDLE = 600 * NANOS  # one that owes nothing: whatever has gone wrong there heals by it
FIRST_RETRY = NANOS // 2
LAST_RETRY = 10 * NANOS
ABSENT = (
    60 * NANOS
)  # of an upstream that is not there: its shard remembers who waits, and tells them when it comes
_CONFIRMED_AT = 4 * 1024 * 1024  # bytes copied since the upstream was last told
LEDGER_BYTES = (
    8 * 1024 * 1024
)  # that one drain writes: each copy for a sum has its whole ledger, hundreds of times its own bytes


class _Full(NamedTuple):
    """A stream that took no more: what it held when that was last looked at, and the origins that are asked in turn where it has room."""

    messages: int
    bytes: int
    waiting: tuple[str, ...] = ()


class Sourcing:
    """The origins of all streams of one shard."""

    def __init__(
        self,
        partition: int,
        partitions: int,
        streams: OwnedStreams,
        limits: ClusterLimits,
        quarantined: Mapping[str, str],
        read_log: ReadLog | None,
    ) -> None:
        self._partition = partition
        self._partitions = partitions
        self._streams = streams
        self._limits = limits
        self._quarantined = quarantined
        self._read_log = read_log
        self._deadlines = Deadlines[str]()
        self._asked_anew: set[str] = set()  # streams whose origins a new owner has to ask again
        self._asked: set[str] = set()  # of them, by the drain that runs
        # Streams that took no more, by incarnation, and what the drain that runs makes of them; None: nothing waits for room.
        self._full: dict[int, _Full | None] = {}
        self._full_now: dict[int, _Full | None] = {}
        self._ledgers = 0  # bytes of ledgers that the drain that runs has written

    # -- life

    def load(self) -> None:
        """A new owner asks all upstreams again: what was under way to the former one is void."""
        self._asked_anew = {state.name for state in self._streams if state.origins}
        self.reload()

    def reload(self) -> None:
        """Look at the deadlines of all streams again."""
        self._deadlines, self._full, self._full_now = Deadlines(), {}, {}
        for state in self._streams:
            self.watch(state)

    @property
    def next(self) -> int | None:
        """The shard's time of the next deadline; 0: at once."""
        return 0 if self._asked_anew else self._deadlines.earliest

    def watch(self, state: OwnedStream) -> None:
        """The stream is due when an upstream is to be asked again."""
        self._deadlines.watch(state.name, state.origins.next_retry())

    def committed(self) -> None:
        self._asked_anew -= self._asked
        self._asked = set()
        self._full |= self._full_now
        for incarnation in [one for one, full in self._full_now.items() if full is None]:
            del self._full[incarnation]
        self._full_now = {}

    def run(self, drain: OpenDrain) -> None:
        """Ask the upstreams that are due."""
        self._asked, self._full_now, self._ledgers = set(self._asked_anew), {}, 0
        for name in sorted(self._asked_anew.union(self._deadlines.pop_due(drain.moment))):
            state = self._streams.get(name)
            if state is None:
                continue
            drain.at = state.incarnation
            sources = state.origins.wanted(state.config)
            for key, origin in list(state.origins):
                due = origin.retry and origin.retry <= drain.moment
                if key in sources and (due or name in self._asked_anew):
                    self._attach(state, key, origin, sources[key], drain)
            self.watch(state)

    # -- configuration

    def stream_changed(self, change: str, state: OwnedStream, drain: OpenDrain) -> None:
        """A stream was created, updated or deleted: its origins follow its configuration (UPD-09, UPD-10)."""
        wanted = {} if change == "delete" else state.origins.wanted(state.config)
        for key, origin in list(state.origins):
            if key not in wanted:
                self._command("detach", state, key, origin, drain)
                origin.active, origin.retry, origin.waits = False, 0, False
                if key.startswith(MIRROR):
                    state.origins.forget(key)  # a promoted mirror is a stream as any other
                else:
                    state.origins.put(key, origin)
        for key, source in wanted.items():
            known = state.origins.get(key)
            if known is None or not known.active or known.waits:
                origin = known or Origin(source.name)
                origin.active, origin.error, origin.dropped = True, None, 0
                self._attach(state, key, origin, source, drain)
        self.watch(state)

    # -- asking

    def _attach(
        self, state: OwnedStream, key: str, origin: Origin, source: StreamSource, drain: OpenDrain
    ) -> None:
        """Ask for everything behind the position; where nothing was copied yet, from where the source says (MIR-06)."""
        begins = not origin.incarnation
        origin.session += 1
        origin.acknowledged = origin.copied = origin.unacknowledged = 0
        origin.waits, origin.retry = False, drain.moment + UNANSWERED
        state.origins.put(key, origin)
        drain.touch(state)
        self._command("attach", state, key, origin, drain, source if begins else None)

    def _command(
        self,
        kind: str,
        state: OwnedStream,
        key: str,
        origin: Origin,
        drain: OpenDrain,
        begins: StreamSource | None = None,
    ) -> None:
        source = state.origins.wanted(state.config).get(key)
        command = SourceCommand(
            kind,
            origin.name,
            origin.incarnation,
            state.name,
            state.incarnation,
            key,
            origin.session,
            origin.position,
            origin.copied,
            origin.window,
            () if source is None else tuple(mapping_of(key, source).filters),
            0 if begins is None else begins.opt_start_seq or 0,
            "" if begins is None else begins.opt_start_time or "",
        )
        forward = Forward(
            self._partition, "command", origin.name, command_kind=SOURCE, command=command.encode()
        )
        drain.send(partition_of(origin.name, self._partitions), forward)

    # -- copying

    def receive(self, lease: SourceLease, drain: OpenDrain) -> None:
        """An upstream sends messages, or says why it does not."""
        state = self._streams.get(lease.stream)
        if state is None or state.incarnation != lease.incarnation:
            return
        origin = state.origins.get(lease.origin)
        source = state.origins.wanted(state.config).get(lease.origin)
        if origin is None or source is None or lease.session != origin.session or origin.waits:
            return  # of an earlier session
        drain.touch(state)
        state.origins.put(lease.origin, origin)
        origin.heard = drain.moment
        if lease.refusal is not None:
            self._refused(lease, lease.refusal, state, origin, source, drain)
        else:
            self._copy(lease, state, origin, source, drain)

    def _refused(
        self,
        lease: SourceLease,
        refusal: Refusal,
        state: OwnedStream,
        origin: Origin,
        source: StreamSource,
        drain: OpenDrain,
    ) -> None:
        if refusal == refusals.UPSTREAM_ANEW and not lease.origin.startswith(MIRROR):
            origin.incarnation, origin.position = lease.upstream_incarnation, 0
            self._attach(state, lease.origin, origin, source, drain)
            return
        origin.error = refusal
        absent = refusal == refusals.STREAM_NOT_FOUND
        _put_off(origin, drain.moment, ABSENT if absent else LAST_RETRY)

    def _copy(
        self,
        lease: SourceLease,
        state: OwnedStream,
        origin: Origin,
        source: StreamSource,
        drain: OpenDrain,
    ) -> None:
        if origin.incarnation not in (0, lease.upstream_incarnation):
            return
        origin.incarnation = lease.upstream_incarnation
        if lease.after > origin.position:  # one was rejected: it could not be applied
            origin.waits, origin.error = True, refusals.LEASE_LOST
            _put_off(origin, drain.moment)
            return
        before, tries = origin.position, origin.tries
        if tries and (lease.payloads or not lease.pending):
            origin.error, origin.tries = None, 0
        mapping = mapping_of(lease.origin, source)
        if mapping.mirrors and not state.last_seq and not lease.payloads:
            state.jump(lease.reached + 1)  # MIR-06, MIR-09: it begins where its upstream does
        refused = self._copy_messages(lease, state, origin, mapping, drain)
        enough = refused is not None or self._ledgers > LEDGER_BYTES
        left = sum(1 for _ in messages_of(lease, origin.position)) if enough else 0
        if left:
            done = sum(1 for _ in messages_of(lease, before)) - left
            # What comes next is mostly sent in vain: about as many as there was room for.
            origin.lag, origin.window = lease.pending + left, min(FIRST_AFTER_WAIT, max(1, 2 * done))
        if left and refused is None:
            self._attach(state, lease.origin, origin, source, drain)  # the rest is for the next drain
            return
        if refused is not None:
            origin.waits, origin.error = True, refused
            origin.tries = tries if origin.position == before else 0  # in vain, or not quite
            known = self._full_of(state)
            waiting = () if known is None else known.waiting
            self._full_now[state.incarnation] = _Full(state.messages, state.bytes, waiting)
            _put_off(origin, drain.moment)
            return
        if lease.missing:
            origin.drop(lease.reached, refusals.unavailable(f"{lease.missing} messages could not be read"))
        origin.position = max(origin.position, lease.reached)
        origin.copied += lease.size
        origin.unacknowledged += len(lease.payloads)
        origin.lag = lease.pending
        origin.retry = drain.moment + (UNANSWERED if lease.pending else IDLE)
        self._confirm(lease, state, origin, drain)

    def _copy_messages(
        self,
        lease: SourceLease,
        state: OwnedStream,
        origin: Origin,
        mapping: SourceMapping,
        drain: OpenDrain,
    ) -> Refusal | None:
        """Copy the messages in their order; the refusal at which the stream must wait.

        Some may be left without a refusal: this drain has written enough.
        """
        reason = self._quarantined.get(state.topic)
        if reason is not None:
            return refusals.unavailable(reason)
        if state.config.republish is not None:
            note_last(state, [mapping.subject(one) for one in lease.subjects], drain)
        state.window.expire(drain.received)
        target = Target(
            state,
            max(drain.received, state.last_time),
            self._limits,
            self._streams.room,
            drain.log_of(state),
            body_reader(state, self._read_log),
        )
        if copy_columns(target, origin, mapping, lease):
            return None
        for message in messages_of(lease, origin.position):
            if self._ledgers > LEDGER_BYTES:
                return None
            passed_over, target.ledger_bytes = origin.dropped, 0
            refused = copy_one(target, origin, mapping, message)
            self._ledgers += target.ledger_bytes
            if refused is not None:
                return refused
            if lease.retains and origin.dropped > passed_over:
                # A queue has it no longer: it is kept where everything is that cannot be stored (SRC-10).
                stated = (h.STREAM_SOURCE, mapping.header(message.sequence, message.subject))
                headers = [*message.headers, stated]
                record = as_record(state.name, message.subject, headers, message.payload, drain.received)
                drain.reject(record, f"passed over by a source of {state.name}: {origin.description}")
        return None

    def _confirm(self, lease: SourceLease, state: OwnedStream, origin: Origin, drain: OpenDrain) -> None:
        """Tell the upstream what is copied: when much is, and of one that keeps messages for it, when all is (SRC-10)."""
        if not origin.unacknowledged:
            return
        window = min(WINDOW, origin.window * 4, takes(state, WINDOW))
        caught_up = not lease.pending and (lease.retains or origin.window < window)
        much = origin.copied - origin.acknowledged >= _CONFIRMED_AT
        if caught_up or much or origin.unacknowledged >= origin.window // 4:
            origin.window, origin.acknowledged, origin.unacknowledged = window, origin.copied, 0
            self._command("ack", state, lease.origin, origin, drain)

    # -- the end of a drain

    def end_drain(self, drain: OpenDrain) -> None:
        """Streams that took no more and have room now ask again (SRC-09): as many upstreams as there is room for messages, in turn.

        Something that goes begins a new turn, of all that wait. So each is asked once for it at most, and a stream with a thousand
        sources does not ask all of them for each message that goes.
        """
        for state in list(drain.touched.values()):
            if state.origins and not state.deleting:
                self._ask_those_that_wait(state, drain)
                self.watch(state)  # once for all leases of the drain: a stream may have a thousand sources

    def _ask_those_that_wait(self, state: OwnedStream, drain: OpenDrain) -> None:
        full = self._full_of(state)
        if full is None:
            return
        waiting, room = full.waiting, room_of(state, WINDOW)
        if state.messages < full.messages or state.bytes < full.bytes:
            waiting, room = _waiting(state), takes(state, WINDOW)
        left = self._ask_in_turn(state, waiting, room, drain)
        nothing = not left and state.messages < full.messages and not _waiting(state)
        self._full_now[state.incarnation] = None if nothing else _Full(state.messages, state.bytes, left)

    def _full_of(self, state: OwnedStream) -> _Full | None:
        if state.incarnation in self._full_now:
            return self._full_now[state.incarnation]
        return self._full.get(state.incarnation)

    def _ask_in_turn(
        self, state: OwnedStream, waiting: tuple[str, ...], room: int, drain: OpenDrain
    ) -> tuple[str, ...]:
        """Ask the first of those that wait; the others."""
        sources = state.origins.wanted(state.config)
        for place, key in enumerate(waiting):
            if room <= 0:
                return waiting[place:]
            origin = state.origins.get(key)
            if origin is not None and origin.waits and key in sources:  # else it was asked meanwhile
                self._attach(state, key, origin, sources[key], drain)
                room -= 1
        return ()


def _waiting(state: OwnedStream) -> tuple[str, ...]:
    """The origins of which the stream took no more, first those that it has not heard of for longest."""
    found = [(origin.heard, key) for key, origin in state.origins if origin.waits]
    return tuple(key for _, key in sorted(found))


def _put_off(origin: Origin, moment: int, most: int = LAST_RETRY) -> None:
    """Ask again later, after every failure later."""
    origin.retry = moment + min(most, FIRST_RETRY << min(origin.tries, 8))
    origin.tries += 1
