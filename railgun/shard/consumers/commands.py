"""Commands of clients for the consumers of a shard: acknowledgements, pulls, presence.

Acknowledgements are decided at once, in their order. A pull only joins the line of its consumer; what it gets is decided at
the end of the drain (:mod:`railgun.shard.consumers.delivering`). Pulls and presence are in memory only.
"""

from __future__ import annotations

from collections.abc import Sequence

from railgun.api.responses import refusal_frame
from railgun.model import refusals
from railgun.model.durations import LONGEST
from railgun.model.refusals import Refusal
from railgun.protocol import statuses
from railgun.protocol.commands import AckRun, ConsumerCommand, HandOver, Presence, Pull
from railgun.protocol.hand_overs import HandOverPack
from railgun.protocol.leases import Lease
from railgun.protocol.replies import Frame
from railgun.protocol.statuses import Status
from railgun.semantics.consumers.consumer_state import ConsumerState
from railgun.semantics.consumers.delivery import waiting_pulls as pulls
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.consumers.dead_letters import LetterOrigin
from railgun.shard.consumers.delivering import Delivering
from railgun.shard.consumers.demand import ConsumerKey, Demand, key_of, living
from railgun.shard.consumers.handing_over import HandingOver, check, origin_of, read_together
from railgun.shard.consumers.leases import answer_pull
from railgun.shard.consumers.presence import Presences
from railgun.shard.consumers.push_targets import PushTargets
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams

CONFIRMED = Frame([], b"")  # ACK-13
_KINDS = frozenset({"ack", "nak", "progress", "term", "back"})


class ConsumerCommands:
    """Applies the commands for the consumers of one shard, one at a time."""

    def __init__(
        self,
        streams: OwnedStreams,
        demand: Demand,
        presences: Presences,
        push_targets: PushTargets,
        delivering: Delivering,
        handing_over: HandingOver,
    ) -> None:
        self._streams = streams
        self._demand = demand
        self._presences = presences
        self._push_targets = push_targets
        self._delivering = delivering
        self._handing_over = handing_over

    # -- commands

    def command(self, command: ConsumerCommand, drain: OpenDrain) -> None:
        """Acknowledgements first, then a hand-over, then pulls that are called off, then a new pull."""
        found = self.find(command.stream, command.consumer, command.incarnation, command.number)
        if found is None:
            self._unknown(command, drain)
            return
        stream, consumer = found
        key = key_of(stream, consumer)
        confirmed = self.acknowledge(stream, consumer, command.acks, drain)
        frame = CONFIRMED
        if command.hand_over is not None:
            refused = self._hand_over(stream, consumer, command.hand_over, drain)
            confirmed, frame = True, CONFIRMED if refused is None else refusal_frame(refused)
        for number in command.cancelled:
            if self._demand.leave(key, (command.client, number)) is not None:
                self._demand.used(key, consumer.config, drain.moment)
        if command.pull is not None:
            self.pull(stream, consumer, command.pull, command.client, drain)
        if command.request and confirmed:
            drain.answer(command.client, command.request, [frame])

    def hand_overs(self, given: HandOverPack, drain: OpenDrain) -> None:
        """Each acknowledgement and its publishes, in one transaction; or neither of the two, and its client is told why (EXO-08)."""
        found = self.find(given.stream, given.consumer, given.incarnation, given.number)
        if found is None:
            refused = self._unreadable(given.stream, given.consumer) or refusals.CONSUMER_NOT_FOUND
            self.refuse_hand_overs(given, refused, drain)
            return
        stream, consumer = found
        self._demand.used(key_of(stream, consumer), consumer.config, drain.moment)
        packs = read_together(given.packs)
        if isinstance(packs, Refusal):
            self.refuse_hand_overs(given, packs, drain)
            return
        done: dict[int, LetterOrigin] = {}
        deliveries = zip(given.sequences, given.consumer_sequences, given.deliveries, strict=True)
        for place, (request, delivery) in enumerate(zip(given.requests, deliveries, strict=True)):
            one = HandOver(*delivery, [])
            why_not = check(consumer, one, drain.moment)
            if why_not is None:
                done[place] = origin_of(stream, consumer, one)
                run = AckRun("ack", one.sequence, 1, one.consumer_sequence, one.deliveries)
                self.acknowledge(stream, consumer, [run], drain)
            frame = CONFIRMED if why_not is None else refusal_frame(why_not)
            drain.answer(given.client, request, [frame])
        self._handing_over.send_together(packs, done, consumer, drain)

    @staticmethod
    def refuse_hand_overs(given: HandOverPack, refusal: Refusal, drain: OpenDrain) -> None:
        """None of them could be applied: each is answered with the reason."""
        for request in given.requests:
            drain.answer(given.client, request, [refusal_frame(refusal)])

    def _unreadable(self, stream: str, consumer: str) -> Refusal | None:
        """Why the consumer is not served although it may exist."""
        state = self._streams.get(stream)
        return self._streams.aside.refusal(stream) if state is None else state.consumers.refusal(consumer)

    def _unknown(self, command: ConsumerCommand, drain: OpenDrain) -> None:
        """The consumer does not exist (any more), has another number, or cannot be read."""
        refused = self._unreadable(command.stream, command.consumer)
        if refused is not None:
            self.refuse(command, refused, drain)
        else:
            _refuse(command, refusals.CONSUMER_NOT_FOUND, statuses.CONSUMER_DELETED, drain)

    @staticmethod
    def refuse(command: ConsumerCommand, refusal: Refusal, drain: OpenDrain) -> None:
        """The command could not be applied: its request and its pull are answered with the reason."""
        _refuse(command, refusal, Status(refusal.code, refusal.description), drain)

    def find(
        self, stream: str, consumer: str, incarnation: int = 0, number: int = 0
    ) -> tuple[OwnedStream, ConsumerState] | None:
        """The consumer, None if it does not exist; incarnation and number 0 mean any."""
        state = self._streams.get(stream)
        if state is None or incarnation not in (0, state.incarnation):
            return None
        found = state.consumers.get(consumer)
        if found is None or number not in (0, found.number) or found.config.direct:
            return None
        return state, found

    # -- acknowledgements

    def acknowledge(
        self, stream: OwnedStream, consumer: ConsumerState, runs: Sequence[AckRun], drain: OpenDrain
    ) -> bool:
        """Decide the runs. False if one of them names a message that was never delivered (ACK-17)."""
        if not runs:
            return True
        key = key_of(stream, consumer)
        self._demand.used(key, consumer.config, drain.moment)
        if consumer.config.ack_policy == "none":
            return True  # ACK-04
        drain.touch(stream)
        drain.ready[key] = None
        confirmed = True
        for run in runs:
            confirmed = (
                self._possible(stream, run) and consumer.acknowledge(_tamed(run), drain.moment) and confirmed
            )
        return confirmed

    def _hand_over(
        self, stream: OwnedStream, consumer: ConsumerState, given: HandOver, drain: OpenDrain
    ) -> Refusal | None:
        """The acknowledgement and its publishes, in one transaction; or why not, and then neither happens (EXO-08)."""
        self._demand.used(key_of(stream, consumer), consumer.config, drain.moment)
        refused = self._handing_over.send(stream, consumer, given, drain)
        if refused is None:
            run = AckRun("ack", given.sequence, 1, given.consumer_sequence, given.deliveries)
            self.acknowledge(stream, consumer, [run], drain)
        return refused

    @staticmethod
    def _possible(stream: OwnedStream, run: AckRun) -> bool:
        return (
            run.kind in _KINDS
            and run.sequence > 0
            and run.length > 0
            and run.sequence + run.length - 1 <= stream.last_seq
        )

    # -- pulls

    def pull(
        self,
        stream: OwnedStream,
        consumer: ConsumerState,
        pull: Pull,
        client: str,
        drain: OpenDrain,
    ) -> None:
        """The pull joins the line, or is refused with a status. One that waits already was sent twice."""
        if not client:
            return
        key, config = key_of(stream, consumer), consumer.config
        line = self._demand.line(key)
        if line is not None and line.get((client, pull.id)) is not None:
            self._presences.add(client, drain.wall)
            return
        waiting = pulls.begin(pull, client, drain.moment, drain.late)
        refused = pulls.refusal(pull, config)
        if refused is not None:
            answer_pull(drain, stream, consumer, waiting, refused)
            return
        if pulls.is_stale(pull, drain.late):
            answer_pull(drain, stream, consumer, waiting, waiting.timed_out())
            return
        if self._full(key, consumer):
            self._delivering.serve(key, drain)  # what can be answered leaves the line
            if self._full(key, consumer):
                if not waiting.heartbeat:  # PUL-08
                    answer_pull(drain, stream, consumer, waiting, statuses.EXCEEDED_MAX_WAITING)
                return
        self._presences.add(client, drain.wall)
        self._demand.join(key, waiting, consumer.terms.filter)
        self._demand.used(key, consumer.config, drain.moment)
        drain.ready[key] = None

    def _full(self, key: ConsumerKey, consumer: ConsumerState) -> bool:
        return self._demand.waiting(key) >= (consumer.config.max_waiting or 1)

    # -- presence

    def presence(self, presence: Presence, drain: OpenDrain) -> None:
        """A client is there and listens, or leaves."""
        if not presence.client:
            return
        if presence.leaving:
            self.gone(presence.client, drain)
            return
        self._presences.add(presence.client, drain.wall)
        gained, lost = self._presences.listen(presence.client, presence.listens)
        if gained or lost:
            self._push_targets.changed(gained, lost, drain)

    def gone(self, client: str, drain: OpenDrain) -> None:
        """The client waits and listens no more; its pulls are for the next in line (PUL-14)."""
        for key, pull in self._demand.of_client(client):
            self._demand.leave(key, pull)
            left = living(self._streams, key)
            if left is not None:
                self._demand.used(key, left[1].config, drain.moment)
        gained, lost = self._presences.listen(client, ())
        self._presences.forget(client)
        if lost:
            self._push_targets.changed(gained, lost, drain)


def _refuse(command: ConsumerCommand, refusal: Refusal, status: Status, drain: OpenDrain) -> None:
    if command.request:
        drain.answer(command.client, command.request, [refusal_frame(refusal)])
    if command.pull is not None and command.client:
        ended = Lease(command.stream, 0, command.consumer, 0, "", pull=command.pull.id, done=True)
        ended = ended._replace(status=status.code, description=status.description)
        drain.replies(command.client).leases.append(ended)


def _tamed(run: AckRun) -> AckRun:
    return run._replace(delay=min(max(run.delay, 0), LONGEST)) if run.delay else run
