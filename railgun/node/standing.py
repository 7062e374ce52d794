"""What a shard knows: its table, the core that reads it, and what it has learnt about its logs.

It outlives a stay of the partition at this worker: after a rebalance that brings the partition back, a restore that
finds nothing new in the changelog shows that the core in memory is still current.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from railgun.kafka.records import PartitionReader
from railgun.kafka.topics import DELETE_RETENTION_MS
from railgun.node.context import ShardContext
from railgun.node.core import ShardCore
from railgun.node.recovery import ShardStopped, Unforeseen
from railgun.state.restore import restore
from railgun.state.rocks import RocksTable


class Standing:
    """The state of one shard. Used by one thread at a time."""

    def __init__(self, partition: int, context: ShardContext, *, apart: bool = False) -> None:
        """``apart``: in a folder of its own, because another table of this process holds the usual one."""
        self._partition = partition
        self._folder = context.folder / (f"{partition}-{time.time_ns()}" if apart else str(partition))
        self._context = context
        self._table: RocksTable | None = None
        self._core: ShardCore | None = None
        self.epoch = 0
        self.quarantined: set[str] = set()

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
        """Follow the changelog to its end, then load; how many records were new, and whether the core was kept.

        Only after ``init_transactions``: what the former owner left open is decided by then. Raises ShardStopped.
        """
        restored = self._restore(stopping)
        kept = self._core is not None and restored == 0
        if not kept:
            self.load()
        return restored, kept

    def _restore(self, stopping: Callable[[], bool]) -> int:
        context = self._context
        if self._table is None:
            self._table = RocksTable(
                self._folder,
                identity=f"{context.identity}/{self._partition}",
                max_age=DELETE_RETENTION_MS / 2000,
            )
        table = self._table
        with PartitionReader(context.kafka, context.names.changelog, self._partition) as reader:
            low, end = reader.bounds()
            if table.position and not low <= table.position <= end:
                table.wipe(f"its place {table.position} is not in the changelog ({low} to {end})")
                self._core = None
            count = restore(
                table, reader.batches(table.position, stopping), end=end, name=f"shard {self._partition}"
            )
        if stopping():
            if count:
                self._core = None  # the table has moved on under it
            raise ShardStopped
        return count

    def load(self) -> None:
        """A core that reads everything from the table; a new epoch, because what was only in memory is gone."""
        context = self._context
        core = ShardCore(
            self._partition,
            context.partitions,
            context.names,
            context.limits,
            self.table,
            test_clock=context.test_clock,
            read_log=context.read_log,
        )
        core.load()
        for topic in self.quarantined:
            core.quarantine(topic, f"the topic {topic} is gone")
        self._core = core
        # Grows from owner to owner as long as their clocks roughly agree; readers only look for a change.
        self.epoch = max(self.epoch + 1, time.time_ns() // 1_000_000)

    def close(self) -> None:
        """Give the table's memory and lock back; its folder stays."""
        table, self._table, self._core = self._table, None, None
        if table is not None:
            table.close()
