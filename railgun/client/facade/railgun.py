"""The sync facade: :func:`connect` and :class:`Railgun`. Safe to use from several threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from railgun.client import steps
from railgun.client.connection.connection import Connection
from railgun.client.consuming.listeners import listen
from railgun.client.consuming.push_buffer import PushBuffer
from railgun.client.facade.advisories import Advisories
from railgun.client.facade.connect import (
    DEFAULT_ADDRESS,
    DEFAULT_MAX_IN_FLIGHT,
    DEFAULT_PREFIX,
    DEFAULT_TIMEOUT,
    open_connection,
)
from railgun.client.facade.handlers import Handlers
from railgun.client.facade.listener import Listener
from railgun.client.facade.message import Message
from railgun.client.facade.stream import Stream
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


def connect(
    address: str = DEFAULT_ADDRESS,
    *,
    prefix: str = DEFAULT_PREFIX,
    timeout: float = DEFAULT_TIMEOUT,
    kafka: Mapping[str, Any] | None = None,
    max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
) -> Railgun:
    """Connect to a cluster: ``host:port`` of a Kafka broker, ``memory://`` (fresh, private) or ``memory://name``.

    ``timeout`` is how long a call waits for its answer, ``kafka`` are librdkafka settings (SASL, TLS, …), ``max_in_flight``
    how many publishes may be unanswered. Raises ConnectionLost, NotAuthorized, NoWorker, ConfigError.
    """
    return Railgun(
        open_connection(address, prefix=prefix, timeout=timeout, kafka=kafka, max_in_flight=max_in_flight)
    )


class Railgun:
    """A connection to a cluster; a context manager. Made by :func:`connect`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._routing = connection.routing
        self._handlers = Handlers(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Wait for what was published, then end. Nothing that was sent is lost; the second call does nothing."""
        self._connection.close()

    @property
    def connection(self) -> Connection:
        """The core under this facade; for tools and tests."""
        return self._connection

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

    # -- publishing

    @overload
    def publish(
        self,
        subject: str,
        payload: Payload = ...,
        *,
        ack: Literal[True] = ...,
        **options: Unpack[PublishOptions],
    ) -> PubAck: ...
    @overload
    def publish(
        self, subject: str, payload: Payload = ..., *, ack: bool, **options: Unpack[PublishOptions]
    ) -> PubAck | None: ...
    def publish(
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
        """Publish one message and wait for its ack: decided and durable.

        ``ack=False`` returns once it is handed over, and nobody is told what became of it. Raises the refusal,
        NoStreamResponse, NoWorker, RequestTimeout, MessageTooLarge, ConfigError for a subject that is none.
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
        limit = self._connection.timeout if timeout is None else timeout
        if not ack:
            lane = self._routing.routes.get(subject) or self._routing.route(subject, limit)
            self._connection.packer.add_now(lane, subject, data, msg_id or "", given, silent=True)
            return None
        return steps.run(
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
        return self._connection.packer.add_now(lane, subject, payload, msg_id, headers, patience=timeout)

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
        """Publish without waiting; the future has the ack. Waits only while ``max_in_flight`` are unanswered."""
        lane = self._routing.routes.get(subject) or self._routing.route(subject, self._connection.timeout)
        given = None
        if (
            headers is not None
            or expected_last_subject_sequence is not None
            or expected_last_sequence is not None
            or expected_stream is not None
            or expected_last_subject_sequence_subject is not None
            or expected_last_msg_id is not None
            or ttl is not None
        ):
            given = message_headers(
                headers,
                expected_stream,
                expected_last_sequence,
                expected_last_subject_sequence,
                expected_last_subject_sequence_subject,
                expected_last_msg_id,
                ttl,
            )
        if type(payload) is not bytes:
            payload = payload_bytes(payload)
        return self._connection.packer.add(lane, subject, payload, msg_id or "", given)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was published has its outcome. Raises RequestTimeout."""
        limit = self._connection.timeout if timeout is None else timeout
        if not self._connection.flush(limit):
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
        """Register a function for the messages of a consumer, which :meth:`run` makes (or changes) and calls it for.

        The function declares what it takes: ``def dispatch(order: Order, message: Message)``. A pydantic model, a dataclass or
        any other type is read from the payload's JSON, ``bytes`` and ``str`` are the payload itself. Returning acks. An
        exception is a retry after the next delay (seconds); after the last the message is out of deliveries. Without
        ``retry`` it is tried for ever, after 1, 5 and then every 30 seconds. :class:`railgun.Reject` and a payload that does
        not validate terminate it. What is given up is copied to the stream ``dead_letter``. ``fields`` are further fields
        of :class:`railgun.ConsumerConfig`. A function that takes long keeps its message: its ack wait is renewed.
        """
        given = {**fields, "dead_letter": dead_letter}
        return self._handlers.add(stream, consumer, filter, concurrency, retry, given, coroutines=False)

    def run(self) -> None:
        """Call the handlers until SIGTERM, SIGINT or :meth:`stop`; then finish what has begun, give back the rest, and return.

        Raises what ended a handler by itself: ConsumerNotFound, NotAuthorized, StreamNotFound, a refused configuration.
        """
        self._handlers.run()

    def stop(self) -> None:
        """Let :meth:`run` drain and return; from whichever thread, or from a handler."""
        self._handlers.stop()

    # -- listening

    def listen(self, subject: str, group: str | None = None, *, statuses: bool = False) -> Listener:
        """Listen on a deliver subject, or where a stream re-emits what it stores; wildcards allowed.

        Every plain listener gets every message; of those of one ``group`` each message goes to one. ``statuses``: idle
        heartbeats and flow control requests come as messages too, and flow control is the caller's to answer.
        """
        buffer = PushBuffer(self._connection.consuming, Message, subject, group or "", statuses=statuses)
        steps.run(listen(self._connection.consuming, buffer))
        return Listener(buffer)

    def advisories(self) -> Advisories:
        """What shards tell, as it happens: deliveries that ran out, terminated messages, ack samples (docs/rules, ADV).

        From the moment this returns nothing is missed. ``with rg.advisories() as told: for advisory in told: …``
        """
        return Advisories(self._connection)

    # -- requests

    def request(
        self,
        name: str,
        body: bytes | str = b"",
        headers: HeaderInput | None = None,
        timeout: float | None = None,
    ) -> list[Reply]:
        """A raw request: a call of the API by name (``STREAM.INFO.ORDERS``), or a publish that asks for its ack.

        Refusals are in the replies, not raised. Nobody answers: one reply with status 503. Raises RequestTimeout.
        """
        limit = self._connection.timeout if timeout is None else timeout
        return steps.run(flows.request(self._connection, self._hand_over, name, body, headers, limit))

    def call(self, what: Call[T], timeout: float | None = None) -> T:
        """Run one typed operation of :mod:`railgun.client.operations`."""
        limit = self._connection.timeout if timeout is None else timeout
        return steps.run(flows.call(self._connection, what, limit))

    def run_steps(self, what: Steps[T]) -> T:
        """Run an operation that is written as steps; for handles and tools."""
        return steps.run(what)
