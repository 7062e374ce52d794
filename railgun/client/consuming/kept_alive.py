"""Everything of a connection that holds leased messages, or has handlers that run: it is kept alive, and ended in good order."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Protocol

from railgun.errors import RailgunError

logger = logging.getLogger(__name__)


class Held(Protocol):
    """A holder of leased messages that are not handed out yet."""

    def tick(self, now: float) -> None:
        """Keep them alive. Called several times a second."""

    def close(self) -> None:
        """Give them back."""

    def failed(self, error: RailgunError) -> None:
        """The connection has failed."""


class Drains(Protocol):
    """A subscription whose handlers may still run when the connection is closed."""

    def ended(self, timeout: float) -> bool:
        """Wait until none of them runs; whether that is so."""

    def abandon(self) -> None:
        """In a forked child: its threads do not exist here."""


class KeptAlive:
    """The holders and subscriptions of one connection. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[Held] = set()
        self._running: set[Drains] = set()
        self._orphans: deque[Held] = deque()

    def add(self, held: Held) -> None:
        with self._lock:
            self._held.add(held)

    def release(self, held: Held) -> None:
        with self._lock:
            self._held.discard(held)

    def orphan(self, held: Held) -> None:
        """Its user is gone without closing it. Called by the garbage collector: nothing is locked here."""
        self._orphans.append(held)

    def begin(self, running: Drains) -> None:
        """Wait for it when the connection is closed."""
        with self._lock:
            self._running.add(running)

    def end(self, running: Drains) -> None:
        with self._lock:
            self._running.discard(running)

    def tick(self, now: float) -> None:
        while self._orphans:
            self._orphans.popleft().close()
        with self._lock:
            held = list(self._held)
        for one in held:
            one.tick(now)

    def close(self, timeout: float) -> None:
        """Give back what was not handed out, then let handlers end."""
        deadline = time.monotonic() + timeout
        with self._lock:
            held, running = list(self._held), list(self._running)
        for one in held:
            one.close()
        for busy in running:
            if not busy.ended(max(deadline - time.monotonic(), 0.0)):
                logger.warning(
                    "closed while %r has handlers that run: they cannot acknowledge any more", busy
                )

    def abandon(self) -> None:
        """In a forked child: the lock may be held by a thread that does not exist here."""
        for one in tuple(self._running):
            one.abandon()

    def failed(self, error: RailgunError) -> None:
        with self._lock:
            held = list(self._held)
        for one in held:
            one.failed(error)
