"""The state of a shard at its worker: the table, the core that reads it, and which logs are gone.

It outlives a stay of the partition at this worker: after a rebalance that brings the partition back, a restore that
finds nothing new in the changelog shows that the core in memory is still current.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from railgun.kafka.records import KeyedRecord, PartitionReader
from railgun.kafka.topic_admin import DELETE_RETENTION_MS
from railgun.shard.core import ShardCore
from railgun.shard.drain import AfterCommit
from railgun.state.restore import restore
from railgun.state.rocks import RocksTable
from railgun.state.store_errors import StoreDamaged, StoreFailed, StoreInUse, let_go_of
from railgun.state.table import Reached
from railgun.worker.context import ShardContext
from railgun.worker.shards.recovery import ShardStopped, Unforeseen

log = logging.getLogger("railgun.worker")

_DAMAGED_AGAIN: Final = 600.0  # seconds: damage so soon after a store was made anew is the disk's


class _Outlived(Exception):
    """The changelog goes on long after the last record that the store knows."""


def _soon_after(table: RocksTable, batches: Iterable[list[KeyedRecord]]) -> Iterator[list[KeyedRecord]]:
    """The batches, for as long as compaction cannot have dropped a tombstone that the store has not seen.

    The newest of the records says what time it is at least, whatever the clock of this machine says.
    """
    end = table.trusted_until
    for batch in batches:
        if end is not None and batch[-1].written > end:
            raise _Outlived
        yield batch


class ShardState:
    """The state of one shard. Used by one thread at a time."""

    def __init__(self, partition: int, context: ShardContext, *, apart: bool = False) -> None:
        """``apart``: in a folder of its own, because another table of this process holds the usual one."""
        self._partition = partition
        self._context = context
        self._folder = self._apart() if apart else context.folder / str(partition)
        self._table: RocksTable | None = None
        self._core: ShardCore | None = None
        self._committed = 0  # the place in the changelog that we know to be durable
        self._renewed = float("-inf")
        self.epoch = 0
        # Log topics that are gone, with the reason that publishers hear.
        self.quarantined: dict[str, str] = {}
        # Incarnations of streams that cannot be read, or could not while they were used.
        self._aside: dict[int, str] = {}
        self._reported: set[str] = set()  # what the log said to be set aside

    @property
    def core(self) -> ShardCore:
        if self._core is None:
            raise Unforeseen(f"shard {self._partition} has no state")
        return self._core

    @property
    def table(self) -> RocksTable:
        if self._table is None:
            raise Unforeseen(f"shard {self._partition} has no table")
        return self._table

    def catch_up(self, stopping: Callable[[], bool]) -> tuple[int, bool]:
        """Follow the changelog to its end, then load. Returns how many records were new, and whether the core was kept.

        Only after ``init_transactions``: what the former owner left open is decided by then. Raises ShardStopped.
        """
        while True:
            try:
                restored = self._restore(stopping)
                kept = self._core is not None and restored == 0
                if not kept:
                    self.load()
            except StoreDamaged as damage:
                self.give_up(damage)
            else:
                return restored, kept

    def committed(self, reached: Reached | None) -> None:
        """A drain is durable up to this place: no core may be made from a table that is not there yet."""
        if reached is not None:
            self._committed = max(self._committed, reached.position)

    def give_up(self, error: Exception) -> None:
        """Neither core nor table can be trusted: the next :meth:`catch_up` makes them anew.

        Here, and nowhere else, a damaged store is wiped, once. Raises StoreFailed when that happened not long ago.
        """
        let_go_of(error)
        self._core = None
        if not isinstance(error, StoreDamaged):
            self.close()  # opened again: after a write that failed, RocksDB takes no other
            return
        if time.monotonic() - self._renewed < _DAMAGED_AGAIN:
            raise StoreFailed(
                f"{error}. It was made anew only a moment ago, so the disk is failing. Nothing is lost, the changelog has "
                "it all: replace the disk or name another data_dir, and start the worker again"
            ) from error
        self._renewed = time.monotonic()
        self._aside.clear()  # it may have been the damage that made them unreadable
        if self._table is not None:
            self._table.wipe(str(error))

    def set_aside(self, incarnation: int | None, reason: str) -> bool:
        """The next :meth:`load` leaves this stream out. False if there is none, or it is left out already."""
        if not incarnation or incarnation in self._aside:
            return False
        self._aside[incarnation] = reason
        return True

    def _restore(self, stopping: Callable[[], bool]) -> int:
        context = self._context
        table = self._table = self._table or self._open()
        with PartitionReader(context.kafka, context.names.changelog, self._partition) as reader:
            low, end = reader.bounds()
            if table.position and not low <= table.position <= end:
                table.wipe(f"its place {table.position} is not in the changelog ({low} to {end})")
                self._core, self._committed = None, 0
            batches = reader.batches(table.position, stopping)
            try:
                count = restore(table, _soon_after(table, batches), end=end, name=f"shard {self._partition}")
            except _Outlived:
                table.wipe("it has not followed the changelog for too long, by the broker's clock")
                self._core = None
                batches = reader.batches(table.position, stopping)
                count = restore(table, batches, end=end, name=f"shard {self._partition}")
        if stopping():
            if count:
                self._core = None  # the table has moved on under it
            raise ShardStopped
        return count

    def _open(self) -> RocksTable:
        identity, max_age = f"{self._context.identity}/{self._partition}", DELETE_RETENTION_MS / 2000
        try:
            return RocksTable(self._folder, identity=identity, max_age=max_age)
        except StoreInUse:
            # The data folder is this process's own: a thread of an earlier stay has not come back from its last commit.
            log.warning("shard %d: its table is still in use, it is restored beside it", self._partition)
            self._folder = self._apart()
            return RocksTable(self._folder, identity=identity, max_age=max_age)

    def _apart(self) -> Path:
        return self._context.folder / f"{self._partition}-{time.time_ns()}"

    def load(self) -> None:
        """A new core reads everything from the table. The epoch is new, because the state in memory is gone."""
        context = self._context
        if self.table.position < self._committed:
            raise AfterCommit(
                f"shard {self._partition}: the table is at {self.table.position} of the changelog, {self._committed} is "
                "committed: it must be restored before it is read"
            )
        core = ShardCore(
            self._partition,
            context.partitions,
            context.names,
            context.limits,
            self.table,
            test_clock=context.test_clock,
            hears_time=True,
            read_log=context.read_log,
            memory=context.memory,
            quarantined=self.quarantined,
            origin=context.origin,
        )
        for incarnation, reason in self._aside.items():
            core.set_aside(incarnation, reason)
        core.load()
        self._aside |= core.aside  # not tried again, and not reported again, with every load
        for what, reason in core.unreadable().items():
            if what not in self._reported:
                self._reported.add(what)
                log.error(
                    "shard %d: %s is set aside, the others are served: %s", self._partition, what, reason
                )
        self._core = core
        # Grows from owner to owner, also where their clocks differ, once the former has written something.
        self.epoch = max(self.epoch + 1, max(context.clock(), core.time) // 1_000_000)

    def close(self) -> None:
        """Give the table's memory and lock back; its folder stays."""
        table, self._table, self._core = self._table, None, None
        self._context.memory.leave(self._partition)
        if table is not None:
            table.close()
