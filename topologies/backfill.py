"""Messages from Parquet files into a stream, each of them once, however often it is run. To run and to copy.

::

    railgun pipeline backfill /data/orders ORDERS_COPY --replace orders.=copy.

A message carries an id that follows from where it comes from: of an archive, the stream, its creation and the sequence. Before anything
is published, the ids that the target holds are read from its own log, behind everything that was sent before, and those messages
are left out: that holds for ever, and the target's duplicate window for whatever is under way. Messages go out in the
order of their sequences. So an earlier one of the same subject that the target does not hold was there and is gone, by a limit or a
purge; it is not sent behind its successors.

Other files need the columns ``subject`` and ``payload``, and may have ``headers`` and ``msg_id``. Without ``msg_id`` the content is the id, with
a number for equal ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

import railgun.spark
from railgun.errors import ConfigError
from railgun.model import headers as h

from .archive import read_archive
from .batches import Progress
from .folder import Folder
from .place import Place

#: Where the id that a message was first published with is kept.
FIRST_ID: Final = "Archived-Msg-Id"
# Conditions and commands of the first publish: it was decided then, and must not be decided by them again.
_SPENT: Final = ("Railgun-", "Nats-Expected-", "Nats-Batch-", "KV-Origin-")
_SPENT_NAMES: Final = (h.MSG_ID, h.ROLLUP, h.STREAM_SOURCE, h.COUNTER_SOURCES)


@dataclass(frozen=True)
class Backfilled:
    """What became of the messages of a run."""

    messages: int  # in the files
    held: int  # the target has them
    gone: int  # the target had them, and has their successors
    stored: int
    refused: int
    reasons: Mapping[str, int] = field(default_factory=dict)  # of the refusals

    def as_object(self) -> dict[str, Any]:
        return asdict(self)


def backfill(
    spark: SparkSession,
    at: Place,
    source: str,
    stream: str,
    *,
    replace: tuple[str, str] | None = None,
    filter: str | None = None,
    progress: Progress | None = None,
) -> Backfilled:
    """Publish what the target does not hold. ``replace``: what subjects begin with, and shall begin with instead.

    Raises StreamNotFound, and ConfigError where the files are not messages.
    """
    counts = bool(at.info(stream).config.allow_msg_counter)
    rows = messages_in(spark, source, counts=counts)
    if filter is not None:
        rows = rows.where(railgun.spark.subject_filter(f.col("subject"), filter))
    if replace is not None:
        rows = rows.withColumn("subject", _replaced(f.col("subject"), *replace))
    rows = rows.persist()
    held = held_ids(spark, at, stream).persist()
    try:
        known = rows.join(held.select("msg_id"), "msg_id", "left_semi")
        newest = known.groupBy("subject").agg(f.max("place").alias("newest"))
        missing = rows.join(held.select("msg_id"), "msg_id", "left_anti")
        wanted = missing.join(newest, "subject", "left").where(
            "newest is null or place is null or place > newest"
        )
        total, missed, sending = rows.count(), missing.count(), wanted.count()
        done = None
        if sending:
            done = railgun.spark.publish(
                wanted.select("subject", "payload", "headers", "msg_id", "place")
                .coalesce(1)
                .sortWithinPartitions("place")
                .drop("place"),
                stream,
                progress=progress,
                **at.options(),
            )
        fate = (0, 0, {}) if done is None else (done.stored, done.refused, dict(done.reasons))
        return Backfilled(total, total - missed, missed - sending, *fate)
    finally:
        rows.unpersist()
        held.unpersist()


def held_ids(spark: SparkSession, at: Place, stream: str) -> DataFrame:
    """The ids of the messages that a stream holds, once all that was sent before is decided: ``msg_id``."""
    last = at.info(stream).state.last_seq  # answered behind every command that was sent before
    if not last:
        return spark.createDataFrame([], "msg_id string")
    found = railgun.spark.read(spark, stream, end=last, **at.options())
    return found.select(f.col("headers")[h.MSG_ID].alias("msg_id")).where("msg_id is not null").distinct()


def messages_in(spark: SparkSession, source: str, *, counts: bool = False) -> DataFrame:
    """The messages of files as they are to be published: subject, payload, headers, msg_id, and their place in the order.

    ``counts``: the target adds up; an increment is then sent as such, and otherwise its total as an ordinary message.
    """
    folder = Folder(spark, source)
    if not folder.has(""):
        raise ConfigError(f"there is no folder {source} to read messages from")
    card = folder.card()
    if card is not None and card.get("kind") != "archive":
        raise ConfigError(f"{source} is not an archive, but belongs to {card.get('kind')!r}")
    rows = spark.read.parquet(source) if card is None else read_archive(spark, source)
    for column in ("subject", "payload"):
        if column not in rows.columns:
            raise ConfigError(f"the files in {source} have no column {column!r}: messages need one")
    if "headers" not in rows.columns:
        rows = rows.withColumn("headers", f.expr("cast(map() as map<string,string>)"))
    headers = f.coalesce(f.col("headers"), f.expr("cast(map() as map<string,string>)"))
    if card is not None:
        mark = f"{card['stream']} {card['created']} "
        identity: Column = f.concat(f.lit(mark), f.col("sequence").cast("string"))
    elif "msg_id" in rows.columns:
        identity = f.col("msg_id")
    else:
        rows, identity = _by_content(rows)
    place = f.col("sequence") if "sequence" in rows.columns else f.lit(None)
    payload = f.col("payload").cast("binary")
    if counts:
        payload = f.when(headers[h.INCREMENT].isNotNull(), f.lit(bytearray())).otherwise(payload)
    return rows.select(
        "subject",
        payload.alias("payload"),
        _own_headers(headers, counts=counts).alias("headers"),
        identity.alias("msg_id"),
        place.cast("bigint").alias("place"),
    )


def _own_headers(headers: Column, *, counts: bool) -> Column:
    spent = _SPENT_NAMES if counts else (*_SPENT_NAMES, h.INCREMENT)

    def kept(name: Column, _: Column) -> Column:
        begins = [name.startswith(prefix) for prefix in _SPENT]
        gone = name.isin(*spent)
        for one in begins:
            gone = gone | one
        return ~gone

    own = f.map_filter(headers, kept)
    first = headers[h.MSG_ID]
    return f.when(first.isNull(), own).otherwise(f.map_concat(own, f.create_map(f.lit(FIRST_ID), first)))


def _by_content(rows: DataFrame) -> tuple[DataFrame, Column]:
    """Ids of messages that have none: their content, and which of several equal ones it is."""
    listed = f.to_json(f.array_sort(f.map_entries("headers")))
    text = f.concat_ws("\n", f.col("subject"), f.sha2(f.col("payload").cast("binary"), 256), listed)
    numbered = rows.withColumn("_content", f.sha2(text, 256)).withColumn(
        "_number", f.row_number().over(Window.partitionBy("_content").orderBy("subject"))
    )
    return numbered, f.concat(f.col("_content"), f.lit("-"), f.col("_number").cast("string"))


def _replaced(subject: Column, begin: str, instead: str) -> Column:
    rest = f.substring(subject, f.lit(len(begin) + 1), f.length(subject))
    return f.when(subject.startswith(begin), f.concat(f.lit(instead), rest)).otherwise(subject)
