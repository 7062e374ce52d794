"""An archive of a stream: Parquet files by date, with every message once for any reader. To run and to copy.

::

    railgun pipeline archive ORDERS /data/orders            # what is there; run it again for what came since
    railgun pipeline archive ORDERS /data/orders --follow   # until Ctrl-C

A batch is a folder of its own, ``batch=7/date=2026-11-18/…``, whose file ``_SUCCESS`` is written last. A batch that was interrupted
comes again with the same offsets and replaces what there is of it; a whole one is left alone. A reader needs no knowledge of
this: the folders hold each message once, whenever the process was killed. ``_checkpoint`` says how far the log was read, and
``_railgun.json`` which stream it is: a folder of another stream, or of one that was made anew since, is refused.

An owner may trim its log past a few old messages that it keeps in its table. They come from the owner, in batches below zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import railgun.spark
from railgun.errors import ConfigError
from railgun.spark.places import searching
from railgun.spark.snapshot import snapshot

from .parts.batches import Progress, SameStream, run_batches
from .parts.folder import CHECKPOINT, Folder
from .parts.frames import persisted
from .parts.message_files import read_archive
from .parts.place import Place
from .parts.words import in_words

MESSAGES_AT_ONCE: Final = 200_000  # of a batch: some seconds of work that an interruption can cost
_DONE: Final = "_SUCCESS"
_OPEN_FILES: Final = "spark.sql.maxConcurrentOutputFileWriters"
_DATES_AT_ONCE: Final = "4"  # that a task has files open for
# What files that are open hold in memory, in the names of Parquet. It would take nearly all that the JVM has, look at it after a hundred messages only,
# and keep several copies of each payload for a dictionary and for the least and the greatest one: with messages of a megabyte the JVM ended,
# and did so again whenever the batch came again.
_FILES: Final = {
    "parquet.memory.pool.ratio": "0.1",  # of the memory that the JVM has, for all files together
    "parquet.block.size": str(16 * 1024 * 1024),  # for each of them
    "parquet.block.size.row.check.min": "1",
    "parquet.page.size.row.check.min": "1",
    "parquet.enable.dictionary#payload": "false",
    "parquet.column.statistics.enabled#payload": "false",
}
_DAY: Final = 86_400 * 10**9  # ns


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

    def __str__(self) -> str:
        upto = f", up to sequence {self.last_seq}" if self.messages else ""
        return (
            f"{self.target} holds {self.messages} messages of {self.stream} in {self.batches} batches{upto}"
        )


@in_words()
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
    with at.connect() as rg, ExitStack() as used:
        same = SameStream(rg, stream)
        created, last = same.info.created, same.info.state.last_seq
        folder = Folder(spark, target)
        used.enter_context(folder.alone())
        # In front of the card, which would hold a filter that is not valid against all later runs.
        messages = _dated(
            railgun.spark.read_stream(
                spark, stream, filter=filter, start="first", max_per_batch=max_per_batch, **at.options()
            )
        )
        same.check()  # so the frame is of the stream that the card names
        folder.claim({"kind": "archive", "stream": stream, "created": created, "filter": filter})
        _check_checkpoint(folder)

        def store(rows: DataFrame, number: int) -> None:
            _store(folder, rows, number)
            same.check()

        checkpoint = folder.inside(CHECKPOINT)
        run_batches(messages, store, checkpoint, progress=progress)
        # Behind the batches: what the log lost before they could read it is among them.
        _store_stragglers(spark, at, rg, stream, folder, filter, last)
        if follow:
            run_batches(messages, store, checkpoint, follow=True, progress=progress)
    return summary(spark, target)


@in_words()
def summary(spark: SparkSession, target: str) -> Archived:
    """What an archive holds: a count of the files, not of what a run has done. Raises ConfigError if it is not one."""
    card = Folder(spark, target).card()
    if card is None or card["kind"] != "archive":
        raise ConfigError(f"{target} is not an archive: it has no card that says so")
    rows = read_archive(spark, target)
    found = rows.agg(f.count("*"), f.min("sequence"), f.max("sequence")).first()
    assert found is not None
    # A batch without messages has no file. To count the distinct values of the column instead would take two shuffles of all rows.
    batches = {file.split("/")[-3] for file in rows.inputFiles()}  # <folder>/batch=7/date=2026-11-18/<file>
    messages, first, last = found
    return Archived(card["stream"], target, messages, len(batches), first, last)


def _dated(rows: DataFrame) -> DataFrame:
    """The rows with the date that their folders are named after, in UTC. Of a stream, before its batches: there it would be a copy of each row."""
    return rows.withColumn("date", f.expr(f"date_from_unix_date(cast(time_ns div {_DAY}L as int))"))


def _store(folder: Folder, rows: DataFrame, number: int) -> None:
    """Write a batch, unless it is whole: then it was so before the checkpoint could say it."""
    name = f"batch={number}"
    if not folder.has(f"{name}/{_DONE}"):
        with _unsorted(rows.sparkSession):
            writer = rows.write.mode("overwrite").options(**_FILES).partitionBy("date")
            writer.parquet(folder.inside(name))


@contextmanager
def _unsorted(spark: SparkSession) -> Iterator[None]:
    """A session whose writes keep the files of several dates open: Spark would else sort every batch by date, payloads and all.

    A log is nearly in the order of time, so a task meets few dates. At more than these the rest of the task is sorted.
    """
    before = spark.conf.get(_OPEN_FILES, None)
    spark.conf.set(_OPEN_FILES, _DATES_AT_ONCE)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_OPEN_FILES)
        else:
            spark.conf.set(_OPEN_FILES, before)


def _store_stragglers(
    spark: SparkSession,
    at: Place,
    rg: railgun.Railgun,
    stream: str,
    folder: Folder,
    filter: str | None,
    last: int,
) -> None:
    """Add what the stream holds, the log no longer has (docs/design/0012) and the archive does not have yet.

    ``last``: where the stream ended before the log was read. What is later may still come from the log, and would then be there twice.
    """
    now = snapshot(rg, stream, gaps=False)
    cluster = at.cluster
    with searching(cluster.settings, cluster.names.log(stream), now.incarnation, last) as log:
        first = log.first()
    begins = last + 1 if first is None else first[1]
    if now.empty or now.first >= begins:
        return
    kept = _dated(railgun.spark.read(spark, stream, filter=filter, end=begins - 1, **at.options()))
    below = [name.removeprefix("batch=") for name in folder.names() if name.startswith("batch=-")]
    whole = [int(number) for number in below if folder.has(f"batch={number}/{_DONE}")]
    there = read_archive(spark, folder.path).where((f.col("batch") >= 0) | f.col("batch").isin(whole))
    new = kept.join(there.select("sequence"), "sequence", "left_anti").select(*kept.columns)
    with persisted(new) as missing:
        if missing.head(1):
            _store(folder, missing, min(whole, default=0) - 1)


def _check_checkpoint(folder: Folder) -> None:
    """Raises ConfigError for batches that the checkpoint does not know: numbers would begin anew, and pass for theirs."""
    batches = [name.removeprefix("batch=") for name in folder.names() if name.startswith("batch=")]
    begun = _numbers(folder.names(f"{CHECKPOINT}/offsets"))
    if batches and (not begun or max(_numbers(batches), default=0) > max(begun)):
        raise ConfigError(
            f"{folder.path} holds batches and no {CHECKPOINT} that knows them: it cannot be continued; name another folder"
        )


def _numbers(names: Iterable[str]) -> list[int]:
    """The numbers among names; other files lie beside them."""
    return [int(name) for name in names if name.isascii() and name.isdigit()]
