"""The time of a worker and of its shards: it always goes on and never goes back, whatever the clocks of the machines do.

Three clocks meet here. The worker's wall clock may be set back; the time of receipt is the broker's (LogAppendTime) and may
be hours away from the worker's; the cursor holds the time of a former owner. A shard has one time of its own, which starts at
the latest of what its owners knew and then goes on at the worker's rate. Times of receipt only say when a message was stored,
and how old it is: where the shard's time is ahead of the brokers', messages age by the brokers'.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from railgun.model.durations import LONGEST, NANOS
from railgun.shard.drain import Input
from railgun.state import keys
from railgun.state.table import Overlay

_TOLERATED: Final = NANOS  # a shard that is ahead of the brokers by less ages messages by its own time
_HEARD: Final = 10 * NANOS  # for so long the brokers' time is known
_SLEW: Final = 50  # a time that is ahead of its clock loses one part in 50 until the clock has caught up


def gone_on(said: int, clock: int, passed: int) -> int:
    """The time after ``said``, when so much has passed and the clock shows this: it never goes back and never stops."""
    return max(clock, said + passed - passed // _SLEW)


class SteadyClock:
    """The wall clock of a worker, ns. It never goes back: where the machine's clock is set back, time goes on from before."""

    def __init__(
        self,
        wall: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
        *,
        guard: AbstractContextManager[Any] | None = None,
    ) -> None:
        """``guard``: a lock, where several threads ask for the time."""
        self._wall, self._monotonic = wall, monotonic
        self._guard = nullcontext() if guard is None else guard
        self._said, self._looked = wall(), monotonic()

    def __call__(self) -> int:
        """The time now."""
        with self._guard:
            before, self._looked = self._looked, self._monotonic()
            self._said = gone_on(self._said, self._wall(), self._looked - before)
            return self._said


class ShardClock:
    """The times of one shard: ``moment``, its now, and ``received``, the newest time at which it stored a message.

    The test clock shifts both.
    """

    def __init__(self, *, adjustable: bool, hears: bool = False) -> None:
        """``hears``: whoever drives the shard tells it the brokers' time (:meth:`hear`), by which messages age."""
        self._adjustable = adjustable  # node.test_clock
        self._hears = hears
        self._heard = 0  # the shard's time when it heard the brokers' last; 0: not yet
        self._ahead = 0  # of the brokers' time; 0 where it is not by more than what is tolerated
        self.received = 0  # never ahead of the moment
        self.moment = 0
        self._wall = 0  # the driver's clock when it was followed last; 0: not yet
        self._shift = 0
        self._before = (0, 0, 0)  # the times before the drain that is being decided

    def load(self, overlay: Overlay, received: int, moment: int) -> None:
        """Go on from the times in the table: the newest time of receipt, and the shard's time at that moment."""
        self.received = received
        self.moment = max(moment, received)
        self._load_shift(overlay)

    def _load_shift(self, overlay: Overlay) -> None:
        stored = overlay.get(keys.CLOCK_SHIFT)
        self._shift = 0 if stored is None else int.from_bytes(stored, "big")

    def receive(self, given: Input) -> None:
        """A record was received: its messages are stored at the broker's time, if that is not ahead of the shard's."""
        if not given.early:  # records that came before it are stored later
            self.received = max(self.received, min(given.time + self._shift, self.moment))

    def stored(self, moment: int) -> None:
        """A message was stored at this moment of the shard's time: none is stored at an earlier one."""
        self.received = max(self.received, moment)

    def begin(self) -> None:
        """A drain begins, which may be aborted."""
        self._before = self.received, self.moment, self._wall

    def aborted(self, overlay: Overlay) -> None:
        """The drain never happened: no client has seen its times."""
        self.received, self.moment, self._wall = self._before
        self._load_shift(overlay)

    def follow(self, wall: int) -> None:
        """The driver's clock, which never goes back, shows this: the shard's time goes on."""
        passed = max(0, wall - self._wall) if self._wall else 0
        self.moment = gone_on(self.moment, wall + self._shift, passed)
        self._wall = max(self._wall, wall)

    def wall_at(self, moment: int) -> int:
        """The driver's clock at this moment of the shard's time; 0 while it was never followed."""
        if not self._wall:
            return 0
        missing = max(0, moment - self.moment)
        return min(moment - self._shift, self._wall + missing + missing // (_SLEW - 1) + 1)

    # -- age

    @property
    def age_time(self) -> int | None:
        """The time by which messages age (LIM-15): the brokers', since that is when they were stored. None: it must be heard first.

        A clock that is set hours ahead would end all messages otherwise, and every new one at once.
        """
        if self._hears and self.moment - self._heard > _HEARD:
            return None
        return self.moment - self._ahead

    @property
    def brokers_now(self) -> int:
        """The brokers' time as far as it is known: for messages that no record of a shard's input brings."""
        return self.moment - self._ahead

    def age_reached(self, age_time: int) -> int:
        """The shard's time at which :attr:`age_time` is this."""
        return age_time + self._ahead

    def hear(self, brokers: int) -> bool:
        """What this drain decided was written at that time of the brokers' (0: unknown). True: messages age otherwise from now on."""
        self._heard = self.moment
        if brokers <= 0:
            return False
        ahead = max(0, self.moment - self._shift - brokers)
        if abs(ahead - self._ahead) <= _TOLERATED:
            return False
        self._ahead = ahead if ahead > _TOLERATED else 0
        return True

    # -- tests

    def advance(self, nanos: int, overlay: Overlay) -> bool:
        """For tests: time jumps. False where the node does not allow it."""
        if not self._adjustable or self._shift + nanos > LONGEST:
            return False
        self._shift += nanos
        self._heard += nanos
        overlay.put(keys.CLOCK_SHIFT, keys.number(self._shift))
        return True


def lateness(given: Input, now: int) -> int:
    """The least time since a record was received, in ns: each part of it is measured by one clock.

    By the broker's, how much newer the last record is that came with it; by the worker's, how long it has waited here.
    """
    waited = max(0, now - given.arrived) if given.arrived else 0
    return waited + max(0, given.newest - given.time)
