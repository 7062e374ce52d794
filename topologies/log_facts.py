"""What the log of a stream says, found by Spark alone: rows of its records, and what is odd among them.

The form of the records is that of docs/record-format.md. Nothing here asks the owner of the stream.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from railgun.model import headers as h
from railgun.protocol.log_record import MARKER_KEY
from railgun.protocol.topics import Names

from .place import Place
from .topic import read_topic

MOST_FINDINGS: Final = 1_000  # of one kind: whoever has more has one cause
_OWN: Final = "slice(headers, 1, size(headers) - 3)"
_NUMBER: Final = "try_cast(cast(get(headers, size(headers) - {0}).value as string) as bigint)"


class Measure(NamedTuple):
    """How a stream counts bytes: for each message, and beside that for one with headers."""

    record: int = 30
    headers: int = 4


def log_rows(spark: SparkSession, at: Place, stream: str, incarnation: int, measure: Measure) -> DataFrame:
    """A row for each record: of a message ``sequence``, ``subject``, ``size``, ``digest`` …, of others ``sequence`` is null.

    ``kind`` is ``message``, ``tombstone``, ``foreign``, or ``former`` for what belongs to an earlier stream of the name.
    """
    records = read_topic(spark, at, Names(at.prefix).log(stream)).withColumn("n", f.expr("size(headers)"))
    named = f.expr(
        f"n >= 3 and get(headers, n - 3).key = '{h.LOG_SEQUENCE}' and get(headers, n - 2).key = '{h.LOG_TIME}'"
        f" and get(headers, n - 1).key = '{h.LOG_INCARNATION}'"
    )
    columns = {
        "sequence": f.expr(_NUMBER.format(3)),
        "time_ns": f.expr(_NUMBER.format(2)),
        "incarnation": f.expr(_NUMBER.format(1)),
    }
    whole = (
        named
        & columns["sequence"].isNotNull()
        & columns["time_ns"].isNotNull()
        & columns["incarnation"].isNotNull()
    )
    block = f"aggregate({_OWN}, 0L, (sum, x) -> sum + octet_length(x.key) + coalesce(octet_length(x.value), 0) + 3)"
    size = f"""octet_length(subject) + octet_length(value) + {measure.record}
        + case when n > 3 then {measure.headers} + 2 + {block} else 0 end"""
    rows = (
        records.withColumn("subject", f.expr("substring_index(cast(key as string), '\\0', 1)"))
        .withColumn("whole", f.coalesce(whole & f.col("value").isNotNull(), f.lit(False)))
        .withColumn(
            "kind",
            f.when(f.col("value").isNull(), "tombstone")
            .when(~f.col("whole"), "foreign")
            .when(columns["incarnation"] == incarnation, "message")
            .when(columns["incarnation"] < incarnation, "former")
            .otherwise("foreign"),
        )
    )
    first = "cast(get(filter({own}, x -> x.key = '{name}'), 0).value as string)"
    message = f.col("kind") == "message"
    return rows.where(f.col("key").isNull() | (f.col("key") != f.lit(bytearray(MARKER_KEY)))).select(
        "offset",
        "key",
        "kind",
        "subject",
        f.when(message, columns["sequence"]).alias("sequence"),
        columns["time_ns"].alias("time_ns"),
        f.expr(size).alias("size"),
        f.sha2("value", 256).alias("digest"),
        f.expr(first.format(own=_OWN, name=h.MSG_ID)).alias("msg_id"),
        f.expr(first.format(own=_OWN, name=h.STREAM_SOURCE)).alias("source"),
        f.expr(f"try_cast(ltrim({first.format(own=_OWN, name=h.INCREMENT)}) as decimal(20,0))").alias(
            "increment"
        ),
        f.expr("try_cast(get_json_object(cast(value as string), '$.val') as decimal(20,0))").alias("total"),
    )


def messages_of(rows: DataFrame) -> DataFrame:
    """One row for each sequence: of several records the first counts, which the owner wrote."""
    found = rows.where("kind = 'message'")
    return found.withColumn(
        "nth", f.row_number().over(Window.partitionBy("sequence").orderBy("offset"))
    ).where("nth = 1")


def foreign(rows: DataFrame) -> list[Any]:
    """Records that are not messages, tombstones or of an earlier stream: ``offset``, ``subject``."""
    return rows.where("kind = 'foreign'").select("offset", "subject").orderBy("offset").take(MOST_FINDINGS)


def twice(rows: DataFrame) -> list[Any]:
    """Sequences that several records have: ``sequence``, ``subject`` of the first, ``offsets``."""
    return (
        rows.where("kind = 'message'")
        .groupBy("sequence")
        .agg(
            f.min_by("subject", "offset").alias("subject"),
            f.sort_array(f.collect_list("offset")).alias("offsets"),
        )
        .where("size(offsets) > 1")
        .orderBy("sequence")
        .take(MOST_FINDINGS)
    )


def out_of_order(messages: DataFrame, last: int) -> list[Any]:
    """Messages that lie behind one with a higher sequence, but for sequences beyond ``last``: ``sequence``, ``subject``, ``before``."""
    earlier = Window.orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    known = messages.where(f.col("sequence") <= last).select("offset", "sequence", "subject")
    behind = known.withColumn("before", f.max("sequence").over(earlier)).where("sequence < before")
    return behind.orderBy("sequence").take(MOST_FINDINGS)


def beyond(messages: DataFrame, last: int) -> list[Any]:
    """Messages with a sequence that the stream has not given yet."""
    return messages.where(f.col("sequence") > last).orderBy("sequence").take(MOST_FINDINGS)


def gaps(messages: DataFrame) -> list[tuple[int, int]]:
    """The runs of sequences between the first and the last message that have none."""
    next_one = f.lead("sequence").over(Window.orderBy("sequence"))
    found = (
        messages.select("sequence", next_one.alias("next")).where("next > sequence + 1").orderBy("sequence")
    )
    return [(row["sequence"] + 1, row["next"] - 1) for row in found.collect()]


def struck(messages: DataFrame, rows: DataFrame) -> list[Any]:
    """Messages that a later tombstone takes away: ``sequence``, ``subject``, ``at`` (the tombstone's offset)."""
    stones = (
        rows.where("kind = 'tombstone' and key is not null").groupBy("key").agg(f.max("offset").alias("at"))
    )
    found = messages.join(stones, "key").where("at > offset")
    return found.select("sequence", "subject", "at").orderBy("sequence").take(MOST_FINDINGS)


def by_subject(messages: DataFrame) -> DataFrame:
    """For each subject: how many, the newest with its digest and total, and the sum of all increments."""
    newest = f.struct("sequence", "digest", "increment", "total")
    return messages.groupBy("subject").agg(
        f.count("*").alias("count"), f.max(newest).alias("newest"), f.sum("increment").alias("increments")
    )


def repeated_ids(messages: DataFrame, window_ns: int) -> list[Any]:
    """Messages whose id an earlier one has, less than the duplicate window before: ``sequence``, ``subject``, ``msg_id``, ``first``."""
    ids = messages.where("msg_id is not null and msg_id <> '' and source is null")
    one = Window.partitionBy("msg_id").orderBy("sequence")
    seen = ids.withColumn("first", f.lag("sequence").over(one)).withColumn(
        "since", f.lag("time_ns").over(one)
    )
    found = seen.where(f.col("time_ns") - f.col("since") < window_ns)
    return found.select("sequence", "subject", "msg_id", "first").orderBy("sequence").take(MOST_FINDINGS)
