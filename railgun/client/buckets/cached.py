"""Reads and writes of a bucket with a cache: gets that it answers, and writes that it learns of first (KV-50 … KV-54)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from railgun.client.buckets.changes import BucketChanges, Change
from railgun.client.buckets.coding import Coding
from railgun.client.buckets.kept_values import UNCHANGING, KeptValues
from railgun.client.buckets.reads import BucketReads
from railgun.client.buckets.writes import BucketWrites, Publish
from railgun.client.connection.connection import Connection
from railgun.client.steps import Steps
from railgun.errors import KeyNotFound
from railgun.model.bucket_entry import Entry
from railgun.model.durations import to_nanos
from railgun.model.headers import HeaderList
from railgun.model.messages import StoredMessage


def values_of(coding: Coding, max_bytes: int | None) -> KeptValues:
    """The empty cache of a bucket. Raises ConfigError if ``max_bytes`` is not positive."""
    config = coding.config
    ttl = to_nanos(config.ttl) if config.ttl else 0
    return KeptValues(max_bytes, ttl, told_of_expiry=bool(config.limit_marker_ttl))


class CachedReads(BucketReads):
    """Gets are answered by the cache where it may; everything else is read from the store (KV-54)."""

    def __init__(self, connection: Connection, coding: Coding, values: KeptValues) -> None:
        super().__init__(connection, coding)
        self._values = values

    def known(self, key: str) -> Entry | None:
        """The value of a key, if the cache may serve it. Raises InvalidKey, and KeyNotFound if there is none for sure."""
        found = self._values.get(self._coding.place(key))
        if found is not None:
            if type(found.value) in UNCHANGING:
                return found
            return replace(found, value=self._coding.value(found.raw))  # nobody else's object to change
        if self._values.is_missing(self._coding.subject(key)):
            raise KeyNotFound(self._coding.config.bucket, key)
        return None

    def get(self, key: str, revision: int | None) -> Steps[Entry]:
        if revision is not None:
            return (yield from super().get(key, revision))
        found = self.known(key)
        if found is not None:
            return found
        subject, entry = self._coding.subject(key), None
        ticket = self._values.begin_read(subject)
        try:
            entry = yield from super().get(key, None)
        finally:
            self._values.end_read(subject, ticket, entry)
        return entry

    def get_many(self, keys: Sequence[str]) -> Steps[dict[str, Entry]]:
        found: dict[str, Entry] = {}
        asked: list[str] = []
        for key in keys:
            try:
                entry = self.known(key)
            except KeyNotFound:
                continue
            if entry is None:
                asked.append(key)
            else:
                found[key] = entry
        if asked:
            found |= yield from super().get_many(asked)
        return {key: found[key] for key in keys if key in found}


class CachedWrites(BucketWrites):
    """Writes that drop what is cached of their key first (KV-52)."""

    def __init__(self, reads: BucketReads, coding: Coding, publish: Publish, values: KeptValues) -> None:
        super().__init__(reads, coding, publish)
        self._values = values

    def _store(self, subject: str, payload: bytes, headers: HeaderList) -> Steps[int]:
        self._values.begin_write(subject)
        revision = yield from super()._store(subject, payload, headers)
        self._values.written(subject, revision)
        return revision

    def purge_all(self) -> Steps[int]:
        removed = yield from super().purge_all()
        info = yield from self._reads.info()
        self._values.told_first(info.state.first_seq)
        return removed

    def destroy(self) -> Steps[None]:
        self._values.lost()
        yield from super().destroy()


class CachedChanges(BucketChanges):
    """A transaction that drops what is cached of its keys first (KV-52)."""

    def __init__(
        self, connection: Connection, reads: BucketReads, coding: Coding, timeout: float, values: KeptValues
    ) -> None:
        super().__init__(connection, reads, coding, timeout)
        self._values = values

    def _send(self, changes: list[Change], found: dict[str, StoredMessage]) -> Steps[dict[str, int]]:
        for change in changes:
            self._values.begin_write(change.subject)
        revisions = yield from super()._send(changes, found)
        for change in changes:
            self._values.written(change.subject, revisions[change.key])
        return revisions
