"""What happens to consumers because time passes: pulls expire and are told that the owner is there, unused consumers go."""

from __future__ import annotations

from railgun.semantics.consumers.consumer_state import ConsumerState
from railgun.semantics.consumers.delivery.waiting_pulls import idle_heartbeat
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.consumers.calls import ConsumerCalls
from railgun.shard.consumers.commands import ConsumerCommands
from railgun.shard.consumers.delivering import Delivering
from railgun.shard.consumers.demand import Alarm, Demand, living
from railgun.shard.consumers.presence import Presences
from railgun.shard.consumers.push_targets import PushTargets
from railgun.shard.consumers.pushing import Pushing
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams


class ConsumerTimers:
    """Answers the alarms of a shard's consumers, by the shard's clock; and notices who is silent, by the wall clock."""

    def __init__(
        self,
        streams: OwnedStreams,
        demand: Demand,
        presences: Presences,
        commands: ConsumerCommands,
        calls: ConsumerCalls,
        delivering: Delivering,
        pushing: Pushing,
        push_targets: PushTargets,
    ) -> None:
        self._streams = streams
        self._demand = demand
        self._presences = presences
        self._commands = commands
        self._calls = calls
        self._delivering = delivering
        self._pushing = pushing
        self._push_targets = push_targets

    def run(self, drain: OpenDrain) -> None:
        """Everything that is due by the moment, earliest first; who is unused is known when all others were looked at."""
        due = self._demand.alarms.take(drain.moment)
        for alarm, _ in sorted(due, key=lambda one: one[0].kind == "idle"):
            found = living(self._streams, alarm.consumer)
            if found is None:
                continue
            stream, consumer = found
            drain.at = stream.incarnation
            if alarm.kind == "pull":
                self._pull(alarm, stream, consumer, drain)
            elif alarm.kind == "push":
                self._pushing.beat(alarm.consumer, stream, consumer, drain)
            else:
                self._idle(alarm, stream, consumer, drain)

    def look_around(self, drain: OpenDrain) -> None:
        """Clients of which nothing was heard for too long are gone."""
        for client in self._presences.silent(drain.wall):
            self._commands.gone(client, drain)

    def _pull(self, alarm: Alarm, stream: OwnedStream, consumer: ConsumerState, drain: OpenDrain) -> None:
        line = self._demand.line(alarm.consumer)
        pull = None if line is None else line.get(alarm.pull)
        if pull is None:
            return
        if pull.expires and pull.expires <= drain.moment:
            self._delivering.time_out(alarm.consumer, stream, consumer, pull, drain)
            return
        if pull.beats and pull.beats <= drain.moment:
            status = idle_heartbeat(*consumer.delivered)
            self._commands.tell(stream, consumer, pull, status, drain, done=False)  # PUL-10
            pull = pull._replace(beats=drain.moment + pull.heartbeat)
        self._demand.change(alarm.consumer, pull)

    def _idle(
        self,
        alarm: Alarm,
        stream: OwnedStream,
        consumer: ConsumerState,
        drain: OpenDrain,
    ) -> None:
        """CON-03 to CON-06: unused for its threshold, unless somebody waits or listens."""
        key = alarm.consumer
        if self._demand.alarms.get(alarm):
            return  # a pull that ended just now was a use
        if self._demand.waiting(key) or self._push_targets.is_bound(key):
            self._demand.used(key, consumer.config, drain.moment)
        else:
            self._calls.delete(stream, consumer, drain)
