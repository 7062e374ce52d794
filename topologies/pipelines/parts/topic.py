"""A topic of the cluster as Spark reads it, undecoded: for what is not a message of a stream, and for audits of logs."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from railgun.spark.places import committed_range

from .place import Place


def read_topic(spark: SparkSession, at: Place, topic: str, partitions: int = 1) -> DataFrame:
    """The committed records of all partitions, up to their ends as of this call, with the columns of Spark's Kafka source."""
    return reduce(DataFrame.union, [read_partition(spark, at, topic, one) for one in range(partitions)])


def read_partition(spark: SparkSession, at: Place, topic: str, partition: int) -> DataFrame:
    """The committed records of one partition, up to its end as of this call."""
    cluster = at.cluster
    begin, end = committed_range(cluster.settings, topic, partition)
    return cluster.batch(spark, topic, partition, begin, end)
