"""The jars of Spark's Kafka source and its Avro functions, each with its SHA-256.

Exactly these five: what they depend on besides is older than what pyspark brings along. They are of one version with pyspark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from railgun.kafka.embedded.jars import JarSet, fetched_jars

SPARK_VERSION: Final = "4.0.0"

#: Maven coordinate ``group:artifact:version`` -> SHA-256 of the jar.
SPARK_JARS: Final[dict[str, str]] = {
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0": "33a3b8b04df4a2e43c9d5bf8ca5972936a1ac662f2714e014d00ef6f27468bf3",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0": "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    "org.apache.spark:spark-avro_2.13:4.0.0": "083fb13d7a1091025b135eff216e2009b42c9724bb8bc597d2f28b1207ef4709",
    "org.apache.kafka:kafka-clients:3.9.0": "15c1e137f2c2c94398e27abc4060a03b6bde10bf9fac15e8f70c02320b202f18",
    "org.apache.commons:commons-pool2:2.12.0": "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
}
SOURCE: Final = JarSet(
    f"spark-{SPARK_VERSION}", SPARK_JARS, f"the Kafka source of Spark {SPARK_VERSION}", "Spark"
)


def spark_jars(cache: Path | None = None) -> list[Path]:
    """The jars for ``spark.jars``, fetched first when the cache does not hold them (10 MB, once per user).

    Raises :class:`~railgun.kafka.embedded.errors.JarsUnavailable`, in one sentence.
    """
    return fetched_jars(SOURCE, cache)
