"""The clock of a cluster under test: moved by hand, never back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from railgun.client.facade.railgun import Railgun
from railgun.client.operations.shards import advance_clock
from railgun.model.durations import to_nanos


class Clock:
    """Moves the clocks of all shards together. Raises BadRequest where the node's ``test_clock`` is off.

    What becomes due has happened when :meth:`advance` returns: messages that are too old are gone.
    """

    def __init__(self, railgun: Railgun) -> None:
        self._railgun = railgun

    def advance(self, by: timedelta | float) -> None:
        """Let this much time pass at once."""
        self._move(to_nanos(by))

    def now_ns(self) -> int:
        """The time as the shard that is furthest ahead has it, ns."""
        return self._move(0)

    def now(self) -> datetime:
        """The same as a datetime, to the microsecond."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.now_ns() // 1_000)

    def _move(self, nanos: int) -> int:
        shards = range(self._railgun.connection.topology.partitions)
        return max(self._railgun.call(advance_clock(nanos, shard)) for shard in shards)
