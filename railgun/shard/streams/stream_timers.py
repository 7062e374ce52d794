"""Timers of streams: age and TTL end messages, ack waits end deliveries, without any command."""

from __future__ import annotations

from railgun.semantics.deadlines import Deadlines
from railgun.semantics.streams import ttl
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.clock import ShardClock
from railgun.shard.consumers.demand import key_of
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams


class StreamTimers:
    """The next deadline of each stream. One that turns out too early only costs a look."""

    def __init__(self, streams: OwnedStreams, clock: ShardClock) -> None:
        self._streams = streams
        self._clock = clock
        self._deadlines = Deadlines[str]()

    def load(self) -> None:
        self._deadlines = Deadlines()
        for state in self._streams:
            self.watch(state)

    @property
    def next(self) -> int | None:
        """The shard's time of the next deadline."""
        return self._deadlines.earliest

    def watch(self, state: OwnedStream) -> None:
        """The stream is due when its next message expires, or its next acknowledgement is overdue."""
        ends = state.expiry.next()
        if ends is not None:
            self._deadlines.watch(state.name, self._clock.age_reached(ends))
        self._deadlines.watch(state.name, state.consumers.next_deadline())

    def run(self, drain: OpenDrain) -> None:
        """Everything that is due by now."""
        for name in sorted(self._deadlines.pop_due(drain.moment)):
            state = self._streams.get(name)
            if state is None:
                continue
            drain.at = state.incarnation
            ends = state.expiry.next()
            if ends is not None and self._clock.age_reached(ends) <= drain.moment:
                _expire_messages(state, drain)
            _expire_waits(state, drain)
            self.watch(state)


def _expire_messages(state: OwnedStream, drain: OpenDrain) -> None:
    """Messages that age and TTL end are removed, once it is known how old they are; delete markers are stored at this moment."""
    now = drain.age_time
    if now is None:
        drain.asks_the_time = True  # the stream stays due, and the next drain knows
        return
    drain.touch(state)
    stored = max(now, drain.received, drain.stored_at)
    markers = ttl.expire(state, now, stored)
    for marker in markers:
        drain.log_of(state).add(marker.sequence, marker.subject, marker.headers, b"", stored)
        drain.stored_at = stored


def _expire_waits(state: OwnedStream, drain: OpenDrain) -> None:
    """Deliveries whose ack wait is over become due for redelivery (RDL-01)."""
    due = state.consumers.next_deadline()
    if due is not None and due <= drain.moment:
        drain.looked_at.add(state.name)
        for consumer in state.consumers.expire(drain.moment):
            drain.ready[key_of(state, consumer)] = None
        if state.consumers.changed:
            drain.touch(state)
