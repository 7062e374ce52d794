"""One cluster as a Spark driver reaches it: through the facade, with a consumer, and with Spark's Kafka source and sink."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from railgun.client.facade.railgun import Railgun, connect
from railgun.errors import ConfigError
from railgun.kafka.settings import MAX_MESSAGE_BYTES, KafkaSettings
from railgun.protocol.topics import Names
from railgun.spark.options import kafka_options, server_address

_TIMEOUT: Final = 30.0  # an owner that looks through millions of messages does so beside its other work
# A log is one partition of Kafka: without this it would be one task, whatever its length.
_RECORDS_PER_TASK: Final = 100_000


class Cluster:
    """Address, prefix and settings, all checked when it is made. Raises ConfigError."""

    def __init__(self, server: str | None, prefix: str, kafka: Mapping[str, Any] | None) -> None:
        self._server = server_address(server)
        self._kafka = kafka
        self._options = kafka_options(self._server, kafka)
        self.settings = KafkaSettings(self._server, dict(kafka or {}))
        try:
            self.names = Names(prefix)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def connect(self, timeout: float = _TIMEOUT) -> Railgun:
        """The facade. Raises what ``railgun.connect`` raises."""
        return connect(self._server, prefix=self.names.prefix, kafka=self._kafka, timeout=timeout)

    def batch(self, spark: SparkSession, topic: str, partition: int, begin: int, end: int) -> DataFrame:
        """The committed records of a partition, from one offset to before another."""
        reader = self._configured(spark.read, topic, partition, begin)
        frame: DataFrame = reader.option("endingOffsets", _at(topic, partition, end)).load()
        return frame

    def stream(self, spark: SparkSession, topic: str, begin: int, at_most: int | None) -> DataFrame:
        """The committed records of a log from an offset on, as a streaming frame."""
        reader = self._configured(spark.readStream, topic, 0, begin)
        if at_most is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(at_most))
        return _without_secrets(spark, reader.load())

    def _configured(self, reader: Any, topic: str, partition: int, begin: int) -> Any:
        return (
            reader.format("kafka")
            .options(**self._options)
            .option("assign", json.dumps({topic: [partition]}))
            .option("startingOffsets", _at(topic, partition, begin))
            .option("includeHeaders", "true")
            .option("kafka.isolation.level", "read_committed")
            # Only what the stream has removed is ever trimmed from its log: that it is gone is not a failure.
            .option("failOnDataLoss", "false")
            .option("maxRecordsPerPartition", str(_RECORDS_PER_TASK))
            .option("groupIdPrefix", f"{self.names.prefix}-spark")  # within the permissions of the prefix
        )

    def write(self, records: DataFrame, topic: str) -> None:
        """Send the records, each acknowledged by all replicas. One that a task sends again is there twice."""
        (
            records.write.format("kafka")
            .options(**self._options)
            .option("topic", topic)
            .option("includeHeaders", "true")
            .option("kafka.acks", "all")
            .option("kafka.enable.idempotence", "true")
            .option("kafka.max.request.size", str(MAX_MESSAGE_BYTES))
            .save()
        )


def _without_secrets(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """The streaming frame without the second form of its source, for Spark's first interface, which nothing uses.

    Every plan of the frame would show it with all options, password and key among them. Those of the form in use are hidden by the session.
    """
    jvm: Any = spark._jvm
    plan = frame._jdf.queryExecution().analyzed()
    fields = (plan.source(), plan.sourceName(), plan.table(), plan.extraOptions(), plan.output())
    bare = plan.copy(*fields, plan.catalog(), plan.identifier(), jvm.scala.Option.empty())
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, bare)
    return DataFrame(rows, spark)


def _at(topic: str, partition: int, offset: int) -> str:
    return json.dumps({topic: {str(partition): offset}})
