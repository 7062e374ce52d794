"""One Connect, one PostgreSQL and one worker for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.sink_parts import SinkParts


@pytest.fixture(scope="session")
def parts(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SinkParts]:
    with SinkParts(kafka_bootstrap, tmp_path_factory.mktemp("sinks")) as made:
        yield made


@pytest.fixture(autouse=True)
def no_sink_is_left(parts: SinkParts) -> Iterator[None]:
    """Each test has Connect for itself: what is left would be started again with it."""
    yield
    for one in parts.connect.list():
        parts.connect.delete(one.name)
