"""Handlers that are called for every message of a consumer: in threads (:class:`Subscription`) or tasks of an event loop.

``drain`` takes nothing more, lets running handlers end, and gives back what none of them has begun. A subscription that ends
by itself (the consumer is gone, the permission) says so in the log, in ``error``, and raises it in ``wait``.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Self

from railgun.client import steps
from railgun.client.connection.connection import Connection
from railgun.client.consuming.buffer import Buffer
from railgun.client.consuming.delivery import Delivery
from railgun.client.consuming.hub import ConsumerHub
from railgun.client.facade.aio.closing import AsyncCloses
from railgun.client.facade.aio.message import AsyncMessage
from railgun.client.facade.sync.closing import Closes
from railgun.client.facade.sync.message import Message
from railgun.client.operations.open_buffer import open_buffer
from railgun.errors import ConfigError, RailgunError

logger = logging.getLogger(__name__)

MessageHandler = Callable[[Message], object]
AsyncMessageHandler = Callable[[AsyncMessage], Awaitable[object]]

_CHUNK = 32


class Running:
    """Messages whose handlers run: their ack wait is renewed as long as they do."""

    def __init__(self, hub: ConsumerHub, renewal: float) -> None:
        self._hub = hub
        self._renewal = renewal
        self._messages: dict[int, tuple[Delivery, float]] = {}
        hub.hold(self)

    def begin(self, message: Delivery) -> None:
        self._messages[id(message)] = (message, time.monotonic())

    def end(self, message: Delivery) -> None:
        self._messages.pop(id(message), None)

    def tick(self, now: float) -> None:
        for key, (message, since) in list(self._messages.items()):
            if now - since >= self._renewal and not message.acknowledged:
                if key in self._messages:
                    self._messages[key] = (message, now)
                try:
                    message._in_progress()
                except RailgunError as error:
                    logger.info("message %d was not kept alive: %s", message.sequence, error)

    def close(self) -> None:
        self._hub.kept_alive.release(self)

    def failed(self, error: RailgunError) -> None:
        """Handlers that run go on."""


class _Subscribed:
    """The part of a subscription that threads and tasks have in common."""

    def __init__(self, buffer: Buffer, name: str, running: Running | None) -> None:
        self._buffer = buffer
        self._name = name
        self._running = running
        self._done = threading.Event()
        buffer.hub.kept_alive.begin(self)
        self.error: RailgunError | None = None  # what ended it, if it was not asked to end

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._name}{', closed' if self._buffer.closed else ''}>"

    def _chunk(self) -> int:
        """Number of messages to handle before the buffer is refilled."""
        return max(min(len(self._buffer.ready) // 2, _CHUNK), 1)

    def _ended(self, error: BaseException) -> None:
        reason = error if isinstance(error, RailgunError) else RailgunError(f"it failed: {error!r}")
        if self.error is None:
            self.error = reason
            logger.error("the subscription of %s ended: %s", self._name, reason)
        self._buffer.close()

    def _raised(self, message: Delivery) -> None:
        logger.exception(
            "the handler of %s raised for message %d (delivery %d); it comes again after the ack wait",
            self._name,
            message.sequence,
            message.deliveries,
        )

    def _stop(self) -> None:
        self._buffer.close()

    def _over(self) -> None:
        """No handler runs any more."""
        if self._running is not None:
            self._running.close()
        self._buffer.hub.kept_alive.end(self)
        self._done.set()

    def ended(self, timeout: float) -> bool:
        """Wait in a thread until no handler runs; whether that is so. For the connection, when it is closed."""
        return self._done.wait(timeout)

    def abandon(self) -> None:
        """In a forked child: no handler runs here."""
        self._done = threading.Event()
        self._done.set()


def _checked(concurrency: int) -> int:
    if concurrency < 1:
        raise ConfigError(f"{concurrency} is not a valid concurrency: it must be at least 1")
    return concurrency


class Subscription(_Subscribed, Closes):
    """Handlers in threads. A context manager: leaving it drains. Made by ``Consumer.subscribe``."""

    def __init__(
        self,
        buffer: Buffer,
        name: str,
        handler: MessageHandler,
        concurrency: int,
        running: Running | None = None,
    ) -> None:
        super().__init__(buffer, name, running)
        self._handler = handler
        self._alive = concurrency
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, name=f"railgun-handler-{number}", daemon=True)
            for number in range(concurrency)
        ]
        for thread in self._threads:
            thread.start()

    @classmethod
    def open(
        cls,
        connection: Connection,
        stream: str,
        consumer: str,
        handler: MessageHandler,
        concurrency: int,
    ) -> Self:
        """Begin to call the handler. Raises ConsumerNotFound, ConsumerBound."""
        least = 2 * _checked(concurrency)
        buffer = steps.run(open_buffer(connection, stream, consumer, Message, least=least))
        return cls(buffer, f"{stream}/{consumer}", handler, concurrency)

    def __exit__(self, *error: object) -> None:
        self.drain()

    def _work(self) -> None:
        try:
            pop = self._buffer.ready.popleft
            while steps.run(self._buffer.some()):
                for _ in range(self._chunk()):
                    try:
                        message = pop()
                    except IndexError:
                        break
                    self._handle(message)
        except BaseException as error:  # noqa: BLE001 - a thread must not die in silence
            self._ended(error)
        finally:
            with self._lock:
                self._alive -= 1
                last = self._alive == 0
            if last:
                self._over()

    def _handle(self, message: Message) -> None:
        running = self._running
        if running is not None:
            running.begin(message)
        try:
            self._handler(message)
        except Exception:  # noqa: BLE001 - it is logged, and the next message is handled
            self._raised(message)
        finally:
            if running is not None:
                running.end(message)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended; whether it has. Raises the error of one that ended by itself."""
        ended = self._done.wait(timeout)
        if ended and self.error is not None:
            raise self.error.with_traceback(None)
        return ended

    def drain(self, timeout: float | None = None) -> bool:
        """Take nothing more, give back what no handler has begun, wait for those that run; whether they ended in time."""
        self._stop()
        if threading.current_thread() in self._threads:
            return False  # a handler cannot wait for itself
        return self._done.wait(timeout)

    def close(self) -> None:
        """As ``drain``, without waiting."""
        self._stop()


class AsyncSubscription(_Subscribed, AsyncCloses):
    """Handlers in tasks of one event loop. An async context manager: leaving it drains."""

    def __init__(
        self,
        buffer: Buffer,
        name: str,
        handler: AsyncMessageHandler,
        concurrency: int,
        running: Running | None = None,
    ) -> None:
        super().__init__(buffer, name, running)
        self._handler = handler
        self._tasks = [
            asyncio.create_task(self._work(), name=f"railgun-handler-{number}")
            for number in range(concurrency)
        ]

    @classmethod
    async def open(
        cls,
        connection: Connection,
        stream: str,
        consumer: str,
        handler: AsyncMessageHandler,
        concurrency: int,
    ) -> Self:
        """See :meth:`Subscription.open`."""
        least = 2 * _checked(concurrency)
        buffer = await steps.run_async(open_buffer(connection, stream, consumer, AsyncMessage, least=least))
        return cls(buffer, f"{stream}/{consumer}", handler, concurrency)

    async def __aexit__(self, *error: object) -> None:
        await self.drain()

    async def _work(self) -> None:
        try:
            pop = self._buffer.ready.popleft
            while await steps.run_async(self._buffer.some()):
                for _ in range(self._chunk()):
                    try:
                        message = pop()
                    except IndexError:
                        break
                    await self._handle(message)
                await asyncio.sleep(0)  # handlers that never wait must not hold the loop up
        except asyncio.CancelledError:
            self._stop()
            raise
        except Exception as error:  # noqa: BLE001 - a task must not die in silence
            self._ended(error)
        finally:
            if all(task.done() or task is asyncio.current_task() for task in self._tasks):
                self._over()

    async def _handle(self, message: AsyncMessage) -> None:
        running = self._running
        if running is not None:
            running.begin(message)
        try:
            result: Any = self._handler(message)
            if inspect.isawaitable(result):
                await result
        except Exception:  # noqa: BLE001 - it is logged, and the next message is handled
            self._raised(message)
        finally:
            if running is not None:
                running.end(message)

    async def wait(self, timeout: float | None = None) -> bool:
        """See :meth:`Subscription.wait`."""
        ended = await self._wait(timeout)
        if ended and self.error is not None:
            raise self.error.with_traceback(None)
        return ended

    async def _wait(self, timeout: float | None) -> bool:
        mine = asyncio.current_task()
        others = [task for task in self._tasks if task is not mine]
        if not others:
            return True
        _, pending = await asyncio.wait(others, timeout=timeout)
        return not pending and mine not in self._tasks

    async def drain(self, timeout: float | None = None) -> bool:
        """See :meth:`Subscription.drain`."""
        self._stop()
        return await self._wait(timeout)

    async def close(self) -> None:
        """See :meth:`Subscription.close`."""
        self._stop()
