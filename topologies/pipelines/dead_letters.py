"""A report on dead letters: how many there are, by subject, consumer and reason. To run and to copy.

::

    railgun pipeline dead-letters ORDERS_DLQ
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import railgun.spark
from railgun.model import headers as h

from .parts.place import Place
from .parts.words import in_words

_TIMES: Final = ("first", "last")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def dead_letters(spark: SparkSession, at: Place, stream: str, *, filter: str | None = None) -> DataFrame:
    """A row for each subject, origin, consumer and reason, most letters first. Other messages of the stream do not count.

    Columns: ``subject``, ``stream``, ``consumer``, ``reason``, ``letters``, ``most_deliveries``, ``first_seq``, ``last_seq``, ``first`` and
    ``last`` (times at which letters were stored).
    """
    headers = f.col("headers")
    letters = railgun.spark.read(spark, stream, filter=filter, **at.options()).select(
        "subject",
        "sequence",
        "time",
        headers[h.ORIGIN_STREAM].alias("stream"),
        headers[h.ORIGIN_CONSUMER].alias("consumer"),
        f.coalesce(headers[h.ORIGIN_REASON], f.lit("")).alias("reason"),
        headers[h.ORIGIN_DELIVERIES].try_cast("bigint").alias("deliveries"),
    )
    return (
        letters.where("stream is not null")
        .groupBy("subject", "stream", "consumer", "reason")
        .agg(
            f.count("*").alias("letters"),
            f.max("deliveries").alias("most_deliveries"),
            f.min("sequence").alias("first_seq"),
            f.max("sequence").alias("last_seq"),
            f.min("time").alias("first"),
            f.max("time").alias("last"),
        )
        .orderBy(f.desc("letters"), "subject", "stream", "consumer", "reason")
    )


@in_words()
def report(spark: SparkSession, at: Place, stream: str, *, filter: str | None = None) -> list[dict[str, Any]]:
    """The same as plain values; times in the form of RFC 3339."""
    found = dead_letters(spark, at, stream, filter=filter)
    for name in _TIMES:
        found = found.withColumn(name, f.unix_micros(name))
    rows = [row.asDict() for row in found.collect()]
    return [row | {name: _in_utc(row[name]) for name in _TIMES} for row in rows]


def _in_utc(micros: int) -> str:
    """The time as text, whatever the session's time zone: Spark's own way leads over its local time, which leaves out an hour of the year."""
    return f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%dT%H:%M:%S.%fZ}"
