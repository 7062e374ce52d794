"""The way back to reading after a rebalance: Faust's recovery, with a patience that does not end.

Faust gives the seek to the group's offsets the time of one request. When that is over, mode reports "stopped", and Faust ends
the task that resumes: the worker stays a member of the group, keeps its shards, says that they are ready, and never reads a
record again, also not after later rebalances. A coordinator that hangs for half a minute is enough (seen with three brokers).
"""

from __future__ import annotations

from typing import Any

from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery as FaustRecovery


class Resumption(FaustRecovery):
    """Waits as long as it takes. A rebalance or the end of the worker interrupts it, as before."""

    async def _wait(self, coro: Any, timeout: Any = None) -> None:
        await super()._wait(coro)


class NoTables(TableManager):
    """Faust's start of the tables, without the second in which it waits for a program to declare some."""

    @property
    def recovery(self) -> FaustRecovery:
        if self._recovery is None:
            self._recovery = Resumption(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery

    async def on_start(self) -> None:
        await self._update_channels()
        await self.recovery.start()
