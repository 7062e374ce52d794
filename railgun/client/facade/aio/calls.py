"""The calls of a facade that are the same for threads and for tasks: streams, listening, requests."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar

from railgun.avro.events import Events
from railgun.client import steps
from railgun.client.buckets import layout, reads
from railgun.client.buckets.coding import GivenKeys, GivenValues, coding
from railgun.client.connection.connection import Connection
from railgun.client.consuming.listeners import listen
from railgun.client.consuming.push_buffer import PushBuffer
from railgun.client.facade.aio.batch import AsyncBatch
from railgun.client.facade.aio.buckets.bucket import AsyncBucket
from railgun.client.facade.aio.closing import AsyncCloses
from railgun.client.facade.aio.counter import AsyncCounter
from railgun.client.facade.aio.listener import AsyncListener
from railgun.client.facade.aio.message import AsyncMessage
from railgun.client.facade.aio.stream import AsyncStream
from railgun.client.operations import flows, streams
from railgun.client.operations.batch_messages import BatchMessages
from railgun.client.operations.call import Call
from railgun.client.publishing.packs import Lane, PublishFuture
from railgun.client.steps import Steps, waitable
from railgun.errors import BadBucket, BucketNotFound, StreamNameTaken
from railgun.model.bucket_config import BucketConfig, BucketStatus
from railgun.model.headers import HeaderInput, HeaderList
from railgun.model.messages import PubAck, Reply, StreamInfo
from railgun.model.stream_config import StreamConfig

T = TypeVar("T")


class AsyncCalls(AsyncCloses):
    """A connection and its calls, without those that publish or run handlers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def connection(self) -> Connection:
        """The core under this facade; for tools and tests."""
        return self._connection

    @property
    def events(self) -> Events:
        """Typed events of this connection: check models at the start (``events.use``), read payloads of any origin (``events.decode``)."""
        return self._connection.events

    def _hand_over(
        self,
        lane: Lane,
        subject: str,
        payload: bytes,
        msg_id: str,
        headers: HeaderList | None,
        timeout: float,
    ) -> PublishFuture:
        """Put one message into its lane, to be sent now."""
        raise NotImplementedError

    # -- streams

    async def create_stream(self, config: StreamConfig | str, /, **fields: Any) -> AsyncStream:
        """Create a stream; one that exists with the same configuration is left as it is. Raises ApiError."""
        chosen = streams.stream_config(config, fields)
        await self.call(streams.create_stream(chosen))
        return AsyncStream(self, chosen.name)

    async def update_stream(self, config: StreamConfig | str, /, **fields: Any) -> AsyncStream:
        """Change a stream: a StreamConfig replaces the whole configuration; with a name, only the given fields change."""
        if isinstance(config, StreamConfig):
            chosen = streams.stream_config(config, fields)
        else:
            chosen = streams.changed_config(await self.call(streams.stream_info(config)), fields)
        await self.call(streams.update_stream(chosen))
        return AsyncStream(self, chosen.name)

    async def delete_stream(self, name: str) -> None:
        """Remove a stream and all its messages. Raises StreamNotFound."""
        await self.call(streams.delete_stream(name))

    def stream(self, name: str) -> AsyncStream:
        """A handle; whether the stream exists shows at the first call."""
        return AsyncStream(self, name)

    async def streams(self, *, subject: str | None = None) -> list[StreamInfo]:
        """All streams, by name; ``subject``: only those that capture something that it matches."""
        return await self.call(streams.list_streams(subject))

    def counter(self, subject: str) -> AsyncCounter:
        """The counter on this subject, of a stream with ``allow_msg_counter``; whether it can count shows at the first call."""
        return AsyncCounter(self, subject)

    # -- buckets

    async def create_bucket(
        self,
        config: BucketConfig | str,
        /,
        *,
        or_update: bool = False,
        key_codec: GivenKeys = None,
        value_codec: GivenValues = None,
        model: Any = None,
        **fields: Any,
    ) -> AsyncBucket:
        """Create a key-value bucket; one that exists with the same settings is left as it is (KV-11).

        Raises StreamNameTaken if its settings are others, unless ``or_update``, which changes them. Raises InvalidBucketName,
        KeyHistoryTooLarge, ConfigError before anything is sent. Codecs and model are those of :meth:`bucket`.
        """
        chosen = layout.bucket_config(config, fields)
        coded = coding(chosen, key_codec, value_codec, model)
        try:
            await self.call(streams.create_stream(layout.stream_of(chosen)))
        except StreamNameTaken:
            if not or_update:
                raise
            await self.update_bucket(chosen)
        return AsyncBucket(self, coded)

    async def update_bucket(self, config: BucketConfig | str, /, **fields: Any) -> AsyncBucket:
        """Change a bucket: a BucketConfig replaces all settings; with a name, only the given fields change.

        Raises BucketNotFound, BadBucket, ConfigError for what cannot be changed.
        """
        name, stream = layout.name_and_stream(config, fields)
        info = await self.run_steps(reads.find(self._connection, name, stream))
        chosen = layout.changed_config(layout.bucket_of(info.config, name), config, fields)
        changed = streams.changed_config(info, layout.stream_fields(chosen))
        await self.call(streams.update_stream(changed))
        return AsyncBucket(self, coding(chosen))

    async def delete_bucket(self, name: str, *, stream_name: str | None = None) -> None:
        """Remove a bucket and all its values. Raises BucketNotFound, BadBucket."""
        bucket = await self.bucket(name, stream_name=stream_name)
        await bucket.destroy()

    async def bucket(
        self,
        name: str,
        *,
        stream_name: str | None = None,
        key_codec: GivenKeys = None,
        value_codec: GivenValues = None,
        model: Any = None,
    ) -> AsyncBucket:
        """The bucket of that name; ``stream_name`` where it was given one. Raises BucketNotFound, BadBucket (KV-12).

        ``model``: values are objects of this pydantic model, or other type, stored as JSON. ``key_codec`` and ``value_codec``, of
        :mod:`railgun.codecs` or your own, say how keys and values are stored; a list is a chain (KV-41, KV-43).
        """
        info = await self.run_steps(reads.find(self._connection, name, stream_name))
        return AsyncBucket(self, coding(layout.bucket_of(info.config, name), key_codec, value_codec, model))

    async def buckets(self) -> list[BucketStatus]:
        """All buckets, by the names of their streams."""
        found = [layout.bucket_among(info) for info in await self.streams()]
        handles = [AsyncBucket(self, coding(config)) for config in found if config is not None]
        statuses: list[BucketStatus] = []
        for handle in handles:
            with suppress(BucketNotFound, BadBucket):  # it was deleted meanwhile
                statuses.append(await handle.status())
        return statuses

    # -- listening

    async def listen(
        self, subject: str, group: str | None = None, *, statuses: bool = False
    ) -> AsyncListener:
        """Listen on a deliver subject, or where a stream re-emits what it stores; wildcards allowed.

        Every plain listener gets every message; of those of one ``group`` each message goes to one. ``statuses``: idle
        heartbeats and flow control requests come as messages too, and flow control is the caller's to answer.
        """
        buffer = PushBuffer(self._connection.consuming, AsyncMessage, subject, group or "", statuses=statuses)
        await steps.run_async(listen(self._connection.consuming, buffer))
        return AsyncListener(buffer)

    # -- batches

    def batch(self, *, timeout: float | None = None) -> AsyncBatch:
        """Messages that are stored together or not at all: ``async with rg.batch() as batch: batch.add("orders.new", b"…")``.

        The stream allows it with ``allow_atomic``.
        """
        limit = self._connection.timeout if timeout is None else waitable(timeout)
        return AsyncBatch(BatchMessages(self._connection, limit))

    # -- requests

    async def request(
        self,
        name: str,
        body: bytes | str = b"",
        headers: HeaderInput | None = None,
        timeout: float | None = None,
    ) -> list[Reply]:
        """A raw request: a call of the API by name (``STREAM.INFO.ORDERS``), or a publish that asks for its ack.

        Refusals are in the replies, not raised. A name that no service answers gives one reply with status 503. Raises RequestTimeout.
        """
        limit = self._connection.timeout if timeout is None else waitable(timeout)
        return await steps.run_async(
            flows.request(self._connection, self._hand_over, name, body, headers, limit)
        )

    async def publish_message(
        self, subject: str, payload: bytes, msg_id: str, headers: HeaderList, timeout: float | None
    ) -> PubAck:
        """Publish one message that is checked already; for handles."""
        limit = self._connection.timeout if timeout is None else waitable(timeout)
        return await steps.run_async(self.publish_steps(subject, payload, headers, msg_id, limit))

    def publish_steps(
        self,
        subject: str,
        payload: bytes,
        headers: HeaderList,
        msg_id: str = "",
        timeout: float | None = None,
    ) -> Steps[PubAck]:
        """The same as steps, to be part of an operation; for handles."""
        limit = self._connection.timeout if timeout is None else waitable(timeout)
        return flows.publish(self._connection, self._hand_over, subject, payload, msg_id, headers, limit)

    async def call(self, what: Call[T], timeout: float | None = None) -> T:
        """Run one typed operation of :mod:`railgun.client.operations`."""
        limit = self._connection.timeout if timeout is None else waitable(timeout)
        return await steps.run_async(flows.call(self._connection, what, limit))

    async def run_steps(self, what: Steps[T]) -> T:
        """Run an operation that is written as steps; for handles and tools."""
        return await steps.run_async(what)
