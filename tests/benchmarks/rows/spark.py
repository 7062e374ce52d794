"""A long stream in Spark: read and decoded, and archived into Parquet, beside Spark's bare Kafka source and a plain consumer."""

from __future__ import annotations

import json
import shutil
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from pyspark.sql import DataFrame, SparkSession

import railgun.spark
from railgun.protocol.topics import Names
from tests.benchmarks import raw_kafka
from tests.benchmarks.arena import Arena
from tests.benchmarks.cluster import Cluster
from tests.benchmarks.contest import RAILGUN, Row, Side
from tests.benchmarks.results import Goal
from tests.benchmarks.rows.sides import rate
from tests.benchmarks.rows.stock import STREAM, stocked_cluster
from tests.benchmarks.scale import Scale
from topologies.pipelines.archive import MESSAGES_AT_ONCE, archive
from topologies.pipelines.parts.place import Place

BARE: Final = "Spark's Kafka source"
LOOP: Final = "a consumer's poll loop"
_TASKS: Final = "100000"  # records of one, as railgun's frames have them


class _InSpark(Row):
    """The same topic on all sides: the log of the long stream."""

    unit = "messages/s"

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        cluster = stocked_cluster(arena, scale.many)
        with cluster.connect() as rg:
            count = rg.stream(STREAM).info().state.messages
        spark = railgun.spark.session(master="local[2]")
        try:
            works = self.works(spark, cluster, arena.folder / "spark", count)
            yield {name: (lambda work=work: rate(count, work)) for name, work in works.items()}
        finally:
            spark.stop()

    @abstractmethod
    def works(
        self, spark: SparkSession, cluster: Cluster, folder: Path, count: int
    ) -> dict[str, Callable[[], None]]: ...


class SparkRead(_InSpark):
    key, name = "spark-read", "read and decode 1,000,000 messages in Spark"
    goals: ClassVar[Mapping[str, Goal]] = {BARE: Goal("≥ 0.8 ×", least_ratio=0.8)}

    def works(
        self, spark: SparkSession, cluster: Cluster, folder: Path, count: int
    ) -> dict[str, Callable[[], None]]:
        topic = Names(cluster.prefix).log(STREAM)
        place = {"server": cluster.bootstrap, "prefix": cluster.prefix}
        return {
            RAILGUN: lambda: _computed(railgun.spark.read(spark, STREAM, **place)),
            BARE: lambda: _computed(_bare(spark.read, cluster.bootstrap, topic).load()),
            LOOP: lambda: raw_kafka.read_one_by_one(cluster.bootstrap, topic, count),
        }


class SparkArchive(_InSpark):
    key, name = "spark-archive", "archive 1,000,000 messages into Parquet"
    goals: ClassVar[Mapping[str, Goal]] = {BARE: Goal("≥ 0.8 ×", least_ratio=0.8)}

    def works(
        self, spark: SparkSession, cluster: Cluster, folder: Path, count: int
    ) -> dict[str, Callable[[], None]]:
        topic = Names(cluster.prefix).log(STREAM)

        def own() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            stored = archive(spark, Place(cluster.bootstrap, cluster.prefix), STREAM, str(folder / "own"))
            if stored.messages != count:
                raise RuntimeError(f"{stored.messages} of {count} messages are in the archive")

        def bare() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            records = _bare(spark.readStream, cluster.bootstrap, topic)
            query = (
                records.option("maxOffsetsPerTrigger", str(MESSAGES_AT_ONCE))
                .load()
                .writeStream.format("parquet")
                .option("path", str(folder / "bare"))
                .option("checkpointLocation", str(folder / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

        return {RAILGUN: own, BARE: bare}


def _bare(reader: Any, bootstrap: str, topic: str) -> Any:
    """Spark's own source, set as railgun sets it."""
    return (
        reader.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("assign", json.dumps({topic: [0]}))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("maxRecordsPerPartition", _TASKS)
    )


def _computed(frame: DataFrame) -> None:
    """All columns of all rows, which go nowhere."""
    frame.write.format("noop").mode("overwrite").save()
