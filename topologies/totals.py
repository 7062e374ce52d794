"""Running totals of a stream, by subject or by window of time, into another stream or into a bucket. To run and to copy.

::

    railgun pipeline totals ORDERS --into TOTALS --subject totals --sum price --checkpoint /data/totals
    railgun pipeline totals ORDERS --bucket TOTALS --window 1m --checkpoint /data/totals --follow

A total is JSON: ``{"key": "orders.new", "count": 7, "sum": 41.5}``. Each batch of the source writes the totals that it has changed. The state is in
the checkpoint, with every batch. A batch that was interrupted comes again and gives the same totals. In a stream they have ids,
``<job>-<batch>-<key>``, and what the stream holds under these ids already is left out; in a bucket a value is put only where it
differs. So a total is written once, also long after the duplicate window.
"""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

import railgun
import railgun.spark
from railgun.errors import ConfigError

from .backfill import held_ids
from .batches import Progress, run_batches
from .folder import CHECKPOINT, Folder
from .place import Place

_AT_ONCE: Final = 16  # values that are put together: they share the drains of the owner
_DIGITS: Final = "decimal(38,6)"  # sums of decimals do not depend on their order


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


@dataclass(frozen=True)
class Totalled:
    """What a run has written."""

    batches: int
    totals: int

    def as_object(self) -> dict[str, Any]:
        return asdict(self)


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
    max_per_batch: int | None = 200_000,
    job: str = "totals",
    progress: Progress | None = None,
) -> Totalled:
    """Bring the totals up to date; with ``follow`` keep them so until Ctrl-C.

    ``field``: a number in the JSON of a message, to be added up. ``window``: a length such as ``1 minute``; else totals are by subject.
    Raises StreamNotFound, BucketNotFound, and ConfigError where the checkpoint belongs to another job.
    """
    with at.connect() as rg:
        created = rg.stream(stream).info().created
        if target.bucket is None:
            rg.stream(str(target.stream)).info()
        else:
            rg.bucket(target.bucket)
    folder = Folder(spark, checkpoint)
    fields = {"kind": "totals", "stream": stream, "created": created, "job": job, "target": asdict(target)}
    chosen = {"field": field, "window": window, "filter": filter}
    # Another checkpoint counts its batches anew: its ids must not be taken for those of this one.
    card = folder.claim(fields | chosen, own={"run": secrets.token_hex(4)})
    mark = f"{job}-{card['run']}"
    done: list[int] = []

    def write(rows: DataFrame, number: int) -> None:
        if target.bucket is None:
            done.append(_publish(spark, at, rows, number, target, mark, may_be_second=not done))
        else:
            done.append(_put(at, rows, target.bucket))

    messages = railgun.spark.read_stream(
        spark, stream, filter=filter, start="first", max_per_batch=max_per_batch, **at.options()
    )
    spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    run_batches(
        summed(messages, field=field, window=window),
        write,
        folder.inside(CHECKPOINT),
        follow=follow,
        mode="update",
        progress=progress,
    )
    return Totalled(len(done), sum(done))


def summed(messages: DataFrame, *, field: str | None = None, window: str | None = None) -> DataFrame:
    """The totals of messages: ``key`` and ``value``, the total as JSON. On a stream, those that have changed."""
    key: Column = f.col("subject")
    if window is not None:
        begin = f.window("time", window)["start"]
        key = f.date_format(f.to_utc_timestamp(begin, f.current_timezone()), "yyyyMMdd'T'HHmmss'Z'")
    counts: list[Column] = [f.count("*").alias("count")]
    if field is not None:
        path = "$" + "".join(f"['{part}']" for part in field.replace("'", "").split("."))
        number = f.get_json_object(f.col("payload").cast("string"), path).try_cast(_DIGITS)
        counts.append(f.coalesce(f.sum(number), f.lit(0).cast(_DIGITS)).cast("double").alias("sum"))
    found = messages.groupBy(key.alias("key")).agg(*counts)
    return found.select("key", f.to_json(f.struct("*")).alias("value"))


def _publish(
    spark: SparkSession,
    at: Place,
    rows: DataFrame,
    number: int,
    target: Target,
    mark: str,
    *,
    may_be_second: bool,
) -> int:
    """How many totals of the batch were stored. Only the first batch of a run can have been written before."""
    ready = rows.select(
        f.concat(f.lit(f"{target.subject}."), f.col("key")).alias("subject"),
        f.col("value").cast("binary").alias("payload"),
        f.concat(f.lit(f"{mark}-{number}-"), f.col("key")).alias("msg_id"),
    ).persist()
    try:
        stream = str(target.stream)
        if may_be_second:
            ready = ready.join(held_ids(spark, at, stream), "msg_id", "left_anti").persist()
        if not ready.head(1):
            return 0
        done = railgun.spark.publish(ready.select("subject", "payload", "msg_id"), stream, **at.options())
        if done.refused:
            raise ConfigError(
                f"the stream {stream} refused {done.refused} totals: see the topic {at.prefix}.rejected"
            )
        return int(done.stored)
    finally:
        ready.unpersist()


def _put(at: Place, rows: DataFrame, bucket: str) -> int:
    """How many values of the bucket have changed."""
    wanted = {row["key"]: row["value"].encode("utf-8") for row in rows.collect()}
    with at.connect() as rg:
        opened = rg.bucket(bucket)
        there = {key: entry.raw for key, entry in opened.get_many(wanted).items()}
        changed = {key: value for key, value in wanted.items() if there.get(key) != value}
        with ThreadPoolExecutor(_AT_ONCE, "railgun-totals") as pool:
            list(pool.map(opened.put, changed, changed.values()))
    return len(changed)
