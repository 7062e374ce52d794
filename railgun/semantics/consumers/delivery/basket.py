"""What one take gives: runs of deliveries, within a number of messages and of bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple

from railgun.semantics.messages.blocks import Block

COPIES = 64  # messages of one take that its leases must carry, because no log has them any more
COPIED_BYTES = 4 * 1024 * 1024

Stopped = Literal["batch", "empty", "bytes", "wall", "scan"]


class Run(NamedTuple):
    """Consecutive messages that are delivered with consecutive consumer sequences, for the same time."""

    sequence: int
    length: int
    consumer_sequence: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken, and why no more: enough, nothing more, the next is too big, too much unanswered, or not all looked at."""

    runs: list[Run]
    count: int
    size: int
    stopped: Stopped
    blocks: list[Block]  # those that new messages lie in, ascending


class Basket:
    """Filled in the order of delivery until something stops it."""

    def __init__(self, batch: int, max_bytes: int, overhead: int) -> None:
        """``overhead``: what a message takes beyond what it counts in the stream."""
        self.room = batch
        self.stopped: Stopped | None = None if batch > 0 else "batch"
        self._max_bytes = max_bytes
        self._overhead = overhead
        self._runs: list[Run] = []
        self.blocks: list[Block] = []
        self._count = 0
        self._size = 0
        self._copies, self._copied_bytes = COPIES, COPIED_BYTES

    @property
    def taken(self) -> Taken:
        return Taken(self._runs, self._count, self._size, self.stopped or "empty", self.blocks)

    def fit(self, sizes: Sequence[int]) -> int:
        """How many of these messages, of which there is room for each, the bytes allow; they count from now on."""
        count, size = len(sizes), sum(sizes) + self._overhead * len(sizes)
        left = self._max_bytes - self._size
        if self._max_bytes and size > left:
            ends = list(accumulate(one + self._overhead for one in sizes))
            count = bisect_right(ends, left)
            size = ends[count - 1] if count else 0
            self.stopped = "bytes"
        self._size += size
        self._count += count
        self.room -= count
        if not self.room:
            self.stopped = "batch"
        return count

    def fit_copied(self, sizes: Sequence[int], stored: Sequence[int]) -> int:
        """As :meth:`fit`, where leases must carry the first messages, of these sizes: that is bounded, and stops as a scan does."""
        ends = list(accumulate(stored[: self._copies]))
        carried = bisect_right(ends, self._copied_bytes)
        self._copies -= carried
        self._copied_bytes -= ends[carried - 1] if carried else 0
        count = self.fit(sizes if carried == len(stored) else sizes[:carried])
        if carried < len(stored) and self.stopped is None:
            self.stopped = "scan"
        return count

    def add(self, runs: list[Run]) -> None:
        """Messages that fit: runs with gaps between them, the first of which may go on where the last one ended."""
        if self._runs:
            sequence, length, consumer_sequence, deliveries = self._runs[-1]
            first = runs[0]
            end = Run(sequence + length, first.length, consumer_sequence + length, deliveries)
            if first == end:
                self._runs[-1] = Run(sequence, length + first.length, consumer_sequence, deliveries)
                runs = runs[1:]
        self._runs += runs
