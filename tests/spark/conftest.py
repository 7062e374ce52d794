"""One Spark session and one cell for all tests of this folder: a JVM takes longer to start than most tests to run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import railgun
from railgun.spark import session
from tests.support.cell import Cell
from tests.support.spark import At


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    made = session(
        "tests",
        master="local[2]",
        config={
            "spark.sql.shuffle.partitions": "1",
            # Queries of tests are short: they are over before a better compiler would pay.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def cell(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    with Cell(kafka_bootstrap, tmp_path_factory.mktemp("spark")) as made:
        made.ready_worker()
        yield made


@pytest.fixture(scope="session")
def rg(cell: Cell) -> Iterator[railgun.Railgun]:
    with cell.connect(timeout=60.0) as made:
        yield made


@pytest.fixture
def at(cell: Cell) -> At:
    return {"server": cell.bootstrap, "prefix": cell.prefix}
