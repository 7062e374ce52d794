"""Clock skew: how far the worker's clock is from the brokers', seen in the records that arrive.

Nothing is decided by it: time at a shard goes on whatever the clocks show, and learns the brokers' from its own commits. But
messages carry the brokers' times, and people compare them.
"""

from __future__ import annotations

import logging
from typing import Final

from railgun.model.durations import NANOS

log = logging.getLogger("railgun.worker")

TOLERATED: Final = NANOS
_PERIOD: Final = 10 * NANOS
_FETCHES: Final = 3  # at least this many in a period: a single one may only have come late


class SkewWatch:
    """Compares the times of receipt with the worker's clock, and warns once for each change."""

    def __init__(self) -> None:
        self._begun = 0
        self._fetches = 0
        self._least = 0  # delay of the fetch that was least late; below 0: it was received in the future
        self._known = 0  # the skew that was logged last

    def note(self, received: int, now: int) -> None:
        """The newest record of a fetch that came just now."""
        if now - self._begun > _PERIOD or now < self._begun:
            if self._fetches >= _FETCHES:
                self._judge(self._least)
            self._begun, self._fetches, self._least = now, 0, now - received
        self._fetches += 1
        self._least = min(self._least, now - received)

    def _judge(self, skew: int) -> None:
        if abs(skew) <= TOLERATED:
            if self._known:
                log.info("the clocks of this worker and the brokers agree again")
            self._known = 0
        elif abs(skew - self._known) > TOLERATED:
            self._known = skew
            if skew < 0:
                log.warning("the brokers' clock is %.1f s ahead of this worker's", -skew / NANOS)
            else:
                log.warning(
                    "this worker's clock is %.1f s ahead of the brokers', or all commands come that late",
                    skew / NANOS,
                )
