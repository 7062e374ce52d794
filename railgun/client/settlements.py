"""Futures that cost little: what waits belongs to the record that travelled, not to each message in it.

A :class:`Settlement` is settled once, with a value or an error, from any thread. A pack of two thousand publishes is one
settlement; the future of each message is only (pack, index), and its outcome is computed when it is asked for. Waiting
threads share one event, created when the first of them waits; waiting event loops get one wake-up call for all their
tasks. Every settlement of a connection ends: with an answer, a refusal, or an error at its deadline or at ``close``.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from railgun.errors import RailgunError, RequestTimeout

logger = logging.getLogger(__name__)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_guard = (
    threading.Lock()
)  # held for a few instructions when a caller begins to wait, and when something is settled


def renew_guard() -> None:
    """After a fork: the lock may have been held by a thread that does not exist here."""
    global _guard
    _guard = threading.Lock()


class Wakeups:
    """The waiters to wake after a batch of replies: one call per event loop, then the callbacks, in order."""

    def __init__(self) -> None:
        self._loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        self._callbacks: list[Callable[[], None]] = []

    def add(
        self,
        waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] | None,
        callbacks: list[Callable[[], None]] | None,
    ) -> None:
        for loop, waiter in waiters or ():
            self._loops.setdefault(loop, []).append(waiter)
        self._callbacks.extend(callbacks or ())

    def deliver(self) -> None:
        """Wake all waiters. A callback that raises is logged and does not keep the others from being called."""
        for loop, waiters in self._loops.items():
            try:
                loop.call_soon_threadsafe(_wake, waiters)
            except RuntimeError:
                logger.debug(
                    "an event loop was closed while %d of its tasks waited for an answer", len(waiters)
                )
        for callback in self._callbacks:
            try:
                callback()
            except Exception:
                logger.exception("a done callback raised")
        self._loops, self._callbacks = {}, []


def _wake(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


class Settlement(Generic[T]):
    """An outcome that comes once: a value or an error."""

    __slots__ = ("_callbacks", "_event", "_waiters", "delivered", "done", "error", "value")

    def __init__(self) -> None:
        self.done = False
        self.delivered = False  # the broker has the command: it will be carried out
        self.value: T | None = None
        self.error: RailgunError | None = None
        self._event: threading.Event | None = None
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] | None = None
        self._callbacks: list[Callable[[], None]] | None = None

    def settle(self, value: T | None, error: RailgunError | None, wakeups: Wakeups) -> None:
        """End it; the second call does nothing. The caller delivers ``wakeups`` when it holds no lock."""
        with _guard:
            if self.done:
                return
            self.value, self.error, self.done = value, error, True
            event, waiters, callbacks = self._event, self._waiters, self._callbacks
            self._event = self._waiters = self._callbacks = None
        if event is not None:
            event.set()
        if waiters or callbacks:
            wakeups.add(waiters, callbacks)

    def abandon(self, error: RailgunError) -> None:
        """In a forked child: it ends with the error, for whoever asks. Those who wait for it are in the parent."""
        if not self.done:
            self.error, self.done = error, True
            self._event = self._waiters = self._callbacks = None

    def wait(self, timeout: float | None) -> bool:
        """Whether it ended within the time."""
        if self.done:
            return True
        with _guard:
            if self._ended():  # by another thread, meanwhile
                return True
            event = self._event
            if event is None:
                event = self._event = threading.Event()
        return event.wait(timeout)

    def _ended(self) -> bool:
        return self.done

    def waiter(self) -> asyncio.Future[None] | None:
        """A future of the running loop that completes when this does; None if it is done already."""
        loop = asyncio.get_running_loop()
        with _guard:
            if self.done:
                return None
            waiter = loop.create_future()
            if self._waiters is None:
                self._waiters = []
            self._waiters.append((loop, waiter))
            return waiter

    def forget(self, waiter: asyncio.Future[None]) -> None:
        """Drop a waiter that does not wait any longer."""
        with _guard:
            if self._waiters is not None:
                self._waiters = [one for one in self._waiters if one[1] is not waiter]

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call it once this ends: in the thread that ends it, or at once if it has."""
        with _guard:
            if not self.done:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append(callback)
                return
        callback()

    def get(self) -> T:
        """The value of one that is done. Raises its error."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        assert self.value is not None
        return self.value

    def overdue(self, seconds: float) -> RequestTimeout:
        """The error for a caller whose wait of ``seconds`` is over; it says what is known of the outcome."""
        if self.delivered:
            outcome = (
                "the command is stored and its outcome is unknown: look, or retry with the same message id"
            )
        else:
            outcome = "the broker has not confirmed the command: it may or may not be stored"
        return RequestTimeout(f"no answer within {seconds:g} s; {outcome}")


class Future(Generic[T_co]):
    """The future of one outcome. Thread-safe; awaitable from any event loop.

    ``result`` and ``await`` raise the refusal or error that ended it. Without a timeout of one's own it ends by the
    timeout of the connection at the latest.
    """

    __slots__ = ("_settlement",)

    _settlement: Settlement[Any]

    def _outcome(self) -> T_co:
        raise NotImplementedError

    @property
    def settlement(self) -> Settlement[Any]:
        """What this future waits for, together with others."""
        return self._settlement

    def done(self) -> bool:
        """Whether it has ended."""
        return self._settlement.done

    def result(self, timeout: float | None = None) -> T_co:
        """The outcome, waited for. Raises RequestTimeout after ``timeout`` seconds; the future itself goes on."""
        settlement = self._settlement
        if not settlement.done and not settlement.wait(timeout):
            raise settlement.overdue(timeout or 0.0)
        return self._outcome()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error that ended it, None if it went well; waited for as ``result`` is."""
        try:
            self.result(timeout)
        except RailgunError as error:
            if not self.done():
                raise
            return error
        return None

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call ``callback(future)`` once it has ended: in the thread that ends it, or at once if it has.

        The callback must not wait for another answer of the same facade.
        """
        self._settlement.when_done(lambda: callback(self))

    def __await__(self) -> Generator[Any, None, T_co]:
        if not self._settlement.done:
            waiter = self._settlement.waiter()
            if waiter is not None:
                yield from waiter
        return self._outcome()
