"""Reads of a bucket, as steps: the newest value of a key, its history, the newest of many keys.

All are answered by the owner of the stream, so they see every write that was answered before (KV-19).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from railgun.client.buckets.coding import BucketMessage, Coding
from railgun.client.buckets.layout import bucket_of
from railgun.client.buckets.naming import check_bucket
from railgun.client.connection.connection import Connection
from railgun.client.operations import flows, reading, shards, streams
from railgun.client.operations.call import Call
from railgun.client.operations.reading import PagedRead
from railgun.client.steps import Steps
from railgun.errors import BucketNotFound, ConfigError, KeyNotFound, MessageNotFound, StreamNotFound
from railgun.model import headers as h
from railgun.model.bucket_config import BucketStatus
from railgun.model.bucket_entry import Entry, operation_of
from railgun.model.messages import StoredMessage, StreamInfo
from railgun.protocol.columnar.read_records import BY_SEQUENCE, INDEX, LAST, ReadRequest

T = TypeVar("T")


class Indexed(NamedTuple):
    """What the index of the owner knows of a message, without its body."""

    subject: str
    sequence: int
    time_ns: int
    is_delete: bool


def find(connection: Connection, bucket: str, stream: str | None) -> Steps[StreamInfo]:
    """The stream of a bucket. Raises InvalidBucketName, BucketNotFound (KV-12)."""
    check_bucket(bucket)
    name = stream or f"KV_{bucket}"
    try:
        return (yield from flows.call(connection, streams.stream_info(name), connection.timeout))
    except StreamNotFound as error:
        raise BucketNotFound(bucket, stream=name) from error


class BucketReads:
    """The reads of one bucket. All raise BucketNotFound if it is gone."""

    def __init__(self, connection: Connection, coding: Coding) -> None:
        self._connection = connection
        self._coding = coding
        self._stream = coding.config.stream

    def call(self, what: Call[T]) -> Steps[T]:
        """A call to the bucket's stream."""
        return (yield from self.of_bucket(flows.call(self._connection, what, self._connection.timeout)))

    def of_bucket(self, what: Steps[T]) -> Steps[T]:
        """The same steps; what is missing is the bucket."""
        try:
            return (yield from what)
        except StreamNotFound as error:
            raise self.gone() from error

    def gone(self) -> BucketNotFound:
        return BucketNotFound(self._coding.config.bucket, stream=self._stream)

    # -- one key

    def newest(self, subject: str) -> Steps[StoredMessage | None]:
        """The newest message of a key, which may be a delete. None if there is none: an empty answer decides (KV-16)."""
        return (yield from self._get(LAST, subject=subject))

    def _get(self, form: int, *, sequence: int = 0, subject: str = "") -> Steps[StoredMessage | None]:
        asked = reading.get(self._connection, self._stream, form, sequence=sequence, subject=subject)
        try:
            return (yield from self.of_bucket(asked))
        except MessageNotFound:
            return None

    def get(self, key: str, revision: int | None) -> Steps[Entry]:
        """The value of a key, the newest or of that revision. Raises KeyNotFound (KV-14, KV-15)."""
        subject = self._coding.subject(key)
        if revision is None:
            found = yield from self.newest(subject)
        else:
            found = yield from self._of_revision(revision)
        if found is None or found.subject != subject or operation_of(found.headers) != "PUT":
            raise KeyNotFound(self._coding.config.bucket, key, revision)
        return self._coding.entry(found)

    def _of_revision(self, revision: object) -> Steps[StoredMessage | None]:
        if not isinstance(revision, int):
            raise ConfigError(f"{revision!r} is not a valid revision: give one that put or get returned")
        return (yield from self._get(BY_SEQUENCE, sequence=revision)) if 0 < revision < 2**63 else None

    def stored(self, subject: str) -> Steps[list[StoredMessage]]:
        """All messages of a key, oldest first."""
        pages = PagedRead(self._connection, ReadRequest(self._stream, subjects=[subject]))
        found: list[StoredMessage] = []
        while (page := (yield from self.of_bucket(pages.messages()))) is not None:
            found += page
        return found

    def history(self, key: str) -> Steps[list[Entry]]:
        """The entries of a key, oldest first; none if it was deleted completely (KV-20, KV-28)."""
        found = yield from self.stored(self._coding.subject(key))
        rolled_up = [place for place, one in enumerate(found) if h.first(one.headers, h.ROLLUP) is not None]
        if rolled_up:  # a replica keeps what is behind it, too
            del found[: rolled_up[-1]]
        shown = [one for one in found if not is_complete_delete(one)]
        newest = len(shown) - 1
        return [self._coding.entry(one, newest - place) for place, one in enumerate(shown)]

    # -- many keys

    def get_many(self, keys: Sequence[str]) -> Steps[dict[str, Entry]]:
        """The values of those of the keys that have one, in the order of the keys."""
        wanted = {key: self._coding.subject(key) for key in keys}  # several may be one, after encoding
        found = yield from self.newest_of(list(wanted.values()))
        return {
            key: self._coding.entry(found[subject])
            for key, subject in wanted.items()
            if subject in found and operation_of(found[subject].headers) == "PUT"
        }

    def newest_of(self, subjects: Sequence[str]) -> Steps[dict[str, StoredMessage]]:
        """The newest message of each of these subjects, deletes too."""
        return (yield from self.of_bucket(reading.get_many(self._connection, self._stream, LAST, subjects)))

    def index(self, patterns: Sequence[str], *, newest_only: bool) -> IndexPages:
        """The index of the messages of the keys that match, page by page."""
        asked = ReadRequest(self._stream, subjects=patterns, last_per_subject=newest_only, form=INDEX)
        return IndexPages(self, PagedRead(self._connection, asked))

    # -- the whole bucket

    def info(self) -> Steps[StreamInfo]:
        return (yield from self.call(streams.stream_info(self._stream)))

    def status(self) -> Steps[BucketStatus]:
        """What the bucket is and holds (KV-45). Raises BadBucket if another stream has its name by now."""
        info = yield from self.call(streams.stream_info(self._stream, tombstones=True))
        deletes = info.state.num_tombstones or 0
        if info.config.max_msgs_per_subject != 1:  # there may be some behind newer values
            deletes = yield from self._deletes()
        return status_of(info, self._coding.config.bucket, deletes)

    def _deletes(self) -> Steps[int]:
        """Number of stored deletes, which are not values (KV-20)."""
        pages, count = self.index([self._coding.prefix + ">"], newest_only=False), 0
        while (page := (yield from pages.next())) is not None:
            count += sum(one.is_delete for one in page)
        return count

    def now(self) -> Steps[int]:
        """The time by which the owner stores messages, ns."""
        target, _ = self._connection.routing.shards_of(streams.stream_info(self._stream).name)
        pong = yield from self.call(shards.ping(target))
        return pong.moment


class IndexPages:
    """A read of the index, page by page."""

    def __init__(self, reads: BucketReads, pages: PagedRead) -> None:
        self._reads = reads
        self._pages = pages

    def next(self) -> Steps[list[Indexed] | None]:
        """The next page; None if that was all."""
        reply = yield from self._reads.of_bucket(self._pages.page())
        if reply is None:
            return None
        rows = zip(reply.subjects, reply.sequences, reply.times, strict=True)
        return [Indexed(*row, place in reply.tombstones) for place, row in enumerate(rows)]


def is_complete_delete(message: BucketMessage) -> bool:
    """Whether a message is a delete that left nothing of its key: it stays for watchers only, for a while (KV-20)."""
    headers = message.headers
    return bool(headers) and operation_of(headers) == "DEL" and h.first(headers, h.ROLLUP) is not None


def status_of(info: StreamInfo, bucket: str | None, deletes: int) -> BucketStatus:
    """The status of the bucket that a stream is. Raises BadBucket."""
    config = bucket_of(info.config, bucket)
    return BucketStatus(
        config.bucket,
        info.state.messages - deletes,
        config.history,
        config.ttl,
        config.limit_marker_ttl,
        info.state.bytes,
        config.replicas,
        config,
        lag=None if info.mirror is None else info.mirror.lag,
        active=None if info.mirror is None else info.mirror.active,
        stream=info,
    )
