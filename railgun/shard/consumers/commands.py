"""What clients tell the consumers of a shard: acknowledgements, pulls, that they are there, that they go.

Acknowledgements are decided at once, in their order. A pull only joins the line of its consumer; what it gets is decided at
the end of the drain (:mod:`railgun.shard.consumers.delivering`). Pulls and presence are in memory only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from railgun.api.streams import refusal_frame
from railgun.model import refusals
from railgun.model.refusals import Refusal
from railgun.protocol.avro import Frame
from railgun.protocol.leases import AckRun, ConsumerCommand, Lease, Presence, Pull
from railgun.semantics.consumers.consumer_state import ConsumerState
from railgun.semantics.consumers.delivery import waiting_pulls as pulls
from railgun.semantics.consumers.delivery.waiting_pulls import Status, Waiting
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.consumers.demand import ConsumerKey, Demand, key_of, living
from railgun.shard.consumers.leases import told
from railgun.shard.consumers.presence import Presences
from railgun.shard.consumers.push_targets import PushTargets
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams

CONFIRMED = Frame([], b"")  # ACK-13
_LONGEST_DELAY = 100 * 365 * 86_400 * 10**9
_KINDS = frozenset({"ack", "nak", "progress", "term", "back"})

Serve = Callable[[ConsumerKey, OpenDrain, int], int]


class ConsumerCommands:
    """Takes commands for the consumers of one shard, one at a time."""

    def __init__(
        self,
        streams: OwnedStreams,
        attendance: Demand,
        audience: Presences,
        listening: PushTargets,
        serve: Serve,
    ) -> None:
        self._streams = streams
        self._attendance = attendance
        self._audience = audience
        self._listening = listening
        self._serve = serve

    # -- commands

    def command(self, command: ConsumerCommand, time: int, now: int, work: OpenDrain) -> None:
        """Acknowledgements, then pulls that are called off, then a new pull; ``now`` is the wall clock."""
        found = self.find(command.stream, command.consumer, command.incarnation, command.number)
        if found is None:
            self._unknown(command, work)
            return
        stream, consumer = found
        key = key_of(stream, consumer)
        confirmed = self.acknowledge(stream, consumer, command.acks, time, work)
        for number in command.cancelled:
            if self._attendance.leave(key, (command.client, number)) is not None:
                self._attendance.used(key, consumer.config, time)
        if command.pull is not None:
            self.pull(stream, consumer, command.pull, command.client, time, now, work)
        if command.request and confirmed:
            work.answer(command.client, command.request, [CONFIRMED])

    def _unknown(self, command: ConsumerCommand, work: OpenDrain) -> None:
        """The consumer does not live: not any more, or under that number; or it cannot be read."""
        stream = self._streams.get(command.stream)
        aside = self._streams.aside.refusal(command.stream) if stream is None else None
        refused = aside if stream is None else stream.consumers.refusal(command.consumer)
        if refused is not None:
            self.refuse(command, refused, work)
            return
        if command.request:
            work.answer(command.client, command.request, [refusal_frame(refusals.CONSUMER_NOT_FOUND)])
        if command.pull is not None:
            self.nobody(command.client, command.stream, command.consumer, command.pull.id, work)

    @staticmethod
    def refuse(command: ConsumerCommand, refusal: Refusal, work: OpenDrain) -> None:
        """The command could not be applied: whoever waits for its answer or its messages hears why."""
        if command.request:
            work.answer(command.client, command.request, [refusal_frame(refusal)])
        if command.pull is not None and command.client:
            ended = Status(refusal.code, refusal.description)
            work.replies(command.client).leases.append(
                _of_nobody(command.stream, command.consumer, command.pull.id, ended)
            )

    @staticmethod
    def nobody(client: str, stream: str, consumer: str, pull: int, work: OpenDrain) -> None:
        """The answer to a pull of a consumer that does not live."""
        if client:
            work.replies(client).leases.append(_of_nobody(stream, consumer, pull, pulls.CONSUMER_DELETED))

    def find(
        self, stream: str, consumer: str, incarnation: int = 0, number: int = 0
    ) -> tuple[OwnedStream, ConsumerState] | None:
        """The consumer, if it lives; incarnation and number 0 mean whichever lives."""
        state = self._streams.get(stream)
        if state is None or incarnation not in (0, state.incarnation):
            return None
        found = state.consumers.get(consumer)
        return None if found is None or number not in (0, found.number) else (state, found)

    # -- acknowledgements

    def acknowledge(
        self, stream: OwnedStream, consumer: ConsumerState, runs: Sequence[AckRun], time: int, work: OpenDrain
    ) -> bool:
        """Decide the runs; False if one of them names what was never delivered (ACK-17)."""
        if not runs:
            return True
        key = key_of(stream, consumer)
        self._attendance.used(key, consumer.config, time)
        if consumer.config.ack_policy == "none":
            return True  # ACK-04
        work.touch(stream)
        work.ready[key] = None
        confirmed = True
        for run in runs:
            confirmed = self._possible(stream, run) and consumer.acknowledge(_tamed(run), time) and confirmed
        return confirmed

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
        time: int,
        now: int,
        work: OpenDrain,
    ) -> None:
        """The pull joins the line, or is told why it may not; one that waits already is the same one sent again."""
        if not client:
            return
        key, config = key_of(stream, consumer), consumer.config
        line = self._attendance.line(key)
        if line is not None and line.get((client, pull.id)) is not None:
            self._audience.know(client, now)
            return
        waiting = pulls.begin(pull, client, time, work.late)
        refused = pulls.refusal(pull, config)
        if refused is not None:
            self.tell(stream, consumer, waiting, refused, work)
            return
        if pulls.is_stale(pull, work.late):
            self.tell(stream, consumer, waiting, waiting.timed_out(), work)
            return
        if self._full(key, consumer):
            self._serve(key, work, time)  # what can be answered leaves the line
            if self._full(key, consumer):
                if not waiting.heartbeat:  # PUL-08
                    self.tell(stream, consumer, waiting, pulls.EXCEEDED_MAX_WAITING, work)
                return
        self._audience.know(client, now)
        self._attendance.join(key, waiting, consumer.terms.filter)
        self._attendance.used(key, consumer.config, time)
        work.ready[key] = None

    def _full(self, key: ConsumerKey, consumer: ConsumerState) -> bool:
        return self._attendance.waiting(key) >= (consumer.config.max_waiting or 1)

    @staticmethod
    def tell(
        stream: OwnedStream,
        consumer: ConsumerState,
        pull: Waiting,
        status: Status,
        work: OpenDrain,
        *,
        done: bool = True,
    ) -> None:
        """Answer a pull with a status and no messages."""
        answer = told(stream, consumer, status)._replace(pull=pull.id, done=done)
        work.replies(pull.client).leases.append(answer)

    # -- presence

    def presence(self, presence: Presence, time: int, now: int, work: OpenDrain) -> None:
        """A client is there and listens, or goes."""
        if not presence.client:
            return
        if presence.leaving:
            self.gone(presence.client, time, work)
            return
        self._audience.know(presence.client, now)
        gained, lost = self._audience.listen(presence.client, presence.listens)
        if gained or lost:
            self._listening.changed(gained, lost, work, time)

    def gone(self, client: str, time: int, work: OpenDrain) -> None:
        """The client waits and listens no more; its pulls are for the next in line (PUL-14)."""
        for key, pull in self._attendance.of_client(client):
            self._attendance.leave(key, pull)
            left = living(self._streams, key)
            if left is not None:
                self._attendance.used(key, left[1].config, time)
        gained, lost = self._audience.listen(client, ())
        self._audience.forget(client)
        if lost:
            self._listening.changed(gained, lost, work, time)


def _of_nobody(stream: str, consumer: str, pull: int, status: Status) -> Lease:
    ended = Lease(stream, 0, consumer, 0, "", pull=pull, done=True)
    return ended._replace(status=status.code, description=status.description)


def _tamed(run: AckRun) -> AckRun:
    return run._replace(delay=min(max(run.delay, 0), _LONGEST_DELAY)) if run.delay else run
