"""Reads single messages straight from the log of a stream, where an answer only says where they are.

Below a wanted offset it waits; reading past the message, or to an end that lies behind it, means that it was removed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from railgun.client.kafka_trouble import Troubles, in_words, librdkafka
from railgun.errors import RequestTimeout
from railgun.kafka.settings import KafkaSettings
from railgun.model import headers as h
from railgun.model.messages import StoredMessage
from railgun.model.wire import Located

_OURS = frozenset({h.LOG_SEQUENCE, h.LOG_TIME, h.LOG_INCARNATION})
_NEAR = 2_000  # records that are read on rather than jumped over
EndOf = Callable[
    [str, int, float], int
]  # topic, partition, timeout -> offset behind the last record, committed or not


class LogReader:
    """One consumer, used by one caller at a time, without an assignment while nobody reads."""

    def __init__(self, settings: KafkaSettings, troubles: Troubles, end_of: EndOf) -> None:
        config = settings.consumer(enable_partition_eof=True)
        self._consumer = Consumer({**config, "error_cb": troubles.told}, logger=librdkafka)
        self._end_of = end_of
        self._lock = threading.Lock()

    def read(self, places: Sequence[Located], timeout: float) -> list[StoredMessage | None]:
        """The messages at these places, None for one that is gone. Raises RequestTimeout, NotAuthorized."""
        deadline = time.monotonic() + timeout
        found: dict[Located, StoredMessage | None] = {}
        with self._lock:
            for topic in dict.fromkeys(place.topic for place in places):
                wanted = sorted(
                    {place for place in places if place.topic == topic}, key=lambda place: place.sequence
                )
                try:
                    self._read_topic(topic, wanted, deadline, found)
                except KafkaException as error:
                    raise in_words(error, f"reading {topic}") from error
                finally:
                    self._consumer.unassign()
        return [found[place] for place in places]

    def close(self) -> None:
        with self._lock:
            self._consumer.close()

    def _read_topic(
        self, topic: str, wanted: list[Located], deadline: float, found: dict[Located, StoredMessage | None]
    ) -> None:
        position = -1
        held: Message | None = None  # read, and beyond what was wanted before
        for place in wanted:
            if position < 0 or place.offset > position + _NEAR:
                position, held = place.offset, None
                self._consumer.assign([TopicPartition(topic, 0, position)])
            while True:
                message = held or self._next(topic, place, deadline)
                held = None
                if message is None:
                    found[place] = None
                    break
                position = (message.offset() or 0) + 1
                sequence, incarnation = _identity(message)
                if (sequence, incarnation) == (place.sequence, place.incarnation):
                    found[place] = _stored(message, sequence)
                    break
                if sequence > place.sequence or incarnation > place.incarnation:
                    found[place], held = None, message
                    break

    def _next(self, topic: str, place: Located, deadline: float) -> Message | None:
        """The next record; None at an end behind which the message cannot be."""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise RequestTimeout(f"message {place.sequence} could not be read from {topic} in time")
            message = self._consumer.poll(min(left, 0.1))
            if message is None:
                continue
            error = message.error()
            if error is None:
                return message
            if error.code() == KafkaError._PARTITION_EOF:
                # Committed records are visible a moment after their commit: only an end that is the log's end counts.
                if (message.offset() or 0) >= self._end_of(topic, 0, max(left, 0.05)):
                    return None
            elif error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
                return None  # the stream was deleted meanwhile
            elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED and not error.retriable():
                raise KafkaException(error)  # a group is never joined, so no right to one is needed


def _identity(message: Message) -> tuple[int, int]:
    """Sequence and incarnation of a record; (0, 0) for a tombstone or a foreign one."""
    given = dict(_headers(message))
    try:
        return int(given[h.LOG_SEQUENCE]), int(given[h.LOG_INCARNATION])
    except (KeyError, ValueError):
        return 0, 0


def _headers(message: Message) -> list[tuple[str, bytes]]:
    given: Any = message.headers() or ()
    return [(name, value or b"") for name, value in given]


def _stored(message: Message, sequence: int) -> StoredMessage:
    headers = _headers(message)
    return StoredMessage(
        (message.key() or b"").partition(b"\0")[0].decode("utf-8"),
        sequence,
        message.value() or b"",
        [(name, value) for name, value in headers if name not in _OURS],
        int(h.first(headers, h.LOG_TIME) or 0),
    )
