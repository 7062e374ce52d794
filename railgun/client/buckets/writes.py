"""Writes to a bucket, as steps: put, create, update, delete, purge, and what removes values.

A write is a publish, and a condition on the newest revision travels with it, so the owner decides.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from railgun.client.buckets.coding import Coding
from railgun.client.buckets.reads import BucketReads, Indexed
from railgun.client.operations import streams
from railgun.client.publishing.arguments import ttl_text
from railgun.client.steps import Steps
from railgun.errors import ConfigError, KeyExists, KeyWrongLastSequence, NoStreamResponse, WrongLastSequence
from railgun.model import headers as h
from railgun.model.bucket_entry import operation_of
from railgun.model.durations import to_nanos
from railgun.model.headers import HeaderList
from railgun.model.messages import PubAck

Publish = Callable[[str, bytes, HeaderList], Steps[PubAck]]
Ttl = timedelta | float | str | None

_ATTEMPTS: Final = 5  # of a create that meets deletes, which come and go
_DELETES_LIVE: Final = b"30m"  # KV-20: watchers that were away for longer start anew


class BucketWrites:
    """The writes of one bucket. All raise InvalidKey before anything is sent, and BucketNotFound if it is gone."""

    def __init__(self, reads: BucketReads, coding: Coding, publish: Publish) -> None:
        self._reads = reads
        self._coding = coding
        self._config = coding.config
        self._publish = publish

    def put(self, key: str, value: Any, ttl: Ttl) -> Steps[int]:
        """Store a value; its revision (KV-13). Raises ConfigError for a ttl where history is kept (KV-38)."""
        if ttl is not None and self._config.history != 1:
            raise ConfigError(
                "a put with a ttl needs a bucket with history 1: an older value would come back"
            )
        headers: HeaderList = []
        if ttl is not None:  # as a roll-up: the history may have been raised since this handle was opened
            headers = [(h.TTL, ttl_text(ttl).encode("utf-8")), (h.ROLLUP, b"sub")]
        return (yield from self._store(self._coding.writable(key), self._coding.payload(value), headers))

    def create(self, key: str, value: Any, ttl: Ttl) -> Steps[int]:
        """Store the first value of a key. Raises KeyExists (KV-17)."""
        headers: HeaderList = [] if ttl is None else [(h.TTL, ttl_text(ttl).encode("utf-8"))]
        try:
            return (yield from self._store_new(key, self._coding.payload(value), headers))
        except WrongLastSequence as error:
            raise KeyExists(error, self._config.bucket, key) from error

    def update(self, key: str, value: Any, revision: int) -> Steps[int]:
        """Store a value if the newest is of that revision; 0: if there is none. Raises KeyWrongLastSequence (KV-18)."""
        expected = expectation(revision)
        payload = self._coding.payload(value)
        try:
            if revision == 0:
                return (yield from self._store_new(key, payload, []))
            return (yield from self._store(self._coding.writable(key), payload, [expected]))
        except WrongLastSequence as error:
            raise KeyWrongLastSequence(error, self._config.bucket, key) from error

    def delete(self, key: str, revision: int | None, marker: bool | None) -> Steps[int]:
        """Store a delete, completely or as a marker. Raises KeyWrongLastSequence (KV-20, KV-21, KV-24)."""
        return (yield from self._end(key, delete_headers(self._coding, marker), revision))

    def purge(self, key: str, ttl: Ttl, revision: int | None) -> Steps[int]:
        """Store a purge in place of all values of a key. Raises KeyWrongLastSequence (KV-23, KV-24)."""
        return (yield from self._end(key, purge_headers(ttl), revision))

    def _end(self, key: str, headers: HeaderList, revision: int | None) -> Steps[int]:
        if revision is not None:
            headers = [*headers, expectation(revision)]
        try:
            return (yield from self._store(self._coding.writable(key), b"", headers))
        except WrongLastSequence as error:
            raise KeyWrongLastSequence(error, self._config.bucket, key) from error

    def _store_new(self, key: str, payload: bytes, headers: HeaderList) -> Steps[int]:
        """Store a value where there is none. What was deleted, purged or expired may still have a message (KV-17)."""
        subject = self._coding.writable(key)
        expected, attempts = 0, 0
        while True:
            try:
                return (yield from self._store(subject, payload, [*headers, expectation(expected)]))
            except WrongLastSequence:
                attempts += 1
                newest = yield from self._reads.newest(subject)
                has_value = newest is not None and operation_of(newest.headers) == "PUT"
                if has_value or attempts == _ATTEMPTS:
                    raise
                expected = 0 if newest is None else newest.sequence

    def _store(self, subject: str, payload: bytes, headers: HeaderList) -> Steps[int]:
        try:
            ack = yield from self._publish(subject, payload, headers)
        except NoStreamResponse as error:
            raise self._reads.gone() from error
        return ack.sequence

    # -- removing what is stored

    def compact(self, key: str, keep: object) -> Steps[int]:
        """Remove all but the newest values of a key; how many went (KV-25)."""
        if not isinstance(keep, int) or keep < 1:
            raise ConfigError(
                f"{keep!r} is not a valid number of values to keep: give at least 1, or purge the key"
            )
        subject = self._coding.writable(key)
        return (
            yield from self._reads.call(
                streams.purge(self._config.stream, subject=subject, sequence=None, keep=keep)
            )
        )

    def purge_all(self) -> Steps[int]:
        """Remove the values of all keys; how many went (KV-26)."""
        return (
            yield from self._reads.call(
                streams.purge(self._config.stream, subject=None, sequence=None, keep=None)
            )
        )

    def purge_delete(self, delete: Indexed, older_than: int, now: int) -> Steps[bool]:
        """Remove a delete that is older (ns), with all before it; of a younger one only what is before it (KV-27).

        Whether the delete went. A value that was put meanwhile stays.
        """
        gone = now - delete.time_ns >= older_than
        below = delete.sequence + gone
        yield from self._reads.call(
            streams.purge(self._config.stream, subject=delete.subject, sequence=below, keep=None)
        )
        return gone

    def destroy(self) -> Steps[None]:
        """Remove the bucket."""
        yield from self._reads.call(streams.delete_stream(self._config.stream))


def age_of(older_than: Any) -> int:
    """The age in ns. Raises ConfigError."""
    try:
        age = to_nanos(older_than)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{older_than!r} is not a valid age: give seconds, or a timedelta") from error
    if age < 0:
        raise ConfigError(f"{older_than!r} is not a valid age: it is negative")
    return age


def expectation(revision: object) -> tuple[str, bytes]:
    """The condition that the newest message of a key is of this revision; 0: that there is none."""
    if not isinstance(revision, int) or revision < 0:
        raise ConfigError(f"{revision!r} is not a valid revision: give one that put or get returned, or 0")
    return h.EXPECTED_LAST_SUBJECT_SEQUENCE, b"%d" % revision


def delete_headers(coding: Coding, marker: bool | None) -> HeaderList:
    """The headers of a delete: of a complete one (KV-20), or of a marker behind the values (KV-21)."""
    found: HeaderList = [(h.KV_OPERATION, b"DEL")]
    if coding.config.marker_deletes if marker is None else marker:
        return found
    found.append((h.ROLLUP, b"sub"))
    if coding.config.allow_msg_ttl:
        found.append((h.TTL, _DELETES_LIVE))
    return found


def purge_headers(ttl: Ttl) -> HeaderList:
    """The headers of a purge (KV-23), which may have a life of its own (KV-38)."""
    found: HeaderList = [(h.KV_OPERATION, b"PURGE"), (h.ROLLUP, b"sub")]
    if ttl is not None:
        found.append((h.TTL, ttl_text(ttl).encode("utf-8")))
    return found
