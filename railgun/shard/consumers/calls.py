"""Calls of the API about consumers, at the owner of their stream: create, info, delete and lists."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

from railgun.api import consumers as api
from railgun.api.names import ApiName, Operation
from railgun.api.responses import error_response, success_response
from railgun.model import refusals
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.refusals import Refusal
from railgun.protocol import statuses
from railgun.protocol.commands import ApiRequest
from railgun.protocol.replies import Frame
from railgun.semantics.consumers.configuration.consumer_configuration import (
    check_consumer_update,
    completed,
    kept_by_update,
    normalise_consumer,
)
from railgun.semantics.consumers.configuration.start import SEARCHED, Start, find
from railgun.semantics.consumers.consumer_state import ConsumerState
from railgun.semantics.steps import Steps
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.consumers.demand import Demand, key_of
from railgun.shard.consumers.leases import answer_pull
from railgun.shard.consumers.push_targets import PushTargets
from railgun.shard.long_calls import Turn
from railgun.shard.open_drain import OpenDrain

CREATES = frozenset({Operation.CONSUMER_CREATE, Operation.CONSUMER_DURABLE_CREATE})
CALLS = frozenset(
    {
        *CREATES,
        Operation.CONSUMER_INFO,
        Operation.CONSUMER_DELETE,
        Operation.CONSUMER_NAMES,
        Operation.CONSUMER_LIST,
    }
)

ReportEvents = Callable[[OwnedStream, OpenDrain], None]


class ConsumerCalls:
    """Answers calls about the consumers of one shard."""

    def __init__(
        self,
        demand: Demand,
        push_targets: PushTargets,
        report_events: ReportEvents,
    ) -> None:
        self._demand = demand
        self._push_targets = push_targets
        self._report_events = report_events

    def answer(
        self,
        request: ApiRequest,
        name: ApiName,
        stream: OwnedStream | None,
        drain: OpenDrain,
    ) -> list[Frame]:
        """The frames that answer the call."""
        operation = name.operation
        if stream is None:
            return [error_response(operation, _unknown_stream(request, name))]
        if operation is Operation.CONSUMER_NAMES:
            return [api.names_response(request.body, stream.consumers.public)]
        if operation is Operation.CONSUMER_LIST:
            return [
                api.list_response(
                    request.body,
                    stream.consumers.public,
                    lambda one: api.info_object(stream.name, one, self._seen(stream, one)),
                )
            ]
        made = self._existing(name, stream, drain)
        return [error_response(operation, made) if isinstance(made, Refusal) else made]

    # -- life

    def create(
        self, request: ApiRequest, name: ApiName, stream: OwnedStream | None, turn: Turn
    ) -> Steps[list[Frame]]:
        """A consumer is made or changed. Finding where it starts may take longer than a drain."""
        if stream is None:
            return [error_response(name.operation, _unknown_stream(request, name))]
        asked, begins, found = api.parse_consumer(request.body, name), None, None
        if not isinstance(asked, Refusal):
            # Meanwhile the consumer may be made, deleted or changed: then its start is looked for again.
            while (search := _search(stream, asked[0])) is not None and search != found:
                begins, found = (yield from find(stream, asked[0], search.began)), search
        made = self._create(request, name, stream, turn.drain, begins)
        return [error_response(name.operation, made) if isinstance(made, Refusal) else made]

    def _create(
        self,
        request: ApiRequest,
        name: ApiName,
        stream: OwnedStream,
        drain: OpenDrain,
        begins: Start | None,
    ) -> Frame | Refusal:
        asked = api.parse_consumer(request.body, name)
        if isinstance(asked, Refusal):
            return asked
        config, action = asked
        given = bool(config.name)
        if not given:
            config = config.model_copy(update={"name": _generated(stream, request, drain.moment)})  # CON-08
        assert config.name is not None
        refused = stream.consumers.refusal(config.name) if given else None
        if refused is not None:
            return refused
        existing = stream.consumers.get(config.name)
        if existing is not None and existing.config.direct:
            return refusals.CONSUMER_NAME_IN_USE
        if existing is not None and action != "create":
            config = kept_by_update(existing.config, config)
        others = [one.config for one in stream.consumers if one is not existing]
        decided = completed(config, stream.config)
        if isinstance(decided, Refusal):
            return decided
        if existing is None:
            if action == "update":
                return refusals.CONSUMER_DOES_NOT_EXIST  # CON-10
            decided = normalise_consumer(
                decided, stream.config, others, consumers=len(stream.consumers.public)
            )
            if isinstance(decided, Refusal):
                return decided
            existing = stream.consumers.create(decided, drain.moment, begins)
            drain.touch(stream)
            key = key_of(stream, existing)
            self._push_targets.added(key, decided, drain)
            self._demand.used(key, decided, drain.moment)
        elif decided != existing.config:
            if action == "create":
                return refusals.CONSUMER_EXISTS  # CON-10
            refused = self._update(stream, existing, decided, others, drain, begins)
            if refused is not None:
                return refused
        return self._described(name.operation, stream, existing)

    def _update(
        self,
        stream: OwnedStream,
        consumer: ConsumerState,
        config: ConsumerConfig,
        others: list[ConsumerConfig],
        drain: OpenDrain,
        begins: Start | None,
    ) -> Refusal | None:
        listened = bool(self._push_targets.listeners(consumer.config)) if consumer.config.is_push else False
        decided = check_consumer_update(consumer.config, config, stream.config, others, listened=listened)
        if isinstance(decided, Refusal):
            return decided
        key, before = key_of(stream, consumer), consumer.config
        stream.consumers.update(consumer, decided, drain.moment, begins)
        drain.touch(stream)
        drain.ready[key] = None
        if self._demand.is_wanted(key):
            self._demand.want(key, consumer.terms.filter)
        if (before.deliver_subject, before.deliver_group) != (decided.deliver_subject, decided.deliver_group):
            self._push_targets.removed(key, before.deliver_subject)
            self._push_targets.added(key, decided, drain)
        self._demand.unused(key)
        self._demand.used(key, decided, drain.moment)
        return None

    def _existing(self, name: ApiName, stream: OwnedStream, drain: OpenDrain) -> Frame | Refusal:
        consumer = stream.consumers.get(name.consumer)
        if consumer is None or consumer.config.direct:
            return stream.consumers.refusal(name.consumer) or refusals.CONSUMER_NOT_FOUND  # CON-25
        if name.operation is Operation.CONSUMER_INFO:
            return self._described(name.operation, stream, consumer)
        self.delete(stream, consumer, drain)
        return success_response(name.operation)

    def delete(self, stream: OwnedStream, consumer: ConsumerState, drain: OpenDrain) -> None:
        """The consumer is gone, and its waiting pulls are answered (CON-31)."""
        self._report_events(stream, drain)  # while its configuration says where dead letters go
        self.dismiss(stream, consumer, drain)
        stream.consumers.delete(consumer)
        drain.touch(stream)

    def dismiss(self, stream: OwnedStream, consumer: ConsumerState, drain: OpenDrain) -> None:
        """A consumer that goes is removed from memory; its waiting pulls are answered."""
        key = key_of(stream, consumer)
        self._push_targets.removed(key, consumer.config.deliver_subject)
        for pull in self._demand.forget(key):
            answer_pull(drain, stream, consumer, pull, statuses.CONSUMER_DELETED)

    def _described(self, operation: Operation, stream: OwnedStream, consumer: ConsumerState) -> Frame:
        seen = self._seen(stream, consumer)
        return success_response(operation, api.info_object(stream.name, consumer, seen))

    def _seen(self, stream: OwnedStream, consumer: ConsumerState) -> api.Activity:
        key = key_of(stream, consumer)
        return api.Activity(self._demand.waiting(key), self._push_targets.is_bound(key))


class _Search(NamedTuple):
    """The consumer whose start is looked for."""

    number: int  # 0: a new consumer
    began: int  # as for :func:`find`


def _search(stream: OwnedStream, config: ConsumerConfig) -> _Search | None:
    """The search that must precede making or changing the consumer; None: there is none."""
    existing = stream.consumers.get(config.name or "")
    if existing is None:
        return _Search(0, 0) if config.deliver_policy in SEARCHED else None
    return (
        _Search(existing.number, existing.began) if stream.consumers.searches_anew(existing, config) else None
    )


def _unknown_stream(request: ApiRequest, name: ApiName) -> Refusal:
    """The stream does not exist (CON-25). A creation that cannot be read is refused for that first, as by the registrar."""
    if name.operation in (Operation.CONSUMER_CREATE, Operation.CONSUMER_DURABLE_CREATE):
        asked = api.parse_consumer(request.body, name)
        if isinstance(asked, Refusal):
            return asked
    return refusals.STREAM_NOT_FOUND


def _generated(stream: OwnedStream, request: ApiRequest, time: int) -> str:
    """A unique name for a consumer that was given none."""
    seed = f"{stream.incarnation}/{request.client}/{request.request}/{time}"
    while True:
        name = blake2b(seed.encode("utf-8"), digest_size=5).hexdigest()
        if stream.consumers.get(name) is None:
            return name
        seed = name
