"""The async facade: :func:`connect_async` and :class:`AsyncRailgun`, with the names of the sync one.

What touches the cluster is awaited; handles and ``publish_soon`` are not. One facade may be used from several event loops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, Unpack, overload

from railgun.avro.events import Unframed
from railgun.avro.registry import Registry
from railgun.client import steps
from railgun.client.connection.connection import Connection
from railgun.client.connection.unrouted import Unrouted
from railgun.client.facade.aio.advisories import AsyncAdvisories
from railgun.client.facade.aio.calls import AsyncCalls
from railgun.client.facade.connect import (
    DEFAULT_ADDRESS,
    DEFAULT_MAX_IN_FLIGHT,
    DEFAULT_PREFIX,
    DEFAULT_TIMEOUT,
    open_connection,
)
from railgun.client.facade.handlers import Handlers
from railgun.client.operations import flows
from railgun.client.operations.advisory_queue import AdvisoryQueue
from railgun.client.publishing.arguments import (
    Event,
    MessageOptions,
    PublishOptions,
    message_headers,
    outgoing,
)
from railgun.client.publishing.packs import Lane, PublishFuture
from railgun.client.steps import waitable
from railgun.errors import RequestTimeout
from railgun.model.headers import HeaderList
from railgun.model.messages import PubAck

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def connect_async(
    address: str = DEFAULT_ADDRESS,
    *,
    prefix: str = DEFAULT_PREFIX,
    timeout: float = DEFAULT_TIMEOUT,
    kafka: Mapping[str, Any] | None = None,
    max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
    registry: Registry | None = None,
) -> Connecting:
    """As :func:`railgun.connect`: ``rg = await connect_async(…)``, or ``async with connect_async(…) as rg``."""
    return Connecting(
        address,
        {
            "prefix": prefix,
            "timeout": timeout,
            "kafka": kafka,
            "max_in_flight": max_in_flight,
            "registry": registry,
        },
    )


class Connecting:
    """A connection that is made when it is awaited or entered."""

    def __init__(self, address: str, settings: dict[str, Any]) -> None:
        self._address = address
        self._settings = settings
        self._made: AsyncRailgun | None = None

    async def _connect(self) -> AsyncRailgun:
        return AsyncRailgun(await asyncio.to_thread(open_connection, self._address, **self._settings))

    def __await__(self) -> Generator[Any, None, AsyncRailgun]:
        return self._connect().__await__()

    async def __aenter__(self) -> AsyncRailgun:
        self._made = await self._connect()
        return self._made

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is not None:
            await self._made.close()


class AsyncRailgun(AsyncCalls):
    """A connection to a cluster; an async context manager. Made by :func:`connect_async`."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._routing = connection.routing
        self._events = connection.events
        self._handlers = Handlers(connection)
        self._unrouted = Unrouted(connection)
        self._scheduled: set[tuple[asyncio.AbstractEventLoop, Lane]] = set()

    async def close(self) -> None:
        """Wait for what was published, then end. Nothing that was sent is lost; the second call does nothing."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._unrouted.wait_empty(self._connection.timeout)
        self._pump_all()
        self._connection.close()

    # -- publishing

    @overload
    async def publish(
        self,
        subject: str,
        payload: Event = ...,
        *,
        ack: Literal[True] = ...,
        **options: Unpack[PublishOptions],
    ) -> PubAck: ...
    @overload
    async def publish(
        self, subject: str, payload: Event = ..., *, ack: bool, **options: Unpack[PublishOptions]
    ) -> PubAck | None: ...
    async def publish(
        self,
        subject: str,
        payload: Event = b"",
        *,
        msg_id: str | None = None,
        timeout: float | None = None,
        ack: bool = True,
        **options: Unpack[MessageOptions],
    ) -> PubAck | None:
        """See :meth:`railgun.Railgun.publish`. Publishes that tasks of one loop begin together travel together."""
        given = message_headers(options) if options else None
        data, given = outgoing(self._events, payload, given)
        if type(data) is Unframed:
            data = await asyncio.to_thread(self._events.finish, data)
        limit = self._connection.timeout if timeout is None else waitable(timeout)
        if not ack:
            lane = self._routing.routes.get(subject)
            if lane is None:
                lane = await asyncio.to_thread(self._routing.route, subject, limit)
            if not self._connection.packer.has_room:
                await asyncio.to_thread(self._connection.packer.wait_for_room)
            self._connection.packer.add(lane, subject, data, msg_id or "", given, block=False, silent=True)
            return None
        return await steps.run_async(
            flows.publish(self._connection, self._hand_over, subject, data, msg_id or "", given, limit)
        )

    def _hand_over(
        self,
        lane: Lane,
        subject: str,
        payload: bytes,
        msg_id: str,
        headers: HeaderList | None,
        timeout: float,
    ) -> PublishFuture:
        future = self._connection.packer.add(
            lane, subject, payload, msg_id, headers, block=False, queue=False, patience=timeout
        )
        loop = asyncio.get_running_loop()
        key = (loop, lane)
        if key not in self._scheduled:  # once for all tasks that publish before the loop turns
            for other in [one for one in tuple(self._scheduled) if one[0].is_closed()]:
                self._pump(other)  # a loop that was closed never has its turn
            self._scheduled.add(key)
            loop.call_soon(self._pump, key)
        return future

    def _pump(self, key: tuple[asyncio.AbstractEventLoop, Lane]) -> None:
        self._scheduled.discard(key)
        self._connection.packer.pump(key[1])

    def _pump_all(self) -> None:
        """Send what waits for the turn of a loop: it may have been closed before."""
        for key in tuple(self._scheduled):
            self._pump(key)

    def publish_soon(
        self,
        subject: str,
        payload: Event = b"",
        *,
        msg_id: str | None = None,
        **options: Unpack[MessageOptions],
    ) -> PublishFuture:
        """Publish without waiting; await the future for the ack. Never holds the loop up.

        At most ``max_in_flight`` messages are on their way, the others wait in memory: await a future, or ``flush``,
        now and then. Raises TooManyWaiting when 16 times ``max_in_flight`` messages, or 256 MiB, have no answer.
        The future also carries NoStreamResponse and what else shows only when the stream, or the schema of a model, is looked up.
        """
        given = message_headers(options) if options else None
        data, given = outgoing(self._events, payload, given)
        lane = self._routing.routes.get(subject)
        if lane is None or self._unrouted or type(data) is Unframed:
            return self._unrouted.add(subject, data, msg_id or "", given)
        self._connection.packer.check_ahead()
        return self._connection.packer.add(lane, subject, data, msg_id or "", given, block=False)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was published has its outcome. Raises RequestTimeout."""
        limit = self._connection.timeout if timeout is None else waitable(timeout)
        await asyncio.to_thread(self._unrouted.wait_empty, limit)
        await asyncio.to_thread(self._pump_all)
        if not await asyncio.to_thread(self._connection.flush, limit):
            raise RequestTimeout(
                f"{self._connection.packer.unanswered} publishes have no answer after {limit:g} s"
            )

    # -- handlers

    def handler(
        self,
        stream: str,
        consumer: str,
        *,
        filter: str | Sequence[str] | None = None,
        concurrency: int = 1,
        retry: Sequence[float] | None = None,
        dead_letter: str | None = None,
        **fields: Any,
    ) -> Callable[[F], F]:
        """See :meth:`railgun.Railgun.handler`; coroutine functions run in tasks, others in threads."""
        given = {**fields, "dead_letter": dead_letter}
        return self._handlers.add(stream, consumer, filter, concurrency, retry, given, coroutines=True)

    async def run(self) -> None:
        """See :meth:`railgun.Railgun.run`."""
        await self._handlers.run_async()

    def stop(self) -> None:
        """Let :meth:`run` drain and return; from whichever thread, or from a handler."""
        self._handlers.stop()

    # -- advisories

    def advisories(self) -> AsyncAdvisories:
        """See :meth:`railgun.Railgun.advisories`: ``async with rg.advisories() as events: async for event in events: …``."""
        return AsyncAdvisories(AdvisoryQueue(self._connection))
