"""The sync facade: :func:`connect` and :class:`Railgun`. Safe to use from several threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, Unpack, overload

from railgun.avro.registry import Registry
from railgun.client import steps
from railgun.client.connection.connection import Connection
from railgun.client.facade.connect import (
    DEFAULT_ADDRESS,
    DEFAULT_MAX_IN_FLIGHT,
    DEFAULT_PREFIX,
    DEFAULT_TIMEOUT,
    open_connection,
)
from railgun.client.facade.handlers import Handlers
from railgun.client.facade.sync.advisories import Advisories
from railgun.client.facade.sync.calls import Calls
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


def connect(
    address: str = DEFAULT_ADDRESS,
    *,
    prefix: str = DEFAULT_PREFIX,
    timeout: float = DEFAULT_TIMEOUT,
    kafka: Mapping[str, Any] | None = None,
    max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
    registry: Registry | None = None,
) -> Railgun:
    """Connect to a cluster: ``host:port`` of a Kafka broker, ``memory://`` (fresh, private) or ``memory://name``.

    ``timeout`` is how long a call waits for its answer, ``kafka`` are librdkafka settings (SASL, TLS, …), ``max_in_flight``
    how many publishes may be unanswered. ``registry``, of :mod:`railgun.avro`, keeps the schemas of typed events: with it models travel
    as Avro, without it as JSON. Raises ConnectionLost, NotAuthorized, NoWorker, ConfigError.
    """
    return Railgun(
        open_connection(
            address,
            prefix=prefix,
            timeout=timeout,
            kafka=kafka,
            max_in_flight=max_in_flight,
            registry=registry,
        )
    )


class Railgun(Calls):
    """A connection to a cluster; a context manager. Made by :func:`connect`."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._routing = connection.routing
        self._events = connection.events
        self._handlers = Handlers(connection)

    def close(self) -> None:
        """Wait for what was published, then end. Nothing that was sent is lost; the second call does nothing."""
        self._connection.close()

    # -- publishing

    @overload
    def publish(
        self,
        subject: str,
        payload: Event = ...,
        *,
        ack: Literal[True] = ...,
        **options: Unpack[PublishOptions],
    ) -> PubAck: ...
    @overload
    def publish(
        self, subject: str, payload: Event = ..., *, ack: bool, **options: Unpack[PublishOptions]
    ) -> PubAck | None: ...
    def publish(
        self,
        subject: str,
        payload: Event = b"",
        *,
        msg_id: str | None = None,
        timeout: float | None = None,
        ack: bool = True,
        **options: Unpack[MessageOptions],
    ) -> PubAck | None:
        """Publish one message and wait for its ack: decided and durable. A pydantic model is a payload, too: a typed event.

        Options, all by keyword: ``headers``, ``msg_id`` (de-duplication), ``expected_stream``, ``expected_last_sequence``,
        ``expected_last_subject_sequence``, ``expected_last_subject_sequence_subject`` (where that one is looked up),
        ``expected_last_msg_id``, ``ttl`` (how long the message lives), ``timeout`` in seconds, ``ack``.
        ``ack=False`` returns once it is handed over, and its outcome is not reported. Raises the refusal,
        NoStreamResponse, NoWorker, RequestTimeout, MessageTooLarge, ConfigError if the subject is invalid, EventError if a model
        cannot be written: nothing was sent then.
        """
        given = message_headers(options) if options else None
        data, given = outgoing(self._events, payload, given)
        data = self._events.finish(data)
        limit = self._connection.timeout if timeout is None else waitable(timeout)
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
        payload: Event = b"",
        *,
        msg_id: str | None = None,
        **options: Unpack[MessageOptions],
    ) -> PublishFuture:
        """Publish without waiting; the future has the ack. Waits only while ``max_in_flight`` are unanswered.

        Options as of :meth:`publish`, without ``timeout`` and ``ack``.
        """
        lane = self._routing.routes.get(subject) or self._routing.route(subject, self._connection.timeout)
        given = message_headers(options) if options else None
        if type(payload) is not bytes:
            payload, given = outgoing(self._events, payload, given)
            payload = self._events.finish(payload)
        return self._connection.packer.add(lane, subject, payload, msg_id or "", given)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was published has its outcome. Raises RequestTimeout."""
        limit = self._connection.timeout if timeout is None else waitable(timeout)
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

    # -- advisories

    def advisories(self) -> Advisories:
        """Advisories of all shards, as they happen: deliveries that ran out, terminated messages, ack samples (docs/rules, ADV).

        From the moment this returns nothing is missed. ``with rg.advisories() as events: for event in events: …``
        """
        queue = AdvisoryQueue(self._connection)
        queue.open()
        return Advisories(queue)
