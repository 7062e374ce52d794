# Generated from ../../aio/buckets/bucket.py by `python -m tests.twins`. Change that file, then run `make twins`.
"""The handle of a key-value bucket: its names and its codecs. It holds no values (docs/rules, KV)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from railgun.client import steps
from railgun.client.buckets.changes import BucketChanges
from railgun.client.buckets.coding import Coding
from railgun.client.buckets.layout import bucket_of, replica_of, stream_of
from railgun.client.buckets.reads import BucketReads, Indexed, find
from railgun.client.buckets.watching import BucketWatch, Mode, WatchOptions
from railgun.client.buckets.writes import BucketWrites, Ttl, age_of
from railgun.client.facade.sync.buckets.bucket_transaction import BucketTransaction
from railgun.client.facade.sync.buckets.watch import Watch
from railgun.client.operations import streams
from railgun.client.steps import waitable
from railgun.errors import BadBucket, KeyNotFound
from railgun.model.bucket_config import BucketConfig, BucketStatus
from railgun.model.bucket_entry import Entry

if TYPE_CHECKING:
    from railgun.client.facade.sync.buckets.cached_bucket import CachedBucket
    from railgun.client.facade.sync.buckets.replica import Replica
    from railgun.client.facade.sync.calls import Calls

D = TypeVar("D")

REQUIRED: Final[Any] = object()  # no default was given
HALF_AN_HOUR: Final = timedelta(minutes=30)


class Bucket:
    """One bucket. Calls raise InvalidKey before anything is sent, BucketNotFound if the bucket is gone.

    A revision is the place of a value in the whole bucket: it rises with every write, of whichever key (KV-13).
    """

    def __init__(self, railgun: Calls, coding: Coding) -> None:
        self._railgun = railgun
        self._coding = coding
        self._reads = BucketReads(railgun.connection, coding)
        self._writes = BucketWrites(self._reads, coding, railgun.publish_steps)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        return self._coding.config.bucket

    @property
    def config(self) -> BucketConfig:
        """The settings as they were when this handle was made."""
        return self._coding.config

    @property
    def may_be_stale(self) -> bool:
        """Whether a read can miss what was written just before: it asks a replica (KV-48), or a cache."""
        return self.config.mirror is not None

    # -- values

    def put(self, key: str, value: Any, *, ttl: Ttl = None) -> int:
        """Store a value; its revision. ``ttl``: how long it lives, in a bucket with history 1 (KV-38)."""
        return steps.run(self._writes.put(key, value, ttl))

    def create(self, key: str, value: Any, *, ttl: Ttl = None) -> int:
        """Store a value if the key has none; its revision. Raises KeyExists (KV-17)."""
        return steps.run(self._writes.create(key, value, ttl))

    def update(self, key: str, value: Any, revision: int) -> int:
        """Store a value if the newest is of this revision; its revision. Raises KeyWrongLastSequence (KV-18).

        Revision 0: only if the key has no value.
        """
        return steps.run(self._writes.update(key, value, revision))

    @overload
    def get(self, key: str, *, revision: int | None = None) -> Entry: ...

    @overload
    def get(self, key: str, default: D, *, revision: int | None = None) -> Entry | D: ...

    def get(self, key: str, default: Any = REQUIRED, *, revision: int | None = None) -> Any:
        """The newest value of a key, or that of a revision. Raises KeyNotFound, which is a KeyError, without a default.

        A value that was put before is there: no copy answers, but the owner (KV-19).
        """
        try:
            return steps.run(self._reads.get(key, revision))
        except KeyNotFound:
            if default is REQUIRED:
                raise
            return default

    def get_many(self, keys: Iterable[str]) -> dict[str, Entry]:
        """The newest values of those of the keys that have one."""
        return steps.run(self._reads.get_many(list(keys)))

    def history(self, key: str) -> list[Entry]:
        """What is stored of a key, oldest first; empty if there is nothing (KV-28)."""
        return steps.run(self._reads.history(key))

    def keys(self, filter: str | Iterable[str] | None = None) -> Iterator[str]:
        """Each key that has a value, once (KV-29). ``filter``: those that match a key or pattern, such as ``orders.*``."""
        listed = set[str]()
        for found in self._newest(self._coding.patterns(filter)):
            if not found.is_delete and found.subject not in listed:  # changed meanwhile, it comes once more
                listed.add(found.subject)
                yield self._coding.key(found.subject)

    def _newest(self, patterns: list[str]) -> Iterator[Indexed]:
        """The newest message of each key that matches, deletes too."""
        pages = self._reads.index(patterns, newest_only=True)
        while (page := steps.run(pages.next())) is not None:
            yield from page

    def transaction(self, *, timeout: float | None = None) -> BucketTransaction:
        """Changes of several keys that are stored together or not at all.

        ``with bucket.transaction() as t: t.put("a", "1"); t.delete("b")``.
        """
        connection = self._railgun.connection
        limit = connection.timeout if timeout is None else waitable(timeout)
        return BucketTransaction(BucketChanges(connection, self._reads, self._coding, limit))

    # -- copies of it

    def cached(self, max_bytes: int | None = None) -> CachedBucket:
        """The bucket with its values in this program's memory, kept up to date by a watch: a get takes microseconds (KV-50).

        ``with bucket.cached() as config``. Until the cache knows all values, gets are answered by the bucket. ``max_bytes``:
        the values that were not read for the longest time leave, and are read from the bucket.
        """
        from railgun.client.facade.sync.buckets.cached_bucket import CachedBucket

        return CachedBucket(self._railgun, self._coding, max_bytes)

    def replica(self, name: str, *, stream_name: str | None = None) -> Replica:
        """The bucket, read from its replica of that name and written to the bucket itself (KV-47). Reads may be stale (KV-48).

        Raises BucketNotFound; BadBucket if that is not a replica of this bucket.
        """
        from railgun.client.facade.sync.buckets.replica import Replica

        info = steps.run(find(self._railgun.connection, name, stream_name))
        found = bucket_of(info.config, name)
        if found.mirror is None or found.mirror.name != self.config.stream:
            raise BadBucket(name, found.stream, f"a replica of {self.name!r}")
        return Replica(self._railgun, self._coding, self._coding.of(found))

    def create_replica(self, name: str, **fields: Any) -> Replica:
        """Create a replica of this bucket: a copy that is kept up to date, only to be read (KV-47).

        It has the bucket's settings, but for the fields that are given, such as ``placement`` or ``ttl``. One that exists with the same
        settings is left as it is.
        """
        there = bucket_of((steps.run(self._reads.info())).config, self.name)
        chosen = replica_of(there, name, fields)
        self._railgun.call(streams.create_stream(stream_of(chosen)))
        return self.replica(name, stream_name=chosen.stream)

    # -- watching

    def watch(
        self,
        key: str | Iterable[str],
        *,
        include_history: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        updates_only: bool = False,
        mode: Mode | None = None,
    ) -> Watch:
        """The newest value of a key, if it has one, and then every change (KV-30): ``with bucket.watch("key") as entries``.

        A pattern such as ``orders.*`` watches all keys that match, in a bucket with dotted keys. ``include_history``: all values that
        are stored, not the newest alone; ``updates_only``: a None, and then changes only; ``ignore_deletes``: values only;
        ``meta_only``: no values. With ``mode="nats"`` a None follows what was there (KV-33, KV-34).
        """
        options = WatchOptions(include_history, ignore_deletes, meta_only, updates_only, mode)
        return Watch(BucketWatch(self._railgun.connection, self._reads, self._coding, key, options))

    def watch_all(
        self,
        *,
        include_history: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        updates_only: bool = False,
        mode: Mode | None = None,
    ) -> Watch:
        """All values of all keys that are stored, in the order of their revisions, and then every change (KV-31).

        In an empty bucket the first is a None (KV-32). With ``mode="nats"``: the newest value of each key, unless
        ``include_history``, and then one None. The other options are those of ``watch``.
        """
        options = WatchOptions(include_history, ignore_deletes, meta_only, updates_only, mode)
        return Watch(BucketWatch(self._railgun.connection, self._reads, self._coding, None, options))

    # -- removing

    def delete(self, key: str, *, revision: int | None = None, marker: bool | None = None) -> int:
        """Remove all values of a key; the revision of the delete (KV-20). Watchers are told.

        ``marker``: keep the older values as history, behind a marker (KV-21); the bucket's ``marker_deletes`` is the default.
        ``revision``: only if that is the newest. Raises KeyWrongLastSequence (KV-24).
        """
        return steps.run(self._writes.delete(key, revision, marker))

    def purge(self, key: str, *, ttl: Ttl = None, revision: int | None = None) -> int:
        """Replace all values of a key by a purge marker; its revision (KV-23). ``ttl``: how long the marker stays."""
        return steps.run(self._writes.purge(key, ttl, revision))

    def compact(self, key: str, n: int) -> int:
        """Keep the newest ``n`` values of a key; how many went (KV-25)."""
        return steps.run(self._writes.compact(key, n))

    def purge_deletes(self, older_than: timedelta | float = HALF_AN_HOUR) -> int:
        """Remove markers of deletes and purges that are older, and what is kept behind younger ones; how many markers went (KV-27)."""
        age, now = age_of(older_than), steps.run(self._reads.now())
        removed = 0
        for found in self._newest(self._coding.patterns(None)):
            if found.is_delete:
                removed += steps.run(self._writes.purge_delete(found, age, now))
        return removed

    def purge_all(self) -> int:
        """Remove all values of all keys, and keep the bucket; how many went (KV-26). Watchers are not told."""
        return steps.run(self._writes.purge_all())

    def destroy(self) -> None:
        """Remove the bucket (KV-26)."""
        steps.run(self._writes.destroy())

    def status(self) -> BucketStatus:
        """What the bucket is and holds (KV-45)."""
        return steps.run(self._reads.status())
