"""What became of rows that were published: counted in the log of the stream and among the rejected records."""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from railgun.model import headers as h
from railgun.spark.cluster import Cluster
from railgun.spark.columns import messages
from railgun.spark.places import committed_range, searching
from railgun.spark.snapshot import Snapshot

_HEADER: Final = "cast(get(filter(headers, x -> x.key = '{0}'), 0).value as string)"


class Places(NamedTuple):
    """The ends of two topics, on the partition of a stream, before anything was sent."""

    commands: int
    rejected: int


class Outcome(NamedTuple):
    """Rows that were stored, None where no ids tell them from others, and how many were refused for which reason."""

    stored: int | None
    refused: dict[str, int]


def outcome_of(
    rows: DataFrame,
    stream: str,
    cluster: Cluster,
    before: Snapshot,
    after: Snapshot,
    places: Places,
    *,
    with_ids: bool,
) -> Outcome:
    """The fate of the rows, all of which are decided. By their ids; without ids, by where their commands were."""
    ids = rows.select("msg_id").distinct() if with_ids else None
    refused = _refused(rows.sparkSession, ids, stream, cluster, before, places)
    return Outcome(None if ids is None else _stored(ids, stream, cluster, before, after), refused)


def _stored(ids: DataFrame, stream: str, cluster: Cluster, before: Snapshot, after: Snapshot) -> int:
    """How many messages behind those that were there before have one of the ids; removed ones, too."""
    topic = cluster.names.log(stream)
    with searching(cluster.settings, topic, after.incarnation, after.last) as log:
        begin, _ = log.below(lambda found: found[1] > before.last)
        end = log.end
    if begin >= end:
        return 0
    records = cluster.batch(ids.sparkSession, topic, 0, begin, end)
    new = messages(records, after.incarnation, before.last + 1, after.last)
    return new.select(F.col("headers")[h.MSG_ID].alias("msg_id")).join(ids, "msg_id", "left_semi").count()


def _refused(
    spark: SparkSession,
    ids: DataFrame | None,
    stream: str,
    cluster: Cluster,
    before: Snapshot,
    places: Places,
) -> dict[str, int]:
    """The reasons of the rejected records that were commands of this call, with their numbers."""
    names = cluster.names
    _, end = committed_range(cluster.settings, names.rejected, before.partition)
    if end <= places.rejected:
        return {}
    found = (
        cluster.batch(spark, names.rejected, before.partition, places.rejected, end)
        .where(F.col("key") == F.lit(stream.encode("utf-8")))
        .select(
            F.expr(_HEADER.format(h.MSG_ID)).alias("msg_id"),
            F.expr(_HEADER.format(h.REJECTED_REASON)).alias("reason"),
            F.expr(_HEADER.format(h.REJECTED_SOURCE)).alias("source"),
        )
    )
    here = f"{names.commands}/{before.partition}/"
    offset = F.expr(f"try_cast(substring(source, {len(here) + 1}) as bigint)")
    found = found.where(F.col("source").startswith(here) & (offset >= places.commands))
    if ids is not None:
        found = found.join(ids, "msg_id", "left_semi")
    counts = found.groupBy("reason").count().collect()
    return {str(row["reason"]): int(row["count"]) for row in counts}
