"""A bucket with its values in memory: ``async with bucket.cached() as config`` (docs/rules, KV-50 … KV-54)."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from railgun.client import steps
from railgun.client.buckets.cache_feed import CacheFeed
from railgun.client.buckets.cached import CachedChanges, CachedReads, CachedWrites, values_of
from railgun.client.buckets.coding import Coding
from railgun.client.facade.aio.buckets.bucket import REQUIRED, AsyncBucket
from railgun.client.facade.aio.buckets.bucket_transaction import AsyncBucketTransaction
from railgun.client.facade.aio.closing import AsyncCloses
from railgun.client.steps import waitable
from railgun.errors import KeyNotFound

if TYPE_CHECKING:
    from railgun.client.facade.aio.calls import AsyncCalls


class AsyncCachedBucket(AsyncBucket, AsyncCloses):
    """A bucket whose newest values are in memory; an async context manager. Made by ``Bucket.cached``.

    ``get`` and ``get_many`` are answered from memory once the cache is ready, everything else by the bucket (KV-54). What other
    programs write is seen a moment later; what was written through this object is seen at once, or something newer.
    """

    def __init__(self, railgun: AsyncCalls, coding: Coding, max_bytes: int | None) -> None:
        super().__init__(railgun, coding)
        connection = railgun.connection
        self._values = values_of(coding, max_bytes)
        self._cached = CachedReads(connection, coding, self._values)
        self._reads = self._cached
        self._writes = CachedWrites(self._cached, coding, railgun.publish_steps, self._values)
        self._feed = CacheFeed(connection, coding, self._values)
        weakref.finalize(self, self._feed.abandoned)

    @property
    def ready(self) -> bool:
        """Whether gets are answered from memory: all values that were there have come (KV-51), and the watch is alive (KV-53)."""
        return self._values.ready

    @property
    def cached_keys(self) -> int:
        """The number of keys whose value is in memory."""
        return len(self._values)

    @property
    def cached_bytes(self) -> int:
        """Bytes that they take, by estimate."""
        return self._values.size

    @property
    def may_be_stale(self) -> bool:
        """Whether a read can miss what another program wrote just before: yes."""
        return True

    async def wait_ready(self, timeout: float = 10.0) -> bool:
        """Wait until the cache is ready; whether it is."""
        return await steps.run_async(self._feed.wait_ready(timeout))

    async def get(self, key: str, default: Any = REQUIRED, *, revision: int | None = None) -> Any:
        """As ``Bucket.get``; from memory where that is safe. A value of an older ``revision`` is read from the bucket."""
        try:
            if revision is None:
                found = self._cached.known(key)
                if found is not None:
                    return found
            return await steps.run_async(self._reads.get(key, revision))
        except KeyNotFound:
            if default is REQUIRED:
                raise
            return default

    def transaction(self, *, timeout: float | None = None) -> AsyncBucketTransaction:
        """As ``Bucket.transaction``."""
        connection = self._railgun.connection
        limit = connection.timeout if timeout is None else waitable(timeout)
        changes = CachedChanges(connection, self._cached, self._coding, limit, self._values)
        return AsyncBucketTransaction(changes)

    async def close(self) -> None:
        """End the watch; gets are answered by the bucket from now on."""
        await steps.run_async(self._feed.close())
