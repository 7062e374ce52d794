"""What the log of a stream says, found by Spark alone: rows of its records, and what is odd among them.

The form of the records is that of docs/record-format.md. It is read here once more, apart from ``railgun.spark.columns``: an audit has to see the
records that others pass over. Nothing here asks the owner of the stream.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from railgun.model import headers as h
from railgun.protocol.log_record import MARKER_KEY

from .differences import MOST_FINDINGS
from .place import Place
from .topic import read_topic

# The publisher's headers: railgun's three are the last. A stranger's record may have fewer, and slice takes no length below zero.
_OWN: Final = "slice(headers, 1, greatest(size(headers) - 3, 0))"
_TEXT: Final = "cast(get(headers, size(headers) - {0}).value as string)"
_FIRST: Final = f"cast(get(filter({_OWN}, x -> x.key = '{{0}}'), 0).value as string)"
_INTEGER: Final = "decimal(20,0)"  # holds every int64


def log_rows(
    spark: SparkSession, at: Place, stream: str, incarnation: int, *, in_memory: bool, counts: bool
) -> DataFrame:
    """A row for each record: of a message ``sequence``, ``subject``, ``size``, ``digest`` …, of others ``sequence`` is null.

    ``kind`` is ``message``, ``tombstone``, ``foreign``, or ``former`` for what belongs to an earlier stream of the name. ``in_memory``: bytes
    are counted as for memory storage; ``counts``: increments and totals are read.
    """
    records = read_topic(spark, at, at.cluster.names.log(stream))
    # A marker brings the end of a transaction into the log, and says nothing.
    marker = f.col("key").eqNullSafe(f.lit(MARKER_KEY)) & f.col("value").isNull()
    rows = (
        records.where(~marker)
        .withColumn("subject", f.expr("substring_index(cast(key as string), '\\0', 1)"))
        .withColumn("incarnation", f.expr(f"try_cast({_TEXT.format(1)} as bigint)"))
        .withColumn("well_formed", f.coalesce(f.expr(_well_formed()), f.lit(False)))
    )
    kind = (
        f.when(f.col("value").isNull(), "tombstone")
        .when(~f.col("well_formed"), "foreign")
        .when(f.col("incarnation") == incarnation, "message")
        .when(f.col("incarnation") < incarnation, "former")
        .otherwise("foreign")
    )
    absent = f"cast(null as {_INTEGER})"
    increment = f"try_cast(ltrim({_FIRST.format(h.INCREMENT)}) as {_INTEGER})" if counts else absent
    total = f"try_cast(get_json_object(cast(value as string), '$.val') as {_INTEGER})" if counts else absent
    sequence = f.expr(f"try_cast({_TEXT.format(3)} as bigint)")
    return rows.select(
        "offset",
        "key",
        kind.alias("kind"),
        "subject",
        f.when(kind == "message", sequence).alias("sequence"),
        f.expr(f"try_cast({_TEXT.format(2)} as bigint)").alias("time_ns"),
        f.expr(_size(in_memory=in_memory)).alias("size"),
        f.sha2("value", 256).alias("digest"),
        f.expr(_FIRST.format(h.MSG_ID)).alias("msg_id"),
        f.expr(_FIRST.format(h.STREAM_SOURCE)).alias("source"),
        f.expr(increment).alias("increment"),
        f.expr(total).alias("total"),
    )


def _well_formed() -> str:
    """Whether a record has a key and railgun's headers at its end, all three of them numbers."""
    names = ((3, h.LOG_SEQUENCE), (2, h.LOG_TIME), (1, h.LOG_INCARNATION))
    conditions = ["substring(key, 1, 1) > X'00'", "is_valid_utf8(cast(key as string))"]
    for place, name in names:
        conditions += [
            f"get(headers, size(headers) - {place}).key = '{name}'",
            f"{_TEXT.format(place)} rlike '^[0-9]+$'",
            f"try_cast({_TEXT.format(place)} as bigint) is not null",
        ]
    return " and ".join(f"({one})" for one in conditions)


def _size(*, in_memory: bool) -> str:
    """The bytes that a message counts (docs/record-format.md, "How bytes are counted")."""
    plain, more = (16, 0) if in_memory else (30, 4)
    block = f"aggregate({_OWN}, 2L, (sum, x) -> sum + octet_length(x.key) + coalesce(octet_length(x.value), 0) + 3)"
    return (
        f"octet_length(subject) + octet_length(value) + {plain} "
        f"+ case when size(headers) > 3 then {more} + {block} else 0 end"
    )


class Summary(NamedTuple):
    """Numbers of the records, by which most questions are answered without another look."""

    foreign: int
    tombstones: int
    messages: int
    sequences: int  # different ones
    ids: int  # messages with an id of their own
    first: int | None
    last: int | None

    @property
    def contiguous(self) -> bool:
        """Whether no sequence is missing between the first and the last."""
        return self.first is None or self.last is None or self.sequences == self.last - self.first + 1


def summary(rows: DataFrame) -> Summary:
    """All of it in one pass."""
    found = rows.agg(
        f.count_if(f.col("kind") == "foreign"),
        f.count_if(f.col("kind") == "tombstone"),
        f.count("sequence"),
        f.count_distinct("sequence"),
        f.count_if(f.col("sequence").isNotNull() & _has_id()),
        f.min("sequence"),
        f.max("sequence"),
    ).first()
    assert found is not None
    return Summary(*found)


def _has_id() -> Column:
    return f.expr("msg_id is not null and msg_id <> '' and source is null")


def messages_of(rows: DataFrame, known: Summary) -> DataFrame:
    """One row for each sequence: of several records the first counts, which the owner wrote."""
    found = rows.where("sequence is not null")
    if known.messages == known.sequences:
        return found
    first = f.row_number().over(Window.partitionBy("sequence").orderBy("offset"))
    return found.withColumn("nth", first).where("nth = 1").drop("nth")


def foreign(rows: DataFrame) -> list[Any]:
    """Records that are not messages, tombstones or of an earlier stream: ``offset``, ``subject``."""
    return rows.where("kind = 'foreign'").select("offset", "subject").orderBy("offset").take(MOST_FINDINGS)


def twice(rows: DataFrame) -> list[Any]:
    """Sequences that several records have: ``sequence``, ``subject`` of the first, ``offsets``."""
    return (
        rows.where("sequence is not null")
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
    """For each subject: how many, their size, the newest with its digest and total, and the sum of all increments."""
    newest = f.struct("sequence", "digest", "increment", "total")
    return messages.groupBy("subject").agg(
        f.count("*").alias("count"),
        f.sum("size").alias("size"),
        f.max(newest).alias("newest"),
        f.sum("increment").alias("increments"),
    )


def repeated_ids(messages: DataFrame, window_ns: int) -> list[Any]:
    """Messages whose id an earlier one has, less than the duplicate window before: ``sequence``, ``subject``, ``msg_id``, ``first``."""
    ids = messages.where(_has_id())
    one = Window.partitionBy("msg_id").orderBy("sequence")
    seen = ids.withColumn("first", f.lag("sequence").over(one)).withColumn(
        "since", f.lag("time_ns").over(one)
    )
    found = seen.where(f.col("time_ns") - f.col("since") < window_ns)
    return found.select("sequence", "subject", "msg_id", "first").orderBy("sequence").take(MOST_FINDINGS)
