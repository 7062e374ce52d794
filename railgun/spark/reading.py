"""Streams as frames: a batch of what a stream holds, or a query that follows it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from railgun.client.facade.railgun import Railgun
from railgun.errors import ConfigError
from railgun.model.messages import StoredMessage
from railgun.spark.cluster import Cluster
from railgun.spark.columns import SCHEMA, messages
from railgun.spark.gaps import without
from railgun.spark.places import LogSearch, searching
from railgun.spark.snapshot import Snapshot, snapshot
from railgun.spark.wildcards import subject_filter

Place = int | datetime | str

FIRST: Final = "first"
NEW: Final = "new"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = 2**63 - 1


class Span(NamedTuple):
    """What is asked for: sequences and times (ns), both ends included."""

    first: int = 1
    last: int = _LATEST
    since: int | None = None
    until: int | None = None

    def in_time(self, rows: DataFrame) -> DataFrame:
        """The rows between the two times."""
        if self.since is not None:
            rows = rows.where(F.col("time_ns") >= self.since)
        return rows if self.until is None else rows.where(F.col("time_ns") <= self.until)


def read(
    spark: SparkSession,
    stream: str,
    *,
    filter: str | None = None,
    start: Place = FIRST,
    end: Place | None = None,
    server: str | None = None,
    prefix: str = "railgun",
    kafka: Mapping[str, Any] | None = None,
    all: bool = False,
) -> DataFrame:
    """The messages that a stream holds now, as rows: what it is asked for, and no more, is read from Kafka.

    ``start`` and ``end``, both included: a sequence, a datetime with a time zone, ``"first"`` or ``"new"``. ``filter``: a subject, wildcards
    allowed. ``all``: with messages that were removed, as far as they are still in the log. ``kafka``: librdkafka's settings, as for
    ``railgun.connect``.

    The frame is as of this call, however often and late it is computed; what is removed from the log meanwhile is absent then. A message that lives
    and whose record was trimmed (docs/design/0012) is told by the owner, and has no offset. Raises ConfigError, StreamNotFound, RailgunError where the
    stream is made anew meanwhile, and what a connection raises.
    """
    _check_places(start, end)
    cluster = Cluster(server, prefix, kafka)
    topic = cluster.names.log(stream)
    condition = None if filter is None else subject_filter("subject", filter)
    with cluster.connect() as rg:
        now = snapshot(rg, stream, gaps=not all)
        span = _span(start, end, now, all=all)
        if span.first > span.last:
            return spark.createDataFrame([], SCHEMA)
        with searching(cluster.settings, topic, now.incarnation, now.last) as log:
            begin, until = _bounds(log, span, now.last)
            begins = _log_begins(log, now)
        stragglers = _stragglers(rg, stream, now, begins, span)
        now.check(rg, stream)
    rows = None
    if begin < until:
        records = cluster.batch(spark, topic, 0, begin, until)
        # What the owner tells is not taken from the log as well: a forged record may lie in front of the log's first message.
        first = max(span.first, begins) if stragglers else span.first
        rows = messages(records, now.incarnation, first, span.last)
    if stragglers:
        copies = spark.createDataFrame([_row(one) for one in stragglers], SCHEMA)
        rows = copies if rows is None else rows.unionByName(copies)
    if rows is None:
        return spark.createDataFrame([], SCHEMA)
    return _chosen(rows, now, span, condition)


def read_stream(
    spark: SparkSession,
    stream: str,
    *,
    filter: str | None = None,
    start: Place = FIRST,
    server: str | None = None,
    prefix: str = "railgun",
    kafka: Mapping[str, Any] | None = None,
    all: bool = False,
    max_per_batch: int | None = None,
) -> DataFrame:
    """The messages of a stream as a streaming frame: those that it holds, then each that is stored.

    What was removed is known as of this call: a message that is removed later may still come, and one whose record was trimmed before its time does
    not (:func:`read` has it). A query that begins again from its checkpoint goes on where it was, whatever ``start`` says. If the stream is deleted and
    made again, the query ends with an error as soon as it meets a message of the new one, or finds no topic; begin another, with a checkpoint of
    its own, because one holds the offsets of one stream. ``max_per_batch`` bounds a micro-batch, in offsets of Kafka. The rest is as in :func:`read`.
    """
    if max_per_batch is not None and max_per_batch < 1:
        raise ConfigError(
            f"{max_per_batch!r} is not a valid max_per_batch: give a number of records, or None"
        )
    _check_places(start, None)
    cluster = Cluster(server, prefix, kafka)
    topic = cluster.names.log(stream)
    condition = None if filter is None else subject_filter("subject", filter)
    with cluster.connect() as rg:
        now = snapshot(rg, stream, gaps=not all)
        span = _span(start, None, now, all=all)._replace(last=_LATEST)
        with searching(cluster.settings, topic, now.incarnation, now.last) as log:
            begin, _ = _bounds(log, span, _LATEST)
        now.check(rg, stream)
    records = cluster.stream(spark, topic, begin, max_per_batch)
    return _chosen(messages(records, now.incarnation, span.first), now, span, condition)


def _chosen(rows: DataFrame, now: Snapshot, span: Span, condition: Column | None) -> DataFrame:
    rows = span.in_time(rows)
    if condition is not None:
        rows = rows.where(condition)
    return without(rows, [run for run in now.gaps if run[1] >= span.first and run[0] <= span.last])


# ------------------------------------------------------------ places


def _check_places(*given: Place | None) -> None:
    """Raises ConfigError, before anything is asked."""
    for place in given:
        if isinstance(place, datetime):
            if place.tzinfo is None:
                raise ConfigError(
                    f"{place!r} is not a valid place in a stream: the datetime has no time zone"
                )
            continue
        is_sequence = isinstance(place, int) and not isinstance(place, bool) and 0 < place <= _LATEST
        if not is_sequence and place not in (None, FIRST, NEW):
            raise ConfigError(
                f"{place!r} is not a valid place in a stream: give a sequence, a datetime, {FIRST!r} or {NEW!r}"
            )


def _span(start: Place, end: Place | None, now: Snapshot, *, all: bool) -> Span:
    """The sequences and times between two places of a stream as it is now; ``all``: also below its first message."""
    lowest = 1 if all else now.first
    span = Span(lowest, now.last)
    if isinstance(start, datetime):
        span = span._replace(since=_nanos(start))
    elif isinstance(start, int):
        span = span._replace(first=max(start, lowest))
    elif start == NEW:
        span = span._replace(first=now.last + 1)
    if isinstance(end, datetime):
        # A time is exact to the microsecond, and a message to the nanosecond: its own time is never before it.
        span = span._replace(until=min(_nanos(end) + 999, _LATEST))
    elif isinstance(end, int):
        span = span._replace(last=min(end, now.last))
    elif end == FIRST:
        span = span._replace(last=min(now.first, now.last))
    return span


def _nanos(place: datetime) -> int:
    """The time in nanoseconds; a time before or behind all that a message can have is the first or the last of those."""
    return max(-_LATEST, min((place - _EPOCH) // timedelta(microseconds=1) * 1_000, _LATEST))


def _bounds(log: LogSearch, span: Span, last: int) -> tuple[int, int]:
    """The offsets between which all messages of the span lie, in a log whose last message is known."""
    begin, end = log.begin, log.end
    if span.first > 1 or span.since is not None:
        since = span.since or 0
        begin, _ = log.below(lambda found: found[1] >= span.first and found[2] >= since)
    if span.until is not None or span.last < last:
        until = _LATEST if span.until is None else span.until
        _, end = log.below(lambda found: found[1] > span.last or found[2] > until)
    return begin, end


def _log_begins(log: LogSearch, now: Snapshot) -> int:
    """The sequence of the first message in the log; behind the last one of the stream if it has none."""
    first = log.first()
    return now.last + 1 if first is None else first[1]


def _stragglers(rg: Railgun, stream: str, now: Snapshot, begins: int, span: Span) -> list[StoredMessage]:
    """Messages that the stream holds and the log no longer: the owner trimmed past them (docs/design/0012)."""
    if now.empty or now.first >= begins or span.first >= begins:
        return []
    return list(rg.stream(stream).read(start=max(now.first, span.first), end=min(begins - 1, span.last)))


def _row(message: StoredMessage) -> tuple[Any, ...]:
    named: dict[str, str] = {}
    for name, value in message.headers:
        named.setdefault(name, value.decode("utf-8", "replace"))
    return (
        message.sequence,
        message.subject,
        message.time,
        message.time_ns,
        named,
        bytearray(message.payload),
        None,
    )
