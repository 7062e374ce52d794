"""One worker for all examples that run on Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cell import Cell
from tests.support.spark_session import spark as spark  # a fixture


@pytest.fixture(scope="module")
def cell(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    with Cell(kafka_bootstrap, tmp_path_factory.mktemp("docs")) as made:
        made.ready_worker()
        yield made
