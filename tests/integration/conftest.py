"""Cells on the shared broker: workers as processes, and a prefix of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cell import Cell


@pytest.fixture
def cell(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Cell]:
    with Cell(kafka_bootstrap, tmp_path) as made:
        yield made
