"""One Spark session for all tests of a process: its start takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import railgun.spark


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark in this process. It ends with the tests, and with this process at the latest."""
    made = railgun.spark.session(
        "tests",
        master="local[2]",
        config={"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"},
    )
    yield made
    made.stop()
