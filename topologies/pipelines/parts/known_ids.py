"""The ids of messages that a stream has had already: those that it holds, and those that were sent to it.

The duplicate window of a stream forgets ids after minutes. A job that begins again a day later asks here instead.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import railgun.spark
from railgun import StreamInfo
from railgun.model import headers as h
from railgun.spark.snapshot import snapshot

from .place import Place
from .topic import read_partition

_NOTHING: Final = "msg_id string"
_HEADER: Final = "cast(get(filter(headers, x -> x.key = '{0}'), 0).value as string)"


def held_ids(spark: SparkSession, at: Place, stream: str, last: int) -> DataFrame:
    """The ids of the messages that the stream holds, up to a sequence: ``msg_id``, each once."""
    if not last:
        return spark.createDataFrame([], _NOTHING)
    found = railgun.spark.read(spark, stream, end=last, **at.options())
    return found.select(f.col("headers")[h.MSG_ID].alias("msg_id")).where("msg_id is not null").distinct()


def ever_removed(info: StreamInfo) -> bool:
    """Whether a stream has had messages that it does not hold any more."""
    return info.state.last_seq - max(info.config.first_seq or 1, 1) + 1 > info.state.messages


def known_ids(spark: SparkSession, at: Place, info: StreamInfo) -> DataFrame:
    """The ids of all that a stream holds or has removed: ``msg_id``."""
    held = held_ids(spark, at, info.config.name, info.state.last_seq)
    return held.union(sent_ids(spark, at, info.config.name)) if ever_removed(info) else held


def sent_ids(spark: SparkSession, at: Place, stream: str) -> DataFrame:
    """The ids of plain records that were sent to the stream of this incarnation and not refused: ``msg_id``, each once.

    Kafka keeps commands and refusals for seven days: what was sent before is not found.
    """
    names = at.cluster.names
    with at.connect() as rg:
        partition = snapshot(rg, stream, gaps=False).partition
        created = rg.stream(stream).info().created
    sent, refused = (
        _ids(read_partition(spark, at, topic, partition), stream)
        for topic in (names.commands, names.rejected)
    )
    since = f.lit(created).cast("timestamp")  # an earlier stream of this name is another one
    return (
        sent.where(f.col("timestamp") >= since)
        .join(refused, "msg_id", "left_anti")
        .select("msg_id")
        .distinct()
    )


def _ids(records: DataFrame, stream: str) -> DataFrame:
    """The ids of the plain records for a stream."""
    plain = records.where(
        (f.col("key") == f.lit(stream.encode("utf-8"))) & f.expr(_HEADER.format(h.PLAIN_SUBJECT)).isNotNull()
    )
    return plain.select("timestamp", f.expr(_HEADER.format(h.MSG_ID)).alias("msg_id")).where(
        "msg_id is not null"
    )
