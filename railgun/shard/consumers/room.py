"""Everything that a shard does for consumers, behind one door: what the core and the dispatcher ask for.

The durable state of a consumer is in its stream (:mod:`railgun.semantics.consumers`). The state in this room is in memory
only: it survives an aborted drain unchanged, and ends with the owner.
"""

from __future__ import annotations

from functools import partial

from railgun.api.names import ApiName
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.protocol.commands import ApiRequest, ConsumerCommand, HandedOver, Presence, PublishPack
from railgun.protocol.hand_overs import HandedPack, HandOverPack
from railgun.protocol.replies import Frame
from railgun.semantics.consumers.consumer_state import ConsumerState
from railgun.semantics.consumers.undo import UndoLog
from railgun.semantics.steps import Steps
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.advisories import Advisories
from railgun.shard.consumers.calls import CALLS, ConsumerCalls
from railgun.shard.consumers.commands import ConsumerCommands
from railgun.shard.consumers.dead_letters import DeadLetters
from railgun.shard.consumers.delivering import Delivering
from railgun.shard.consumers.demand import Alarm, Demand, key_of, living
from railgun.shard.consumers.feeding import Feeding
from railgun.shard.consumers.handing_over import HandingOver, letter_origin
from railgun.shard.consumers.presence import SILENCE, Presences
from railgun.shard.consumers.push_targets import PushTargets
from railgun.shard.consumers.pushing import Pushing
from railgun.shard.consumers.raw_deliveries import DELIVERIES, RawDeliveries
from railgun.shard.log_bodies import ReadLog
from railgun.shard.long_calls import Turn
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.captures import Captures
from railgun.shard.streams.owned import OwnedStreams
from railgun.shard.streams.republishing import Republishing

OPERATIONS = CALLS | DELIVERIES


class ConsumerRoom:
    """The consumers of one shard."""

    def __init__(
        self,
        partition: int,
        partitions: int,
        streams: OwnedStreams,
        limits: ClusterLimits,
        captures: Captures,
        read_log: ReadLog | None,
    ) -> None:
        self._streams = streams
        self._captures = captures
        self._dead_letters = DeadLetters(partition, partitions, streams, limits, read_log)
        self._undo = UndoLog()
        self._advisories = Advisories(partition, captures, self._undo)
        self._demand = Demand(self._undo)
        self._presences = Presences(self._undo)
        self._push_targets = PushTargets(streams, self._demand, self._presences, self._undo)
        self._pushing = Pushing(self._push_targets)
        self.feeding = Feeding(partition, partitions, streams, self._demand, read_log, self._undo)
        self._delivering = Delivering(streams, self._demand, self._pushing, self.feeding)
        self._handing_over = HandingOver(partition, partitions, self._dead_letters)
        self._commands = ConsumerCommands(
            *(streams, self._demand, self._presences, self._push_targets, self._delivering),
            self._handing_over,
        )
        self._raw_deliveries = RawDeliveries(self._commands, self._pushing)
        self._calls = ConsumerCalls(self._demand, self._push_targets, self._report_events)
        self._republishing = Republishing(streams, self._presences, captures)
        self._fresh = True

    # -- life

    def load(self) -> None:
        """A new owner: it knows the consumers, but no waiting pulls and no listeners."""
        self._push_targets.load()
        self.feeding.load()
        self._undo.clear()
        self._fresh = True

    def begin(self, drain: OpenDrain) -> None:
        """Before anything else of a drain. A new owner gives all clients time to say that they are there."""
        if self._fresh:
            self._fresh = False
            for stream in self._streams:
                for consumer in stream.consumers:
                    self._demand.used(key_of(stream, consumer), consumer.config, drain.moment + SILENCE)
            self._undo.clear()

    def committed(self) -> None:
        self._undo.clear()

    def aborted(self) -> None:
        self._undo.undo()

    # -- commands and calls

    def heard_from(self, client: str, drain: OpenDrain) -> None:
        """A record came from the client: it is there."""
        self._presences.heard_from(client, drain.wall)

    def command(self, command: ConsumerCommand, drain: OpenDrain) -> None:
        self._commands.command(command, drain)

    def refuse(self, command: ConsumerCommand, refusal: Refusal, drain: OpenDrain) -> None:
        """The command could not be applied: its client is answered with the reason."""
        self._commands.refuse(command, refusal, drain)

    def hand_overs(self, given: HandOverPack, drain: OpenDrain) -> None:
        self._commands.hand_overs(given, drain)

    def refuse_hand_overs(self, given: HandOverPack, refusal: Refusal, drain: OpenDrain) -> None:
        """They could not be applied: their client is answered with the reason."""
        self._commands.refuse_hand_overs(given, refusal, drain)

    def presence(self, presence: Presence, drain: OpenDrain) -> None:
        self._commands.presence(presence, drain)

    def answer(
        self, request: ApiRequest, name: ApiName, stream: OwnedStream | None, drain: OpenDrain
    ) -> list[Frame] | None:
        """The frames that answer a call about consumers; None where nothing is answered here."""
        if name.operation in DELIVERIES:
            return self._raw_deliveries.answer(request, name, drain)
        return self._calls.answer(request, name, stream, drain)

    def create(
        self, request: ApiRequest, name: ApiName, stream: OwnedStream | None, turn: Turn
    ) -> Steps[list[Frame]]:
        """The answer to a call that makes or changes a consumer."""
        return self._calls.create(request, name, stream, turn)

    def stream_changed(self, change: str, stream: OwnedStream, drain: OpenDrain) -> None:
        """A stream was created, updated or deleted, and its consumers with it (CFG-34, ADV-12)."""
        self.feeding.stream_changed(change, stream, drain)
        if change == "delete":
            for consumer in stream.consumers:
                self._calls.dismiss(stream, consumer, drain)
        self._advisories.of_stream(stream.name, "modify" if change == "update" else change, drain)

    def batch_abandoned(self, stream: str, batch: str, reason: str, drain: OpenDrain) -> None:
        """A batch of the stream was given up (ADV-11)."""
        self._advisories.of_batch(stream, batch, reason, drain)

    def stream_goes(self, name: str, drain: OpenDrain) -> None:
        """A stream is about to be deleted: dead letters are copied while its messages can still be read."""
        stream = self._streams.get(name)
        if stream is not None:
            self._report_events(stream, drain)

    def store_copies(self, pack: PublishPack, drain: OpenDrain) -> None:
        """Dead letters that another shard sends."""
        self._dead_letters.store(pack, drain, drain.received)

    def bury_refused(
        self,
        handed: HandedOver | HandedPack,
        pack: PublishPack,
        refused: list[tuple[int, Refusal]],
        drain: OpenDrain,
    ) -> None:
        """Messages that another shard handed over, and that their stream does not take."""
        self._handing_over.bury(partial(letter_origin, handed), handed.dead_letter, pack, refused, drain)

    # -- time

    @property
    def next(self) -> int | None:
        """The shard's time of the next alarm; 0: at once."""
        return 0 if self._demand.postponed else self._demand.alarms.next

    @property
    def next_presence_check(self) -> int | None:
        """The wall clock at which a client may have been silent for too long."""
        return self._presences.next_check

    def run(self, drain: OpenDrain) -> None:
        """All alarms that are due, earliest first; unused consumers last, because any other alarm may be a use."""
        due = self._demand.alarms.take(drain.moment)
        for alarm, _ in sorted(due, key=lambda one: one[0].kind == "idle"):
            found = living(self._streams, alarm.consumer)
            if found is None:
                continue
            stream, consumer = found
            drain.at = stream.incarnation
            if alarm.kind == "pull":
                self._delivering.wake(alarm, stream, consumer, drain)
            elif alarm.kind == "push":
                self._pushing.wake(alarm.consumer, stream, consumer, drain)
            else:
                self._end_unused(alarm, stream, consumer, drain)

    def _end_unused(
        self, alarm: Alarm, stream: OwnedStream, consumer: ConsumerState, drain: OpenDrain
    ) -> None:
        """A consumer that was unused for its threshold goes, a durable too (CON-06), unless a pull waits or a client listens."""
        key = alarm.consumer
        if self._demand.alarms.get(alarm):
            return  # a pull that ended just now was a use
        if self._demand.waiting(key) or self._push_targets.is_bound(key):
            self._demand.used(key, consumer.config, drain.moment)
        else:
            self._calls.delete(stream, consumer, drain)

    # -- the end of a drain

    def end_drain(self, drain: OpenDrain) -> None:
        """Silent clients are gone; those that are left get the messages that there are."""
        for client in self._presences.silent(drain.wall):
            self._commands.gone(client, drain)
        self._report_all(drain)
        self._delivering.run(drain)
        stored = {name: len(log.sequences) for name, log in drain.logs.items()}
        self._report_all(drain)
        for name, log in drain.logs.items():  # dead letters that came too late for this drain
            stream = self._streams.get(name)
            late = log.subjects[stored.get(name, 0) :]
            for key in self._demand.wanting(stream.incarnation, set(late)) if stream and late else ():
                self._demand.postpone(key)
        self._republishing.run(drain)
        self._captures.send_copies()

    def _report_all(self, drain: OpenDrain) -> None:
        for stream in list(drain.touched.values()):
            self._report_events(stream, drain)

    def _report_events(self, stream: OwnedStream, drain: OpenDrain) -> None:
        """Advisories of what happened at the stream's consumers, and copies of its dead letters."""
        events, stream.consumers.events = stream.consumers.events, []
        dead = [event for event in events if event.kind == "dead"]
        for event in events:
            if event.kind != "dead":
                self._advisories.of_consumer(stream.name, event, drain)
        if dead:
            self._dead_letters.bury(stream, dead, drain)
