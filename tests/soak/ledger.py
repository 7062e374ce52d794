"""What became of each job: published once, delivered, confirmed once. Its memory is bounded by what is under way."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

_REMEMBERED: Final = 50_000  # jobs that are done: none of them may come again


@dataclass(slots=True)
class _Job:
    published: int = 0  # sequence by the publisher's ack, 0: none yet
    confirmed: int = 0  # sequence by the delivery whose ack was confirmed


class Ledger:
    """Jobs by id. Usable from several threads; ``faults`` says what must not be."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.done = 0
        self._lock = threading.Lock()
        self._open: dict[str, _Job] = {}
        self._closed: dict[str, int] = {}
        self._order: deque[str] = deque()

    @property
    def waiting(self) -> int:
        """How many jobs are not done."""
        return len(self._open)

    def published(self, job: str, sequence: int) -> None:
        """The publisher has its ack."""
        with self._lock:
            self._open.setdefault(job, _Job()).published = sequence
            self._settle(job)

    def delivered(self, job: str, sequence: int) -> None:
        """A consumer was given the job."""
        with self._lock:
            before = self._closed.get(job)
            if before is not None:
                what = "delivered after its ack was confirmed" if before == sequence else "stored twice"
                self.faults.append(f"{job} was {what} (sequences {before} and {sequence})")

    def confirmed(self, job: str, sequence: int) -> None:
        """The ack of a delivery is durable."""
        with self._lock:
            self._open.setdefault(job, _Job()).confirmed = sequence
            self._settle(job)

    def close(self) -> None:
        """Nothing is under way any more: what is not done is lost, or was never answered."""
        with self._lock:
            for name, job in self._open.items():
                missing = (
                    "acked and never delivered"
                    if job.published
                    else "delivered and never acked to its publisher"
                )
                self.faults.append(f"{name} was {missing}")

    def _settle(self, name: str) -> None:
        job = self._open[name]
        if not (job.published and job.confirmed):
            return
        if job.published != job.confirmed:
            self.faults.append(f"{name} was acked as {job.published} and delivered as {job.confirmed}")
        del self._open[name]
        self.done += 1
        self._closed[name] = job.confirmed
        self._order.append(name)
        if len(self._order) > _REMEMBERED:
            del self._closed[self._order.popleft()]
