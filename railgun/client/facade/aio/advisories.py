"""Advisories and ack samples as they happen: ``async for advisory in rg.advisories()`` (docs/rules, ADV).

They are sent after what they tell of and never hold it up, so they may come late, and are not kept for later listeners.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Self

from railgun.client import steps
from railgun.client.facade.aio.closing import AsyncCloses
from railgun.client.operations.advisory_queue import Advisory, AdvisoryQueue


class AsyncAdvisories(AsyncCloses):
    """An endless iteration over advisories; a context manager. Made by ``rg.advisories``.

    Async: it listens once it is entered or first iterated.
    """

    def __init__(self, queue: AdvisoryQueue) -> None:
        self._queue = queue

    async def __aenter__(self) -> Self:
        await steps.run_async(self._queue.opened())
        return self

    def __aiter__(self) -> AsyncIterator[Advisory]:
        return self

    async def __anext__(self) -> Advisory:
        found = await steps.run_async(self._queue.next())
        if found is None:
            raise StopAsyncIteration
        return found

    async def close(self) -> None:
        """End the iteration, from whichever thread."""
        await steps.run_async(self._queue.closed())
