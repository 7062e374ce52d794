"""Redelivery (RDL): when an unanswered message is to be delivered again, and in which order."""

from __future__ import annotations

from collections import deque

from railgun.semantics.consumers.configuration.terms import Terms
from railgun.semantics.consumers.pending.pending_runs import READY, PendingRun, PendingRuns, blocks_of
from railgun.semantics.deadlines import Deadlines

# Messages that are given up (max_deliver reached) in one scan: no transaction grows without bound.
SPENT_AT_ONCE = 5_000


class Redelivery:
    """Ack waits and delays over the pending runs of one consumer.

    Waits that are found to be over in one scan are delivered again in stream order (RDL-03), after what was found before. What is
    pending, and how often it was delivered, is stored (RDL-16), the order is not: a new owner begins with stream order. Each
    message is delivered again by itself, with policy ``all`` too (RDL-17). A message is spent when its last allowed delivery went unanswered.
    """

    def __init__(self, pending: PendingRuns, terms: Terms) -> None:
        self._pending = pending
        self._terms = terms
        self._deadlines = Deadlines[int]()  # by block
        self._ready: deque[tuple[int, int]] = (
            deque()
        )  # ranges of sequences, some of which may have been answered
        for run in pending:
            if run.due != READY:
                self._watch(run)
            elif run.deliveries:
                self._ready.append((run.sequence, run.end))

    def expect(self, runs: list[PendingRun]) -> None:
        """Messages that were delivered all at one time, ascending, with gaps between them: they wait for an answer."""
        self._pending.extend(runs)
        due = self._due_of(runs[0])
        for number in blocks_of(runs[0].sequence, runs[-1].end):
            self._deadlines.watch(number, due)

    def put_off(self, run: PendingRun, due: int) -> None:
        """Messages that are to be delivered again from then on, or with the next take (READY)."""
        again = run._replace(due=due)
        self._pending.add(again)
        if due == READY:
            self._ready.append((run.sequence, run.end))
        else:
            self._watch(again)

    def is_spent(self, run: PendingRun) -> bool:
        """Whether the messages may not be delivered once more (RDL-08)."""
        return run.deliveries >= self._terms.max_deliver

    def is_held(self, run: PendingRun, now: int) -> bool:
        """Whether nobody has asked for the messages again since their newest delivery: a wait that is over asks for nothing (ACK-15)."""
        return not run.due or (run.due == READY and run.time + self._terms.wait(run.deliveries) <= now)

    def take_spent(self) -> list[PendingRun]:
        """What may not be delivered again although it waits for that, because the terms changed; no longer pending."""
        spent = [run for run in self._pending if run.due == READY and self.is_spent(run)]
        return [piece for run in spent for piece in self._pending.remove(run.sequence, run.end)]

    def look(self, now: int) -> list[PendingRun]:
        """Find what is over by ``now``; what is spent of it, and no longer pending."""
        numbers = self._deadlines.pop_due(now)
        spent: list[PendingRun] = []
        left = SPENT_AT_ONCE
        for number in sorted(numbers):
            over = [run for run in self._pending.block(number) if self._is_over(run, now)]
            for run in over:
                if left <= 0:
                    break
                self._pending.remove(run.sequence, run.end)
                if self.is_spent(run):
                    spent.append(run)
                    left -= run.length
                else:
                    self.put_off(run, READY)
            self._deadlines.watch(number, self._due(number))
        return spent

    def next(self, limit: int) -> PendingRun | None:
        """The next messages to be delivered again, at most ``limit`` of them; they stay pending."""
        while self._ready:
            start, end = self._ready[0]
            run = self._pending.first_in(start, end)
            if run is None:
                self._ready.popleft()
            elif run.due == READY and run.deliveries:
                return run.part(run.sequence, run.sequence + limit)
            else:  # delivered again, or parked, since it was found
                self._ready[0] = (run.end, end)
        return None

    def repeat(self, run: PendingRun, consumer_sequence: int, now: int) -> PendingRun:
        """The beginning of what :meth:`next` gave is delivered once more; the run that it is now."""
        self._ready[0] = (run.end, self._ready[0][1])
        self._pending.remove(run.sequence, run.end)
        # RDL-04: every attempt counts, from 1 on
        again = run._replace(last=consumer_sequence, deliveries=run.deliveries + 1, time=now, due=0)
        self.expect([again])
        return again

    def next_deadline(self) -> int | None:
        """When the next wait is over, ns."""
        return self._deadlines.next(self._due)

    def _watch(self, run: PendingRun) -> None:
        due = self._due_of(run)
        for number in blocks_of(run.sequence, run.end):
            self._deadlines.watch(number, due)

    def _is_over(self, run: PendingRun, now: int) -> bool:
        return run.due != READY and self._due_of(run) <= now

    def _due(self, number: int) -> int | None:
        waiting = (run for run in self._pending.block(number) if run.due != READY)
        return min(map(self._due_of, waiting), default=None)

    def _due_of(self, run: PendingRun) -> int:
        return run.due or run.time + self._terms.wait(run.deliveries)
