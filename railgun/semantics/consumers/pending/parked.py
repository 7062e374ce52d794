"""Messages that a consumer is past in the stream but has still to deliver: parked runs, and whose turn it is.

They came back before they were handed out, are the newest of their subject for a start at the last of each, or wait
because their subject is busy (``max_ack_pending_per_subject``).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Protocol

from sortedcontainers import SortedList

from railgun.semantics.consumers.pending.pending_runs import PendingRun, PendingRuns, parked_run

PARKED_AT_MOST = (
    10_000  # by messages whose subject is busy: beyond, the consumer looks no further into the stream
)


class Parked(Protocol):
    """Parked messages in the order in which they are delivered."""

    def park(self, start: int, end: int) -> None:
        """Park these; they are not pending yet."""

    def park_all(self, ranges: list[tuple[int, int]]) -> None:
        """Park all of these: [start, end), ascending, none of which touches another. Nothing is pending yet."""

    def next(self, limit: int) -> tuple[int, int] | None:
        """Messages that may be delivered now, at most ``limit``: sequence and count of consecutive ones. They stay parked."""

    def delivered(self, runs: Iterable[PendingRun]) -> None:
        """The runs wait for an answer from now on."""

    def resolved(self, run: PendingRun) -> None:
        """The run is no longer pending: it waits for no answer, and is not parked."""


class InStreamOrder:
    """Without a limit per subject: whatever is parked may go, the lowest sequence first."""

    def __init__(self, pending: PendingRuns) -> None:
        self._pending = pending
        self._ranges = [
            (run.sequence, run.end) for run in pending if not run.deliveries
        ]  # a heap, maybe outdated

    def park(self, start: int, end: int) -> None:
        self._pending.add(parked_run(start, end - start))
        heapq.heappush(self._ranges, (start, end))

    def park_all(self, ranges: list[tuple[int, int]]) -> None:
        self._pending.extend([parked_run(start, end - start) for start, end in ranges])
        self._ranges = list(ranges)  # in order, so it is a heap

    def next(self, limit: int) -> tuple[int, int] | None:
        while self._ranges:
            start, end = self._ranges[0]
            run = self._pending.first_in(start, end)
            if run is None:
                heapq.heappop(self._ranges)
            elif run.deliveries:
                heapq.heapreplace(self._ranges, (run.end, end))
            else:
                return run.sequence, min(run.length, limit)
        return None

    def delivered(self, runs: Iterable[PendingRun]) -> None:
        pass

    def resolved(self, run: PendingRun) -> None:
        pass


class InTurn:
    """With a limit per subject: that many of its messages wait for an answer; the others stay parked, oldest first."""

    def __init__(self, pending: PendingRuns, limit: int, subject_of: Callable[[int], str]) -> None:
        self._pending = pending
        self._limit = limit
        self._subject_of = subject_of
        self._subjects: dict[int, str] = {}  # of all that is pending
        self._busy: dict[str, int] = {}
        self._waiting: dict[str, SortedList[int]] = {}
        self._free: list[int] = []  # heap of those whose turn it may be
        for run in pending:
            for sequence in range(run.sequence, run.end):
                if not run.deliveries:
                    self._wait(sequence)
        self.delivered(run for run in pending if run.deliveries)
        for subject in self._waiting:
            self._call(subject)

    def admits(self, subject: str) -> bool:
        """Whether a newer message of the subject may be delivered at once."""
        return subject not in self._waiting and self._busy.get(subject, 0) < self._limit

    @property
    def full(self) -> bool:
        """Whether no more may be parked for being busy."""
        return self._pending.parked >= PARKED_AT_MOST

    def park(self, start: int, end: int) -> None:
        self._pending.add(parked_run(start, end - start))
        for sequence in range(start, end):
            self._call(self._wait(sequence))

    def park_all(self, ranges: list[tuple[int, int]]) -> None:
        for start, end in ranges:
            self.park(start, end)

    def next(self, limit: int) -> tuple[int, int] | None:
        while self._free:
            sequence = self._free[0]
            waiting = self._waiting.get(self._subjects.get(sequence, ""))
            if waiting and waiting[0] == sequence and self._has_room(self._subjects[sequence]):
                return sequence, 1
            heapq.heappop(self._free)
        return None

    def delivered(self, runs: Iterable[PendingRun]) -> None:
        for run in runs:
            for sequence in range(run.sequence, run.end):
                subject = self._subjects.get(sequence)
                if subject is None:
                    subject = self._subjects[sequence] = self._subject_of(sequence)
                self._leave(sequence, subject)
                self._busy[subject] = self._busy.get(subject, 0) + 1
                self._call(subject)

    def resolved(self, run: PendingRun) -> None:
        for sequence in range(run.sequence, run.end):
            subject = self._subjects.pop(sequence)
            if run.deliveries:
                self._busy[subject] -= 1
                if not self._busy[subject]:
                    del self._busy[subject]
            else:
                self._leave(sequence, subject)
            self._call(subject)

    def _wait(self, sequence: int) -> str:
        subject = self._subjects[sequence] = self._subject_of(sequence)
        self._waiting.setdefault(subject, SortedList()).add(sequence)
        return subject

    def _leave(self, sequence: int, subject: str) -> None:
        waiting = self._waiting.get(subject)
        if waiting is not None:
            waiting.discard(sequence)
            if not waiting:
                del self._waiting[subject]

    def _has_room(self, subject: str) -> bool:
        return self._busy.get(subject, 0) < self._limit

    def _call(self, subject: str) -> None:
        waiting = self._waiting.get(subject)
        if waiting and self._has_room(subject):
            heapq.heappush(self._free, waiting[0])
