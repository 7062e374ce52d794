"""A bucket that is read from a replica: ``await bucket.replica("NAME")`` (docs/rules, KV-47 … KV-49)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from railgun.client.buckets.changes import BucketChanges
from railgun.client.buckets.coding import Coding
from railgun.client.buckets.reads import BucketReads
from railgun.client.buckets.writes import BucketWrites
from railgun.client.facade.aio.buckets.bucket import HALF_AN_HOUR, AsyncBucket
from railgun.client.facade.aio.buckets.bucket_transaction import AsyncBucketTransaction
from railgun.client.facade.aio.buckets.cached_bucket import AsyncCachedBucket
from railgun.client.steps import waitable
from railgun.errors import ConfigError

if TYPE_CHECKING:
    from railgun.client.facade.aio.calls import AsyncCalls


class AsyncReplica(AsyncBucket):
    """A bucket whose reads and watches ask a replica, and whose writes go to the bucket itself. Made by ``Bucket.replica``.

    A read may be stale: what was put a moment ago may not be copied yet (KV-48). ``status`` is that of the replica: ``lag`` messages
    are still to be copied, and it heard of the bucket ``active`` ago.
    """

    def __init__(self, railgun: AsyncCalls, primary: Coding, copy: Coding) -> None:
        super().__init__(railgun, copy)
        self._primary = primary
        self._primary_reads = BucketReads(
            railgun.connection, primary
        )  # conditions are looked up where they are decided
        self._writes = BucketWrites(self._primary_reads, primary, railgun.publish_steps)

    def cached(self, max_bytes: int | None = None) -> AsyncCachedBucket:
        """As ``Bucket.cached``: a cache is built from the bucket itself, never from a replica (KV-50)."""
        return AsyncCachedBucket(self._railgun, self._primary, max_bytes)

    def transaction(self, *, timeout: float | None = None) -> AsyncBucketTransaction:
        """As ``Bucket.transaction``, of the bucket itself."""
        connection = self._railgun.connection
        limit = connection.timeout if timeout is None else waitable(timeout)
        return AsyncBucketTransaction(BucketChanges(connection, self._primary_reads, self._primary, limit))

    async def purge_deletes(self, older_than: timedelta | float = HALF_AN_HOUR) -> int:
        """As ``Bucket.purge_deletes``, of the bucket itself."""
        return await AsyncBucket(self._railgun, self._primary).purge_deletes(older_than)

    async def destroy(self) -> None:
        """Not here: it would not be clear which of the two is meant. Raises ConfigError."""
        raise ConfigError(
            f"say which one to remove: delete_bucket({self.name!r}) removes the replica, "
            f"delete_bucket({self._primary.config.bucket!r}) the bucket"
        )
