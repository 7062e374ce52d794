"""Which records of its input a shard has decided: the cursor that every transaction writes.

Everything below an offset of each topic, and single commands beyond it that were taken before their turn
(:mod:`railgun.node.inbox`). It is in the transaction that holds their decisions, so that no record is decided twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any

from railgun.node.drain import Input


class Cursor:
    """The decided records of one shard."""

    def __init__(self) -> None:
        self.commands = 0  # the next offset of each topic
        self.forwards = 0
        self._ahead: set[int] = set()  # offsets of commands that were decided before their turn
        self._before: tuple[int, int, set[int]] = (0, 0, set())

    def load(self, stored: Mapping[str, Any]) -> None:
        """As a transaction has written it."""
        self.commands, self.forwards = stored["commands"], stored["forwards"]
        self._ahead = set(list(accumulate(stored["ahead"], initial=self.commands))[1:])

    def stored(self) -> dict[str, Any]:
        """For the transaction; what was decided ahead as the distance of each from the one before."""
        places = [self.commands, *sorted(self._ahead)]
        ahead = [after - before for before, after in pairwise(places)]
        return {"commands": self.commands, "forwards": self.forwards, "ahead": ahead}

    # -- a drain

    def begin(self) -> None:
        """A drain begins, which may be aborted."""
        self._before = self.commands, self.forwards, set(self._ahead)

    def aborted(self) -> None:
        """It never happened."""
        self.commands, self.forwards, self._ahead = self._before

    def take(self, given: Input) -> bool:
        """The record is decided now; False if it was decided before."""
        if given.forwarded:
            fresh = given.offset >= self.forwards
            self.forwards = max(self.forwards, given.offset + 1)
            return fresh
        fresh = given.offset >= self.commands and given.offset not in self._ahead
        if given.early:
            if fresh:
                self._ahead.add(given.offset)
        else:
            self._ahead.discard(given.offset)
            self.commands = max(self.commands, given.offset + 1)
        return fresh
