# Generated from ../aio/advisories.py by `python -m tests.twins`. Change that file, then run `make twins`.
"""Advisories and ack samples as they happen: ``for advisory in rg.advisories()`` (docs/rules, ADV).

They are sent after what they tell of and never hold it up, so they may come late, and are not kept for later listeners.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from railgun.client import steps
from railgun.client.facade.sync.closing import Closes
from railgun.client.operations.advisory_queue import Advisory, AdvisoryQueue


class Advisories(Closes):
    """An endless iteration over advisories; a context manager. Made by ``rg.advisories``."""

    def __init__(self, queue: AdvisoryQueue) -> None:
        self._queue = queue

    def __enter__(self) -> Self:
        steps.run(self._queue.opened())
        return self

    def __iter__(self) -> Iterator[Advisory]:
        return self

    def __next__(self) -> Advisory:
        found = steps.run(self._queue.next())
        if found is None:
            raise StopIteration
        return found

    def close(self) -> None:
        """End the iteration, from whichever thread."""
        steps.run(self._queue.closed())
