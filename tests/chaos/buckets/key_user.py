"""Clients that write and read the keys of a bucket under chaos, and note begin, end and result of each call."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import railgun
from railgun.errors import KeyExists, KeyNotFound, KeyWrongLastSequence, RailgunError
from tests.chaos.buckets.linearizability import (
    CREATE,
    DELETE,
    GET,
    MISSING,
    OK,
    PUT,
    REFUSED,
    UNANSWERED,
    UNKNOWN,
    UPDATE,
    Call,
)
from tests.chaos.publisher import BATCH, PATIENCE, Publisher

_KINDS = {PUT: 3, GET: 6, CREATE: 2, UPDATE: 4, DELETE: 1}


class KeyUser(Publisher):
    """Calls one after the other on a few keys that others use too. ``calls``: all of them, by key."""

    def __init__(
        self,
        bootstrap: str,
        prefix: str,
        bucket: str,
        keys: Sequence[str],
        tag: str,
        seed: str,
        *,
        pause: float,
    ) -> None:
        super().__init__(bootstrap, prefix, bucket, tag, pause=pause)
        self.calls: dict[str, list[Call]] = {key: [] for key in keys}
        self._dice = random.Random(seed)
        self._seen = dict.fromkeys(keys, 0)  # the newest revision that it was told

    def _send(self, rg: railgun.Railgun, ids: list[str]) -> None:
        try:
            bucket = rg.bucket(self.stream)
        except RailgunError:
            return  # nobody answers just now: a pause, then the next batch
        for value in ids:
            kind = self._dice.choices(list(_KINDS), list(_KINDS.values()))[0]
            key = self._dice.choice(list(self.calls))
            call = self._call(bucket, kind, key, value)
            if call.result == UNKNOWN:
                if call.kind != GET:
                    self.calls[key].append(call)
                return  # a pause, then the next batch
            self.calls[key].append(call)
            self._seen[key] = max(self._seen[key], call.revision)
            self.acked[value] = call.revision

    def _call(self, bucket: railgun.Bucket, kind: str, key: str, value: str) -> Call:
        last = self._seen[key] if kind == UPDATE else 0
        if kind == UPDATE and not last:
            kind = GET  # it was told of no revision yet
        begin, result, revision = time.monotonic(), OK, 0
        try:
            if kind == PUT:
                revision = bucket.put(key, value)
            elif kind == CREATE:
                revision = bucket.create(key, value)
            elif kind == UPDATE:
                revision = bucket.update(key, value, last)
            elif kind == DELETE:
                revision, value = bucket.delete(key), ""
            else:
                entry = bucket.get(key)
                revision, value = entry.revision, entry.text
        except KeyNotFound:
            result, value = MISSING, ""
        except KeyExists:
            result = REFUSED
        except KeyWrongLastSequence as error:
            result, revision = REFUSED, error.actual or 0
        except RailgunError:
            return Call(self.name, kind, begin, UNANSWERED, UNKNOWN, "" if kind == DELETE else value, 0, last)
        return Call(self.name, kind, begin, time.monotonic(), result, value, revision, last)


class CacheUser(Publisher):
    """The only writer of its key, who reads it through a cache. ``stale``: values older than its own last write."""

    def __init__(self, bootstrap: str, prefix: str, bucket: str, tag: str, *, pause: float) -> None:
        super().__init__(bootstrap, prefix, bucket, tag, pause=pause)
        self.key = f"{tag}-cached"
        self.stale: list[str] = []
        self.from_cache = 0
        self._written = 0

    def run(self) -> None:
        try:
            bootstrap, prefix = self._address
            with (
                railgun.connect(bootstrap, prefix=prefix, timeout=PATIENCE) as rg,
                rg.bucket(self.stream).cached() as bucket,
            ):
                while not self._ending.wait(self._pause):
                    for value in self._next_batch():
                        self._write_and_read(bucket, value)
        except BaseException as error:  # noqa: BLE001 - raised again by finish
            self.failure = error

    def _write_and_read(self, bucket: railgun.CachedBucket, value: str) -> None:
        try:
            self._written = bucket.put(self.key, value)
            entry = bucket.get(self.key)
            for _ in range(BATCH):
                entry = bucket.get(self.key)
                self.from_cache += bucket.ready
        except RailgunError:
            return  # no answer in time, or no worker just now
        if entry.revision < self._written:
            self.stale.append(f"{self.key}: revision {entry.revision} after {self._written} was written")
        self.acked[value] = entry.revision
