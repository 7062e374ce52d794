"""When messages of a stream end by the clock: by the stream's age limit, or by a TTL of their own (LIM-15, TTL)."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from railgun.semantics.blocks import NEVER, Entry

if TYPE_CHECKING:
    from railgun.semantics.stream import StreamState

EXPIRED_AT_ONCE = 5_000  # in one drain: no transaction grows without bound


class Expiry:
    """The endings that a stream's messages have before them. It removes nothing itself."""

    def __init__(self, stream: StreamState) -> None:
        self._stream = stream
        self._endings: list[tuple[int, int]] = []  # heap of (when, sequence), of removed messages too
        self._aged = 0  # messages below are gone or exempt from max_age

    def add(self, ends: int, sequence: int) -> None:
        """The message has a TTL."""
        heapq.heappush(self._endings, (ends, sequence))

    def clear(self) -> None:
        """Nothing is stored any more."""
        self._endings.clear()
        self._aged = 0

    def next(self) -> int | None:
        """When age or a TTL next removes something, ns; None if never."""
        stream, due = self._stream, None
        if stream.max_age and stream.messages:
            for entry in stream.index.ascending(max(self._aged, stream.first_seq)):
                if entry.expiry != NEVER:
                    due = entry.time + stream.max_age
                    break
                self._aged = entry.sequence + 1
        while self._endings and stream.entry(self._endings[0][1]) is None:
            heapq.heappop(self._endings)
        if self._endings:
            due = self._endings[0][0] if due is None else min(due, self._endings[0][0])
        return due

    def over(self, now: int) -> list[Entry]:
        """Messages whose time is over at ``now`` (some thousands at most), by sequence; they still exist."""
        stream, found = self._stream, dict[int, Entry]()
        if stream.max_age and stream.messages:
            for entry in stream.index.ascending(max(self._aged, stream.first_seq)):
                if entry.time + stream.max_age > now or len(found) == EXPIRED_AT_ONCE:
                    break
                if entry.expiry != NEVER:
                    found[entry.sequence] = entry
        while self._endings and self._endings[0][0] <= now and len(found) < EXPIRED_AT_ONCE:
            sequence = heapq.heappop(self._endings)[1]
            ended = stream.entry(sequence)
            if ended is not None:
                found[sequence] = ended
        return [found[sequence] for sequence in sorted(found)]
