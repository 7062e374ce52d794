"""Streams in Spark: batches and streaming queries over the logs, and rows published back.

A helper over Spark's own Kafka source, with pinned jars and decoding in SQL alone: no Python runs for a message. It asks the
cluster what is live, and Kafka for the messages themselves. Importing it needs pyspark.
"""

from __future__ import annotations

from importlib.util import find_spec

from railgun.errors import ConfigError

if find_spec("pyspark") is None:
    raise ConfigError("railgun.spark needs pyspark: pip install 'railgun[spark]'")

from railgun.spark.avro import from_avro
from railgun.spark.publishing import Published, publish
from railgun.spark.reading import read, read_stream
from railgun.spark.session import session, submit_args
from railgun.spark.wildcards import subject_filter

__all__ = [
    "Published",
    "from_avro",
    "publish",
    "read",
    "read_stream",
    "session",
    "submit_args",
    "subject_filter",
]
