# Generated from ../aio/ordered.py by `python -m tests.twins`. Change that file, then run `make twins`.
"""The ordered consumer: every message of a stream once and in order, without acknowledgements (PSH-12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from railgun.client import steps
from railgun.client.connection.connection import Connection
from railgun.client.facade.sync.closing import Closes
from railgun.client.facade.sync.message import Message
from railgun.client.operations.ordered_delivery import OrderedDelivery


class OrderedConsumer(Closes):
    """An endless iteration over a stream, in order; a context manager. Made by ``Stream.ordered_consumer``."""

    def __init__(self, connection: Connection, stream: str, fields: dict[str, Any]) -> None:
        self._ordered = OrderedDelivery(connection, stream, Message, fields)

    def __iter__(self) -> Iterator[Message]:
        try:
            while found := steps.run(self._ordered.batch()):
                yield from found
        finally:
            self.close()

    def close(self) -> None:
        """End the iteration, from whichever thread."""
        steps.run(self._ordered.close())
