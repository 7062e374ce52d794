"""When messages of a stream end by the clock: by the stream's age limit, or by a TTL of their own (LIM-15, TTL)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING

from railgun.semantics.messages.blocks import NEVER, Entry

if TYPE_CHECKING:
    from railgun.semantics.streams.owned_stream import OwnedStream

EXPIRED_AT_ONCE = 5_000  # in one drain: no transaction grows without bound
_SHIFT = 6  # a stretch of 2**6 sequences has one ending in memory
_SLACK = 256  # stretches and heap entries beyond what is live, before they are looked through


class Expiry:
    """The endings that a stream's messages have before them: the TTL after it was stored, or max_age if that is earlier (TTL-04).

    It removes nothing itself.

    Of each stretch of sequences only the earliest ending is in memory; the others are in the index, where they are looked
    for when that one is over or its message is gone.
    """

    def __init__(self, stream: OwnedStream) -> None:
        self._stream = stream
        self._earliest: dict[
            int, tuple[int, int]
        ] = {}  # by stretch: when, and which message, which may be gone
        self._heap: list[tuple[int, int]] = []  # of (when, stretch), some of which no longer count
        self._aged = 0  # messages below are gone or exempt from max_age

    def __len__(self) -> int:
        """How many endings are in memory."""
        return len(self._heap)

    def add(self, ends: int, sequence: int) -> None:
        """The message has a TTL."""
        stretch = sequence >> _SHIFT
        known = self._earliest.get(stretch)
        if known is None and len(self._earliest) > 2 * self._stream.messages + _SLACK:
            self._look_through()
        if known is None or ends < known[0]:
            self._earliest[stretch] = ends, sequence
            heapq.heappush(self._heap, (ends, stretch))
            if len(self._heap) > 2 * len(self._earliest) + _SLACK:
                self._rebuild()

    def clear(self) -> None:
        """Nothing is stored any more."""
        self._earliest.clear()
        self._heap.clear()
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
        first = self._first()
        if first is None:
            return due
        return first[0] if due is None else min(due, first[0])

    def over(self, now: int) -> list[Entry]:
        """Messages whose time is over at ``now`` (some thousands at most), by sequence; they still exist."""
        stream, found = self._stream, dict[int, Entry]()
        if stream.max_age and stream.messages:
            for entry in stream.index.ascending(max(self._aged, stream.first_seq)):
                if entry.time + stream.max_age > now or len(found) == EXPIRED_AT_ONCE:
                    break
                if entry.expiry != NEVER:
                    found[entry.sequence] = entry
        while len(found) < EXPIRED_AT_ONCE and (first := self._first()) is not None and first[0] <= now:
            left = []
            for entry in self._of(first[1]):
                if entry.ends <= now and len(found) < EXPIRED_AT_ONCE:
                    found[entry.sequence] = entry
                else:
                    left.append(entry)
            self._set(first[1], left)
        return [found[sequence] for sequence in sorted(found)]

    # -- inside

    def _first(self) -> tuple[int, int] | None:
        """The earliest ending of a message that exists, and its stretch."""
        while self._heap:
            when, stretch = self._heap[0]
            known = self._earliest.get(stretch)
            if known is None or known[0] != when:
                heapq.heappop(self._heap)
            elif self._stream.exists(known[1]):
                return when, stretch
            else:
                self._set(stretch, list(self._of(stretch)))
        return None

    def _of(self, stretch: int) -> Iterator[Entry]:
        """The existing messages of a stretch that have a TTL."""
        end = stretch + 1 << _SHIFT
        for entry in self._stream.iterate(stretch << _SHIFT):
            if entry.sequence >= end:
                return
            if entry.ends:
                yield entry

    def _set(self, stretch: int, entries: list[Entry]) -> None:
        """The stretch has these endings, and no others."""
        self._earliest.pop(stretch, None)
        if entries:
            earliest = min((entry.ends, entry.sequence) for entry in entries)
            self._earliest[stretch] = earliest
            heapq.heappush(self._heap, (earliest[0], stretch))

    def _look_through(self) -> None:
        """Forget stretches whose messages are all gone."""
        for stretch, (_, sequence) in list(self._earliest.items()):
            if not self._stream.exists(sequence):
                self._set(stretch, list(self._of(stretch)))
        self._rebuild()

    def _rebuild(self) -> None:
        self._heap = [(when, stretch) for stretch, (when, _) in self._earliest.items()]
        heapq.heapify(self._heap)
