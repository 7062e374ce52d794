"""The ordered consumer: every message of a stream once and in order, without acknowledgements (PSH-12)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from railgun.client import steps
from railgun.client.connection.connection import Connection
from railgun.client.facade.aio.closing import AsyncCloses
from railgun.client.facade.aio.message import AsyncMessage
from railgun.client.operations.ordered_delivery import OrderedDelivery


class AsyncOrderedConsumer(AsyncCloses):
    """An endless iteration over a stream, in order; a context manager. Made by ``Stream.ordered_consumer``."""

    def __init__(self, connection: Connection, stream: str, fields: dict[str, Any]) -> None:
        self._ordered = OrderedDelivery(connection, stream, AsyncMessage, fields)

    async def __aiter__(self) -> AsyncIterator[AsyncMessage]:
        try:
            while found := await steps.run_async(self._ordered.batch()):
                for message in found:
                    yield message
        finally:
            await self.close()

    async def close(self) -> None:
        """End the iteration, from whichever thread."""
        await steps.run_async(self._ordered.close())
