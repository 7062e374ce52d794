"""One worker for all examples that run on Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cell import Cell
from tests.support.sink_side import SinkSide, running_sink_side


@pytest.fixture(scope="module")
def cell(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    with Cell(kafka_bootstrap, tmp_path_factory.mktemp("docs")) as made:
        made.ready_worker()
        yield made


@pytest.fixture(scope="module")
def sink_side(cell: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SinkSide]:
    with running_sink_side(cell, tmp_path_factory.mktemp("connect")) as made:
        yield made
