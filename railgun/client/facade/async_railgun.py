"""The async facade: :func:`connect_async` and :class:`AsyncRailgun`, with the names of the sync one.

What touches the cluster is awaited; handles and ``publish_soon`` are not. One facade may be used from several event loops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from railgun.client import steps
from railgun.client.connection.connection import Connection
from railgun.client.connection.unrouted import Unrouted
from railgun.client.consuming.listeners import listen
from railgun.client.consuming.push_buffer import PushBuffer
from railgun.client.facade.advisories import AsyncAdvisories
from railgun.client.facade.connect import (
    DEFAULT_ADDRESS,
    DEFAULT_MAX_IN_FLIGHT,
    DEFAULT_PREFIX,
    DEFAULT_TIMEOUT,
    open_connection,
)
from railgun.client.facade.handlers import Handlers
from railgun.client.facade.listener import AsyncListener
from railgun.client.facade.message import AsyncMessage
from railgun.client.facade.stream import AsyncStream
from railgun.client.operations import flows, streams
from railgun.client.operations.call import Call
from railgun.client.publishing.arguments import Payload, PublishOptions, message_headers, payload_bytes
from railgun.client.publishing.packs import Lane, PublishFuture
from railgun.client.steps import Steps
from railgun.errors import RequestTimeout
from railgun.model.headers import HeaderInput, HeaderList
from railgun.model.messages import PubAck, Reply, StreamInfo
from railgun.model.stream_config import StreamConfig

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def connect_async(
    address: str = DEFAULT_ADDRESS,
    *,
    prefix: str = DEFAULT_PREFIX,
    timeout: float = DEFAULT_TIMEOUT,
    kafka: Mapping[str, Any] | None = None,
    max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
) -> Connecting:
    """As :func:`railgun.connect`: ``rg = await connect_async(…)``, or ``async with connect_async(…) as rg``."""
    return Connecting(
        address, {"prefix": prefix, "timeout": timeout, "kafka": kafka, "max_in_flight": max_in_flight}
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


class AsyncRailgun:
    """A connection to a cluster; an async context manager. Made by :func:`connect_async`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._routing = connection.routing
        self._handlers = Handlers(connection)
        self._unrouted = Unrouted(connection)
        self._scheduled: set[tuple[int, Lane]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for what was published, then end. Nothing that was sent is lost; the second call does nothing."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._unrouted.wait_empty(self._connection.timeout)
        self._connection.close()

    @property
    def connection(self) -> Connection:
        """The core under this facade; for tools and tests."""
        return self._connection

    # -- streams

    async def create_stream(self, config: StreamConfig | str, /, **fields: Any) -> AsyncStream:
        """See :meth:`railgun.Railgun.create_stream`."""
        chosen = streams.stream_config(config, fields)
        await self.call(streams.create_stream(chosen))
        return AsyncStream(self, chosen.name)

    async def update_stream(self, config: StreamConfig | str, /, **fields: Any) -> AsyncStream:
        """See :meth:`railgun.Railgun.update_stream`."""
        if isinstance(config, StreamConfig):
            chosen = streams.stream_config(config, fields)
        else:
            chosen = streams.changed_config(await self.call(streams.stream_info(config)), fields)
        await self.call(streams.update_stream(chosen))
        return AsyncStream(self, chosen.name)

    async def delete_stream(self, name: str) -> None:
        """See :meth:`railgun.Railgun.delete_stream`."""
        await self.call(streams.delete_stream(name))

    def stream(self, name: str) -> AsyncStream:
        """A handle; whether the stream exists shows at the first call."""
        return AsyncStream(self, name)

    async def streams(self, *, subject: str | None = None) -> list[StreamInfo]:
        """See :meth:`railgun.Railgun.streams`."""
        return await self.call(streams.list_streams(subject))

    # -- publishing

    @overload
    async def publish(
        self,
        subject: str,
        payload: Payload = ...,
        *,
        ack: Literal[True] = ...,
        **options: Unpack[PublishOptions],
    ) -> PubAck: ...
    @overload
    async def publish(
        self, subject: str, payload: Payload = ..., *, ack: bool, **options: Unpack[PublishOptions]
    ) -> PubAck | None: ...
    async def publish(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        headers: HeaderInput | None = None,
        msg_id: str | None = None,
        expected_stream: str | None = None,
        expected_last_sequence: int | None = None,
        expected_last_subject_sequence: int | None = None,
        expected_last_subject_sequence_subject: str | None = None,
        expected_last_msg_id: str | None = None,
        ttl: timedelta | float | str | None = None,
        timeout: float | None = None,
        ack: bool = True,
    ) -> PubAck | None:
        """See :meth:`railgun.Railgun.publish`. Publishes that tasks of one loop begin together travel together."""
        given = message_headers(
            headers,
            expected_stream,
            expected_last_sequence,
            expected_last_subject_sequence,
            expected_last_subject_sequence_subject,
            expected_last_msg_id,
            ttl,
        )
        data = payload_bytes(payload)
        limit = self._connection.timeout if timeout is None else timeout
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
        key = (id(loop), lane)
        if key not in self._scheduled:  # once for all tasks that publish before the loop turns
            self._scheduled.add(key)
            loop.call_soon(self._pump, key)
        return future

    def _pump(self, key: tuple[int, Lane]) -> None:
        self._scheduled.discard(key)
        self._connection.packer.pump(key[1])

    def publish_soon(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        headers: HeaderInput | None = None,
        msg_id: str | None = None,
        expected_stream: str | None = None,
        expected_last_sequence: int | None = None,
        expected_last_subject_sequence: int | None = None,
        expected_last_subject_sequence_subject: str | None = None,
        expected_last_msg_id: str | None = None,
        ttl: timedelta | float | str | None = None,
    ) -> PublishFuture:
        """Publish without waiting; await the future for the ack. Never holds the loop up.

        At most ``max_in_flight`` messages are on their way, the others wait in memory: await a future, or ``flush``,
        now and then. Raises TooManyWaiting when 16 times ``max_in_flight`` messages, or 256 MiB, have no answer.
        The future also carries NoStreamResponse and what else shows only when the stream is looked up.
        """
        given = message_headers(
            headers,
            expected_stream,
            expected_last_sequence,
            expected_last_subject_sequence,
            expected_last_subject_sequence_subject,
            expected_last_msg_id,
            ttl,
        )
        data = payload_bytes(payload)
        lane = self._routing.routes.get(subject)
        if lane is None or self._unrouted:
            return self._unrouted.add(subject, data, msg_id or "", given)
        self._connection.packer.check_ahead()
        return self._connection.packer.add(lane, subject, data, msg_id or "", given, block=False)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was published has its outcome. Raises RequestTimeout."""
        limit = self._connection.timeout if timeout is None else timeout
        await asyncio.to_thread(self._unrouted.wait_empty, limit)
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

    # -- listening

    async def listen(
        self, subject: str, group: str | None = None, *, statuses: bool = False
    ) -> AsyncListener:
        """See :meth:`railgun.Railgun.listen`."""
        buffer = PushBuffer(self._connection.consuming, AsyncMessage, subject, group or "", statuses=statuses)
        await steps.run_async(listen(self._connection.consuming, buffer))
        return AsyncListener(buffer)

    def advisories(self) -> AsyncAdvisories:
        """See :meth:`railgun.Railgun.advisories`: ``async with rg.advisories() as told: async for advisory in told: …``."""
        return AsyncAdvisories(self._connection)

    # -- requests

    async def request(
        self,
        name: str,
        body: bytes | str = b"",
        headers: HeaderInput | None = None,
        timeout: float | None = None,
    ) -> list[Reply]:
        """See :meth:`railgun.Railgun.request`."""
        limit = self._connection.timeout if timeout is None else timeout
        return await steps.run_async(
            flows.request(self._connection, self._hand_over, name, body, headers, limit)
        )

    async def call(self, what: Call[T], timeout: float | None = None) -> T:
        """Run one typed operation of :mod:`railgun.client.operations`."""
        limit = self._connection.timeout if timeout is None else timeout
        return await steps.run_async(flows.call(self._connection, what, limit))

    async def run_steps(self, what: Steps[T]) -> T:
        """See :meth:`railgun.Railgun.run_steps`."""
        return await steps.run_async(what)
