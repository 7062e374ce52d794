"""Rows of a frame as messages of a stream: plain records in ``<prefix>.commands``, decided by the owner of the stream.

Nothing is ever written to the topic of a log. A task that Spark runs again sends its rows again, so each row needs an id that is the same each
time; the owner then stores it once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from railgun.errors import StreamNotFound
from railgun.model import headers as h
from railgun.spark.cluster import Cluster
from railgun.spark.outcomes import Outcome, Places, outcome_of
from railgun.spark.places import committed_range
from railgun.spark.progress import Told, telling
from railgun.spark.rows import checked_columns, refuse_wrong_rows
from railgun.spark.snapshot import Snapshot, made_anew, snapshot

_LEAST_PATIENCE: Final = 60.0  # seconds for the owner's answer behind all rows
_SLOWEST: Final = 2_000  # rows that an owner decides in a second, at the least


class Published(NamedTuple):
    """What became of the rows. ``reasons`` says why how many were refused.

    Rows are found by their ids in the log of the stream. One that was stored and is no longer there, because a limit removed it
    within the call, is counted as a duplicate.
    """

    sent: int
    stored: int
    duplicates: int
    refused: int
    reasons: Mapping[str, int] = {}


def publish(
    df: DataFrame,
    stream: str,
    *,
    ids: str | None = "msg_id",
    server: str | None = None,
    prefix: str = "railgun",
    kafka: Mapping[str, Any] | None = None,
    progress: Told | bool | None = None,
) -> Published:
    """Publish each row to the stream, and return when its owner has decided all of them.

    Columns: ``subject``, ``payload`` (binary or string; null is an empty one), ``headers`` (a map of strings; may be left out) and the one that
    ``ids`` names, with an id for each row; more are ignored. An id must follow from the data: of the source, its partition and offset, say, or
    of a key. ``monotonically_increasing_id`` numbers the rows of each run anew, so that a task that runs again stores its rows twice and a second
    run drops other rows as duplicates. The window of the stream (``duplicate_window``) must be longer than the time until a run is repeated.
    ``ids=None``: without ids, at least once.

    The frame is computed once and kept for the call. Rows without a valid subject, without an id or too large are refused, by their number and an
    example, before anything is sent (ConfigError). What the owner refuses is counted, and is in ``<prefix>.rejected``. ``progress``: True for a
    bar, or a function that is called, from a thread of its own, with the rows that are decided and all. Rows of one partition of the frame keep
    their order. Raises StreamNotFound, RailgunError where the stream is deleted or made anew meanwhile, and what a connection raises.
    """
    cluster = Cluster(server, prefix, kafka)
    rows = checked_columns(df, ids).persist()
    try:
        with cluster.connect() as rg:
            before = snapshot(rg, stream, gaps=False)
        total = refuse_wrong_rows(rows, stream)
        if not total:
            return Published(0, 0, 0, 0)
        places = _places(cluster, before)
        with telling(progress, cluster, before.partition, places.commands, total):
            cluster.write(_records(rows, stream, before), cluster.names.commands)
            after = _decided(cluster, stream, total)
        if after.incarnation != before.incarnation:
            raise made_anew(stream)
        outcome = outcome_of(rows, stream, cluster, before, after, places, with_ids=ids is not None)
    finally:
        rows.unpersist()
    return _published(total, outcome)


def _published(total: int, outcome: Outcome) -> Published:
    reasons = outcome.refused
    refused = sum(reasons.values())
    stored = total - refused if outcome.stored is None else outcome.stored
    return Published(total, stored, max(0, total - refused - stored), refused, reasons)


def _places(cluster: Cluster, before: Snapshot) -> Places:
    """Where commands and rejected records end before anything is sent."""
    _, commands = committed_range(cluster.settings, cluster.names.commands, before.partition)
    _, rejected = committed_range(cluster.settings, cluster.names.rejected, before.partition)
    return Places(commands, rejected)


def _records(rows: DataFrame, stream: str, before: Snapshot) -> DataFrame:
    """The rows as plain records for the partition of the stream."""
    return rows.select(
        F.lit(stream.encode("utf-8")).alias("key"),
        F.col("payload").alias("value"),
        F.lit(before.partition).alias("partition"),
        _record_headers().alias("headers"),
    )


def _record_headers() -> Column:
    """The headers of a record: the subject, the id, and those of the row."""
    subject = F.struct(
        F.lit(h.PLAIN_SUBJECT).alias("key"), F.encode(F.col("subject"), "utf-8").alias("value")
    )
    ids = F.when(
        F.col("msg_id").isNotNull(),
        F.array(F.struct(F.lit(h.MSG_ID).alias("key"), F.encode(F.col("msg_id"), "utf-8").alias("value"))),
    ).otherwise(F.array())
    return F.concat(F.array(subject), ids, F.col("headers"))


def _decided(cluster: Cluster, stream: str, total: int) -> Snapshot:
    """The stream once every row is decided: its owner answers a question behind the commands in their order."""
    with cluster.connect(_LEAST_PATIENCE + total / _SLOWEST) as rg:
        try:
            return snapshot(rg, stream, gaps=False)
        except StreamNotFound as error:
            raise made_anew(stream) from error
