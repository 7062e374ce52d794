"""A publisher that counts: increments with ids on many streams that count, and now and then a batch of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import railgun
from railgun.errors import ApiError, RailgunError
from railgun.model import headers as h
from tests.chaos.publisher import BATCH, PATIENCE, Publisher

KINDS = 3  # of counters in each stream
_BATCHES = 0.3  # how often some increments are followed by a batch
_MOST = 9  # of one increment; none is negative, so a total tells whether everything before it has arrived


@dataclass
class Batches:
    """What is known of the batches of one stream."""

    sizes: dict[str, int] = field(default_factory=dict)  # of all that were begun
    acked: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)


class CountingPublisher(Publisher):
    """As its base, for several streams; ``batches`` holds the batches of each, which are not sent again."""

    def __init__(
        self, bootstrap: str, prefix: str, streams: Sequence[str], tag: str, seed: str, *, pause: float
    ) -> None:
        super().__init__(bootstrap, prefix, "counters", tag, pause=pause)
        self.batches = {name: Batches() for name in streams}
        self._streams = streams
        self._dice = random.Random(seed)

    def _next_batch(self) -> list[str]:
        """An id says everything: its stream, its counter and the increment."""
        self._number += BATCH
        return [
            f"{self._dice.choice(self._streams)} {number % KINDS} {self._dice.randint(1, _MOST)} {self._tag}-{number}"
            for number in range(self._number - BATCH, self._number)
        ]

    def _publish(self, rg: railgun.Railgun, message_id: str) -> railgun.PublishFuture:
        stream, counter, increment, _ = message_id.split(" ")
        return rg.publish_soon(
            counter_of(stream, int(counter)), b"", msg_id=message_id, headers={h.INCREMENT: f"+{increment}"}
        )

    def _send(self, rg: railgun.Railgun, ids: list[str]) -> None:
        super()._send(rg, ids)
        if self._dice.random() < _BATCHES:
            self._send_batch(rg, self._dice.choice(self._streams))

    def _send_batch(self, rg: railgun.Railgun, stream: str) -> None:
        """No answer in time: it is there as a whole, or not at all."""
        known, batch = self.batches[stream], rg.batch(timeout=PATIENCE)
        size = self._dice.randint(2, 12)
        known.sizes[batch.id] = size
        try:
            with batch:
                for number in range(size):
                    increment = f"+{self._dice.randint(1, _MOST)}"
                    batch.add(counter_of(stream, number % KINDS), headers={h.INCREMENT: increment})
        except ApiError:
            known.refused.add(batch.id)
        except RailgunError:
            return
        else:
            known.acked.add(batch.id)


def counter_of(stream: str, number: int) -> str:
    return f"{stream}.{number}"


def stream_of(message_id: str) -> str:
    return message_id.split(" ")[0]
