"""Requests of one connection: sent with a number, ended by the answer that carries it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from railgun.api.names import ApiName
from railgun.client.settlements import Settlement, Wakeups
from railgun.client.transport import Delivered, Send
from railgun.errors import RailgunError
from railgun.model.headers import HeaderList
from railgun.protocol.commands import REQUEST, ApiRequest
from railgun.protocol.replies import Frame

logger = logging.getLogger(__name__)


class RequestNumbers:
    """The numbers of one connection. Each is given out once, to a request or to a message of a pack. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 1

    def take(self, count: int = 1) -> int:
        """The first of ``count`` consecutive numbers."""
        with self._lock:
            first = self._next
            self._next += count
        return first

    def abandon(self) -> None:
        """In a forked child: the lock may be held by a thread that does not exist here."""
        self._lock = threading.Lock()


class PendingCall(Settlement[list[Frame]]):
    """One request that waits for its answer."""

    __slots__ = ("deadline",)

    def __init__(self, timeout: float) -> None:
        super().__init__()
        self.deadline = time.monotonic() + timeout


class Requests:
    """Sends requests and keeps those that are not answered. Thread-safe.

    ``check`` raises what ended the connection. ``push`` sends the publishes that wait, so that a request sees what this
    client published before it.
    """

    def __init__(self, client: str, send: Send, check: Callable[[], None], push: Callable[[], None]) -> None:
        self.numbers = RequestNumbers()
        self._client = client
        self._send = send
        self._check = check
        self._push = push
        self._lock = threading.Lock()
        self._pending: dict[int, PendingCall] = {}

    # -- sending

    def begin(
        self, partition: int, name: ApiName, body: bytes, headers: HeaderList | None, timeout: float
    ) -> PendingCall:
        """Send one request, behind the publishes that wait. Raises what keeps it from being sent."""
        self.before_sending()
        number = self.numbers.take()
        call = self.add(number, timeout)
        try:
            self.send(partition, number, name, body, headers, self.reporting(number, call))
        except BaseException:
            self.forget(number)
            raise
        return call

    def before_sending(self) -> None:
        """Send the publishes that wait. Raises what ended the connection."""
        self._check()
        self._push()

    def send_unanswered(self, partition: int, name: ApiName) -> None:
        """Send a request without waiting for its answer; a failure is logged."""
        try:
            self.send(partition, self.numbers.take(), name, b"", None, lambda error: None)
        except RailgunError as error:
            logger.warning("%s could not be sent: %s", name.text, error)

    def send(
        self,
        partition: int,
        number: int,
        name: ApiName,
        body: bytes,
        headers: HeaderList | None,
        delivered: Delivered,
    ) -> None:
        """Send the record of a request under a number that the caller took."""
        value = ApiRequest(self._client, number, name.text, name.stream, headers or [], body).encode()
        self._send(partition, name.stream.encode("utf-8"), REQUEST, value, delivered)

    def reporting(self, number: int, call: PendingCall) -> Delivered:
        """The callback for the delivery of a request; a request that was not delivered ends."""
        return partial(self._delivered, number, call)

    def _delivered(self, number: int, call: PendingCall, error: RailgunError | None) -> None:
        call.delivered = error is None
        if error is not None:
            self.end(number, None, error)

    # -- waiting, ending

    def add(self, number: int, timeout: float) -> PendingCall:
        """Wait for the answer of this number. Raises what ended the connection, also while its caller came here."""
        call = PendingCall(timeout)
        with self._lock:
            self._pending[number] = call
        try:
            self._check()
        except RailgunError:
            self.forget(number)
            raise
        return call

    def forget(self, number: int) -> None:
        """Stop waiting for the answer of this number: the request was not sent, or its caller is gone."""
        with self._lock:
            self._pending.pop(number, None)

    def end(
        self,
        number: int,
        frames: list[Frame] | None,
        error: RailgunError | None,
        wakeups: Wakeups | None = None,
    ) -> None:
        """End a request with its answer or its error. A number that is not known (late, ended) is left alone."""
        with self._lock:
            call = self._pending.pop(number, None)
        if call is None:
            return
        own = Wakeups() if wakeups is None else wakeups
        call.settle(frames, error, own)
        if wakeups is None:
            own.deliver()

    def pending(self) -> list[tuple[int, PendingCall]]:
        """The requests that wait for an answer, by number."""
        with self._lock:
            return list(self._pending.items())

    def end_all(self, error: RailgunError) -> None:
        """End every request that waits."""
        for number, _ in self.pending():
            self.end(number, None, error)

    def abandon(self) -> None:
        """In a forked child: the locks may be held by threads that do not exist here."""
        self._lock = threading.Lock()
        self._pending = {}
        self.numbers.abandon()
