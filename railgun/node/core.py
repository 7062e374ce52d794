"""The core of a shard: records in, decisions out. No Kafka, no clock, no threads.

One list of inputs becomes one :class:`~railgun.node.drain.Drain`. The driver makes it durable and calls
:meth:`ShardCore.committed`, or :meth:`ShardCore.aborted`, after which it is as if :meth:`ShardCore.apply` had never run.
Bad input never raises: it is answered, or kept in ``rejected`` with the reason.
"""

from __future__ import annotations

import heapq
import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress

from railgun.api import streams as api
from railgun.api.names import ApiName, Operation, Route, parse
from railgun.model import headers as h
from railgun.model import refusals, wire
from railgun.model.cluster import ClusterLimits
from railgun.model.config import StreamConfig
from railgun.model.durations import NANOS
from railgun.model.names import Names
from railgun.model.partitioning import partition_of
from railgun.model.refusals import Refusal
from railgun.model.wire import Answer, ApiRequest, Forward, Frame, PackReply, PublishPack, WireError
from railgun.node.drain import PACK, REQUEST, Drain, Input, LogAppend, Rejected, Replies, Trim
from railgun.node.ownership import REGISTRAR, OwnedStreams
from railgun.node.registrar import Registrar
from railgun.semantics import ttl
from railgun.semantics.publish import Stored, publish_pack
from railgun.semantics.stream import StreamState
from railgun.state import keys
from railgun.state.table import Overlay, Table

_UNLIMITED = 1 << 62
_LONGEST_SHIFT = 100 * 365 * 86_400 * NANOS
_CHANGES = (Operation.STREAM_CREATE, Operation.STREAM_UPDATE, Operation.STREAM_DELETE)
_REMOVALS = (Operation.MSG_DELETE, Operation.STREAM_PURGE)


class ShardCore:
    """Owner of one partition of ``commands`` and of every stream that lives there."""

    def __init__(
        self,
        partition: int,
        partitions: int,
        names: Names,
        limits: ClusterLimits,
        table: Table,
        *,
        test_clock: bool = False,
    ) -> None:
        self.partition = partition
        self._partitions = partitions
        self._names = names
        self._limits = limits
        self._table = table
        self._test_clock = test_clock
        self._overlay = Overlay(table)
        self._streams = OwnedStreams(partition, names, limits, self._overlay, self._send)
        self._registrar = Registrar(self._overlay, partitions, limits, self._send)
        self._quarantined: dict[str, str] = {}  # topic of a log that fails: why
        self._deadlines: list[tuple[int, str]] = []  # heap of (when, stream); stale entries are skipped
        self._scheduled: dict[str, int] = {}  # the entry of each stream that counts
        self.next_command = 0
        self.next_forward = 0
        self._clock = 0  # the newest time of receipt: time never goes back
        self._shift = 0  # of the test clock
        self._drain = Drain()
        self._logs: dict[str, Stored] = {}  # by stream
        self._touched: dict[str, StreamState] = {}
        self._bases: dict[str, list[int]] = {}  # by topic, of the drain that runs
        self._structural = False  # the drain created, deleted or swept a stream
        self._in_flight = 0

    # -- life

    def load(self) -> None:
        """Take over what the table holds; before the first :meth:`apply`, and after a restore."""
        self._read_cursor()
        self._streams.load()
        if self.partition == REGISTRAR:
            self._registrar.load()
        self._deadlines, self._scheduled = [], {}
        for state in self._streams:
            self._watch(state)

    def _read_cursor(self) -> None:
        data = self._overlay.get(keys.CURSOR)
        cursor = (
            {"commands": 0, "forwards": 0, "clock": 0} if data is None else wire.decode("shard_cursor", data)
        )
        self.next_command, self.next_forward = cursor["commands"], cursor["forwards"]
        self._clock = cursor["clock"]
        shift = self._overlay.get(keys.CLOCK_SHIFT)
        self._shift = 0 if shift is None else int.from_bytes(shift, "big")

    def apply(self, inputs: Sequence[Input], now: int) -> Drain:
        """Decide everything in ``inputs``, and whatever is due at ``now`` (wall clock, ns)."""
        self._begin()
        self._run_timers(now)
        for given in inputs:
            if given.offset < (self.next_forward if given.forwarded else self.next_command):
                continue  # decided before: the group's offsets were older than the cursor
            if given.forwarded:
                self.next_forward = given.offset + 1
            else:
                self.next_command = given.offset + 1
            self._clock = max(self._clock, given.time + self._shift)
            try:
                self._receive(given, now)
            except WireError as error:
                self._drain.rejected.append(Rejected(given, str(error)))
        if self._streams.sweeping:
            self._structural = True
            self._streams.sweep(self._drain)
        return self._finish()

    def committed(self, drain: Drain, first_offsets: Mapping[str, int]) -> None:
        """The drain is durable. ``first_offsets``: log topic to the offset of the first message of its append."""
        self._table.apply(drain.changes)
        self._overlay.clear()
        for topic, append in drain.appends.items():
            state = self._streams.get(append.stream)
            first = first_offsets.get(topic)
            if state is None or first is None:
                continue
            places = {
                base: first + bisect_left(append.sequences, base) for base in self._bases.get(topic, ())
            }
            state.committed(places, first + len(append.sequences))

    def aborted(self, drain: Drain) -> None:
        """The drain never happened: back to what the table holds."""
        del drain
        self._overlay.clear()
        if self._structural:
            self.load()
            return
        self._read_cursor()
        if self.partition == REGISTRAR:
            self._registrar.load()
        for name in self._touched:
            self._streams.reload(name)
            state = self._streams.get(name)
            if state is not None:
                self._watch(state)

    def next_deadline(self) -> int | None:
        """When :meth:`apply` has something to do even without input (wall clock, ns)."""
        if self._streams.sweeping:
            return 0
        return self._deadlines[0][0] - self._shift if self._deadlines else None

    def quarantine(self, topic: str, reason: str) -> None:
        """Publishes to the stream behind this log are refused with the reason until it is released."""
        self._quarantined[topic] = reason

    def release(self, topic: str) -> None:
        """The log works again."""
        self._quarantined.pop(topic, None)

    def refuse(self, culprit: Input, reason: str) -> Drain:
        """A drain that does nothing but refuse this one input, which could not be applied."""
        self._begin()
        self._drain.rejected.append(Rejected(culprit, reason))
        if culprit.forwarded:
            self.next_forward = max(self.next_forward, culprit.offset + 1)
        else:
            self.next_command = max(self.next_command, culprit.offset + 1)
        with suppress(WireError):  # nobody to answer: it is in ``rejected``
            self._answer_refused(culprit, refusals.unavailable(reason))
        return self._finish()

    # -- a drain

    def _begin(self) -> None:
        self._drain = Drain()
        self._logs, self._touched, self._bases = {}, {}, {}
        self._structural = False
        self._in_flight = 0

    def _finish(self) -> Drain:
        drain = self._drain
        for name, state in self._touched.items():
            if state.deleting:
                continue  # sealed when it was deleted; what this drain stored before is gone with it
            tombstones = state.tombstones
            log = self._logs.get(name) or Stored()
            if log.sequences or tombstones:
                drain.appends[state.topic] = _log_append(state, log, tombstones)
            self._bases[state.topic] = state.seal()
            drain.trims.append(Trim(state.topic, state.index.offset(state.first_seq, state.log_end)))
            self._watch(state)
        if self._overlay.changes or not drain.only_answers:
            cursor = {"commands": self.next_command, "forwards": self.next_forward, "clock": self._clock}
            self._overlay.put(keys.CURSOR, wire.encode("shard_cursor", cursor))
        drain.commands, drain.forwards = self.next_command, self.next_forward
        drain.changes = dict(self._overlay.changes)
        return drain

    def _touch(self, state: StreamState) -> None:
        self._touched[state.name] = state

    def _watch(self, state: StreamState) -> None:
        """Look at the stream when its next message expires. An entry that is too early stays: it only looks again."""
        due = state.next_expiry()
        if due is not None and due < self._scheduled.get(state.name, _UNLIMITED):
            self._scheduled[state.name] = due
            heapq.heappush(self._deadlines, (due, state.name))

    def _run_timers(self, now: int) -> None:
        """Remove what age and TTL end by now."""
        moment = max(now + self._shift, self._clock)
        due = set()
        while self._deadlines and self._deadlines[0][0] <= moment:
            when, name = heapq.heappop(self._deadlines)
            if self._scheduled.get(name) == when:
                del self._scheduled[name]
                due.add(name)
        for name in sorted(due):
            state = self._streams.get(name)
            if state is None:
                continue
            next_expiry = state.next_expiry()
            if next_expiry is None or next_expiry > moment:
                self._watch(state)
                continue
            self._touch(state)
            markers = ttl.expire(state, moment)
            if markers:
                self._clock = moment
                log = self._logs.setdefault(name, Stored())
                for marker in markers:
                    log.add(marker.sequence, marker.subject, marker.headers, b"", moment)

    # -- receiving

    def _receive(self, given: Input, now: int) -> None:
        if given.forwarded:
            self._receive_forward(Forward.decode(given.value or b""), given, now)
            return
        kind = h.first(given.headers, h.COMMAND_KIND)
        self._receive_command("" if kind is None else kind.decode("utf-8", "replace"), given, now)

    def _receive_command(self, kind: str, given: Input, now: int) -> None:
        value = given.value or b""
        if kind == PACK:
            pack = PublishPack.decode(value)
            if not self._forwarded_to_owner(pack.stream, kind, value):
                self._publish(pack)
        elif kind == REQUEST:
            request = ApiRequest.decode(value)
            name = parse(request.api)
            if name is None:
                raise WireError(f"there is no API {request.api!r}")
            self._request(request, name, now)
        elif kind == "":
            self._publish_plain(given)
        else:
            raise WireError(f"there is no command of the kind {kind!r}")

    def _receive_forward(self, forward: Forward, given: Input, now: int) -> None:
        _check_forward(forward)
        if forward.kind == "command":
            self._receive_command(forward.command_kind, given._replace(value=forward.command), now)
        elif forward.kind == "released":
            for waiting in self._registrar.released(forward):
                request = ApiRequest.decode(waiting)
                name = parse(request.api)
                if name is not None:
                    self._request(request, name, now)
        else:
            self._structural = True
            if forward.kind == "create":
                self._quarantined.pop(self._names.log(forward.stream), None)  # it gets a new log
            touched, frame = self._streams.change(forward, self._clock, self._drain)
            if touched is not None:
                self._touch(touched)
            self._answer(forward.client, forward.request, [frame])

    def _forwarded_to_owner(self, stream: str, kind: str, value: bytes) -> bool:
        """A command for a stream that lives elsewhere is passed on."""
        owner = partition_of(stream, self._partitions)
        if owner == self.partition:
            return False
        self._send(owner, Forward(self.partition, "command", stream, command_kind=kind, command=value))
        return True

    def _send(self, partition: int, forward: Forward) -> None:
        self._drain.sent.append((partition, forward.encode()))

    # -- publishing

    def _publish(self, pack: PublishPack) -> None:
        state = self._streams.get(pack.stream)
        count = len(pack.payloads)
        refused = self._not_taken(state)
        if state is None or refused is not None:
            reason = refused or refusals.NO_STREAM
            reply = PackReply(pack.stream, pack.first_request, [], [], [(i, reason) for i in range(count)])
        else:
            reply = self._store(state, pack, count)
        if pack.client and (state is None or not state.config.no_ack):  # PUB-02, PUB-03
            self._replies(pack.client).packs.append(reply)

    def _store(self, state: StreamState, pack: PublishPack, count: int) -> PackReply:
        taken = count
        if self._limits.max_in_flight:  # PUB-20
            taken = min(count, self._limits.max_in_flight - self._in_flight)
        self._in_flight += taken
        self._touch(state)
        outcome = publish_pack(
            state,
            pack.subjects[:taken],
            pack.ids[:taken],
            pack.headers[:taken],
            pack.payloads[:taken],
            self._clock,
            self._limits,
            self._room(),
            self._logs.setdefault(state.name, Stored()),
        )
        outcome.refused += [(index, refusals.TOO_MANY_REQUESTS) for index in range(taken, count)]
        return PackReply(state.name, pack.first_request, outcome.runs, outcome.duplicates, outcome.refused)

    def _publish_plain(self, given: Input) -> None:
        """A record of a producer without our code: nobody is answered, so a refusal goes to ``rejected``."""
        subject = h.first(given.headers, h.PLAIN_SUBJECT)
        if subject is None or not given.key:
            raise WireError(f"a plain publish needs the stream as its key and the header {h.PLAIN_SUBJECT}")
        stream = given.key.decode("utf-8", "replace")
        headers = [
            (name, value or b"") for name, value in given.headers if not name.startswith(h.RESERVED_PREFIX)
        ]
        pack = PublishPack(
            stream, "", 0, [subject.decode("utf-8", "replace")], [], [headers], [given.value or b""]
        )
        if self._forwarded_to_owner(stream, PACK, pack.encode()):
            return
        state = self._streams.get(stream)
        refused = self._not_taken(state)
        if state is None or refused is not None:
            raise WireError((refused or refusals.NO_STREAM).description)
        for _, refusal in self._store(state, pack, 1).refusals:
            self._drain.rejected.append(Rejected(given, refusal.description))

    def _not_taken(self, state: StreamState | None) -> Refusal | None:
        if state is None:
            return refusals.NO_STREAM
        reason = self._quarantined.get(state.topic)
        return None if reason is None else refusals.unavailable(reason)

    def _room(self) -> int:
        """Bytes that the platform has left for this shard (PUB-19)."""
        if not self._limits.max_store_bytes:
            return _UNLIMITED
        return self._limits.max_store_bytes - sum(state.bytes for state in self._streams)

    # -- requests

    def _request(self, request: ApiRequest, name: ApiName, now: int) -> None:
        if name.operation.route is Route.REGISTRAR and self.partition != REGISTRAR:
            forward = Forward(
                self.partition, "command", name.stream, command_kind=REQUEST, command=request.encode()
            )
            self._send(REGISTRAR, forward)
            return
        if name.operation.route is Route.OWNER and self._forwarded_to_owner(
            name.stream, REQUEST, request.encode()
        ):
            return
        frames = api.level_refused(request, name) or self._frames(request, name, now)
        if frames is not None:
            self._answer(request.client, request.request, frames)

    def _frames(self, request: ApiRequest, name: ApiName, now: int) -> list[Frame] | None:
        operation = name.operation
        if operation.needs_stream and operation not in _CHANGES:
            state = self._streams.get(name.stream)
            if state is not None and operation in _REMOVALS:
                self._touch(state)
            return api.answer(request, name, state)
        if operation in _CHANGES:
            return self._registrar.change(request, name, self._clock)
        if operation is Operation.PING:
            return [Frame([], b"{}")]
        if operation is Operation.CLOCK_ADVANCE:
            return [self._advance_clock(request.body, now)]
        if operation is Operation.INFO:
            return [api.account_response(self._registrar.known_streams(), self._limits)]
        if operation is Operation.STREAM_NAMES:
            return [api.names_response(request.body, self._registrar.known_streams())]
        return [api.list_response(request.body, self._streams)]

    def _advance_clock(self, body: bytes, now: int) -> Frame:
        """For tests: time jumps, and what is due then happens."""
        nanos = api.parse_advance(body)
        if not self._test_clock or isinstance(nanos, Refusal) or self._shift + nanos > _LONGEST_SHIFT:
            return api.error_response(Operation.CLOCK_ADVANCE, refusals.BAD_REQUEST)
        self._shift += nanos
        self._overlay.put(keys.CLOCK_SHIFT, keys.number(self._shift))
        self._run_timers(now)
        return Frame([], json.dumps({"now": max(now + self._shift, self._clock)}).encode())

    def _answer_refused(self, culprit: Input, refusal: Refusal) -> None:
        value = culprit.value or b""
        kind = (h.first(culprit.headers, h.COMMAND_KIND) or b"").decode("utf-8", "replace")
        if culprit.forwarded:
            forward = Forward.decode(value)
            if forward.kind in ("create", "update", "delete"):
                self._streams.refused(forward)
                self._answer(forward.client, forward.request, [api.refusal_frame(refusal)])
                return
            kind, value = forward.command_kind, forward.command
        if kind == PACK:
            pack = PublishPack.decode(value)
            refused = [(index, refusal) for index in range(len(pack.payloads))]
            if pack.client:
                self._replies(pack.client).packs.append(
                    PackReply(pack.stream, pack.first_request, [], [], refused)
                )
        elif kind == REQUEST:
            request = ApiRequest.decode(value)
            self._answer(request.client, request.request, [api.refusal_frame(refusal)])

    def _answer(self, client: str, request: int, frames: list[Frame]) -> None:
        if client:
            self._replies(client).answers.append(Answer(request, frames))

    def _replies(self, client: str) -> Replies:
        return self._drain.replies.setdefault(client, Replies())


def _check_forward(forward: Forward) -> None:
    """Only shards write forwards; one that is damaged must not reach the tables. Raises WireError."""
    if forward.kind == "command":
        return
    if not 0 < forward.incarnation < _UNLIMITED:
        raise WireError(f"there is no incarnation {forward.incarnation}")
    needs_config = forward.kind in ("create", "update") or forward.outcome == "active"
    if not needs_config:
        return
    try:
        config = StreamConfig.from_json(forward.config)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise WireError(f"not the configuration of a stream: {error}") from error
    if config.name != forward.stream:
        raise WireError(f"the configuration of {config.name!r} for the stream {forward.stream!r}")


def _log_append(state: StreamState, log: Stored, tombstones: list[tuple[int, bytes]]) -> LogAppend:
    if state.config.max_msgs_per_subject > 1:
        log_keys = [state.log_key(*one) for one in zip(log.subjects, log.sequences, strict=True)]
    else:
        encoded = {subject: subject.encode("utf-8") for subject in set(log.subjects)}
        log_keys = [encoded[subject] for subject in log.subjects]
    return LogAppend(
        state.name,
        state.topic,
        state.incarnation,
        log.sequences,
        log_keys,
        log.payloads,
        log.headers,
        log.times,
        tombstones,
    )
