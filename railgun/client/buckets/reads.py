"""Reads of a bucket, as steps: the newest value of a key, its history, the newest of many keys.

All are answered by the owner of the stream, so they see every write that was answered before (KV-19).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from railgun.client.buckets.coding import BucketMessage, Coding
from railgun.client.buckets.layout import bucket_of
from railgun.client.buckets.naming import check_bucket
from railgun.client.connection.connection import Connection
from railgun.client.operations import flows, shards, streams
from railgun.client.operations.call import Call
from railgun.client.operations.direct_gets import Found, direct_get
from railgun.client.steps import Steps
from railgun.errors import BucketNotFound, ConfigError, KeyNotFound, MessageNotFound, StreamNotFound
from railgun.model import headers as h
from railgun.model.bucket_config import BucketStatus
from railgun.model.bucket_entry import Entry, operation_of
from railgun.model.messages import StoredMessage, StreamInfo

T = TypeVar("T")

AT_ONCE: Final = 512  # subjects of one request: the owner answers for at most 1,024 (GET-17)
_MESSAGES: Final = 1_000  # of one answer


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
        try:
            return (yield from flows.call(self._connection, what, self._connection.timeout))
        except StreamNotFound as error:
            raise self.gone() from error

    def gone(self) -> BucketNotFound:
        return BucketNotFound(self._coding.config.bucket, stream=self._stream)

    # -- one key

    def newest(self, subject: str) -> Steps[StoredMessage | None]:
        """The newest message of a key, which may be a delete. None if there is none: an empty answer decides (KV-16)."""
        return (yield from self._get(last_by_subj=subject))

    def _get(self, **selection: Any) -> Steps[StoredMessage | None]:
        try:
            return (yield from self.call(streams.get_message(self._stream, **selection)))
        except MessageNotFound:
            return None

    def get(self, key: str, revision: int | None) -> Steps[Entry]:
        """The value of a key, the newest or of that revision. Raises KeyNotFound (KV-14, KV-15)."""
        subject = self._coding.subject(key)
        if revision is None:
            found = yield from self.newest(subject)
        else:
            found = (yield from self._get(seq=revision)) if revision > 0 else None
        if found is None or found.subject != subject or operation_of(found.headers) != "PUT":
            raise KeyNotFound(self._coding.config.bucket, key, revision)
        return self._coding.entry(found)

    def stored(self, subject: str) -> Steps[list[StoredMessage]]:
        """All messages of a key, oldest first."""
        return (yield from self._all(subject))

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
        wanted = {self._coding.subject(key): key for key in keys}
        messages = yield from self.newest_of(list(wanted))
        found = {one.subject: one for one in messages if operation_of(one.headers) == "PUT"}
        return {key: self._coding.entry(found[at]) for at, key in wanted.items() if at in found}

    def newest_of(self, subjects: Sequence[str]) -> Steps[list[StoredMessage]]:
        """The newest message of each of these subjects, deletes too."""
        found: list[StoredMessage] = []
        for start in range(0, len(subjects), AT_ONCE):
            part, up_to, following = list(subjects[start : start + AT_ONCE]), None, None
            while True:
                call = direct_get(self._stream, multi_last=part, up_to_seq=up_to, seq=following)
                page = yield from self._direct(call)
                found += page.messages
                if not page.pending or not page.messages:
                    break
                up_to, following = page.up_to, page.messages[-1].sequence + 1
        return found

    def _direct(self, what: Call[Found]) -> Steps[Found]:
        """Raises ConfigError if the bucket, which another client made, allows no direct gets."""
        try:
            return (yield from self.call(what))
        except BucketNotFound:
            yield from self.info()  # which raises it, if that is the reason
            raise ConfigError(
                f"the stream {self._stream!r} allows no direct gets: set allow_direct"
            ) from None

    def subjects(self, patterns: Sequence[str]) -> Steps[list[str]]:
        """The subjects that match one of the patterns and have messages."""
        found: dict[str, None] = {}
        for pattern in patterns:
            offset = 0
            while True:
                info = yield from self.call(
                    streams.stream_info(self._stream, subjects=pattern, offset=offset)
                )
                page = info.state.subjects or {}
                found |= dict.fromkeys(page)
                offset += len(page)
                if not page or offset >= info.raw.get("total", 0):
                    break
        return list(found)

    # -- the whole bucket

    def info(self) -> Steps[StreamInfo]:
        return (yield from self.call(streams.stream_info(self._stream)))

    def status(self) -> Steps[BucketStatus]:
        """What the bucket is and holds (KV-45). Raises BadBucket if another stream has its name by now."""
        info = yield from self.info()
        hidden = yield from self._deletes()
        return status_of(info, self._coding.config.bucket, hidden)

    def _deletes(self) -> Steps[int]:
        """Number of stored deletes, which are not values (KV-20)."""
        found = yield from self._all(self._coding.prefix + ">")
        return sum(operation_of(one.headers) != "PUT" for one in found)

    def now(self) -> Steps[int]:
        """The time by which the owner stores messages, ns."""
        target, _ = self._connection.routing.shards_of(streams.stream_info(self._stream).name)
        pong = yield from self.call(shards.ping(target))
        return pong.moment

    def _all(self, pattern: str) -> Steps[list[StoredMessage]]:
        found: list[StoredMessage] = []
        following = 1
        while True:
            call = direct_get(self._stream, next_by_subj=pattern, seq=following, batch=_MESSAGES)
            page = yield from self._direct(call)
            found += page.messages
            if not page.pending or not page.messages:
                return found
            following = page.messages[-1].sequence + 1


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
