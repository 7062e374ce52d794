"""Parquet files as messages: those of an archive, or any with a subject and a payload, brought to one form with an id for each.

What the first publish of a message was told to do is not done again: conditions, roll-ups and the like are left out of its headers.
"""

from __future__ import annotations

from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from railgun.errors import ConfigError
from railgun.model import headers as h

from .folder import Folder

#: The columns of an archive.
SCHEMA: Final = (
    "sequence bigint, subject string, time timestamp, time_ns bigint, headers map<string,string>, payload binary, "
    "offset bigint, batch int, date date"
)
#: Where the id that a message was first published with is kept.
FIRST_ID: Final = "Archived-Msg-Id"
# Conditions and commands of the first publish: it was decided then, and must not be decided by them again.
_SPENT: Final = (h.RESERVED_PREFIX, "Nats-Expected-", "Nats-Batch-", "KV-Origin-")
_SPENT_NAMES: Final = (h.MSG_ID, h.ROLLUP, h.STREAM_SOURCE, h.COUNTER_SOURCES)
_NO_HEADERS: Final = "cast(map() as map<string,string>)"


def read_archive(spark: SparkSession, target: str) -> DataFrame:
    """The messages of an archive, with the columns of ``railgun.spark.read`` and beside them ``batch`` and ``date``."""
    return spark.read.schema(SCHEMA).parquet(target)


def messages_in(spark: SparkSession, source: str, *, counts: bool = False) -> DataFrame:
    """The messages of files as they are to be published: subject, payload, headers, msg_id, and their place in the order.

    ``counts``: the target adds up; an increment is then sent as such, and otherwise its total as an ordinary message.
    Raises ConfigError where there are no files, or no messages in them.
    """
    folder = Folder(spark, source)
    if not folder.has(""):
        raise ConfigError(f"there is no folder {source} to read messages from")
    card = folder.card()
    if card is not None and card["kind"] != "archive":
        raise ConfigError(f"{source} is not an archive: it belongs to a job of the kind {card['kind']!r}")
    rows = read_archive(spark, source) if card is not None else _any_files(spark, source)
    if card is not None:
        mark = f"{card['stream']} {card['created']} "
        identity: Column = f.concat(f.lit(mark), f.col("sequence").cast("string"))
    elif "msg_id" in rows.columns:
        identity = f.col("msg_id").cast("string")
    else:
        rows, identity = _by_content(rows)
    headers = f.coalesce(f.col("headers"), f.expr(_NO_HEADERS))
    payload = f.col("payload").cast("binary")
    if counts:
        payload = f.when(headers[h.INCREMENT].isNotNull(), f.lit(bytearray())).otherwise(payload)
    return rows.select(
        "subject",
        payload.alias("payload"),
        _own_headers(headers, counts=counts).alias("headers"),
        identity.alias("msg_id"),
        f.col("sequence").cast("bigint").alias("place"),
    )


def _any_files(spark: SparkSession, source: str) -> DataFrame:
    """Files that no archive wrote, with all columns that a message may have."""
    try:
        rows = spark.read.parquet(source)
    except AnalysisException as error:
        raise ConfigError(f"{source} is not a folder of Parquet files: {error.getCondition()}") from error
    for column in ("subject", "payload"):
        if column not in rows.columns:
            raise ConfigError(f"the files in {source} have no column {column!r}: messages need one")
    if "headers" not in rows.columns:
        rows = rows.withColumn("headers", f.expr(_NO_HEADERS))
    return rows if "sequence" in rows.columns else rows.withColumn("sequence", f.lit(None))


def _own_headers(headers: Column, *, counts: bool) -> Column:
    spent = _SPENT_NAMES if counts else (*_SPENT_NAMES, h.INCREMENT)

    def kept(name: Column, _: Column) -> Column:
        gone = name.isin(*spent)
        for beginning in _SPENT:
            gone = gone | name.startswith(beginning)
        return ~gone

    own = f.map_filter(headers, kept)
    first = headers[h.MSG_ID]
    return f.when(first.isNull(), own).otherwise(f.map_concat(own, f.create_map(f.lit(FIRST_ID), first)))


def _by_content(rows: DataFrame) -> tuple[DataFrame, Column]:
    """Ids of messages that have none: their content, and which of several equal ones it is."""
    listed = f.to_json(f.array_sort(f.map_entries("headers")))
    text = f.concat_ws("\n", f.col("subject"), f.sha2(f.col("payload").cast("binary"), 256), listed)
    equal = Window.partitionBy("_content").orderBy("sequence")
    numbered = rows.withColumn("_content", f.sha2(text, 256)).withColumn(
        "_number", f.row_number().over(equal)
    )
    return numbered, f.concat(f.col("_content"), f.lit("-"), f.col("_number").cast("string"))
