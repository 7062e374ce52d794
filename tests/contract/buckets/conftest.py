"""Buckets that no other test has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import railgun
from tests.support.buckets import MakeBucket
from tests.support.naming import unique


@pytest.fixture
def bucket(rg: railgun.Railgun) -> Iterator[MakeBucket]:
    """``bucket(history=3)`` is a new bucket; it is gone afterwards."""
    made: list[railgun.Bucket] = []

    def create(base: str = "BUCKET", **fields: Any) -> railgun.Bucket:
        made.append(rg.create_bucket(unique(base), **fields))
        return made[-1]

    yield create
    for one in made:
        if rg.connection.registry_view.stream(one.config.stream) is not None:
            rg.delete_stream(one.config.stream)
