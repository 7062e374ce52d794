"""The stage of a shard: messages of batches that wait for the commit of their batch, in memory only.

Nothing of it is visible (BAT-12) and nothing survives the owner (BAT-43). Every change can be undone until the drain is
committed. Batches and bytes are bounded, for the whole worker (BAT-24).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from sys import getsizeof
from typing import Final, NamedTuple

from railgun.model import refusals
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.semantics.consumers.undo import UndoLog
from railgun.semantics.messages.budget import WorkerMemory
from railgun.semantics.streams.publishing.outcomes import NewMessage

# What a message and a header take in memory beside their bytes: ten thousand small headers are fifteen times their bytes.
_OBJECTS: Final = 450
_HEADER: Final = 100


@dataclass(slots=True)
class StagedBatch:
    """The messages of a batch that have come so far, in order."""

    messages: list[NewMessage] = field(default_factory=list)
    bytes: int = 0
    heard: int = 0  # when the last of them was received
    due: int = 0  # the shard's time at which the batch is abandoned


class BatchKey(NamedTuple):
    """A batch of one stream; another stream may have one of the same id (BAT-15)."""

    incarnation: int
    batch: str


class Staging:
    """All batches of one shard that are in flight."""

    def __init__(self, shard: int, limits: ClusterLimits, memory: WorkerMemory) -> None:
        self._holder = (shard, "batches")
        self._limits = limits
        self._memory = memory
        self._undo = UndoLog()
        self._batches: dict[int, dict[str, StagedBatch]] = {}  # by incarnation and id
        self._number = 0  # of them
        self._bytes = 0
        self._soonest = (
            0  # no batch is abandoned before this time: the shard's time, and so every due time, only goes on
        )

    # -- life

    def load(self) -> None:
        """A new owner: it knows of no batch (BAT-25)."""
        self._undo.clear()
        self._batches = {}
        self._count()

    def committed(self) -> None:
        self._undo.clear()

    def aborted(self) -> None:
        """The last drain never happened: the stage is as it was before."""
        self._undo.undo()
        self._count()

    # -- batches

    def get(self, key: BatchKey) -> StagedBatch | None:
        return self._batches.get(key.incarnation, {}).get(key.batch)

    def room(self, key: BatchKey) -> int:
        """Bytes that a batch may have that is not known yet; 0 where there can be none now."""
        if self.get(key) is not None or self._is_full(key.incarnation):
            return 0
        return self._memory.staged.limit - self._memory.staged.total

    def _is_full(self, incarnation: int) -> bool:
        """Whether there can be no other batch of the stream (BAT-24)."""
        full = len(self._batches.get(incarnation, ())) >= self._limits.max_stream_batches
        return full or self._memory.batches.total >= self._limits.max_batches

    def open(self, key: BatchKey) -> StagedBatch | Refusal:
        """A new batch, or why there can be none now."""
        if self._is_full(key.incarnation):
            return refusals.TOO_MANY_BATCHES
        of_stream = self._batches.get(key.incarnation, {})
        batch = StagedBatch()
        if key.incarnation not in self._batches:
            self._undo.put(self._batches, key.incarnation, of_stream)
        self._undo.put(of_stream, key.batch, batch)
        self._note(1, 0)
        return batch

    def add(self, batch: StagedBatch, message: NewMessage) -> Refusal | None:
        """Put a message behind the others; refused where the worker holds too much that is staged.

        A batch that is too much by itself is told so: sent again, it would be refused again.
        """
        size, limit = _memory_of(message), self._memory.staged.limit
        if batch.bytes + size > limit:
            return refusals.batch_too_large(f"{limit} bytes")
        if self._memory.staged.total + size > limit:
            return refusals.TOO_MANY_BATCHES
        self._undo.on_undo(partial(_cut, batch, len(batch.messages), batch.bytes))
        batch.messages.append(message)
        batch.bytes += size
        self._note(0, size)
        return None

    def add_run(self, batch: StagedBatch, messages: Sequence[NewMessage]) -> int:
        """Put messages behind the others, as far as the worker may hold them; how many."""
        room, size, added = self._memory.staged.limit - self._memory.staged.total, 0, 0
        for own in map(_memory_of, messages):
            if size + own > room:
                break
            size += own
            added += 1
        self._undo.on_undo(partial(_cut, batch, len(batch.messages), batch.bytes))
        batch.messages += messages[:added]
        batch.bytes += size
        self._note(0, size)
        return added

    def heard(self, batch: StagedBatch, received: int, moment: int) -> None:
        """A message of the batch came, which restarts its time (BAT-38)."""
        self._undo.on_undo(partial(_set_times, batch, batch.heard, batch.due))
        _set_times(batch, received, moment + self._limits.batch_timeout)
        if self._number == 1:
            self._soonest = batch.due

    def silent(self, batch: StagedBatch, received: int) -> bool:
        """Whether no message of the batch was received for too long before this time (BAT-37).

        By the times of receipt, a new owner that reads the same messages again finds the same.
        """
        return received - batch.heard >= self._limits.batch_timeout

    def drop(self, key: BatchKey) -> None:
        """The batch is over: its place is free (BAT-25)."""
        of_stream = self._batches.get(key.incarnation, {})
        batch = self._undo.drop(of_stream, key.batch)
        if batch is not None:
            if not of_stream:
                self._undo.drop(self._batches, key.incarnation)
            self._note(-1, -batch.bytes)

    def drop_all(self, incarnation: int) -> None:
        """The stream is gone, or takes no more batches."""
        for batch in list(self._batches.get(incarnation, ())):
            self.drop(BatchKey(incarnation, batch))

    # -- time

    @property
    def next(self) -> int | None:
        """The shard's time at which batches may have to be abandoned, and not before."""
        return self._soonest if self._number else None

    def due(self, moment: int) -> list[BatchKey]:
        """The batches that are to be abandoned at this moment, oldest first. Nearly every drain finds none, and looks at none."""
        if not self._number or moment < self._soonest:
            return []
        found = [(batch.due, key) for key, batch in self._all() if batch.due <= moment]
        self._soonest = min((batch.due for _, batch in self._all() if batch.due > moment), default=0)
        return [key for _, key in sorted(found)]

    def _all(self) -> Iterator[tuple[BatchKey, StagedBatch]]:
        for incarnation, of_stream in self._batches.items():
            for name, batch in of_stream.items():
                yield BatchKey(incarnation, name), batch

    def _count(self) -> None:
        """Find out what this shard holds, and until when."""
        held = [batch.bytes for _, batch in self._all()]
        self._soonest = min((batch.due for _, batch in self._all()), default=0)
        self._number = self._bytes = 0
        self._note(len(held), sum(held))

    def _note(self, batches: int, size: int) -> None:
        """Tell the worker's memory that this shard holds so much more."""
        self._number += batches
        self._bytes += size
        self._memory.batches.excess(self._holder, self._number)
        self._memory.staged.excess(self._holder, self._bytes)


def _memory_of(message: NewMessage) -> int:
    """Bytes of the process that a message takes, approximately. What a publisher chooses counts: subject and headers too."""
    named = sum(_HEADER + getsizeof(name) + len(value) for name, value in message.headers)
    return _OBJECTS + getsizeof(message.subject) + named + len(message.payload)


def _cut(batch: StagedBatch, count: int, size: int) -> None:
    del batch.messages[count:]
    batch.bytes = size


def _set_times(batch: StagedBatch, heard: int, due: int) -> None:
    batch.heard, batch.due = heard, due
