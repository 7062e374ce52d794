"""How long acknowledgements take: percentiles for each consumer, from the samples that consumers report. To run and to copy.

::

    railgun consumer edit ORDERS DISPATCH --sample 100     # report every acknowledgement
    railgun pipeline ack-latency --stream ORDERS --plot latency.png

A sample says how long a message was with its reader, from its delivery to its acknowledgement. Samples are in the topic of advisories,
which keeps them for a day.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from railgun.errors import ConfigError
from railgun.protocol.advisory_record import TYPES

from .parts.frames import persisted
from .parts.place import Place
from .parts.topic import read_topic
from .parts.words import in_words

PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)
_SAMPLE: Final = "type string, stream string, consumer string, deliveries bigint, ack_time bigint"


def samples(
    spark: SparkSession, at: Place, *, stream: str | None = None, consumer: str | None = None
) -> DataFrame:
    """A row for each sample: ``stream``, ``consumer``, ``deliveries``, ``ack_time`` (ns). Other advisories are left out."""
    with at.connect() as rg:
        partitions = rg.connection.partitions
    told = read_topic(spark, at, at.cluster.names.advisories, partitions).select(
        f.from_json(f.col("value").cast("string"), _SAMPLE).alias("told")
    )
    found = told.select("told.*").where(
        (f.col("type") == TYPES["consumer_ack"]) & f.col("ack_time").isNotNull()
    )
    if stream is not None:
        found = found.where(f.col("stream") == stream)
    if consumer is not None:
        found = found.where(f.col("consumer") == consumer)
    return found.drop("type")


def ack_latency(found: DataFrame, percentiles: tuple[float, ...] = PERCENTILES) -> list[dict[str, Any]]:
    """For each consumer the number of samples and the percentiles of ``ack_time`` in milliseconds, exact, not estimated."""
    shares = f.array(*(f.lit(one / 100) for one in percentiles))
    rows = (
        found.groupBy("stream", "consumer")
        .agg(
            f.count("*").alias("samples"),
            f.sum((f.col("deliveries") > 1).cast("bigint")).alias("redelivered"),
            f.min("ack_time").alias("least"),
            f.percentile("ack_time", shares).alias("at"),
            f.max("ack_time").alias("most"),
        )
        .orderBy("stream", "consumer")
        .collect()
    )
    return [
        {
            "stream": row["stream"],
            "consumer": row["consumer"],
            "samples": row["samples"],
            "redelivered": row["redelivered"],
            "min_ms": row["least"] / 1e6,
            **{f"p{share:g}_ms": value / 1e6 for share, value in zip(percentiles, row["at"], strict=True)},
            "max_ms": row["most"] / 1e6,
        }
        for row in rows
    ]


@in_words()
def report(
    spark: SparkSession,
    at: Place,
    *,
    stream: str | None = None,
    consumer: str | None = None,
    plot: str | None = None,
) -> list[dict[str, Any]]:
    """The percentiles of each consumer; ``plot``: a file for a picture of them."""
    with persisted(samples(spark, at, stream=stream, consumer=consumer)) as found:
        if plot is not None:
            draw(found, plot)
        return ack_latency(found)


def draw(found: DataFrame, file: str) -> None:
    """A picture of the share of acknowledgements by the time that they took. Raises ConfigError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("a plot needs matplotlib: pip install 'railgun[bench]'") from error
    shares = [number / 200 for number in range(201)]
    asked = f.array(*(f.lit(share) for share in shares))
    rows = found.groupBy("stream", "consumer").agg(f.percentile("ack_time", asked).alias("at"))
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for row in rows.orderBy("stream", "consumer").collect():
        times = [max(value, 1) / 1e6 for value in row["at"]]
        axes.plot(times, [100 * share for share in shares], label=f"{row['stream']} > {row['consumer']}")
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds from delivery to acknowledgement")
    axes.set_ylabel("% of acknowledgements")
    axes.grid(True, alpha=0.3)
    if axes.lines:
        axes.legend()
    try:
        figure.savefig(file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the plot cannot be written to {file}: {error}") from error
