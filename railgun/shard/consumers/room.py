"""Everything that a shard does for consumers, behind one door: what the core and the intake ask for.

What is durable of a consumer is in its stream (:mod:`railgun.semantics.consumers`). What is in this room is in memory: it
survives an aborted drain unchanged, and ends with the owner.
"""

from __future__ import annotations

from railgun.api.names import ApiName
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.protocol.commands import ApiRequest, ConsumerCommand, Presence, PublishPack
from railgun.protocol.replies import Frame
from railgun.semantics.consumers.undo import UndoLog
from railgun.semantics.steps import Steps
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.advisories import Advisories
from railgun.shard.consumers.calls import ConsumerCalls
from railgun.shard.consumers.commands import ConsumerCommands
from railgun.shard.consumers.consumer_timers import ConsumerTimers
from railgun.shard.consumers.dead_letters import DeadLetters, ReadLog
from railgun.shard.consumers.delivering import Delivering
from railgun.shard.consumers.demand import Demand, key_of
from railgun.shard.consumers.presence import SILENCE, Presences
from railgun.shard.consumers.push_targets import PushTargets
from railgun.shard.consumers.pushing import Pushing
from railgun.shard.long_calls import Turn
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.captures import Captures
from railgun.shard.streams.owned import OwnedStreams
from railgun.shard.streams.republishing import Republishing


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
        self._journal = UndoLog()
        self._advisories = Advisories(partition, captures, self._journal)
        self._demand = Demand(self._journal)
        self._presences = Presences(self._journal)
        self._push_targets = PushTargets(streams, self._demand, self._presences, self._journal)
        self._pushing = Pushing(self._push_targets)
        self._commands = ConsumerCommands(
            streams,
            self._demand,
            self._presences,
            self._push_targets,
            lambda key, drain: self._delivering.serve(key, drain),
        )
        self._delivering = Delivering(streams, self._demand, self._commands, self._pushing)
        self._calls = ConsumerCalls(
            self._demand, self._push_targets, self._commands, self._pushing, self.tell_events
        )
        self._republishing = Republishing(streams, self._presences, captures)
        self._timers = ConsumerTimers(
            streams,
            self._demand,
            self._presences,
            self._commands,
            self._calls,
            self._delivering,
            self._pushing,
            self._push_targets,
        )
        self._fresh = True

    # -- life

    def load(self) -> None:
        """A new owner: it knows the consumers, and nobody who waits or listens."""
        self._push_targets.load()
        self._journal.clear()
        self._fresh = True

    def begin(self, drain: OpenDrain) -> None:
        """Before anything else of a drain. A new owner gives everybody time to say that they are there."""
        if self._fresh:
            self._fresh = False
            for stream in self._streams:
                for consumer in stream.consumers:
                    self._demand.used(key_of(stream, consumer), consumer.config, drain.moment + SILENCE)
            self._journal.clear()

    def committed(self) -> None:
        self._journal.clear()

    def aborted(self) -> None:
        self._journal.undo()

    # -- what is asked

    def hear(self, client: str, drain: OpenDrain) -> None:
        """Something came from the client: it is there."""
        self._presences.hear(client, drain.wall)

    def command(self, command: ConsumerCommand, drain: OpenDrain) -> None:
        self._commands.command(command, drain)

    def refuse(self, command: ConsumerCommand, refusal: Refusal, drain: OpenDrain) -> None:
        """Tell whoever waits for it that the command could not be applied."""
        self._commands.refuse(command, refusal, drain)

    def presence(self, presence: Presence, drain: OpenDrain) -> None:
        self._commands.presence(presence, drain)

    def answer(
        self,
        request: ApiRequest,
        name: ApiName,
        stream: OwnedStream | None,
        drain: OpenDrain,
    ) -> list[Frame] | None:
        """The answer to a call about consumers."""
        return self._calls.answer(request, name, stream, drain)

    def create(
        self, request: ApiRequest, name: ApiName, stream: OwnedStream | None, turn: Turn
    ) -> Steps[list[Frame]]:
        """The answer to a call that makes or changes a consumer."""
        return self._calls.create(request, name, stream, turn)

    def stream_changed(self, change: str, stream: OwnedStream, drain: OpenDrain) -> None:
        """A stream was created, updated or deleted, and its consumers with it (CFG-34, ADV-12)."""
        if change == "delete":
            for consumer in stream.consumers:
                self._calls.dismiss(stream, consumer, drain)
        self._advisories.of_stream(stream.name, "modify" if change == "update" else change, drain)

    def stream_goes(self, name: str, drain: OpenDrain) -> None:
        """A stream is about to be deleted: dead letters are copied while its messages can still be read."""
        stream = self._streams.get(name)
        if stream is not None:
            self.tell_events(stream, drain)

    def store_copies(self, pack: PublishPack, drain: OpenDrain) -> None:
        """Dead letters that another shard sends."""
        self._dead_letters.store(pack, drain, drain.received)

    # -- time

    @property
    def next(self) -> int | None:
        """The shard's time of the next alarm; 0: at once."""
        return 0 if self._demand.unfinished else self._demand.alarms.next

    @property
    def next_look(self) -> int | None:
        """The wall clock at which somebody may have been silent for too long."""
        return self._presences.next_look

    def run(self, drain: OpenDrain) -> None:
        """Whatever is due by the moment."""
        self._timers.run(drain)

    def finish(self, drain: OpenDrain) -> None:
        """The end of a drain: whoever is silent is gone, whoever is left gets what there is."""
        self._timers.look_around(drain)
        self._tell_all(drain)
        self._delivering.run(drain)
        stored = {name: len(log.sequences) for name, log in drain.logs.items()}
        self._tell_all(drain)
        for name, log in drain.logs.items():  # dead letters that came too late for this drain
            stream = self._streams.get(name)
            late = log.subjects[stored.get(name, 0) :]
            for key in self._demand.wanting(stream.incarnation, set(late)) if stream and late else ():
                self._demand.postpone(key)
        self._republishing.run(drain)
        self._captures.finish()

    def _tell_all(self, drain: OpenDrain) -> None:
        for stream in list(drain.touched.values()):
            self.tell_events(stream, drain)

    def tell_events(self, stream: OwnedStream, drain: OpenDrain) -> None:
        """Advisories of what happened at the stream's consumers, and the copies of what is dead."""
        events, stream.consumers.events = stream.consumers.events, []
        dead = [event for event in events if event.kind == "dead"]
        for event in events:
            if event.kind != "dead":
                self._advisories.of_consumer(stream.name, event, drain)
        if dead:
            self._dead_letters.bury(stream, dead, drain)
