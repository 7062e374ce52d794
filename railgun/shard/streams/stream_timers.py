"""When a shard must look at a stream again although nobody asks: age and TTL end messages, ack waits end deliveries."""

from __future__ import annotations

from railgun.semantics.consumers.acks.deadlines import Deadlines
from railgun.semantics.streams import ttl
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.consumers.demand import key_of
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams


class StreamTimers:
    """Deadlines, one for each stream. One that is too early only looks again."""

    def __init__(self, streams: OwnedStreams) -> None:
        self._streams = streams
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
        """Look at the stream when its next message expires, or the next acknowledgement is overdue."""
        for due in (state.expiry.next(), state.consumers.next_deadline()):
            self._deadlines.watch(state.name, due)

    def run(self, work: OpenDrain, moment: int) -> None:
        """Do what is due by ``moment``."""
        for name in sorted(self._deadlines.take(moment)):
            state = self._streams.get(name)
            if state is None:
                continue
            work.at = state.incarnation
            _expire_messages(state, work, moment)
            _expire_waits(state, work, moment)
            self.watch(state)


def _expire_messages(state: OwnedStream, work: OpenDrain, moment: int) -> None:
    """Remove what age and TTL end; delete markers are stored at the moment."""
    due = state.expiry.next()
    if due is None or due > moment:
        return
    work.touch(state)
    markers = ttl.expire(state, moment)
    for marker in markers:
        work.log_of(state).add(marker.sequence, marker.subject, marker.headers, b"", moment)
        work.stored_at = moment


def _expire_waits(state: OwnedStream, work: OpenDrain, moment: int) -> None:
    """Find what is to be delivered again (RDL-01)."""
    due = state.consumers.next_deadline()
    if due is not None and due <= moment:
        work.looked_at.add(state.name)
        for consumer in state.consumers.expire(moment):
            work.ready[key_of(state, consumer)] = None
        if state.consumers.changed:
            work.touch(state)
