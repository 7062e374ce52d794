# Generated from ../aio/stream_read.py by `python -m tests.twins`. Change that file, then run `make twins`.
"""A finite read of a stream: ``for message in orders.read("orders.42.>")``.

Nothing is asked for before the iteration begins; each iteration reads anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from railgun.client.operations.reading import PagedRead
from railgun.model.messages import StoredMessage
from railgun.protocol.columnar.read_records import ReadRequest

if TYPE_CHECKING:
    from railgun.client.facade.sync.calls import Calls


class StreamRead:
    """The messages that a stream holds when the iteration begins, in order, made by ``Stream.read``."""

    def __init__(self, railgun: Calls, asked: ReadRequest, limit: int | None) -> None:
        self._railgun = railgun
        self._asked = asked
        self._limit = limit

    def __iter__(self) -> Iterator[StoredMessage]:
        pages = PagedRead(self._railgun.connection, self._asked, self._limit)
        while (page := self._railgun.run_steps(pages.messages())) is not None:
            yield from page
