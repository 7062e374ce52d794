"""One Spark session for all tests of a process: its start takes longer than most of them. A plugin of pytest."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark in this process. It ends with the tests, and with this process at the latest."""
    import railgun.spark  # here: most test processes need no Spark

    made = railgun.spark.session(
        "tests",
        master="local[2]",
        config={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.adaptive.enabled": "false",
            # Queries of tests are short: they are over before a better compiler would pay.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    yield made
    made.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's client leaves its sockets to the collector, at any moment of a test."""
    for item in items:
        if _in_spark(item):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """And never to a later test, which would fail for it."""
    if _in_spark(item):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def _in_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())
