"""Calls of the API about consumers, at the owner of their stream: create, info, delete, lists, pulls, acknowledgements.

Answers are frames, or None where nobody is answered here: pulls are answered by leases, and an acknowledgement that cannot
be placed not at all (ACK-17).
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from railgun.api import consumers as api
from railgun.api.deliveries import parse_acknowledgement, parse_delivery, parse_pull
from railgun.api.names import ApiName, Operation
from railgun.api.responses import error_response, success_response
from railgun.model import refusals
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.refusals import Refusal
from railgun.model.wire import AckRun, ApiRequest, Frame
from railgun.node.attendance import Attendance, key_of
from railgun.node.consuming import CONFIRMED, Consuming
from railgun.node.listening import Listening
from railgun.node.pushing import Pushing
from railgun.node.work import Work
from railgun.semantics.consumers import pulls
from railgun.semantics.consumers.rules import check_consumer_update, normalise_consumer
from railgun.semantics.consumers.state import ConsumerState
from railgun.semantics.stream import StreamState

OPERATIONS = frozenset(
    {
        Operation.CONSUMER_CREATE,
        Operation.CONSUMER_DURABLE_CREATE,
        Operation.CONSUMER_INFO,
        Operation.CONSUMER_DELETE,
        Operation.CONSUMER_NAMES,
        Operation.CONSUMER_LIST,
        Operation.CONSUMER_MSG_NEXT,
        Operation.ACK,
        Operation.FLOW_CONTROL,
    }
)

TellEvents = Callable[[StreamState, Work, int], None]


class ConsumerCalls:
    """Answers calls about the consumers of one shard."""

    def __init__(
        self,
        attendance: Attendance,
        listening: Listening,
        consuming: Consuming,
        pushing: Pushing,
        tell_events: TellEvents,
    ) -> None:
        self._attendance = attendance
        self._listening = listening
        self._consuming = consuming
        self._pushing = pushing
        self._tell_events = tell_events

    def answer(
        self, request: ApiRequest, name: ApiName, stream: StreamState | None, time: int, now: int, work: Work
    ) -> list[Frame] | None:
        """The frames that answer the call; ``now`` is the wall clock."""
        operation = name.operation
        if operation is Operation.CONSUMER_MSG_NEXT:
            return self._next(request, name, time, now, work)
        if operation is Operation.ACK:
            return self._acknowledge(request, name, time, now, work)
        if operation is Operation.FLOW_CONTROL:
            return self._flow_control(name, work)
        if stream is None:
            return [error_response(operation, refusals.STREAM_NOT_FOUND)]  # CON-25
        if operation is Operation.CONSUMER_NAMES:
            return [api.names_response(request.body, stream.consumers)]
        if operation is Operation.CONSUMER_LIST:
            return [
                api.list_response(
                    request.body,
                    stream.consumers,
                    lambda one: api.info_object(stream.name, one, self._seen(stream, one)),
                )
            ]
        if operation in (Operation.CONSUMER_CREATE, Operation.CONSUMER_DURABLE_CREATE):
            made = self._create(request, name, stream, time, work)
        else:
            made = self._existing(name, stream, time, work)
        return [error_response(operation, made) if isinstance(made, Refusal) else made]

    # -- life

    def _create(
        self, request: ApiRequest, name: ApiName, stream: StreamState, time: int, work: Work
    ) -> Frame | Refusal:
        asked = api.parse_consumer(request.body, name)
        if isinstance(asked, Refusal):
            return asked
        config, action = asked
        if not config.name:
            config = config.model_copy(update={"name": _generated(stream, request, time)})  # CON-08
        assert config.name is not None
        existing = stream.consumers.get(config.name)
        others = [one.config for one in stream.consumers if one is not existing]
        if existing is None and action == "update":
            return refusals.CONSUMER_DOES_NOT_EXIST  # CON-10
        decided = normalise_consumer(config, stream.config, others, consumers=len(others))
        if isinstance(decided, Refusal):
            return decided
        if existing is None:
            existing = stream.consumers.create(decided, time)
            work.touch(stream)
            key = key_of(stream, existing)
            self._listening.added(key, decided, work, time)
            self._attendance.used(key, decided, time)
        elif decided != existing.config:
            if action == "create":
                return refusals.CONSUMER_EXISTS  # CON-10
            refused = self._update(stream, existing, decided, others, time, work)
            if refused is not None:
                return refused
        return self._described(name.operation, stream, existing)

    def _update(
        self,
        stream: StreamState,
        consumer: ConsumerState,
        config: ConsumerConfig,
        others: list[ConsumerConfig],
        time: int,
        work: Work,
    ) -> Refusal | None:
        listened = bool(self._listening.listeners(consumer.config)) if consumer.config.is_push else False
        decided = check_consumer_update(consumer.config, config, stream.config, others, listened=listened)
        if isinstance(decided, Refusal):
            return decided
        key, before = key_of(stream, consumer), consumer.config.deliver_subject
        stream.consumers.update(consumer, decided, time)
        work.stir(stream)
        if self._attendance.is_hungry(key):
            self._attendance.feed(key, consumer.terms.filter)
        if before != decided.deliver_subject:
            self._listening.removed(key, before)
            self._listening.added(key, decided, work, time)
        self._attendance.unused(key)
        self._attendance.used(key, decided, time)
        return None

    def _existing(self, name: ApiName, stream: StreamState, time: int, work: Work) -> Frame | Refusal:
        consumer = stream.consumers.get(name.consumer)
        if consumer is None:
            return refusals.CONSUMER_NOT_FOUND  # CON-25
        if name.operation is Operation.CONSUMER_INFO:
            return self._described(name.operation, stream, consumer)
        self.delete(stream, consumer, time, work)
        return success_response(name.operation)

    def delete(self, stream: StreamState, consumer: ConsumerState, time: int, work: Work) -> None:
        """The consumer is gone, and whoever waits for it is told (CON-31)."""
        self._tell_events(stream, work, time)  # while it is known what it wants to be done with dead letters
        self.dismiss(stream, consumer, work)
        stream.consumers.delete(consumer)
        work.stir(stream)

    def dismiss(self, stream: StreamState, consumer: ConsumerState, work: Work) -> None:
        """Forget what is in memory of a consumer that goes; its waiting pulls are told."""
        key = key_of(stream, consumer)
        self._listening.removed(key, consumer.config.deliver_subject)
        for pull in self._attendance.forget(key):
            self._consuming.tell(stream, consumer, pull, pulls.CONSUMER_DELETED, work)

    def _described(self, operation: Operation, stream: StreamState, consumer: ConsumerState) -> Frame:
        seen = self._seen(stream, consumer)
        return success_response(operation, api.info_object(stream.name, consumer, seen))

    def _seen(self, stream: StreamState, consumer: ConsumerState) -> api.Presence:
        key = key_of(stream, consumer)
        return api.Presence(self._attendance.waiting(key), self._listening.is_bound(key))

    # -- deliveries

    def _next(
        self, request: ApiRequest, name: ApiName, time: int, now: int, work: Work
    ) -> list[Frame] | None:
        found = self._consuming.find(name.stream, name.consumer)
        if found is None:
            self._consuming.nobody(request.client, name.stream, name.consumer, request.request, work)
            return None
        self._pull(found, request, request.body, time, now, work)
        return None

    def _pull(
        self,
        found: tuple[StreamState, ConsumerState],
        request: ApiRequest,
        body: bytes,
        time: int,
        now: int,
        work: Work,
    ) -> None:
        stream, consumer = found
        asked = parse_pull(body)
        if isinstance(asked, str):
            refused = pulls.PUSH_BASED if consumer.config.is_push else pulls.bad_request(asked)
            waiting = pulls.Waiting(request.client, request.request, 0)
            self._consuming.tell(stream, consumer, waiting, refused, work)
            return
        pull = asked._replace(id=request.request)
        self._consuming.pull(stream, consumer, pull, request.client, time, now, work)

    def _acknowledge(
        self, request: ApiRequest, name: ApiName, time: int, now: int, work: Work
    ) -> list[Frame] | None:
        found = self._consuming.find(name.stream, name.consumer)
        delivery = parse_delivery(name.filter)
        if found is None or delivery is None:
            return None
        said = parse_acknowledgement(request.body)
        if said.kind == "unknown":
            return [CONFIRMED]  # ACK-12
        kind = "ack" if said.kind == "next" else said.kind
        run = AckRun(
            kind,
            delivery.sequence,
            1,
            delivery.consumer_sequence,
            delivery.deliveries,
            said.delay,
            said.reason,
        )
        confirmed = self._consuming.acknowledge(*found, [run], time, work)
        if said.kind == "next":  # ACK-09, ACK-10
            self._pull(found, request, said.pull, time, now, work)
            return None
        return [CONFIRMED] if confirmed else None  # ACK-13, ACK-17

    def _flow_control(self, name: ApiName, work: Work) -> list[Frame]:
        found = self._consuming.find(name.stream, name.consumer)
        if found is not None:
            self._pushing.flow_answered(*found, name.filter, work)
        return [CONFIRMED]


def _generated(stream: StreamState, request: ApiRequest, time: int) -> str:
    """A name for a consumer without one: no other has it."""
    seed = f"{stream.incarnation}/{request.client}/{request.request}/{time}"
    while True:
        name = blake2b(seed.encode("utf-8"), digest_size=5).hexdigest()
        if stream.consumers.get(name) is None:
            return name
        seed = name
