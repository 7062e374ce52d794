"""The outbox of a worker, for records outside its transactions: answers that hold no decision, epochs, advisories.

The queue of the producer is bounded. An answer waits a moment for room; an advisory never waits (ADV-13). Records that find no
room, or do not arrive, are counted, and the log says so, at most once in some seconds.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

log = logging.getLogger("railgun.worker")

_ROOM_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.05
_REPORT_EVERY: Final = 5.0
_CROWDED: Final = 50_000  # half of what the producer's queue holds


class Outbox:
    """One producer for all shards of a worker; any thread may send."""

    def __init__(
        self, producer: Producer, *, crowded: int = _CROWDED, now: Callable[[], float] = monotonic
    ) -> None:
        self._producer = producer
        self._crowded = crowded
        self._now = now
        self._lock = threading.Lock()
        self._lost: Counter[tuple[str, str]] = Counter()  # (topic, reason), since the log reported it last
        self._reported = float("-inf")
        self.dropped = 0  # records that were not sent, or did not arrive, ever

    @property
    def has_room(self) -> bool:
        """Whether it does not hold very many records already: else answers are better sent in a transaction."""
        return len(self._producer) < self._crowded

    def send(self, topic: str, key: bytes, value: bytes | None, partition: int) -> bool:
        """Send, waiting up to a second for room; False where there was none: the record is dropped, counted and reported."""
        deadline = self._now() + _ROOM_SECONDS
        while not self._sent(topic, key, value, partition):
            if self._now() >= deadline:
                self._drop(topic, "too many wait to be sent")
                return False
            self._producer.poll(_POLL_SECONDS)
        return True

    def offer(self, topic: str, key: bytes, value: bytes | None, partition: int) -> bool:
        """Send if there is room, without waiting."""
        sent = self._sent(topic, key, value, partition)
        if not sent:
            self._drop(topic, "too many wait to be sent")
        return sent

    def tick(self) -> None:
        """Delivery reports are handled, and losses are logged; called a few times a second."""
        self._producer.poll(0)
        self._report()

    def flush(self, seconds: float) -> None:
        """Wait for the records that are on their way."""
        self._producer.flush(seconds)
        self._reported = float("-inf")
        self._report()

    def _sent(self, topic: str, key: bytes, value: bytes | None, partition: int) -> bool:
        try:
            self._producer.produce(topic, value, key, partition, on_delivery=self._delivered)
        except BufferError:
            return False
        return True

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._drop(message.topic() or "", error.str())

    def _drop(self, topic: str, reason: str) -> None:
        with self._lock:
            self._lost[topic, reason] += 1
            self.dropped += 1

    def _report(self) -> None:
        with self._lock:
            if not self._lost or self._now() - self._reported < _REPORT_EVERY:
                return
            lost, self._lost, self._reported = self._lost, Counter(), self._now()
        for (topic, reason), count in lost.items():
            log.warning("%d records for %s were not sent (%s), %d in all", count, topic, reason, self.dropped)
