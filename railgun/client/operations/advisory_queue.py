"""Advisories and ack samples that were received and not yet read (docs/rules, ADV).

They are sent after what they tell of and never hold it up, so they may come late, and are not kept for later listeners.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from railgun.client.connection.connection import Connection
from railgun.client.settlements import Settlement, Wakeups
from railgun.client.steps import Blocking, Steps, Until
from railgun.errors import RailgunError

logger = logging.getLogger(__name__)

MOST_WAITING = 100_000  # a slower reader loses the oldest


@dataclass(frozen=True, slots=True)
class Advisory:
    """An event that a shard reports: the subject it is sent on, and its body in JSON."""

    subject: str
    body: bytes

    def json(self) -> dict[str, Any]:
        """All fields: ``type``, ``id``, ``timestamp``, and those of its type."""
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def type(self) -> str:
        return str(self.json()["type"])


class AdvisoryQueue:
    """The advisories that one iteration has received and not yet handed out. Thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._unread: deque[Advisory] = deque(maxlen=MOST_WAITING)
        self._arrival: Settlement[bool] | None = None
        self._stop: Callable[[], None] | None = None
        self._error: RailgunError | None = None
        self._closed = False

    def open(self) -> None:
        """Begin to listen; what happens from now on is received. Blocks."""
        self._connection.check()
        self._connection.consuming.hold(self)
        self._stop = self._connection.transport.advisories(self._received)

    def opened(self) -> Steps[None]:
        """As :meth:`open`, unless that is done."""
        if self._stop is None and not self._closed:
            yield Blocking(self.open)

    def closed(self) -> Steps[None]:
        """As :meth:`close`, which may block."""
        yield Blocking(self.close)

    def _received(self, records: list[tuple[str, bytes]]) -> None:
        with self._lock:
            self._unread.extend(Advisory(subject, body) for subject, body in records)
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            arrival, self._arrival = self._arrival, None
        if arrival is not None:
            wakeups = Wakeups()
            arrival.settle(True, None, wakeups)
            wakeups.deliver()

    def next(self) -> Steps[Advisory | None]:
        """The next one; None once this is closed. Raises what ended the connection."""
        yield from self.opened()
        while True:
            with self._lock:
                if self._closed:
                    return None
                if self._unread:
                    return self._unread.popleft()
                if self._error is not None:
                    raise self._error.with_traceback(None)
                arrival = self._arrival = self._arrival or Settlement()
            yield Until(arrival, 60.0)

    # -- as the connection sees it

    def tick(self, now: float) -> None:
        """Nothing is leased."""

    def failed(self, error: RailgunError) -> None:
        self._error = error
        self._wake()

    def close(self) -> None:
        with self._lock:
            closed, self._closed = self._closed, True
            stop = self._stop
        if not closed:
            if stop is not None:
                stop()
            self._connection.consuming.kept_alive.release(self)
            self._wake()
