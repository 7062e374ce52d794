"""Running totals of a stream, by subject or by window of time, into another stream or into a bucket. To run and to copy.

::

    railgun pipeline totals ORDERS --into TOTALS --subject totals --sum price --checkpoint /data/totals
    railgun pipeline totals ORDERS --bucket TOTALS --window "1 minute" --checkpoint /data/totals --follow

A total is JSON: ``{"key": "orders.new", "count": 7, "sum": 41.5}``. Each batch of the source writes the totals that it has changed. The state is in
the checkpoint, with every batch. A batch that was interrupted comes again and gives the same totals. In a stream they have ids,
``<job>-<run>-<batch>-<key>``, and what the stream has had under these ids already is left out; in a bucket a value is put only where it
differs. So a total is written once, also long after the duplicate window.

Totals count what comes: a message that is removed later stays counted.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

import railgun
import railgun.spark
from railgun.errors import ConfigError, ConnectionLost, NoWorker, RequestTimeout
from railgun.model.subjects import is_literal

from .parts.batches import Progress, SameStream, run_batches
from .parts.folder import CARD, CHECKPOINT, Folder
from .parts.frames import persisted
from .parts.known_ids import known_ids
from .parts.place import Place
from .parts.words import in_words

MESSAGES_AT_ONCE: Final = 200_000  # of a batch
_AT_ONCE: Final = 16  # values that are put together: they share the drains of the owner
# Sums of decimals do not depend on their order. A sum has ten digits more than its numbers, and Spark 38 at most: with these no sum overflows, which
# would end the job at this batch for ever.
_DIGITS: Final = "decimal(28,6)"
# What is raised while no worker answers, and for how long that is borne: a takeover lasts seconds.
_AWAY: Final = (NoWorker, ConnectionLost, RequestTimeout)
_PATIENCE: Final = 30.0
_PAUSE: Final = 0.5
_SHUFFLE: Final = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Target:
    """Where totals go: a stream and what its subjects begin with, or a bucket."""

    stream: str | None = None
    subject: str | None = None
    bucket: str | None = None

    def __post_init__(self) -> None:
        if (self.stream is None) == (self.bucket is None):
            raise ConfigError("totals go to a stream or to a bucket: name one of them")
        if self.stream is not None and not self.subject:
            raise ConfigError("totals in a stream need a subject to begin with, such as totals")
        if self.subject and not is_literal(self.subject):
            raise ConfigError(
                f"{self.subject!r} is not a valid beginning of subjects: give one such as totals, without wildcards"
            )

    def check(self, rg: railgun.Railgun, source: str) -> None:
        """Raises StreamNotFound or BucketNotFound, and ConfigError for totals that would be added up themselves."""
        name = self.stream if self.bucket is None else rg.bucket(self.bucket).config.stream
        if name == source:
            raise ConfigError(
                f"{name} cannot hold its own totals, which would be counted again: name another"
            )
        rg.stream(str(name)).info()


@dataclass(frozen=True)
class Totalled:
    """What a run has written."""

    batches: int
    totals: int

    def as_object(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.totals} totals were written in {self.batches} batches"


@in_words()
def totals(
    spark: SparkSession,
    at: Place,
    stream: str,
    target: Target,
    checkpoint: str,
    *,
    field: str | None = None,
    window: str | None = None,
    filter: str | None = None,
    follow: bool = False,
    max_per_batch: int = MESSAGES_AT_ONCE,
    job: str = "totals",
    progress: Progress | None = None,
) -> Totalled:
    """Bring the totals up to date; with ``follow`` keep them so until Ctrl-C.

    ``field``: a number in the JSON of a message, to be added up. ``window``: a length such as ``1 minute``; else totals are by subject.
    Raises StreamNotFound, BucketNotFound, and ConfigError where the checkpoint belongs to another job.
    """
    with at.connect() as rg, ExitStack() as used:
        target.check(rg, stream)
        same = SameStream(rg, stream)
        folder = Folder(spark, checkpoint)
        fields = {
            "kind": "totals",
            "stream": stream,
            "created": same.info.created,
            "job": job,
            "target": asdict(target),
        }
        chosen = {"field": field, "window": window, "filter": filter}
        used.enter_context(folder.alone())
        # In front of the card, which would hold a field or a window that is not valid against all later runs.
        messages = railgun.spark.read_stream(
            spark, stream, filter=filter, start="first", max_per_batch=max_per_batch, **at.options()
        )
        found = summed(messages, field=field, window=window)
        # Another checkpoint counts its batches anew: its ids must not be taken for those of this one.
        card = folder.claim(fields | chosen, own={"run": secrets.token_hex(4)})
        if not isinstance(card.get("run"), str):
            raise ConfigError(f"{folder.inside(CARD)} is not a valid card: it has no 'run'")
        batches = _Batches(spark, at, rg, same, target, f"{job}-{card['run']}")
        with _few_shuffles(spark):
            place = folder.inside(CHECKPOINT)
            run_batches(found, batches.write, place, follow=follow, mode="update", progress=progress)
    return Totalled(len(batches.written), sum(batches.written))


class _Batches:
    """The batches of one run, written one after the other: each total once, also where a batch comes again."""

    def __init__(
        self, spark: SparkSession, at: Place, rg: railgun.Railgun, same: SameStream, target: Target, mark: str
    ) -> None:
        self.written: list[int] = []  # how many totals of each batch were stored
        self._spark = spark
        self._at = at
        self._rg = rg
        self._same = same
        self._target = target
        self._mark = mark

    def write(self, rows: DataFrame, number: int) -> None:
        """Write a batch. While no worker answers, as during a takeover, it is tried again for some time."""
        again = not self.written  # only the first batch of a run can have been written before
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self._same.check()  # before anything is written: the state would be of two streams
                self.written.append(self._write(rows, number, again=again))
            except _AWAY:
                if time.monotonic() > deadline:
                    raise
                again = True
                time.sleep(_PAUSE)
            else:
                return

    def _write(self, rows: DataFrame, number: int, *, again: bool) -> int:
        if self._target.bucket is not None:
            return _put(self._rg.bucket(self._target.bucket), rows)
        ready = _as_messages(rows, str(self._target.subject), f"{self._mark}-{number}-")
        return _publish(self._spark, self._at, self._rg, ready, str(self._target.stream), again=again)


def summed(messages: DataFrame, *, field: str | None = None, window: str | None = None) -> DataFrame:
    """The totals of messages: ``key`` and ``value``, the total as JSON. On a stream, those that have changed.

    Raises ConfigError for what is not the name of a field or a length of time.
    """
    key: Column = f.col("subject")
    if window is not None:
        key = _in_utc(_windows(messages, window))
    counts: list[Column] = [f.count("*").alias("count")]
    if field is not None:
        if "'" in field or not all(field.split(".")):
            raise ConfigError(
                f"{field!r} is not a valid name of a field: give one such as price or order.price"
            )
        path = "$" + "".join(f"['{part}']" for part in field.split("."))
        number = f.get_json_object(f.col("payload").cast("string"), path).try_cast(_DIGITS)
        counts.append(f.coalesce(f.sum(number), f.lit(0).cast(_DIGITS)).cast("double").alias("sum"))
    found = messages.groupBy(key.alias("key")).agg(*counts)
    return found.select("key", f.to_json(f.struct("*")).alias("value"))


def _windows(messages: DataFrame, length: str) -> Column:
    """The beginning of the window that a message falls into."""
    wrong = ConfigError(
        f"{length!r} is not a valid length of time: give one of whole seconds, such as '1 minute'"
    )
    try:
        window = f.window("time", length)
        messages.select(window).schema  # noqa: B018  Spark looks at the length here, and not before
    except PySparkException as error:
        raise wrong from error
    # Keys are exact to the second: windows that are shorter would share one, and each total replace another.
    first = messages.sparkSession.range(1).select(f.timestamp_micros(f.lit(0)).alias("time")).select(window)
    (row,) = first.selectExpr("unix_micros(window.end) - unix_micros(window.start) as length").collect()
    if row["length"] % 1_000_000:
        raise wrong
    return window["start"]


def _in_utc(time: Column) -> Column:
    """The time as text, such as 20261118T101500Z, whatever the session's time zone.

    Without a way over its local time: there an hour is missing on one day of the year, and another comes twice.
    """
    since = f.make_dt_interval(f.lit(0), f.lit(0), f.lit(0), f.unix_seconds(time).cast("decimal(18,6)"))
    text = (f.expr("timestamp_ntz'1970-01-01 00:00:00'") + since).cast("string")
    return f.concat(f.translate(text, " -:", "T"), f.lit("Z"))


@contextmanager
def _few_shuffles(spark: SparkSession) -> Iterator[None]:
    """As many parts of the state as there are cores: each is a file more for every batch."""
    before = spark.conf.get(_SHUFFLE)
    spark.conf.set(_SHUFFLE, str(spark.sparkContext.defaultParallelism))
    try:
        yield
    finally:
        spark.conf.set(_SHUFFLE, str(before))


def _as_messages(rows: DataFrame, subject: str, mark: str) -> DataFrame:
    return rows.select(
        f.concat(f.lit(f"{subject}."), f.col("key")).alias("subject"),
        f.col("value").cast("binary").alias("payload"),
        f.concat(f.lit(mark), f.col("key")).alias("msg_id"),
    )


def _publish(
    spark: SparkSession, at: Place, rg: railgun.Railgun, ready: DataFrame, stream: str, *, again: bool
) -> int:
    """How many totals of the batch were stored; ``again``: those that the stream has had are left out."""
    if again:
        ready = ready.join(known_ids(spark, at, rg, stream), "msg_id", "left_anti")
    with persisted(ready) as wanted:
        if not wanted.head(1):
            return 0
        done = railgun.spark.publish(wanted.select("subject", "payload", "msg_id"), stream, **at.options())
    if done.refused:
        why = next(iter(done.reasons), "no reason was told")
        raise ConfigError(f"the stream {stream} refused {done.refused} totals: {why}")
    return int(done.stored)


def _put(bucket: railgun.Bucket, rows: DataFrame) -> int:
    """How many values of the bucket have changed."""
    wanted = {row["key"]: row["value"].encode("utf-8") for row in rows.collect()}
    there = {key: entry.raw for key, entry in bucket.get_many(wanted).items()}
    changed = {key: value for key, value in wanted.items() if there.get(key) != value}
    with ThreadPoolExecutor(_AT_ONCE, "railgun-totals") as pool:
        list(pool.map(bucket.put, changed, changed.values()))
    return len(changed)
