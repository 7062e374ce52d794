"""The pytest plugin: ``rg`` is a facade of a fresh cluster in memory, ``clock`` moves its time.

Nothing is imported before a test asks for one of them, so the plugin costs other test suites nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from railgun.client.facade.railgun import Railgun
    from railgun.testing.clock import Clock


@pytest.fixture
def rg() -> Iterator[Railgun]:
    """A facade of a cluster in memory that only this test knows."""
    from railgun.client.facade.railgun import connect

    with connect("memory://") as facade:
        yield facade


@pytest.fixture
def clock(rg: Railgun) -> Clock:
    """The clock of that cluster: ``clock.advance(seconds)``, ``clock.now()``."""
    from railgun.testing.clock import Clock

    return Clock(rg)
