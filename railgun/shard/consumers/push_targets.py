"""Push targets: a push consumer is active while an eligible listener is on its deliver subject (PSH-01, PSH-03).

Eligible are the members of its deliver group; where it has no group, all listeners. The pace of active consumers is here too.
"""

from __future__ import annotations

from railgun.model.consumer_config import ConsumerConfig
from railgun.model.subjects import Filter, has_wildcard, matches
from railgun.semantics.consumers.delivery import pace as push
from railgun.semantics.consumers.delivery.pace import Pace
from railgun.semantics.consumers.undo import UndoLog
from railgun.shard.consumers.demand import Alarm, ConsumerKey, Demand, key_of, living
from railgun.shard.consumers.presence import Listener, Presences
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams


class PushTargets:
    """The push consumers of one shard, by deliver subject, and the pace of the active ones."""

    def __init__(self, streams: OwnedStreams, demand: Demand, presences: Presences, undo: UndoLog) -> None:
        self._streams = streams
        self._demand = demand
        self._presences = presences
        self._undo = undo
        self._on: dict[str, dict[ConsumerKey, None]] = {}
        self._paces: dict[ConsumerKey, Pace] = {}

    def load(self) -> None:
        """The push consumers of all streams are known; there are no listeners yet."""
        for stream in self._streams:
            for consumer in stream.consumers:
                if consumer.config.deliver_subject:
                    key = key_of(stream, consumer)
                    self._undo.add_to(self._on, consumer.config.deliver_subject, key)

    def added(self, key: ConsumerKey, config: ConsumerConfig, drain: OpenDrain) -> None:
        """The consumer is new, or pushes there from now on."""
        if config.deliver_subject:
            self._undo.add_to(self._on, config.deliver_subject, key)
            self._review(key, config, drain)

    def removed(self, key: ConsumerKey, subject: str | None) -> None:
        """The consumer is gone, or pushes elsewhere from now on."""
        if subject:
            self._undo.take_from(self._on, subject, key)
            self._pause(key)

    def listeners(self, config: ConsumerConfig) -> list[Listener]:
        """Eligible listeners of a consumer, in a fixed order."""
        found = sorted(self._presences.listeners(config.deliver_subject or ""))
        if config.deliver_group:
            return [one for one in found if one.group == config.deliver_group]
        return found

    # -- the pace of the active ones

    def is_bound(self, key: ConsumerKey) -> bool:
        """Whether it has an eligible listener (PSH-04)."""
        return key in self._paces

    def pace(self, key: ConsumerKey) -> Pace | None:
        return self._paces.get(key)

    def set_pace(self, key: ConsumerKey, pace: Pace, again: int = 0) -> None:
        """The consumer's pace from now on. Its alarm is set to the next heartbeat, or to ``again`` if that is earlier; 0: none."""
        self._undo.put(self._paces, key, pace)
        due = [when for when in (pace.beats, again) if when]
        self._demand.alarms.set(Alarm("push", key), min(due, default=0))

    # -- listeners

    def changed(self, gained: set[str], lost: set[str], drain: OpenDrain) -> None:
        """Clients began or ended to listen on these subjects, which may hold wildcards."""
        for subject in sorted(gained | lost):
            for key in self._pushing_to(subject):
                found = living(self._streams, key)
                if found is None:
                    continue
                pace = self._paces.get(key)
                if pace is not None and subject in lost:
                    self.set_pace(key, push.unanswerable(pace))
                self._review(key, found[1].config, drain)

    def _pushing_to(self, pattern: str) -> list[ConsumerKey]:
        subjects = [pattern]
        if has_wildcard(pattern):
            subjects = [subject for subject in self._on if matches(pattern, subject)]
        return [key for subject in subjects for key in self._on.get(subject, ())]

    def _review(self, key: ConsumerKey, config: ConsumerConfig, drain: OpenDrain) -> None:
        """The consumer begins or pauses, as there are eligible listeners or not."""
        if self.listeners(config):
            if key not in self._paces:
                stream = self._streams.get(key.stream)
                self.set_pace(
                    key, push.started(config, 0 if stream is None else stream.last_seq, drain.moment)
                )
                self._demand.want(key, Filter(config.filters))
            drain.ready[key] = None
        elif key in self._paces:
            self._pause(key)
            self._demand.used(key, config, drain.moment)  # CON-04

    def _pause(self, key: ConsumerKey) -> None:
        self._undo.drop(self._paces, key)
        self._demand.alarms.set(Alarm("push", key), 0)
        self._demand.unwant(key)
