"""The cursor of a shard: which records of its input it has decided. Every transaction writes it.

Everything below an offset of each topic, and single commands beyond it that were taken before their turn
(:mod:`railgun.worker.shards.inbox`). It is in the transaction that holds their decisions, so that no record is decided twice.
It names the topics, and the newest times of receipt: an offset means nothing in a topic that was made anew or cut back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from typing import Any

from railgun.shard.drain import Input


class Cursor:
    """The decided records of one shard."""

    def __init__(self) -> None:
        self.commands = 0  # the next offset of each topic
        self.forwards = 0
        self._ahead: set[int] = set()  # offsets of commands that were decided before their turn
        self._topics = ["", ""]  # ids of commands and forwards
        self._received = [0, 0]  # the newest time of receipt of each, ns
        self._before = self._now()

    def load(self, stored: Mapping[str, Any]) -> None:
        """As a transaction has written it."""
        self.commands, self.forwards = stored["commands"], stored["forwards"]
        self._ahead = set(list(accumulate(stored["ahead"], initial=self.commands))[1:])
        self._topics = [stored["commands_topic"], stored["forwards_topic"]]
        self._received = [stored["commands_received"], stored["forwards_received"]]

    def stored(self) -> dict[str, Any]:
        """The fields for the transaction; offsets decided ahead are written as distances from the one before."""
        places = [self.commands, *sorted(self._ahead)]
        ahead = [after - before for before, after in pairwise(places)]
        return {
            "commands": self.commands,
            "forwards": self.forwards,
            "ahead": ahead,
            "commands_topic": self._topics[0],
            "forwards_topic": self._topics[1],
            "commands_received": self._received[0],
            "forwards_received": self._received[1],
        }

    # -- the topics

    def reading(self, forwarded: bool) -> tuple[int, str, int]:
        """Of one topic: the next offset, the topic's id ("" if it is not known), the newest time of receipt."""
        offset = self.forwards if forwarded else self.commands
        return offset, self._topics[forwarded], self._received[forwarded]

    def read_on(self, forwarded: bool, topic: str, offset: int) -> None:
        """The topic has this id, and everything from the offset on is to be decided; between two drains."""
        if self._topics[forwarded] not in ("", topic):
            self._received[forwarded] = 0
        self._topics[forwarded] = topic
        if forwarded:
            self.forwards = offset
        elif offset != self.commands:
            self.commands = offset
            self._ahead.clear()

    def anew(self, inputs: Iterable[Input]) -> list[Input]:
        """Records whose offset was decided already, and that were yet received later than all decided records."""
        below = (self.commands, self.forwards)
        decided = [given for given in inputs if given.offset < below[given.forwarded]]
        return [given for given in decided if 0 < self._received[given.forwarded] < given.time]

    # -- a drain

    def begin(self) -> None:
        """A drain begins, which may be aborted."""
        self._before = self._now()

    def aborted(self) -> None:
        """The drain never happened."""
        self.commands, self.forwards, self._ahead, self._topics, self._received = self._before

    def _now(self) -> tuple[int, int, set[int], list[str], list[int]]:
        return self.commands, self.forwards, set(self._ahead), list(self._topics), list(self._received)

    def decide(self, given: Input) -> bool:
        """The record is decided now; False if it was decided before."""
        self._received[given.forwarded] = max(self._received[given.forwarded], given.time)
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
