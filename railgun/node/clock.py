"""A shard's time: the times of receipt, which never go back, and the shift of the test clock."""

from __future__ import annotations

from railgun.model.durations import NANOS
from railgun.state import keys
from railgun.state.table import Overlay

_LONGEST_SHIFT = 100 * 365 * 86_400 * NANOS


class ShardClock:
    """Receives the broker's times and the driver's wall clock; what it says is never below what it said."""

    def __init__(self, *, adjustable: bool) -> None:
        self._adjustable = adjustable  # node.test_clock
        self.newest = 0  # of all times of receipt
        self._shift = 0

    def load(self, overlay: Overlay, newest: int) -> None:
        stored = overlay.get(keys.CLOCK_SHIFT)
        self.newest = newest
        self._shift = 0 if stored is None else int.from_bytes(stored, "big")

    def receive(self, time: int) -> None:
        """A record was received at this time of the broker."""
        self.newest = max(self.newest, time + self._shift)

    def moment(self, now: int) -> int:
        """The shard's time at this moment of the wall clock."""
        return max(now + self._shift, self.newest)

    def wall(self, moment: int) -> int:
        """The wall clock at this moment of the shard's time."""
        return moment - self._shift

    def advance(self, nanos: int, overlay: Overlay) -> bool:
        """For tests: time jumps. False where the node does not allow it."""
        if not self._adjustable or self._shift + nanos > _LONGEST_SHIFT:
            return False
        self._shift += nanos
        overlay.put(keys.CLOCK_SHIFT, keys.number(self._shift))
        return True
