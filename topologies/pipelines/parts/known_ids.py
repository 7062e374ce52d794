"""The ids of messages that a stream has had already: those that it holds, and those that were sent to it.

The duplicate window of a stream forgets ids after minutes. A job that begins again a day later asks here instead.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import railgun.spark
from railgun import Railgun, StreamInfo
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


def known_ids(spark: SparkSession, at: Place, rg: Railgun, stream: str) -> DataFrame:
    """The ids of all that a stream holds or has removed: ``msg_id``."""
    held = held_ids(spark, at, stream, rg.stream(stream).info().state.last_seq).localCheckpoint()
    # Asked once they are known: what was removed just before would else be taken for what never came.
    return held.union(sent_ids(spark, at, stream).taken) if ever_removed(rg.stream(stream).info()) else held


class SentIds(NamedTuple):
    """The ids of plain records for a stream, ``msg_id``, each once: those that it took, and those that it has only ever refused."""

    taken: DataFrame
    refused: DataFrame


def sent_ids(spark: SparkSession, at: Place, stream: str) -> SentIds:
    """The ids that were sent to the stream of this incarnation.

    A refusal is that of one command: an id that was refused first and taken later is taken. Kafka keeps commands and refusals for seven days: what
    was sent before is not found.
    """
    names = at.cluster.names
    with at.connect() as rg:
        partition = snapshot(rg, stream, gaps=False).partition
        created = rg.stream(stream).info().created
    key = f.lit(stream.encode("utf-8"))
    since = f.lit(created).cast("timestamp")  # an earlier stream of this name is another one
    sent = (
        read_partition(spark, at, names.commands, partition)
        .where((f.col("key") == key) & (f.col("timestamp") >= since))
        .where(f.expr(_HEADER.format(h.PLAIN_SUBJECT)).isNotNull())
        .select("offset", f.expr(_HEADER.format(h.MSG_ID)).alias("msg_id"))
        .where("msg_id is not null")
    )
    refusals = _refused_offsets(
        read_partition(spark, at, names.rejected, partition).where(f.col("key") == key),
        f"{names.commands}/{partition}/",
    )
    taken = sent.join(refusals, "offset", "left_anti").select("msg_id").distinct()
    refused = sent.join(refusals, "offset", "left_semi").select("msg_id").distinct()
    return SentIds(taken, refused.join(taken, "msg_id", "left_anti"))


def _refused_offsets(rejected: DataFrame, partition: str) -> DataFrame:
    """The offsets of commands of a partition that were refused: ``offset``."""
    source = f.expr(_HEADER.format(h.REJECTED_SOURCE))
    here = rejected.where(source.startswith(partition))
    return here.select(
        f.expr(
            f"try_cast(substring({_HEADER.format(h.REJECTED_SOURCE)}, {len(partition) + 1}) as bigint)"
        ).alias("offset")
    )
