"""Cells on the shared broker: workers as processes, and a prefix of its own for every test or every file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cell import Cell


@pytest.fixture(scope="module")
def shared_cell(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    """One cell with one worker for all tests of a file that leave it as they found it."""
    with Cell(kafka_bootstrap, tmp_path_factory.mktemp("shared")) as made:
        made.ready_worker()
        yield made


@pytest.fixture
def cell(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Cell]:
    with Cell(kafka_bootstrap, tmp_path) as made:
        yield made
