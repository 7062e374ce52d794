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
        attendance: Demand,
        audience: Presences,
        consuming: ConsumerCommands,
        calls: ConsumerCalls,
        delivering: Delivering,
        pushing: Pushing,
        listening: PushTargets,
    ) -> None:
        self._streams = streams
        self._attendance = attendance
        self._audience = audience
        self._consuming = consuming
        self._calls = calls
        self._delivering = delivering
        self._pushing = pushing
        self._listening = listening

    def run(self, work: OpenDrain, moment: int) -> None:
        """Everything that is due by the moment, earliest first; who is unused is known when all others were looked at."""
        due = self._attendance.alarms.take(moment)
        for alarm, _ in sorted(due, key=lambda one: one[0].kind == "idle"):
            found = living(self._streams, alarm.consumer)
            if found is None:
                continue
            stream, consumer = found
            work.at = stream.incarnation
            if alarm.kind == "pull":
                self._pull(alarm, stream, consumer, work, moment)
            elif alarm.kind == "push":
                self._pushing.beat(alarm.consumer, stream, consumer, work, moment)
            else:
                self._idle(alarm, stream, consumer, work, moment)

    def look_around(self, work: OpenDrain, moment: int, now: int) -> None:
        """Clients of which nothing was heard for too long are gone."""
        for client in self._audience.silent(now):
            self._consuming.gone(client, moment, work)

    def _pull(
        self, alarm: Alarm, stream: OwnedStream, consumer: ConsumerState, work: OpenDrain, moment: int
    ) -> None:
        line = self._attendance.line(alarm.consumer)
        pull = None if line is None else line.get(alarm.pull)
        if pull is None:
            return
        if pull.expires and pull.expires <= moment:
            self._delivering.time_out(alarm.consumer, stream, consumer, pull, work)
            return
        if pull.beats and pull.beats <= moment:
            status = idle_heartbeat(*consumer.delivered)
            self._consuming.tell(stream, consumer, pull, status, work, done=False)  # PUL-10
            pull = pull._replace(beats=moment + pull.heartbeat)
        self._attendance.change(alarm.consumer, pull)

    def _idle(
        self,
        alarm: Alarm,
        stream: OwnedStream,
        consumer: ConsumerState,
        work: OpenDrain,
        moment: int,
    ) -> None:
        """CON-03 to CON-06: unused for its threshold, unless somebody waits or listens."""
        key = alarm.consumer
        if self._attendance.alarms.get(alarm):
            return  # a pull that ended just now was a use
        if self._attendance.waiting(key) or self._listening.is_bound(key):
            self._attendance.used(key, consumer.config, moment)
        else:
            self._calls.delete(stream, consumer, moment, work)
