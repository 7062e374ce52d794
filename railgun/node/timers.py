"""When a shard must look at a stream again although nobody asks: age and TTL end messages by the clock."""

from __future__ import annotations

import heapq

from railgun.node.ownership import OwnedStreams
from railgun.node.work import Work
from railgun.semantics import ttl
from railgun.semantics.stream import StreamState

_NEVER = 1 << 62


class Timers:
    """A heap of deadlines, one that counts for each stream. One that is too early only looks again."""

    def __init__(self, streams: OwnedStreams) -> None:
        self._streams = streams
        self._deadlines: list[tuple[int, str]] = []
        self._scheduled: dict[str, int] = {}

    def load(self) -> None:
        self._deadlines, self._scheduled = [], {}
        for state in self._streams:
            self.watch(state)

    @property
    def next(self) -> int | None:
        """The shard's time of the next deadline."""
        return self._deadlines[0][0] if self._deadlines else None

    def watch(self, state: StreamState) -> None:
        """Look at the stream when its next message expires."""
        due = state.next_expiry()
        if due is not None and due < self._scheduled.get(state.name, _NEVER):
            self._scheduled[state.name] = due
            heapq.heappush(self._deadlines, (due, state.name))

    def run(self, work: Work, moment: int) -> bool:
        """Remove what age and TTL end by ``moment``; whether delete markers were stored at that time."""
        stored = False
        for name in sorted(self._due(moment)):
            state = self._streams.get(name)
            if state is None:
                continue
            due = state.next_expiry()
            if due is None or due > moment:
                self.watch(state)
                continue
            work.touch(state)
            for marker in ttl.expire(state, moment):
                work.log_of(state).add(marker.sequence, marker.subject, marker.headers, b"", moment)
                stored = True
        return stored

    def _due(self, moment: int) -> set[str]:
        due = set()
        while self._deadlines and self._deadlines[0][0] <= moment:
            when, name = heapq.heappop(self._deadlines)
            if self._scheduled.get(name) == when:
                del self._scheduled[name]
                due.add(name)
        return due
