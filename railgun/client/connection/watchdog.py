"""The watchdog ends what would wait in vain: deadlines that passed, a cluster without a worker, a broker that refuses or is gone.

One thread a connection looks ten times a second. It never touches the hot path: what is waiting keeps its own deadline.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from railgun.errors import START_A_WORKER, ConnectionLost, NotAuthorized, NoWorker, RailgunError

if TYPE_CHECKING:
    from railgun.client.connection.connection import Connection

logger = logging.getLogger(__name__)

_TICK = 0.1
_PATIENCE = 1.0  # seconds of silence, with something waiting, after which the cluster is asked who is alive


class Watchdog:
    """The watching thread of one connection. If it fails, so does the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stopped = threading.Event()
        self._asked = 0.0
        self._empty = 0  # how often in a row no worker was alive
        threading.Thread(target=self._run, name="railgun-watch", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        try:
            while not self._stopped.wait(_TICK):
                self._look()
        except Exception as error:
            logger.exception("the watching thread ended")
            self._connection.failed(RailgunError(f"the watching thread ended: {error!r}"))

    def _look(self) -> None:
        waiting = self._connection.waiting()
        if not waiting:
            self._empty = 0
            return
        now = time.monotonic()
        trouble = self._connection.transport.trouble()
        verdict = trouble if isinstance(trouble, NotAuthorized) else self._no_worker(now)
        for deadline, settlement, end in waiting:
            if verdict is not None:
                end(verdict)
            elif deadline <= now:
                overdue = settlement.overdue(self._connection.timeout)
                lost = isinstance(trouble, ConnectionLost) and not settlement.delivered
                end(ConnectionLost(f"{trouble}; {overdue}") if lost else overdue)

    def _no_worker(self, now: float) -> NoWorker | None:
        """The error once the group was empty twice in a row; a single time may be a restart."""
        if now - max(self._connection.routing.heard, self._asked) < _PATIENCE:
            return None
        self._asked = now
        if self._connection.transport.workers() != 0:
            self._empty = 0
            return None
        self._empty += 1
        if self._empty < 2:
            return None
        return NoWorker(
            f"no worker is alive at {self._connection.label}; commands that the broker has are carried out once one runs: "
            f"{START_A_WORKER}"
        )
