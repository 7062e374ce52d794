"""A topic of the cluster as Spark reads it, undecoded: for what is not a message of a stream, and for audits of logs."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession

from railgun.kafka.settings import KafkaSettings
from railgun.spark.options import kafka_options
from railgun.spark.places import committed_range

from .place import Place

_RECORDS_PER_TASK = 100_000


def read_topic(spark: SparkSession, at: Place, topic: str, partitions: int = 1) -> DataFrame:
    """The committed records of a topic up to its end as of this call, with the columns of Spark's Kafka source."""
    settings = KafkaSettings(at.server, dict(at.kafka))
    ranges = {number: committed_range(settings, topic, number) for number in range(partitions)}
    begin = {topic: {str(number): first for number, (first, _) in ranges.items()}}
    end = {topic: {str(number): last for number, (_, last) in ranges.items()}}
    return (
        spark.read.format("kafka")
        .options(**kafka_options(at.server, at.kafka))
        .option("assign", json.dumps({topic: list(ranges)}))
        .option("startingOffsets", json.dumps(begin))
        .option("endingOffsets", json.dumps(end))
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("failOnDataLoss", "false")
        .option("maxRecordsPerPartition", str(_RECORDS_PER_TASK))
        .option("groupIdPrefix", f"{at.prefix}-spark")
        .load()
    )


def partitions_of(at: Place, topic: str) -> int:
    """How many partitions a topic has; 0 if it does not exist."""
    from confluent_kafka.admin import AdminClient

    found = AdminClient(KafkaSettings(at.server, dict(at.kafka)).admin()).list_topics(
        topic, timeout=at.timeout
    )
    return len(found.topics[topic].partitions) if topic in found.topics else 0
