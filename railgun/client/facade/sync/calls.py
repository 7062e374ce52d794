# Generated from ../aio/calls.py by `python -m tests.twins`. Change that file, then run `make twins`.
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
from railgun.client.facade.sync.batch import Batch
from railgun.client.facade.sync.buckets.bucket import Bucket
from railgun.client.facade.sync.closing import Closes
from railgun.client.facade.sync.counter import Counter
from railgun.client.facade.sync.listener import Listener
from railgun.client.facade.sync.message import Message
from railgun.client.facade.sync.stream import Stream
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


class Calls(Closes):
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

    def create_stream(self, config: StreamConfig | str, /, **fields: Any) -> Stream:
        """Create a stream; one that exists with the same configuration is left as it is. Raises ApiError."""
        chosen = streams.stream_config(config, fields)
        self.call(streams.create_stream(chosen))
        return Stream(self, chosen.name)

    def update_stream(self, config: StreamConfig | str, /, **fields: Any) -> Stream:
        """Change a stream: a StreamConfig replaces the whole configuration; with a name, only the given fields change."""
        if isinstance(config, StreamConfig):
            chosen = streams.stream_config(config, fields)
        else:
            chosen = streams.changed_config(self.call(streams.stream_info(config)), fields)
        self.call(streams.update_stream(chosen))
        return Stream(self, chosen.name)

    def delete_stream(self, name: str) -> None:
        """Remove a stream and all its messages. Raises StreamNotFound."""
        self.call(streams.delete_stream(name))

    def stream(self, name: str) -> Stream:
        """A handle; whether the stream exists shows at the first call."""
        return Stream(self, name)

    def streams(self, *, subject: str | None = None) -> list[StreamInfo]:
        """All streams, by name; ``subject``: only those that capture something that it matches."""
        return self.call(streams.list_streams(subject))

    def counter(self, subject: str) -> Counter:
        """The counter on this subject, of a stream with ``allow_msg_counter``; whether it can count shows at the first call."""
        return Counter(self, subject)

    # -- buckets

    def create_bucket(
        self,
        config: BucketConfig | str,
        /,
        *,
        or_update: bool = False,
        key_codec: GivenKeys = None,
        value_codec: GivenValues = None,
        model: Any = None,
        **fields: Any,
    ) -> Bucket:
        """Create a key-value bucket; one that exists with the same settings is left as it is (KV-11).

        Raises StreamNameTaken if its settings are others, unless ``or_update``, which changes them. Raises InvalidBucketName,
        KeyHistoryTooLarge, ConfigError before anything is sent. Codecs and model are those of :meth:`bucket`.
        """
        chosen = layout.bucket_config(config, fields)
        coded = coding(chosen, key_codec, value_codec, model)
        try:
            self.call(streams.create_stream(layout.stream_of(chosen)))
        except StreamNameTaken:
            if not or_update:
                raise
            self.update_bucket(chosen)
        return Bucket(self, coded)

    def update_bucket(self, config: BucketConfig | str, /, **fields: Any) -> Bucket:
        """Change a bucket: a BucketConfig replaces all settings; with a name, only the given fields change.

        Raises BucketNotFound, BadBucket, ConfigError for what cannot be changed.
        """
        name, stream = layout.name_and_stream(config, fields)
        info = self.run_steps(reads.find(self._connection, name, stream))
        chosen = layout.changed_config(layout.bucket_of(info.config, name), config, fields)
        changed = streams.changed_config(info, layout.stream_fields(chosen))
        self.call(streams.update_stream(changed))
        return Bucket(self, coding(chosen))

    def delete_bucket(self, name: str, *, stream_name: str | None = None) -> None:
        """Remove a bucket and all its values. Raises BucketNotFound, BadBucket."""
        bucket = self.bucket(name, stream_name=stream_name)
        bucket.destroy()

    def bucket(
        self,
        name: str,
        *,
        stream_name: str | None = None,
        key_codec: GivenKeys = None,
        value_codec: GivenValues = None,
        model: Any = None,
    ) -> Bucket:
        """The bucket of that name; ``stream_name`` where it was given one. Raises BucketNotFound, BadBucket (KV-12).

        ``model``: values are objects of this pydantic model, or other type, stored as JSON. ``key_codec`` and ``value_codec``, of
        :mod:`railgun.codecs` or your own, say how keys and values are stored; a list is a chain (KV-41, KV-43).
        """
        info = self.run_steps(reads.find(self._connection, name, stream_name))
        return Bucket(self, coding(layout.bucket_of(info.config, name), key_codec, value_codec, model))

    def buckets(self) -> list[BucketStatus]:
        """All buckets, by the names of their streams."""
        found = [layout.bucket_among(info) for info in self.streams()]
        handles = [Bucket(self, coding(config)) for config in found if config is not None]
        statuses: list[BucketStatus] = []
        for handle in handles:
            with suppress(BucketNotFound, BadBucket):  # it was deleted meanwhile
                statuses.append(handle.status())
        return statuses

    # -- listening

    def listen(self, subject: str, group: str | None = None, *, statuses: bool = False) -> Listener:
        """Listen on a deliver subject, or where a stream re-emits what it stores; wildcards allowed.

        Every plain listener gets every message; of those of one ``group`` each message goes to one. ``statuses``: idle
        heartbeats and flow control requests come as messages too, and flow control is the caller's to answer.
        """
        buffer = PushBuffer(self._connection.consuming, Message, subject, group or "", statuses=statuses)
        steps.run(listen(self._connection.consuming, buffer))
        return Listener(buffer)

    # -- batches

    def batch(self, *, timeout: float | None = None) -> Batch:
        """Messages that are stored together or not at all: ``with rg.batch() as batch: batch.add("orders.new", b"…")``.

        The stream allows it with ``allow_atomic``.
        """
        limit = self._connection.timeout if timeout is None else waitable(timeout)
        return Batch(BatchMessages(self._connection, limit))

    # -- requests

    def request(
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
        return steps.run(flows.request(self._connection, self._hand_over, name, body, headers, limit))

    def publish_message(
        self, subject: str, payload: bytes, msg_id: str, headers: HeaderList, timeout: float | None
    ) -> PubAck:
        """Publish one message that is checked already; for handles."""
        limit = self._connection.timeout if timeout is None else waitable(timeout)
        return steps.run(self.publish_steps(subject, payload, headers, msg_id, limit))

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

    def call(self, what: Call[T], timeout: float | None = None) -> T:
        """Run one typed operation of :mod:`railgun.client.operations`."""
        limit = self._connection.timeout if timeout is None else waitable(timeout)
        return steps.run(flows.call(self._connection, what, limit))

    def run_steps(self, what: Steps[T]) -> T:
        """Run an operation that is written as steps; for handles and tools."""
        return steps.run(what)
