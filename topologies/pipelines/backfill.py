"""Messages from Parquet files into a stream, each of them once, however often it is run. To run and to copy.

::

    railgun pipeline backfill /data/orders ORDERS_COPY --replace orders.=copy.

A message carries an id that follows from where it comes from: of an archive, the stream, its creation and the sequence. Before anything
is published, the ids that the target has are looked up, and those messages are left out. That does not depend on the target's duplicate
window, which only guards what is under way:

- what the target holds is read from its own log, behind everything that was sent before;
- what it no longer holds, because it was acknowledged, aged or purged, is found among the commands, which Kafka keeps for seven days;
- a stream has had all of an archive of its own;
- messages go out in the order of their sequences. So of a target that has lost messages, an earlier one of a subject that it does not have was there and
  is gone, unless it was refused. A target with a limit for each subject never gets a message behind its successors.

Other files need the columns ``subject`` and ``payload``, and may have ``headers``, ``msg_id`` and ``sequence``, the order. Without ``msg_id`` the
content is the id, with a number for equal ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

import railgun.spark
from railgun import StreamInfo

from .parts.batches import Progress
from .parts.folder import Folder
from .parts.frames import persisted
from .parts.known_ids import ever_removed, held_ids, sent_ids
from .parts.message_files import messages_in
from .parts.place import Place
from .parts.words import in_words


@dataclass(frozen=True)
class Backfilled:
    """What became of the messages of a run."""

    messages: int  # in the files
    held: int  # the target has them
    gone: int  # the target had them, and has removed them
    stored: int
    refused: int
    reasons: Mapping[str, int] = field(default_factory=dict)  # of the refusals

    def as_object(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.messages} messages: {self.stored} stored, {self.held} were there, {self.gone} were there once, "
            f"{self.refused} refused"
        )


@in_words()
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
    """Publish what the target never had. ``replace``: what subjects begin with, and shall begin with instead.

    Raises StreamNotFound, and ConfigError where the files are not messages.
    """
    info = _info(at, stream)  # answered behind every command that was sent before
    rows = messages_in(spark, source, counts=bool(info.config.allow_msg_counter))
    if filter is not None:
        rows = rows.where(railgun.spark.subject_filter(f.col("subject"), filter))
    if replace is not None:
        rows = rows.withColumn("subject", _replaced(f.col("subject"), *replace))
    elif _is_archive_of(Folder(spark, source), info):
        return _had_all(spark, at, rows, info)
    with persisted(rows) as rows, persisted(held_ids(spark, at, stream, info.state.last_seq)) as held:
        missing = rows.join(held, "msg_id", "left_anti")
        held.count()
        # Asked once they are known: what was removed just before would else be taken for what never came.
        info = _info(at, stream)
        new = _never_sent(spark, at, info, missing, rows.join(held, "msg_id", "left_semi"))
        with persisted(new) as wanted:
            total, missed, sending = rows.count(), missing.count(), wanted.count()
            if not sending:
                return Backfilled(total, total - missed, missed, 0, 0)
            ordered = wanted.coalesce(1).sortWithinPartitions("place").drop("place")  # one task: one order
            done = railgun.spark.publish(ordered, stream, progress=progress, **at.options())
    fate = (done.stored, done.refused, dict(done.reasons))
    return Backfilled(total, total - missed, missed - sending, *fate)


def _is_archive_of(folder: Folder, info: StreamInfo) -> bool:
    """Whether the messages in the folder are those of this stream itself, and of no earlier one of its name."""
    card = folder.card()
    return card is not None and (card["stream"], card["created"]) == (info.config.name, info.created)


def _had_all(spark: SparkSession, at: Place, rows: DataFrame, info: StreamInfo) -> Backfilled:
    """What became of messages that the target itself stored first: it holds them by their sequences, or has removed them."""
    total, last = rows.count(), info.state.last_seq
    live = railgun.spark.read(spark, info.config.name, end=max(last, 1), **at.options())
    held = rows.join(live.select(f.col("sequence").alias("place")), "place", "left_semi").count()
    return Backfilled(total, held, total - held, 0, 0)


def _never_sent(
    spark: SparkSession, at: Place, info: StreamInfo, missing: DataFrame, known: DataFrame
) -> DataFrame:
    """The missing messages without those that the target once had."""
    columns = ("subject", "payload", "headers", "msg_id", "place")
    newest = known.groupBy("subject").agg(f.max("place").alias("newest"))
    in_front = missing.join(newest, "subject", "left").where(
        "newest is null or place is null or place > newest"
    )
    limited = (info.config.max_msgs_per_subject or 0) > 0  # there a later message would make way for it
    if not ever_removed(info):
        return (in_front if limited else missing).select(*columns)
    sent = sent_ids(spark, at, info.config.name)
    wanted = in_front.join(sent.taken, "msg_id", "left_anti").select(*columns)
    if limited:
        return wanted
    behind = missing.join(newest, "subject").where("place <= newest")
    return wanted.union(behind.join(sent.refused, "msg_id", "left_semi").select(*columns))


def _info(at: Place, stream: str) -> StreamInfo:
    with at.connect() as rg:
        return rg.stream(stream).info()


def _replaced(subject: Column, begin: str, instead: str) -> Column:
    rest = f.substring(subject, f.lit(len(begin) + 1), f.length(subject))
    return f.when(subject.startswith(begin), f.concat(f.lit(instead), rest)).otherwise(subject)
