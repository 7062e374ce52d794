"""The dispatcher of a shard: each record goes to the part that decides it.

Commands for streams that live elsewhere are passed on to their owner. Bytes that are not a command raise WireError, which
the core turns into a record of ``rejected``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from railgun.api import bodies, responses, streams
from railgun.api.names import ApiName, Operation, Route, parse
from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.model.stream_config import StreamConfig
from railgun.protocol.avro import WireError
from railgun.protocol.columnar.hand_overs import HAND_OVERS, HANDED_PACK, HandedPack, HandOverPack
from railgun.protocol.columnar.read_records import GetPack, ReadRequest
from railgun.protocol.commands import (
    CAPTURES,
    CONSUME,
    GETS,
    HANDED,
    NOTHING,
    PACK,
    PRESENCE,
    READ,
    REQUEST,
    STORE,
    ApiRequest,
    ConsumerCommand,
    Forward,
    HandedOver,
    Presence,
    PublishPack,
)
from railgun.protocol.replies import Frame
from railgun.protocol.routing import partition_of
from railgun.protocol.sourcing import SOURCE, SOURCED, SourceCommand, SourceLease
from railgun.semantics.steps import Steps
from railgun.semantics.streams import backlog
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.clock import ShardClock
from railgun.shard.consumers.calls import CREATES
from railgun.shard.consumers.room import OPERATIONS as CONSUMER_OPERATIONS
from railgun.shard.consumers.room import ConsumerRoom
from railgun.shard.drain import Input
from railgun.shard.long_calls import Call, LongCalls, Turn
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.adopting import Adopting
from railgun.shard.streams.captures import Captures
from railgun.shard.streams.owned import REGISTRAR, OwnedStreams
from railgun.shard.streams.publishing import Publishing, plain_pack, refused_pack
from railgun.shard.streams.reads import Reads
from railgun.shard.streams.registrar import Registrar
from railgun.shard.streams.sourcing import Sourcing
from railgun.shard.streams.stream_timers import StreamTimers
from railgun.state.table import Overlay

_LARGEST_INCARNATION = 1 << 62
_CHANGES = (Operation.STREAM_CREATE, Operation.STREAM_UPDATE, Operation.STREAM_DELETE)
_REMOVALS = (Operation.MSG_DELETE, Operation.STREAM_PURGE)


class _ToStream(Protocol):
    """A command of a client to the owner of one stream."""

    @property
    def client(self) -> str: ...
    @property
    def stream(self) -> str: ...


Command = TypeVar("Command", bound=_ToStream)


class _Kind(NamedTuple):
    """One kind of commands to owners of streams: how it is read, decided, and refused when it cannot be applied."""

    decode: Callable[[bytes], Any]
    decide: Callable[[Any, OpenDrain], None]
    refuse: Callable[[Any, Refusal, OpenDrain], None]


def _kind(
    decode: Callable[[bytes], Command],
    decide: Callable[[Command, OpenDrain], None],
    refuse: Callable[[Command, Refusal, OpenDrain], None],
) -> _Kind:
    """A kind whose three parts are of one command."""
    return _Kind(decode, decide, refuse)


class Dispatcher:
    """Receives the records of one shard, one at a time."""

    def __init__(
        self,
        partition: int,
        partitions: int,
        limits: ClusterLimits,
        overlay: Overlay,
        streams: OwnedStreams,
        registrar: Registrar,
        publishing: Publishing,
        consumers: ConsumerRoom,
        captures: Captures,
        timers: StreamTimers,
        clock: ShardClock,
        long_calls: LongCalls,
        sourcing: Sourcing,
        adopting: Adopting,
    ) -> None:
        self._partition = partition
        self._partitions = partitions
        self._limits = limits
        self._overlay = overlay
        self._streams = streams
        self._registrar = registrar
        self._publishing = publishing
        self._consumers = consumers
        self._captures = captures
        self._timers = timers
        self._clock = clock
        self._long_calls = long_calls
        self._sourcing = sourcing
        self._adopting = adopting
        reads = Reads(streams, long_calls)
        self._to_streams = {
            PACK: _kind(PublishPack.decode, publishing.pack, _refuse_pack),
            CONSUME: _kind(ConsumerCommand.decode, consumers.command, consumers.refuse),
            GETS: _kind(GetPack.decode, reads.gets, reads.refuse),
            READ: _kind(ReadRequest.decode, reads.page, reads.refuse_page),
            HAND_OVERS: _kind(HandOverPack.decode, consumers.hand_overs, consumers.refuse_hand_overs),
        }

    def receive(self, given: Input, drain: OpenDrain) -> None:
        """Decide one record. Raises WireError if it is not a command."""
        if given.forwarded:
            self._forward(Forward.decode(given.value or b""), given, drain)
        else:
            self._command(_kind_of(given), given, drain)

    def refuse(self, culprit: Input, refusal: Refusal, drain: OpenDrain) -> None:
        """Answer the client of a record that could not be applied. Raises WireError if the record cannot be read."""
        kind, value = _kind_of(culprit), culprit.value or b""
        if culprit.forwarded:
            forward = Forward.decode(value)
            if forward.kind in ("create", "update", "delete"):
                self._streams.refused(forward)
                drain.answer(forward.client, forward.request, [responses.refusal_frame(refusal)])
                return
            kind, value = forward.command_kind, forward.command
        if kind in self._to_streams:
            known = self._to_streams[kind]
            known.refuse(known.decode(value), refusal, drain)
        elif kind == REQUEST:
            request = ApiRequest.decode(value)
            drain.answer(request.client, request.request, [responses.refusal_frame(refusal)])

    def unreadable(self) -> dict[str, str]:
        """Streams, consumers and reservations that are not served because they cannot be read, with the reasons."""
        consumers = {
            f"the consumer {name} of the stream {state.name}" if name else f"a consumer of {state.name}": why
            for state in self._streams
            for name, why in state.consumers.unreadable.items()
        }
        return {**self._streams.aside.listed(), **consumers, **self._registrar.unreadable}

    # -- kinds of records

    def _command(self, kind: str, given: Input, drain: OpenDrain) -> None:
        value = given.value or b""
        if kind in self._to_streams:
            known = self._to_streams[kind]
            command = known.decode(value)
            self._consumers.heard_from(command.client, drain)
            if not self._passed_on(command.stream, kind, value, drain):
                known.decide(command, drain)
        elif kind == REQUEST:
            request = ApiRequest.decode(value)
            self._consumers.heard_from(request.client, drain)
            self._request(request, drain)
        elif kind == PRESENCE:
            self._consumers.presence(Presence.decode(value), drain)
        elif kind == "":
            pack = plain_pack(given)
            if not self._passed_on(pack.stream, PACK, pack.encode(), drain):
                self._publishing.plain(pack, given, drain)
        elif kind != NOTHING:  # which only shows where the topic ends (worker.shards.inputs)
            raise WireError(f"there is no command of the kind {kind!r}")

    def _forward(self, forward: Forward, given: Input, drain: OpenDrain) -> None:
        if forward.kind == "command":
            self._passed_here(forward, given, drain)
            return
        if forward.kind == "nothing":
            return  # it only carried the end of a transaction (worker.shards.undecided)
        _check_forward(forward)
        if forward.kind == "released":
            for waiting in self._registrar.released(forward):
                self._request(ApiRequest.decode(waiting), drain)
            return
        misfit = self._streams.misfit(forward)
        if misfit:
            drain.reject(given, misfit)
            drain.answer(
                forward.client, forward.request, [responses.refusal_frame(refusals.unavailable(misfit))]
            )
            return
        drain.structural = True
        if forward.kind == "delete":
            self._consumers.stream_goes(forward.stream, drain)
        touched, frame = self._streams.change(forward, drain.moment, drain.decisions)
        if touched is not None:
            drain.touch(touched)
            self._publishing.batches.stream_changed(touched)
            self._consumers.stream_changed(forward.kind, touched, drain)
            self._sourcing.stream_changed(forward.kind, touched, drain)
            self._adopting.stream_changed()
        if forward.kind == "update" and touched is not None:
            self._long_calls.start(_updated(forward), drain)
        else:
            drain.answer(forward.client, forward.request, [frame])

    def _passed_here(self, forward: Forward, given: Input, drain: OpenDrain) -> None:
        """A command that another shard passes on, or one that only shards may give."""
        if forward.command_kind == STORE:
            self._consumers.store_copies(PublishPack.decode(forward.command), drain)
        elif forward.command_kind == HANDED:
            self._handed(HandedOver.decode(forward.command), drain)
        elif forward.command_kind == HANDED_PACK:
            self._handed(HandedPack.decode(forward.command), drain)
        elif forward.command_kind == CAPTURES:
            self._captures.learn(forward.command)
        elif forward.command_kind == SOURCE:
            self._consumers.feeding.command(SourceCommand.decode(forward.command), drain)
        elif forward.command_kind == SOURCED:
            self._sourcing.receive(SourceLease.decode(forward.command), drain)
        else:
            self._command(forward.command_kind, given._replace(value=forward.command), drain)

    def _handed(self, handed: HandedOver | HandedPack, drain: OpenDrain) -> None:
        """Publishes that were handed over."""
        pack = PublishPack.decode(handed.pack)
        if isinstance(handed, HandedPack) and len(handed.of) != len(pack.payloads):
            raise WireError("not a handed_pack: publishes that come from no message")
        self._consumers.bury_refused(handed, pack, self._publishing.handed_over(pack, drain), drain)

    def _passed_on(self, stream: str, kind: str, value: bytes, drain: OpenDrain) -> bool:
        """A command for a stream that lives elsewhere goes to its owner."""
        return self._sent_to(partition_of(stream, self._partitions), stream, kind, value, drain)

    def _sent_to(self, owner: int, stream: str, kind: str, value: bytes, drain: OpenDrain) -> bool:
        if owner == self._partition:
            return False
        drain.send(owner, Forward(self._partition, "command", stream, command_kind=kind, command=value))
        return True

    # -- requests

    def _request(self, request: ApiRequest, drain: OpenDrain) -> None:
        name = parse(request.api)
        if name is None:
            raise WireError(f"there is no API {request.api!r}")
        owner = {Route.REGISTRAR: REGISTRAR, Route.OWNER: partition_of(name.stream, self._partitions)}
        decided_by = owner.get(name.operation.route, self._partition)
        if self._sent_to(decided_by, name.stream, REQUEST, request.encode(), drain):
            return
        refused = streams.level_refused(request, name) or streams.body_refused(request, name)
        frames = refused or self._frames(request, name, drain)
        if frames is not None:
            drain.answer(request.client, request.request, frames)

    def _frames(self, request: ApiRequest, name: ApiName, drain: OpenDrain) -> list[Frame] | None:
        operation = name.operation
        if operation in _CHANGES:
            return self._registrar.change(request, name, drain.moment)
        if operation.needs_stream:
            state = self._streams.get(name.stream)
            refused = None if state is not None else self._streams.aside.refusal(name.stream)
            if refused is not None:
                return [responses.refusal_frame(refused)]
            if operation in CONSUMER_OPERATIONS - CREATES:
                return self._consumers.answer(request, name, state, drain)
            self._long_calls.start(self._call(request, name, state), drain)
            return None
        if operation is Operation.PING:
            pong = {
                "received": drain.record_time,
                "now": drain.wall,
                "moment": drain.moment,
                "unreadable": self.unreadable(),
            }
            return [Frame([], json.dumps(pong).encode("utf-8"))]
        if operation is Operation.CLOCK_ADVANCE:
            return [self._advance_clock(request.body, drain)]
        if operation is Operation.INFO:
            return [responses.account_response(self._streams, self._limits)]
        if operation is Operation.STREAM_NAMES:
            return [responses.names_response(request.body, self._registrar.known_streams())]
        return [responses.list_response(request.body, self._streams, drain.moment)]

    def _call(self, request: ApiRequest, name: ApiName, state: OwnedStream | None) -> Call:
        """A call about a stream, which may take longer than this drain."""

        def begin(stream: OwnedStream | None, turn: Turn) -> Steps[list[Frame]]:
            if name.operation in CREATES:
                return self._consumers.create(request, name, stream, turn)
            return streams.answer(request, name, stream, turn.memo, turn.drain.moment)

        return Call(
            request.client,
            request.request,
            name.stream,
            0 if state is None else state.incarnation,
            name.operation in _REMOVALS,
            begin,
            [responses.error_response(name.operation, refusals.TOO_MANY_REQUESTS)],
        )

    def _advance_clock(self, body: bytes, drain: OpenDrain) -> Frame:
        """For tests: time jumps, and everything that is due by then happens."""
        nanos = bodies.parse_advance(body)
        if isinstance(nanos, Refusal) or not self._clock.advance(nanos, self._overlay):
            return responses.error_response(Operation.CLOCK_ADVANCE, refusals.BAD_REQUEST)
        self._clock.follow(drain.wall)
        for state in drain.touched.values():
            self._timers.watch(state)  # messages of this drain may expire, too
        self._timers.run(drain)
        self._publishing.batches.run(drain)
        self._consumers.run(drain)
        return Frame([], json.dumps({"now": drain.moment}).encode("utf-8"))


def _updated(forward: Forward) -> Call:
    """The answer to an update, once the stream is within its new limits (UPD-06)."""

    def begin(stream: OwnedStream | None, turn: Turn) -> Steps[list[Frame]]:
        if stream is None:
            return [responses.error_response(Operation.STREAM_UPDATE, refusals.STREAM_NOT_FOUND)]
        yield from backlog.catch_up(stream)
        return [responses.update_response(stream, turn.drain.moment)]

    return Call(forward.client, forward.request, forward.stream, forward.incarnation, True, begin, None)


def _refuse_pack(pack: PublishPack, refusal: Refusal, drain: OpenDrain) -> None:
    if pack.client:
        drain.answer_pack(pack.client, refused_pack(pack, refusal))


def _kind_of(given: Input) -> str:
    kind = h.first(given.headers, h.COMMAND_KIND)
    return "" if kind is None else kind.decode("utf-8", "replace")


def _check_forward(forward: Forward) -> None:
    """Only shards write forwards; a damaged one must not reach the tables. Raises WireError."""
    if not 0 < forward.incarnation < _LARGEST_INCARNATION:
        raise WireError(f"there is no incarnation {forward.incarnation}")
    if forward.kind not in ("create", "update") and forward.outcome != "active":
        return
    try:
        config = StreamConfig.from_json(forward.config)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise WireError(f"not the configuration of a stream: {error}") from error
    if config.name != forward.stream:
        raise WireError(f"the configuration of {config.name!r} for the stream {forward.stream!r}")
