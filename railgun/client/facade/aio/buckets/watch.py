"""Watches of a bucket: ``async with bucket.watch("key") as entries`` (docs/rules, KV-30 … KV-36)."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator
from typing import Self

from railgun.client import steps
from railgun.client.buckets.watching import BucketWatch, InitialEnd
from railgun.client.facade.aio.closing import AsyncCloses
from railgun.model.bucket_entry import Entry


class AsyncWatch(AsyncCloses):
    """An endless iteration over entries; a context manager. Made by ``Bucket.watch`` and ``Bucket.watch_all``.

    It begins when it is entered, or when the first entry is asked for. It survives restarts of workers; it raises BucketNotFound
    when the bucket is deleted.
    """

    def __init__(self, watch: BucketWatch) -> None:
        self._watch = watch
        self._past_initial = False
        weakref.finalize(self, watch.abandoned)

    @property
    def restarts(self) -> int:
        """How often it started anew, because it was away for so long that it may have missed deletes (KV-20).

        It then delivers what is there once more; a copy of the bucket begins from nothing.
        """
        return self._watch.restarts

    async def __aenter__(self) -> Self:
        await steps.run_async(self._watch.begin())
        return self

    def __aiter__(self) -> AsyncIterator[Entry | None]:
        return self

    async def __anext__(self) -> Entry | None:
        while True:
            item = await self._next()
            if item is None:
                raise StopAsyncIteration
            if isinstance(item, Entry):
                return item
            if item.shown:
                return None

    async def initial(self) -> AsyncIterator[Entry]:
        """The values that were there when the watch began; it ends where they end."""
        while not self._past_initial:
            item = await self._next()
            if item is None or isinstance(item, InitialEnd):
                return
            yield item

    async def updates(self) -> AsyncIterator[Entry]:
        """What comes after, for ever; what was there is passed over."""
        while (item := await self._next()) is not None:
            if self._past_initial and isinstance(item, Entry):
                yield item

    async def _next(self) -> Entry | InitialEnd | None:
        """The next entry; None once this is closed."""
        items = self._watch.items
        if not items and not await steps.run_async(self._watch.some()):
            return None
        item = items.popleft()
        if isinstance(item, InitialEnd):
            self._past_initial = True
        return item

    async def close(self) -> None:
        """End the watch, from whichever thread."""
        await steps.run_async(self._watch.close())
