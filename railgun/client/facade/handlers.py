"""Handlers as functions: ``@rg.handler("ORDERS", "DISPATCH", …)``, and ``rg.run()`` that runs them until told to stop.

A handler that returns has done its message. One that raises is tried again after the delays of ``retry``; once these are used
up the message is out of deliveries. :class:`Reject`, and a payload that is not what the handler takes, end it at once. What is
given up goes to the dead-letter stream, if one is named. As long as a handler runs its message is kept alive.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from railgun.avro.errors import UnknownSchemaId
from railgun.avro.events import Events
from railgun.avro.framing import MAGIC
from railgun.client import steps
from railgun.client.connection.connection import Connection
from railgun.client.consuming.buffer import Buffer
from railgun.client.consuming.delivery import Delivery
from railgun.client.facade.aio.message import AsyncMessage
from railgun.client.facade.handler_arguments import UnreadableMessage, bind
from railgun.client.facade.subscription import AsyncSubscription, Running, Subscription
from railgun.client.facade.sync.message import Message
from railgun.client.operations import consumers
from railgun.client.operations.open_buffer import open_buffer
from railgun.client.steps import Steps
from railgun.errors import ConfigError, RailgunError
from railgun.model.consumer_config import ConsumerConfig

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
_DELAYS = (1.0, 5.0, 30.0)  # where no retry is given: for ever, the last one repeated
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Reject(Exception):
    """Raised by a handler: the message cannot be handled, now or later. It is terminated with this reason (ACK-11)."""

    def __init__(self, reason: str = "rejected") -> None:
        self.reason = reason
        super().__init__(reason)


class Handler:
    """One function, and the consumer that it is called for."""

    def __init__(
        self,
        function: Callable[..., Any],
        stream: str,
        consumer: str,
        filter: str | Sequence[str] | None,
        concurrency: int,
        retry: Sequence[float] | None,
        fields: dict[str, Any],
        events: Events,
    ) -> None:
        if concurrency < 1:
            raise ConfigError(f"{concurrency} is not a valid concurrency: it must be at least 1")
        if retry is not None and any(delay < 0 for delay in retry):
            raise ConfigError(f"{list(retry)} is not a valid retry: give seconds, none of them negative")
        self.function = function
        self.stream = stream
        self.consumer = consumer
        self.concurrency = concurrency
        self.arguments = bind(function, events)
        self._delays = _DELAYS if retry is None else tuple(retry)
        self._endless = retry is None
        chosen = dict(fields)
        if isinstance(filter, str):
            chosen["filter_subject"] = filter
        elif filter is not None:
            chosen["filter_subjects"] = list(filter)
        if retry is not None:
            chosen["max_deliver"] = len(retry) + 1
        self.config: ConsumerConfig = consumers.consumer_config(consumer, chosen, ephemeral=False)

    @property
    def name(self) -> str:
        return f"{self.stream}/{self.consumer}"

    def open(self, connection: Connection, make: type[Delivery]) -> Steps[tuple[Buffer, Running | None]]:
        """Make or change the consumer, and begin to lease its messages."""
        yield from consumers.create(connection, self.stream, self.config, consumers.EITHER)
        buffer = yield from open_buffer(
            connection, self.stream, self.consumer, make, least=2 * self.concurrency
        )
        return buffer, Running(connection.consuming, buffer.renewal) if buffer.renewal else None

    def failed(self, message: Delivery, error: Exception) -> None:
        """Nak or terminate a message whose handler raised."""
        if isinstance(error, Reject | UnreadableMessage):
            reason = error.reason if isinstance(error, Reject) else str(error)
            logger.warning("%s rejects message %d: %s", self.name, message.sequence, reason)
            if not message.acknowledged:
                message._term(reason)
            return
        attempt = message.deliveries
        delay = self._delays[min(attempt, len(self._delays)) - 1] if self._delays else 0.0
        last = not self._endless and attempt > len(self._delays)
        logger.error(
            "the handler of %s raised for message %d, attempt %d: %s",
            self.name,
            message.sequence,
            attempt,
            "it is given up" if last else f"the next is in {delay:g} s",
            exc_info=error,
        )
        if message.acknowledged:
            return
        if last and isinstance(error, UnknownSchemaId):
            message._term(str(error))  # the dead letter says what nobody knew
        else:
            message._nak(None if last else delay)


class Handlers:
    """The handlers of one facade, and whether they should stop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._handlers: list[Handler] = []
        self._lock = threading.Lock()
        self._stops: list[Callable[[], None]] = []

    def add(
        self,
        stream: str,
        consumer: str,
        filter: str | Sequence[str] | None,
        concurrency: int,
        retry: Sequence[float] | None,
        fields: dict[str, Any],
        *,
        coroutines: bool,
    ) -> Callable[[F], F]:
        """The decorator that registers a function."""

        def register(function: F) -> F:
            if inspect.iscoroutinefunction(function) and not coroutines:
                raise ConfigError(
                    f"{function.__qualname__} is a coroutine function: use railgun.connect_async, or a plain function"
                )
            events = self._connection.events
            self._handlers.append(
                Handler(function, stream, consumer, filter, concurrency, retry, fields, events)
            )
            return function

        return register

    def stop(self) -> None:
        """Let ``run`` drain and return."""
        with self._lock:
            stops = list(self._stops)
        for stop in stops:
            stop()

    @contextmanager
    def _stoppable(self, stop: Callable[[], None]) -> Iterator[None]:
        if not self._handlers:
            raise ConfigError("there is nothing to run: register a function with @rg.handler first")
        with self._lock:
            self._stops.append(stop)
        try:
            yield
        finally:
            with self._lock:
                self._stops.remove(stop)

    # -- in threads

    def run(self) -> None:
        """Run all handlers until SIGTERM, SIGINT or :meth:`stop`. Raises what ended one of them by itself."""
        stopped = threading.Event()
        running: list[Subscription] = []
        with self._stoppable(stopped.set), _signals(stopped.set):
            try:
                for handler in self._handlers:
                    buffer, kept = steps.run(handler.open(self._connection, Message))
                    call = _Caller(handler)
                    running.append(Subscription(buffer, handler.name, call, handler.concurrency, kept))
                while not stopped.wait(0.1):
                    if any(one.error is not None for one in running):
                        break
            finally:
                for one in running:
                    one.close()
                for one in running:
                    one.drain()
        for one in running:
            if one.error is not None:
                raise one.error.with_traceback(None)

    # -- in tasks

    async def run_async(self) -> None:
        """As :meth:`run`, in the running event loop; functions that are not coroutines run in threads."""
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()

        def stop() -> None:
            loop.call_soon_threadsafe(stopped.set)

        running: list[AsyncSubscription] = []
        with self._stoppable(stop), _signals(stop):
            try:
                for handler in self._handlers:
                    buffer, kept = await steps.run_async(handler.open(self._connection, AsyncMessage))
                    call = _AsyncCaller(handler)
                    running.append(AsyncSubscription(buffer, handler.name, call, handler.concurrency, kept))
                ended = [asyncio.create_task(one.wait()) for one in running]
                stopping = asyncio.create_task(stopped.wait())
                await asyncio.wait([*ended, stopping], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in running:
                    await one.close()
                for one in running:
                    await one.drain()
            stopping.cancel()
            outcomes = await asyncio.gather(*ended, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, RailgunError):
                raise outcome


class _Caller:
    """Calls a function for a message, and acknowledges it, or has it tried again."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def __call__(self, message: Message) -> None:
        handler = self._handler
        try:
            handler.function(**handler.arguments(message))
        except Exception as error:  # noqa: BLE001 - whatever it is, the message is tried again or given up
            handler.failed(message, error)
            return
        if not message.acknowledged:
            message.ack()


class _AsyncCaller:
    """The same in an event loop."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, message: AsyncMessage) -> None:
        handler = self._handler
        try:
            if (
                message.payload[:1] == MAGIC
            ):  # the first of a schema asks the registry, which may take its time
                arguments = await asyncio.to_thread(handler.arguments, message)
            else:
                arguments = handler.arguments(message)
            if inspect.iscoroutinefunction(handler.function):
                await handler.function(**arguments)
            else:
                result = await asyncio.to_thread(handler.function, **arguments)
                if isinstance(result, Awaitable):
                    await result
        except Exception as error:  # noqa: BLE001 - as above
            handler.failed(message, error)
            return
        if not message.acknowledged:
            await message.ack()


@contextmanager
def _signals(stop: Callable[[], object]) -> Iterator[None]:
    """The first signal stops; the next one does what it did before. Only the main thread receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.getsignal(one) for one in _SIGNALS}

    def restore() -> None:
        for one, handler in before.items():
            signal.signal(one, signal.SIG_DFL if handler is None else handler)

    def on_signal(number: int, frame: object) -> None:
        restore()
        logger.info("%s: handlers finish what they have begun", signal.Signals(number).name)
        stop()

    for one in _SIGNALS:
        signal.signal(one, on_signal)
    try:
        yield
    finally:
        restore()
