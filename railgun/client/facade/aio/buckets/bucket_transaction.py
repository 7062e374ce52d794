"""Transactions of a bucket: ``async with bucket.transaction() as t: t.put(…)``."""

from __future__ import annotations

from typing import Any, Self

from railgun.client import steps
from railgun.client.buckets.changes import BucketChanges
from railgun.client.buckets.writes import Ttl


class AsyncBucketTransaction:
    """Changes of several keys that are stored together or not at all; an async context manager. Made by ``Bucket.transaction``.

    Leaving the block stores them in one atomic batch; an exception in the block gives them up, and nothing was sent. A key is
    changed once. Conditions hold for the bucket before the transaction. The calls only collect, and raise InvalidKey and ConfigError.
    """

    def __init__(self, changes: BucketChanges) -> None:
        self._changes = changes
        #: After the block: the revision of each key.
        self.revisions: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._changes)

    def put(self, key: str, value: Any) -> None:
        """Store a value."""
        self._changes.put(key, value)

    def create(self, key: str, value: Any, *, ttl: Ttl = None) -> None:
        """Store a value; the key must have none (KV-17)."""
        self._changes.create(key, value, ttl)

    def update(self, key: str, value: Any, revision: int) -> None:
        """Store a value; the newest must be of this revision, 0 for none (KV-18)."""
        self._changes.update(key, value, revision)

    def delete(self, key: str, *, revision: int | None = None, marker: bool | None = None) -> None:
        """Remove all values of a key (KV-20), or leave a marker (KV-21)."""
        self._changes.delete(key, revision, marker)

    def purge(self, key: str, *, ttl: Ttl = None, revision: int | None = None) -> None:
        """Replace all values of a key by a purge marker (KV-23)."""
        self._changes.purge(key, ttl, revision)

    async def __aenter__(self) -> Self:
        self._changes.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Store the changes. Raises KeyExists and KeyWrongLastSequence, with the key where the refusal allows to tell it, BatchRefused,
        BucketNotFound: nothing was stored then; and RequestTimeout, after which all was stored or nothing."""
        if kind is not None:
            self._changes.give_up()
        else:
            self.revisions = await steps.run_async(self._changes.commit())
