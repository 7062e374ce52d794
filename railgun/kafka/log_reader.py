"""Reader of single messages from the log of a stream, for answers that only say where a message is.

Below a wanted offset it waits; reading past the message, or to an end that lies behind it, means that the message was removed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from railgun.errors import RequestTimeout
from railgun.kafka.record_headers import extras_of, fault_of, identity_of
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.skipped import Skipped
from railgun.kafka.trouble import Troubles, in_words, librdkafka
from railgun.model.messages import StoredMessage
from railgun.protocol.log_record import NO_MESSAGE, subject_of
from railgun.protocol.replies import Located
from railgun.protocol.unreadable import Unreadable

logger = logging.getLogger(__name__)

_skipped = Skipped(logger)
_NEAR = 500  # records that are read on rather than jumped over
# A single message is wanted, not all that follows: with the usual 8 MiB and 100,000 records ahead, a get takes many times as long.
_ONE_AT_A_TIME = {"fetch_message_max_bytes": 64 * 1024, "queued_min_messages": 1}
EndOf = Callable[
    [str, int, float], int
]  # topic, partition, timeout -> offset behind the last record, committed or not


class _Reading:
    """The places that one caller asked for, and the messages that were found."""

    def __init__(self, places: Sequence[Located], deadline: float) -> None:
        self.places = places
        self.deadline = deadline
        self.found: dict[Located, StoredMessage | None] = {}
        self.error: Exception | None = None
        self.done = False

    def result(self) -> list[StoredMessage | None]:
        if self.error is not None:
            raise self.error
        return [self.found[place] for place in self.places]


class LogReader:
    """One consumer, without an assignment between reads. The caller that holds the lock reads for all that wait, in one pass."""

    def __init__(self, settings: KafkaSettings, troubles: Troubles, end_of: EndOf) -> None:
        config = settings.consumer(enable_partition_eof=True, **_ONE_AT_A_TIME)
        self._consumer = Consumer({**config, "error_cb": troubles.told}, logger=librdkafka)
        self._end_of = end_of
        self._lock = threading.Lock()
        self._waiting: deque[_Reading] = deque()

    def read(self, places: Sequence[Located], timeout: float) -> list[StoredMessage | None]:
        """The messages at these places, None for one that is gone. Raises RequestTimeout, NotAuthorized."""
        reading = _Reading(places, time.monotonic() + timeout)
        self._waiting.append(reading)
        with self._lock:
            if not reading.done:
                together = [self._waiting.popleft() for _ in range(len(self._waiting))]
                self._read_all(together)
        return reading.result()

    def close(self) -> None:
        with self._lock:
            self._consumer.close()

    def _read_all(self, readings: list[_Reading]) -> None:
        topics = dict.fromkeys(place.topic for reading in readings for place in reading.places)
        for topic in topics:
            wanted = [(one, reading) for reading in readings for one in reading.places if one.topic == topic]
            wanted.sort(key=lambda pair: (pair[0].offset, pair[0].sequence))
            try:
                self._read_topic(topic, wanted)
            except KafkaException as error:
                for reading in {reading for _, reading in wanted}:
                    reading.error = in_words(error, f"reading {topic}")
            finally:
                self._consumer.unassign()
        for reading in readings:
            reading.done = True

    def _read_topic(self, topic: str, wanted: list[tuple[Located, _Reading]]) -> None:
        position = -1
        held: Message | None = None  # read already, and not below the next wanted place
        for place, reading in wanted:
            if reading.error is not None:
                continue
            if position < 0 or place.offset > position + _NEAR:
                position, held = place.offset, None
                self._consumer.assign([TopicPartition(topic, 0, position)])
            while True:
                try:
                    message = held or self._next(topic, place, reading.deadline)
                except RequestTimeout as error:
                    reading.error = error
                    break
                held = message
                if message is None:
                    reading.found[place] = None
                    break
                position = (message.offset() or 0) + 1
                incarnation, sequence = _identified(message)
                if (sequence, incarnation) == (place.sequence, place.incarnation):
                    reading.found[place] = _stored(message, sequence)
                    break
                if sequence > place.sequence or incarnation > place.incarnation:
                    reading.found[place] = None
                    break
                held = None

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


def _identified(message: Message) -> tuple[int, int]:
    """Incarnation and sequence of a record; one that is not a message is below all messages, and is reported in the log."""
    found = identity_of(message)
    if found == NO_MESSAGE:
        _skip(message, fault_of(message))
    return found


def _stored(message: Message, sequence: int) -> StoredMessage | None:
    """The message; None, as if it were gone, where its key is not a subject."""
    subject = subject_of(message.key())
    if subject is None:
        _skip(message, Unreadable("log record", "its key is not a subject"))
        return None
    headers, time_ns = extras_of(message)
    return StoredMessage(subject, sequence, message.value() or b"", headers, time_ns)


def _skip(message: Message, why: Unreadable | None) -> None:
    if why is not None:
        _skipped.add(message.topic() or "", message.offset(), why)
