"""Changes of several keys that are stored together or not at all: one atomic batch, and how its refusal is read."""

from __future__ import annotations

import threading
from typing import Any, Final, NamedTuple

from railgun.client.buckets.coding import Coding
from railgun.client.buckets.reads import BucketReads
from railgun.client.buckets.writes import Ttl, delete_headers, expectation, purge_headers
from railgun.client.connection.connection import Connection
from railgun.client.operations.batch_messages import BatchMessages
from railgun.client.publishing.arguments import ttl_text
from railgun.client.steps import Steps
from railgun.errors import (
    ApiError,
    ConfigError,
    KeyExists,
    KeyWrongLastSequence,
    NoStreamResponse,
    WrongLastSequence,
)
from railgun.model import headers as h
from railgun.model.bucket_entry import operation_of
from railgun.model.headers import HeaderList
from railgun.model.messages import StoredMessage
from railgun.model.refusals import wrong_last_sequence

_ATTEMPTS: Final = 5  # where creates meet deletes, which come and go


class Change(NamedTuple):
    """One write to a key."""

    key: str
    subject: str
    payload: bytes
    headers: HeaderList
    expected: int | None  # the newest revision that the caller expects
    creates: bool  # the key must have no value; it may have a delete
    error: type[KeyExists] | type[KeyWrongLastSequence] = KeyWrongLastSequence

    def refused(self, newest: StoredMessage | None) -> bool:
        """Whether the newest message of the key is not what the change needs."""
        if self.creates:
            return newest is not None and operation_of(newest.headers) == "PUT"
        return self.expected is not None and self.expected != _sequence(newest)


class BucketChanges:
    """The changes of one transaction, until it is committed or given up. Several threads may add to it."""

    def __init__(self, connection: Connection, reads: BucketReads, coding: Coding, timeout: float) -> None:
        self._connection = connection
        self._reads = reads
        self._coding = coding
        self._timeout = timeout
        self._lock = threading.Lock()
        self._changes: dict[str, Change] = {}
        self._state = "new"

    def __len__(self) -> int:
        return len(self._changes)

    def open(self) -> None:
        """Begin to collect. Raises ConfigError the second time."""
        if self._state != "new":
            raise ConfigError("this transaction was used before: begin another with transaction()")
        self._state = "open"

    def put(self, key: str, value: Any) -> None:
        self._add(key, self._coding.payload(value), [])

    def create(self, key: str, value: Any, ttl: Ttl) -> None:
        headers: HeaderList = [] if ttl is None else [(h.TTL, ttl_text(ttl).encode("utf-8"))]
        self._add(key, self._coding.payload(value), headers, creates=True, error=KeyExists)

    def update(self, key: str, value: Any, revision: int) -> None:
        expectation(revision)
        self._add(key, self._coding.payload(value), [], revision or None, creates=revision == 0)

    def delete(self, key: str, revision: int | None, marker: bool | None) -> None:
        self._add(key, b"", delete_headers(self._coding, marker), revision)

    def purge(self, key: str, ttl: Ttl, revision: int | None) -> None:
        self._add(key, b"", purge_headers(ttl), revision)

    def _add(
        self,
        key: str,
        payload: bytes,
        headers: HeaderList,
        expected: int | None = None,
        *,
        creates: bool = False,
        error: type[KeyExists] | type[KeyWrongLastSequence] = KeyWrongLastSequence,
    ) -> None:
        if expected is not None:
            expectation(expected)
        change = Change(key, self._coding.writable(key), payload, headers, expected, creates, error)
        with self._lock:
            if self._state != "open":
                raise ConfigError(
                    "changes are made inside the block of the transaction: with bucket.transaction() as t: …"
                )
            if change.subject in self._changes:
                raise ConfigError(f"the key {key!r} is changed twice: a transaction changes a key once")
            self._changes[change.subject] = change

    def give_up(self) -> None:
        """Nothing of it was sent, and nothing will be."""
        with self._lock:
            self._state, self._changes = "over", {}

    def commit(self) -> Steps[dict[str, int]]:
        """Store the changes; the revision of each key. Raises KeyExists, KeyWrongLastSequence, and what a batch raises."""
        with self._lock:
            changes, self._changes, self._state = list(self._changes.values()), {}, "over"
        for attempt in range(1, _ATTEMPTS + 1):
            found = yield from self._newest_of([change for change in changes if change.creates])
            for change in changes:
                if change.creates and change.refused(found.get(change.subject)):
                    raise self._error(change, found[change.subject])
            try:
                return (yield from self._send(changes, found))
            except WrongLastSequence as error:
                yield from self._explain(changes, error, last=attempt == _ATTEMPTS)
        raise AssertionError("the last attempt returns or raises")

    def _send(self, changes: list[Change], found: dict[str, StoredMessage]) -> Steps[dict[str, int]]:
        batch = BatchMessages(self._connection, self._timeout)
        batch.open()
        for change in changes:
            headers, expected = list(change.headers), change.expected
            if change.creates:
                expected = found[change.subject].sequence if change.subject in found else 0
            if expected is not None:
                headers.append(expectation(expected))
            batch.add(change.subject, change.payload, None, {"headers": headers})
        try:
            ack = yield from batch.commit()
        except NoStreamResponse as error:
            raise self._reads.gone() from error
        if ack is None:
            return {}
        first = ack.sequence - len(changes) + 1  # a batch is stored in one go
        return {change.key: first + place for place, change in enumerate(changes)}

    def _explain(self, changes: list[Change], error: WrongLastSequence, *, last: bool) -> Steps[None]:
        """Raise the refusal with the key that it is about, where that can be told.

        It returns if none is refused by now: then a create met a delete that came or went meanwhile, and may be tried again.
        """
        checked = [change for change in changes if change.creates or change.expected is not None]
        found = yield from self._newest_of(checked)
        guilty = [change for change in checked if change.refused(found.get(change.subject))]
        if not guilty and not last and any(change.creates for change in checked):
            return
        told = [change for change in guilty if _sequence(found.get(change.subject)) == error.actual]
        named = next((some[0] for some in (told, guilty, checked) if len(some) == 1), None)
        if named is None:
            raise KeyWrongLastSequence(error, self._coding.config.bucket, None) from error
        raise named.error(error, self._coding.config.bucket, named.key) from error

    def _error(self, change: Change, newest: StoredMessage) -> ApiError:
        refused = ApiError(*wrong_last_sequence(newest.sequence), stream=self._coding.config.stream)
        return change.error(refused, self._coding.config.bucket, change.key)

    def _newest_of(self, changes: list[Change]) -> Steps[dict[str, StoredMessage]]:
        if not changes:
            return {}
        return (yield from self._reads.newest_of([change.subject for change in changes]))


def _sequence(newest: StoredMessage | None) -> int:
    return 0 if newest is None else newest.sequence
