"""One worker for all tests of streams in Spark; every test has streams of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import railgun
from tests.support.cell import Cell
from tests.support.spark import At


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
