"""Atomic batches of a random sequence: which message of which batch comes next, and now and then one that does not fit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from railgun.model.subjects import matches
from tests.differ.operations import Headers, Publish

_IDS: Final = ("b1", "b1", "b1", "b1", "b2", "b2")
_ODD_IDS: Final = ("", "i" * 64, "i" * 65, "b 1")
_ODD_SEQUENCES: Final = ("1", "2", "3", "0", "01", "", "x", "-1", "1.0", "1000", "1001", "1002", "9" * 25)
_COMMITS: Final = ("1", "1", "1", "eob", "eob")
_ODD_COMMITS: Final = ("", "0", "x", "EOB", " 1")
_LEVELS: Final = ("0", "1", "2", "99", "x", "")


class BatchWriter:
    """Makes messages members of batches; remembers how far each batch is, as if all that it wrote were taken."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._written: dict[str, int] = {}

    def member(self, message: Publish, subjects: Sequence[str], captured: object) -> Publish:
        """The message as the next one of a batch, most often on a subject that the stream captures."""
        patterns = [one for one in captured if isinstance(one, str)] if isinstance(captured, list) else []
        known = [one for one in subjects if any(matches(pattern, one) for pattern in patterns)]
        subject = self._dice.choice(known) if known and self._chance(0.95) else message.subject
        kept = message.headers if self._chance(0.6) else ()
        for rare in ("Nats-Msg-Id", "Nats-Expected-"):  # what a batch seldom survives
            if self._chance(0.7):
                kept = tuple(one for one in kept if not one[0].startswith(rare))
        increments = tuple(one for one in message.headers if one[0] == "Nats-Incr" and one not in kept)
        return Publish(subject, message.payload, (*self._place(), *increments, *kept))

    def _place(self) -> Headers:
        """The headers that say where the message stands in its batch."""
        identity = self._dice.choice(_ODD_IDS if self._chance(0.03) else _IDS)
        number = self._written.get(identity, 0) + 1
        self._written[identity] = number
        place = [("Nats-Batch-Id", identity), ("Nats-Batch-Sequence", str(number))]
        if self._chance(0.05):
            place[1] = ("Nats-Batch-Sequence", self._dice.choice(_ODD_SEQUENCES))
        if self._chance(0.02):
            place.pop()
        if self._chance(0.35):
            self._written.pop(identity)
            place.append(
                ("Nats-Batch-Commit", self._dice.choice(_ODD_COMMITS if self._chance(0.1) else _COMMITS))
            )
        if self._chance(0.04):
            place.append(("Nats-Required-Api-Level", self._dice.choice(_LEVELS)))
        return tuple(place)

    def _chance(self, probability: float) -> bool:
        return self._dice.random() < probability
