"""Requests of the API that wait for their answers, by number."""

from __future__ import annotations

import threading
import time

from railgun.client.settlements import Settlement, Wakeups
from railgun.errors import RailgunError
from railgun.protocol.replies import Frame


class PendingCall(Settlement[list[Frame]]):
    """One request that waits for its answer."""

    __slots__ = ("deadline",)

    def __init__(self, timeout: float) -> None:
        super().__init__()
        self.deadline = time.monotonic() + timeout


class Calls:
    """Everything that was asked and not answered. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[int, PendingCall] = {}

    def add(self, number: int, timeout: float) -> PendingCall:
        call = PendingCall(timeout)
        with self._lock:
            self._pending[number] = call
        return call

    def forget(self, number: int) -> None:
        """It was never sent."""
        with self._lock:
            self._pending.pop(number, None)

    def end(
        self,
        number: int,
        frames: list[Frame] | None,
        error: RailgunError | None,
        wakeups: Wakeups | None = None,
    ) -> None:
        """The request has its answer or its error. One that is not known (late, ended) is left alone."""
        with self._lock:
            call = self._pending.pop(number, None)
        if call is None:
            return
        own = Wakeups() if wakeups is None else wakeups
        call.settle(frames, error, own)
        if wakeups is None:
            own.deliver()

    def items(self) -> list[tuple[int, PendingCall]]:
        with self._lock:
            return list(self._pending.items())

    def end_all(self, error: RailgunError) -> None:
        with self._lock:
            numbers = list(self._pending)
        for number in numbers:
            self.end(number, None, error)

    def abandon(self) -> None:
        """In a forked child: the lock may be held by a thread that does not exist here."""
        self._lock = threading.Lock()
        self._pending = {}
