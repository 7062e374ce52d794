"""Trims of logs: records below an offset are no longer needed, and are deleted some time later.

A trim waits out a grace, and much can happen meanwhile: the shard moves to another worker, its stream is deleted there and made
again. DeleteRecords knows topics by their names only, so a trim is dropped when its shard leaves, and carried out only if the topic
is the one that it was meant for.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from railgun.kafka.answers import answer_of
from railgun.kafka.topic_admin import topic_ids
from railgun.shard.drain import Trim

log = logging.getLogger("railgun.worker")

# A client that got a message that was removed at once (ack none, interest) must have had the time to read it.
GRACE: Final = 10  # turns
_TRIM_SECONDS: Final = 15.0


class _Waiting(NamedTuple):
    shard: int
    offset: int
    topic_id: str = ""  # not known until the next turn


class LogTrims:
    """The trims of a worker. Shards add them from their threads; :meth:`turn` is called now and then by one thread."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._lock = threading.Lock()
        self._fresh: dict[str, _Waiting] = {}
        self._ageing: deque[dict[str, _Waiting]] = deque()
        self._trimmed: dict[str, int] = {}

    def add(self, shard: int, trims: Iterable[Trim]) -> None:
        """Records below these offsets may go, some time soon."""
        with self._lock:
            for trim in trims:
                known = self._fresh.get(trim.topic)
                if trim.offset > max(self._trimmed.get(trim.topic, 0), 0 if known is None else known.offset):
                    self._fresh[trim.topic] = _Waiting(shard, trim.offset)

    def forget(self, topic: str) -> None:
        """The topic is deleted or new: its trims are dropped."""
        self._drop(lambda name, _: name == topic)

    def leave(self, shard: int) -> None:
        """The shard has left this worker: its next owner decides what becomes of its logs."""
        self._drop(lambda _, waiting: waiting.shard == shard)

    def _drop(self, is_meant: Callable[[str, _Waiting], bool]) -> None:
        with self._lock:
            for waiting in (self._fresh, *self._ageing):
                for topic in [name for name, one in waiting.items() if is_meant(name, one)]:
                    del waiting[topic]
                    self._trimmed.pop(topic, None)

    # -- now and then

    def turn(self) -> None:
        """Trims that have waited long enough are carried out; new ones are bound to the id of their topic."""
        with self._lock:
            fresh, self._fresh = dict(self._fresh), {}
            due = self._ageing.popleft() if len(self._ageing) >= GRACE else {}
        try:
            ids = topic_ids(self._admin, fresh.keys() | due.keys())
        except KafkaException as error:
            log.info("the logs are not trimmed, it comes again: %s", error.args[0].str())
            with self._lock:
                self._fresh = {**due, **fresh, **self._fresh}
            return
        with self._lock:
            self._ageing.append({})
            for topic, waiting in fresh.items():
                if topic in ids:
                    self._ageing[-1][topic] = waiting._replace(topic_id=ids[topic])
        self._carry_out({topic: one.offset for topic, one in due.items() if ids.get(topic) == one.topic_id})

    def _carry_out(self, offsets: dict[str, int]) -> None:
        if not offsets:
            return
        requests = [TopicPartition(topic, 0, offset) for topic, offset in offsets.items()]
        futures = self._admin.delete_records(requests, request_timeout=10.0)
        # For all of them: a broker that is away must not hold up the rest.
        deadline = time.monotonic() + _TRIM_SECONDS
        for place, future in futures.items():
            try:
                answer_of(future, max(0.0, deadline - time.monotonic()))
            except KafkaException as error:
                log.info("the log %s was not trimmed, it comes again: %s", place.topic, error.args[0].str())
            else:
                with self._lock:
                    self._trimmed[place.topic] = offsets[place.topic]
