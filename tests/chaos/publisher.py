"""A publisher that never gives up: each message has an id, and is sent again with it until it is acked."""

from __future__ import annotations

import threading
import time
from zlib import crc32

import railgun
from railgun.errors import ApiError, RailgunError
from railgun.model.messages import PubAck

BATCH = 20
PATIENCE = 4.0  # seconds until a batch is sent again
GIVES_UP = 200.0  # far less than the window of the streams: a retry after it would be a new message
KINDS = 20  # of subjects


def subject_of(stream: str, message_id: str) -> str:
    """Each id has its subject, in every process and at every attempt."""
    return f"{stream}.{crc32(message_id.encode()) % KINDS}"


class Publisher(threading.Thread):
    """Publishes to one stream until :meth:`finish`. ``acked`` holds the sequence of every id that was acked."""

    def __init__(self, bootstrap: str, prefix: str, stream: str, tag: str, *, pause: float = 0.0) -> None:
        """``tag`` begins its ids; ``pause``: seconds between two batches."""
        super().__init__(name=f"publisher-{stream}", daemon=True)
        self.stream = stream
        self.acked: dict[str, int] = {}
        self.retries = 0
        self.failure: BaseException | None = None
        self._address = (bootstrap, prefix)
        self._tag, self._pause = tag, pause
        self._number = 0
        self._ending = threading.Event()

    def end(self) -> None:
        """Begin nothing more; returns at once."""
        self._ending.set()

    def finish(self, timeout: float) -> None:
        """Send what is begun to its end, then stop. Raises what made it fail."""
        self.end()
        self.join(timeout)
        if self.failure is not None:
            raise self.failure
        if self.is_alive():
            raise AssertionError(f"the publisher of {self.stream} did not end within {timeout:.0f} s")

    def run(self) -> None:
        try:
            bootstrap, prefix = self._address
            with railgun.connect(bootstrap, prefix=prefix, timeout=PATIENCE) as rg:
                while not self._ending.wait(self._pause):
                    self._send(rg, self._next_batch())
        except BaseException as error:  # noqa: BLE001 - raised again by finish
            self.failure = error

    def _next_batch(self) -> list[str]:
        self._number += BATCH
        return [f"{self._tag}-{self.stream}-{number}" for number in range(self._number - BATCH, self._number)]

    def _send(self, rg: railgun.Railgun, ids: list[str]) -> None:
        deadline = time.monotonic() + GIVES_UP
        waiting = list(ids)
        while waiting:
            waiting = self._attempt(rg, waiting, deadline)
            self.retries += len(waiting)

    def _attempt(self, rg: railgun.Railgun, ids: list[str], deadline: float) -> list[str]:
        """The ids that have no ack yet. A refusal is final only for this attempt: the stream may be away."""
        open_ids: list[str] = []
        last: RailgunError | None = None
        futures = []
        for one in ids:
            try:
                futures.append((one, self._publish(rg, one)))
            except RailgunError as error:
                last = error
                open_ids.append(one)
        for one, future in futures:
            try:
                self._note(one, future.result(PATIENCE))
            except ApiError as error:
                if error.code != 503:
                    raise
                last = error
                open_ids.append(one)
            except RailgunError as error:
                last = error
                open_ids.append(one)
        if open_ids and time.monotonic() > deadline:
            raise AssertionError(f"{open_ids[0]} was not acked within {GIVES_UP:.0f} s: {last!r}")
        return open_ids

    def _publish(self, rg: railgun.Railgun, message_id: str) -> railgun.PublishFuture:
        return rg.publish_soon(subject_of(self.stream, message_id), message_id.encode(), msg_id=message_id)

    def _note(self, message_id: str, ack: PubAck) -> None:
        known = self.acked.setdefault(message_id, ack.sequence)
        assert known == ack.sequence, f"{message_id} was acked as {known} and as {ack.sequence}"
