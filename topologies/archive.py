"""An archive of a stream: Parquet files by date, with every message once for any reader. To run and to copy.

::

    railgun pipeline archive ORDERS /data/orders            # what is there; run it again for what came since
    railgun pipeline archive ORDERS /data/orders --follow   # until Ctrl-C

A batch is a folder of its own, ``batch=7/date=2026-11-18/…``, whose file ``_SUCCESS`` is written last. A batch that was interrupted
comes again with the same offsets and replaces what there is of it; a whole one is left alone. A reader needs no knowledge of
this: the folders hold each message once, whenever the process was killed. ``_checkpoint`` says how far the log was read, and
``_railgun.json`` which stream it is: a folder of another stream, or of one that was made anew since, is refused.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import railgun.spark
from railgun.errors import ConfigError

from .batches import Progress, run_batches
from .folder import CHECKPOINT, Folder
from .place import Place

SCHEMA: Final = (
    "sequence bigint, subject string, time timestamp, time_ns bigint, headers map<string,string>, payload binary, "
    "offset bigint, batch int, date date"
)
MESSAGES_AT_ONCE: Final = 200_000  # of a batch: some seconds of work that an interruption can cost


@dataclass(frozen=True)
class Archived:
    """What an archive holds, after a run."""

    stream: str
    target: str
    messages: int
    batches: int
    first_seq: int | None
    last_seq: int | None

    def as_object(self) -> dict[str, Any]:
        return asdict(self)


def archive(
    spark: SparkSession,
    at: Place,
    stream: str,
    target: str,
    *,
    filter: str | None = None,
    follow: bool = False,
    max_per_batch: int = MESSAGES_AT_ONCE,
    progress: Progress | None = None,
) -> Archived:
    """Bring the archive up to date with the stream; with ``follow`` keep it so until Ctrl-C.

    Raises StreamNotFound, and ConfigError where the folder is not an archive of this stream.
    """
    created = at.info(stream).created
    folder = Folder(spark, target)
    folder.claim({"kind": "archive", "stream": stream, "created": created, "filter": filter})
    _check_checkpoint(folder)

    def store(rows: DataFrame, number: int) -> None:
        name = f"batch={number}"
        if folder.has(f"{name}/_SUCCESS"):
            return  # it was whole before the checkpoint could say so
        dated = rows.withColumn("date", f.to_date("time"))
        dated.write.mode("overwrite").partitionBy("date").parquet(folder.inside(name))
        if at.info(stream).created != created:  # whose messages these are is not certain
            folder.remove(name)
            raise ConfigError(f"the stream {stream} was made anew while it was read: name another folder")

    run_batches(
        railgun.spark.read_stream(
            spark, stream, filter=filter, start="first", max_per_batch=max_per_batch, **at.options()
        ),
        store,
        folder.inside(CHECKPOINT),
        follow=follow,
        progress=progress,
    )
    return summary(spark, target)


def read_archive(spark: SparkSession, target: str) -> DataFrame:
    """The messages of an archive, with the columns of ``railgun.spark.read`` and beside them ``batch`` and ``date``."""
    return spark.read.schema(SCHEMA).parquet(target)


def summary(spark: SparkSession, target: str) -> Archived:
    """What an archive holds: a count of the files, not of what a run has done. Raises ConfigError if it is not one."""
    card = Folder(spark, target).card()
    if card is None or card.get("kind") != "archive":
        raise ConfigError(f"{target} is not an archive: it has no card that says so")
    found = (
        read_archive(spark, target)
        .agg(
            f.count("*").alias("messages"),
            f.countDistinct("batch").alias("batches"),
            f.min("sequence").alias("first"),
            f.max("sequence").alias("last"),
        )
        .first()
    )
    assert found is not None
    return Archived(
        card["stream"], target, found["messages"], found["batches"], found["first"], found["last"]
    )


def _check_checkpoint(folder: Folder) -> None:
    """Raises ConfigError for batches without a checkpoint: numbers would begin anew, and pass for theirs."""
    begun = folder.has(f"{CHECKPOINT}/offsets")
    if not begun and any(name.startswith("batch=") for name in folder.names()):
        raise ConfigError(
            f"{folder.path} holds batches and no {CHECKPOINT}: it cannot be continued; name another folder"
        )
