"""One drain as one Kafka transaction: log records, changelog, answers, registry, forwards, rejected.
An answer becomes visible with what it answers for, and never before (EXO-04).

:meth:`DrainWriter.write` returns only after the commit. Everything else is a :class:`TransactionFailed`, which says what
Kafka said and which log topics could not be written; the caller aborts, decides and retries. This is the hottest loop
of a worker (docs/design/0003): no record of a log costs more than one call and three small tuples.

The three states of a drain are three types, so that they cannot be confused: a ``Drain`` is decided, a
:class:`Prepared` has everything encoded that may fail to be, a :class:`Committed` is durable and knows no way back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from railgun.model.cluster_limits import LARGEST_BODY
from railgun.model.headers import REJECTED_REASON, REJECTED_SOURCE, HeaderList
from railgun.protocol.log_record import record_headers
from railgun.protocol.routing import reply_partition
from railgun.protocol.topics import Names
from railgun.shard.drain import Drain, LogAppend, Rejected, Replies
from railgun.state.table import Reached

log = logging.getLogger("railgun.worker")

_COMMIT_SECONDS: Final = 12.0  # above transaction.timeout.ms: by then the broker has decided for us
_DOUBTFUL_SECONDS: Final = 1.5  # less than a broker needs to come back
_ABORT_SECONDS: Final = 5.0
_ABORT_ATTEMPTS: Final = 3
_ROOM_SECONDS: Final = 0.05
_HEADER_LENGTHS: Final = 8  # bytes: a record may have a hundred thousand headers, and then these count


class TransactionFailed(Exception):
    """The transaction did not commit, as far as is known. ``topics``: those whose records the brokers refused, and why."""

    def __init__(self, error: KafkaError, topics: dict[str, KafkaError] | None = None) -> None:
        self.error = error
        self.topics = topics or {}
        super().__init__(str(error))


class Prepared(NamedTuple):
    """A drain with its answers as records: (client, partition of ``replies``, body). Nothing has happened yet."""

    drain: Drain
    answers: list[tuple[bytes, int, bytes]]


class Committed(NamedTuple):
    """A drain that is durable, with the places of its records, which only the brokers know.

    One that decided nothing durable is committed without a transaction: its answers have yet to leave (``unsent``).
    """

    drain: Drain
    first_offsets: dict[str, int]  # of the first message of each append, by topic
    changelog: Reached | None  # the place in the changelog behind the drain's own records
    unsent: list[tuple[bytes, int, bytes]]


def prepare(drain: Drain, shard: int, reply_factor: int, epoch: int) -> Prepared:
    """Encode the answers of a decided drain."""
    return Prepared(drain, list(reply_records(drain.replies, shard, reply_factor, epoch)))


class DrainWriter:
    """Writes the drains of one shard through its transactional producer."""

    def __init__(self, producer: Producer, names: Names, partition: int) -> None:
        self._producer = producer
        self._names = names
        self._partition = partition
        self._failed: dict[str, KafkaError] = {}
        self._open = False
        self.call_started: float | None = None  # monotonic time at which a call into librdkafka began

    def write(self, prepared: Prepared, *, commit: bool = True) -> Committed:
        """Commit the drain as one; or, for its markers' sake, abort it.

        Raises TransactionFailed; from the commit on nothing else, because only the changelog can say what became of it.
        """
        self._failed = {}
        first: dict[str, int] = {}
        changelog: list[Reached] = []
        producer, drain = self._producer, prepared.drain
        in_doubt = False
        try:
            producer.begin_transaction()
            self._open = True
            for append in drain.appends.values():
                self._produce_log(append, self._noted(append.topic, first))
            self._produce_changes(drain, changelog)
            for client, partition, body in prepared.answers:
                self._produce_one(self._names.replies, body, client, partition)
            self._produce_rest(drain)
            if commit:
                in_doubt = True
                self._commit()
            else:
                producer.flush(_COMMIT_SECONDS)
                producer.abort_transaction(_ABORT_SECONDS)
                self._open = False
            behind = max(changelog, default=None)
            return Committed(drain, first, behind, [])
        except KafkaException as error:
            raise TransactionFailed(error.args[0], self._failed) from error
        except Exception as error:
            if not in_doubt or isinstance(error, TransactionFailed):
                raise
            raise TransactionFailed(
                KafkaError(KafkaError._STATE, f"the commit ended oddly: {error!r}")
            ) from error
        finally:
            self.call_started = None

    def abort(self) -> None:
        """Drop the open transaction, if there is one. Raises KafkaException when the producer is past saving."""
        for attempt in range(1, _ABORT_ATTEMPTS + 1):
            if not self._open:
                return
            self.call_started = monotonic()
            try:
                self._producer.abort_transaction(_ABORT_SECONDS)
            except KafkaException as error:
                if attempt == _ABORT_ATTEMPTS or not error.args[0].retriable():
                    raise
            else:
                self._open = False
            finally:
                self.call_started = None

    def discard(self) -> None:
        """Drop what is queued: the producer is not used again, and the next init ends its transaction."""
        self._producer.purge()

    def _commit(self) -> None:
        started = self.call_started = monotonic()
        try:
            self._producer.commit_transaction(_COMMIT_SECONDS)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            # Asked again, librdkafka goes on with the same commit: only the answer was late.
            self.call_started = monotonic()
            self._producer.commit_transaction(_COMMIT_SECONDS)
        self._open = False
        if monotonic() - started > _DOUBTFUL_SECONDS:
            # The coordinator was away in between, and may have lost the markers (worker.shards.undecided): look before going on.
            raise TransactionFailed(KafkaError(KafkaError._TIMED_OUT, "the commit was answered late"))

    def _noted(self, topic: str, first: dict[str, int]) -> Callable[[KafkaError | None, Message], None]:
        """A delivery callback for the first message of a log: the others follow it without a gap."""

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                first[topic] = message.offset() or 0
            elif error.code() != KafkaError._PURGE_QUEUE:  # dropped by our own abort
                self._failed[topic] = error

        return note

    # ------------------------------------------------------------ the hot loop

    def _produce_log(self, append: LogAppend, noted: Callable[[KafkaError | None, Message], None]) -> None:
        done = 0
        for before, key in sorted(append.tombstones, key=lambda stone: stone[0]) if append.tombstones else ():
            if before > done:
                self._produce_messages(append, done, before, noted)
                done = before
            self._produce_one(append.topic, None, key, 0)
        self._produce_messages(append, done, len(append.sequences), noted)

    def _produce_messages(
        self, append: LogAppend, start: int, end: int, noted: Callable[[KafkaError | None, Message], None]
    ) -> None:
        produce: Any = self._producer.produce
        topic = append.topic
        callback = noted if start == 0 else None
        # CLU-12: each record carries its sequence, which is not its offset.
        headers = record_headers(append.incarnation, append.sequences, append.times, append.headers)
        columns: Iterable[tuple[bytes, bytes, int, HeaderList]]
        columns = zip(append.keys, append.payloads, append.times, headers, strict=True)
        if start or end < len(append.sequences):
            columns = list(columns)[start:end]
        for key, payload, time, own in columns:
            millis = time // 1_000_000
            try:
                # By position: topic, value, key, partition, callback, (its alias,) timestamp, headers.
                produce(topic, payload, key, 0, callback, None, millis, own)
            except BufferError:
                self._produce_one(topic, payload, key, 0, callback, millis, own)
            callback = None

    def _produce_one(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        callback: Callable[[KafkaError | None, Message], None] | None = None,
        millis: int = 0,
        headers: Any = None,
    ) -> None:
        """Produce one record, waiting for room in the queue."""
        while True:
            try:
                self._producer.produce(topic, value, key, partition, callback, None, millis, headers)
            except BufferError:
                self._producer.poll(_ROOM_SECONDS)
            else:
                return

    # ------------------------------------------------------------ the rest of a drain

    def _produce_changes(self, drain: Drain, changelog: list[Reached]) -> None:
        """CLU-13: all state of the shard is in the changelog, from which a new owner restores it."""

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                changelog.append(Reached((message.offset() or 0) + 1, message.timestamp()[1]))
            elif error.code() != KafkaError._PURGE_QUEUE:
                self._failed[self._names.changelog] = error

        produce: Any = self._producer.produce
        topic, partition, left, callback = self._names.changelog, self._partition, len(drain.changes), None
        for key, value in drain.changes.items():
            left -= 1
            if not left:
                callback = note
            try:
                produce(topic, value, key, partition, callback)
            except BufferError:
                self._produce_one(topic, value, key, partition, callback)

    def _produce_rest(self, drain: Drain) -> None:
        for key, value in drain.registry:
            self._produce_one(self._names.registry, value, key, 0)
        for partition, forward in drain.sent:
            self._produce_one(self._names.forwards, forward, None, partition)
        for rejected in drain.rejected:
            self._produce_rejected(rejected)

    def _produce_rejected(self, rejected: Rejected) -> None:
        source = rejected.source
        topic = self._names.forwards if source.forwarded else self._names.commands
        place = rejected.place or f"{topic}/{self._partition}/{source.offset}"
        headers = [(REJECTED_REASON, rejected.reason.encode()[:1024]), (REJECTED_SOURCE, place.encode())]
        value, key = source.value, source.key
        if len(value or b"") + len(key or b"") + sum(map(_bytes_of_header, source.headers)) > LARGEST_BODY:
            # A record that was barely small enough to be sent does not fit again with a reason beside it.
            self._produce_one(
                self._names.rejected,
                (value or b"")[: LARGEST_BODY // 2],
                None,
                self._partition,
                headers=headers,
            )
        else:
            headers = [*source.headers, *headers]
            self._produce_one(self._names.rejected, value, key, self._partition, headers=headers)


def _bytes_of_header(header: tuple[str, bytes | None]) -> int:
    """The bytes of a header in a record, at most: name, value, and how long each of them is."""
    name, value = header
    return len(name.encode("utf-8")) + len(value or b"") + _HEADER_LENGTHS


def reply_records(
    replies: dict[str, Replies], shard: int, reply_factor: int, epoch: int
) -> Iterable[tuple[bytes, int, bytes]]:
    """(client, partition of ``replies``, body) for every answer of a drain; batches that are too large are split."""
    for client, of_client in replies.items():
        key, partition = client.encode(), reply_partition(shard, client, reply_factor)
        pending = [of_client]
        while pending:
            part = pending.pop()
            body = part.batch(shard, epoch).encode()
            if len(body) <= LARGEST_BODY or len(part) < 2:
                yield key, partition, body
            else:
                pending += reversed(part.halves())
