"""The newest messages of a shard, in memory: an answer that needs one of them need not send its reader to the log.

Bounded over all streams together, and by what the worker has room for; the oldest go first. Nothing depends on it: what it does not hold is in the log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple

from railgun.model.headers import Headers
from railgun.semantics.messages.budget import Pool

LIMIT_BYTES = 16 * 1024 * 1024
_MESSAGE_BYTES = 200  # what a small message costs beside its payload
_HEADER_BYTES = 200  # what a header costs beside its value


class _Run(NamedTuple):
    """Messages that one drain stored in one stream, as columns; sequences are ascending."""

    sequences: Sequence[int]
    headers: Sequence[Headers]
    payloads: Sequence[bytes]
    size: int


class RecentMessages:
    """Runs of committed messages, by incarnation."""

    def __init__(self, limit: int = LIMIT_BYTES, pool: Pool | None = None, shard: int = 0) -> None:
        self._limit = limit
        self._pool = pool or Pool(limit)
        self._holder = (shard, "recent")
        self._size = 0
        self._runs: dict[int, deque[_Run]] = {}
        self._order: deque[int] = deque()  # the incarnation of each run, oldest first

    def add(
        self,
        incarnation: int,
        sequences: Sequence[int],
        headers: Sequence[Headers],
        payloads: Sequence[bytes],
    ) -> None:
        """Keep what a committed drain stored, and let the oldest go."""
        size = sum(map(len, payloads)) + _MESSAGE_BYTES * len(payloads)
        values = list(map(itemgetter(1), chain.from_iterable(headers)))
        size += sum(map(len, values)) + _HEADER_BYTES * len(values)
        run = _Run(sequences, headers, payloads, size)
        self._runs.setdefault(incarnation, deque()).append(run)
        self._order.append(incarnation)
        self._size += run.size
        excess = max(self._pool.excess(self._holder, self._size), self._size - self._limit)
        while excess > 0 and self._order:
            excess -= self._drop_oldest()
        self._pool.excess(self._holder, self._size)

    def find(self, incarnation: int, sequence: int) -> tuple[Headers, bytes] | None:
        """Headers and payload of a message, if they are still here."""
        runs = self._runs.get(incarnation)
        if not runs or sequence < runs[0].sequences[0]:
            return None
        at = bisect_left(runs, sequence, key=_last)
        if at == len(runs):
            return None
        run = runs[at]
        index = bisect_left(run.sequences, sequence)
        return (run.headers[index], run.payloads[index]) if run.sequences[index] == sequence else None

    def first(self, incarnation: int) -> int | None:
        """The oldest message of the stream that is still here; None if there is none."""
        runs = self._runs.get(incarnation)
        return runs[0].sequences[0] if runs else None

    def find_run(self, incarnation: int, first: int, behind: int) -> tuple[list[Headers], list[bytes | None]]:
        """Headers and payloads of the sequences [first, behind); None for a payload that is not here."""
        headers: list[Headers] = []
        payloads: list[bytes | None] = []
        runs = self._runs.get(incarnation, deque())
        for run in islice(runs, bisect_left(runs, first, key=_last), None):
            if first >= behind or run.sequences[0] >= behind:
                break
            at, end = bisect_left(run.sequences, first), bisect_left(run.sequences, behind)
            last = run.sequences[end - 1]
            if run.sequences[at] != first or last - first != end - 1 - at:
                break  # it has gaps
            headers += run.headers[at:end]
            payloads += run.payloads[at:end]
            first = last + 1
        for sequence in range(first, behind):
            found = self.find(incarnation, sequence)
            headers.append(() if found is None else found[0])
            payloads.append(None if found is None else found[1])
        return headers, payloads

    def _drop_oldest(self) -> int:
        incarnation = self._order.popleft()
        runs = self._runs[incarnation]
        size = runs.popleft().size
        self._size -= size
        if not runs:
            del self._runs[incarnation]
        return size


def _last(run: _Run) -> int:
    return run.sequences[-1]
