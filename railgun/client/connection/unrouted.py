"""Publishes of event loops whose stream, or whose schema, must first be looked up: a loop cannot wait for that, a thread can.

Messages leave here in the order in which they came. While any is here, later ones of the same facade queue up behind it,
so that the order of a publisher holds (PUB-23).
"""

from __future__ import annotations

import threading
from collections import deque

from railgun.client.connection.connection import Connection
from railgun.client.publishing.packs import Pack, PublishFuture, message_size
from railgun.client.settlements import Wakeups
from railgun.errors import RailgunError
from railgun.model.headers import HeaderList


class Unrouted:
    """The queue and its thread, which ends when the queue is empty and is started again when it is not."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._queue: deque[tuple[str, Pack]] = deque()
        self._running = False
        self._routing: Pack | None = None
        self._last: Pack | None = None
        self._waiting = 0  # messages that are in no lane yet
        self._bytes = 0  # of them

    def __bool__(self) -> bool:
        return self._running

    def add(self, subject: str, payload: bytes, msg_id: str, headers: HeaderList | None) -> PublishFuture:
        """The future of a message that is routed in a moment; it also carries the errors of the routing, such as NoStreamResponse."""
        pack = Pack("")
        pack.subjects, pack.payloads = [subject], [payload]
        pack.ids = [msg_id] if msg_id else []
        pack.headers = [headers] if headers else []
        pack.size = message_size(subject, payload, msg_id, headers)
        with self._lock:
            self._connection.packer.check_ahead(self._waiting, self._bytes)
            self._waiting += 1
            self._bytes += pack.size
            self._queue.append((subject, pack))
            self._last = pack
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="railgun-routing", daemon=True).start()
        return PublishFuture(pack, 0)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._running = False
                    return
                subject, pack = self._queue.popleft()
                self._routing = pack
            try:
                known = self._connection.routing.routes.get(subject)
                lane = known or self._connection.routing.route(subject, self._connection.timeout)
                pack.stream = lane.stream
                pack.payloads = [self._connection.events.finish(one) for one in pack.payloads]
                with self._lock:
                    self._forget(pack)
                    self._connection.packer.adopt(lane, pack)
            except Exception as error:  # noqa: BLE001 - whatever it was, the future must carry it
                with self._lock:
                    self._forget(pack)
                wakeups = Wakeups()
                reason = error if isinstance(error, RailgunError) else RailgunError(f"not sent: {error!r}")
                pack.settle(None, reason, wakeups)
                wakeups.deliver()

    def _forget(self, pack: Pack) -> None:
        """Count the pack as no longer waiting; the second call does nothing."""
        if pack is self._routing:
            self._routing = None
            self._waiting -= 1
            self._bytes -= pack.size

    def wait_empty(self, timeout: float) -> None:
        """Wait until everything that was put here has its outcome, or the time is over."""
        last = self._last
        if last is not None:
            last.wait(timeout)
