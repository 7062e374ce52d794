"""Offsets in the log of a stream: where a sequence or a time begins, found by halving with a consumer.

Every offset is a bound, not a place: what is read from it is compared with the sequence again. Nothing waits for ever: a search never
looks beyond the end that was taken at its beginning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from railgun.errors import ConnectionLost, RailgunError
from railgun.kafka.ends import FIRST, LAST, by_consumer, offsets
from railgun.kafka.record_headers import extras_of, identity_of
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.trouble import in_words, librdkafka

_NEAR: Final = 1_000  # offsets within which a search ends: Spark reads them faster than another probe takes
_PATIENCE: Final = 20.0  # seconds for one answer of Kafka; longer than a transaction may stay open
# One record is wanted at each probe, not all that follows.
_ONE_AT_A_TIME: Final = {"fetch_message_max_bytes": 64 * 1024, "queued_min_messages": 1}

Found = tuple[int, int, int]  # offset, sequence and time (ns) of a message
# Whether a message lies behind what is looked for; once true, true for all that follow.
Passed = Callable[[Found], bool]


class LogSearch:
    """The log of one incarnation, from its first offset to where it ended when this was made.

    Records of sequences above ``last`` are passed over: they came later, or are forged, and then a search would take a wrong turn at them.
    """

    def __init__(
        self, consumer: Consumer, topic: str, incarnation: int, last: int, begin: int, end: int
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._incarnation = incarnation
        self._last = last
        self.begin, self.end = begin, end

    def first(self) -> Found | None:
        """The first message in the log."""
        return self._next(self.begin, self.end)

    def below(self, passed: Passed) -> tuple[int, int]:
        """Two offsets between which the first message lies that has passed: all below the one have not, all from the other on have."""
        low, high = self.begin, self.end
        while high - low > _NEAR:
            middle = (low + high) // 2
            found = self._next(middle, high)
            if found is None or passed(found):
                high = middle
            else:
                low = found[0] + 1
        return low, high

    def _next(self, offset: int, end: int) -> Found | None:
        """The first message from an offset on, below the end."""
        if offset >= end:
            return None
        deadline = time.monotonic() + _PATIENCE
        self._consumer.assign([TopicPartition(self._topic, 0, offset)])
        while time.monotonic() < deadline:
            message = self._consumer.poll(0.2)
            if message is None:
                continue
            deadline = time.monotonic() + _PATIENCE  # any number of tombstones may lie between two messages
            error = message.error()
            at = message.offset()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return None
                raise in_words(error, f"reading the topic {self._topic}")
            if at is None or at >= end:
                return None
            incarnation, sequence = identity_of(message)
            time_ns = extras_of(message).time_ns
            # Without a time it is damaged, and would mislead.
            if incarnation == self._incarnation and sequence <= self._last and time_ns:
                return at, sequence, time_ns
        raise ConnectionLost(f"the topic {self._topic} could not be read within {_PATIENCE:.0f} seconds")


@contextmanager
def searching(settings: KafkaSettings, topic: str, incarnation: int, last: int) -> Iterator[LogSearch]:
    """A search through a log up to a sequence, with a consumer of its own. Raises what keeps Kafka from answering, in words."""
    with _reader(settings, topic) as consumer:
        yield LogSearch(consumer, topic, incarnation, last, *_committed(settings, consumer, topic, 0))


def committed_range(settings: KafkaSettings, topic: str, partition: int) -> tuple[int, int]:
    """First offset and end of a partition, once everything is decided that was written when this was called.

    An answer may overtake the commit of the transaction that it tells of. Raises RailgunError where a transaction stays open.
    """
    with _reader(settings, topic) as consumer:
        return _committed(settings, consumer, topic, partition)


@contextmanager
def _reader(settings: KafkaSettings, topic: str, **isolation: str) -> Iterator[Consumer]:
    overrides = {**_ONE_AT_A_TIME, **isolation}
    made = Consumer(settings.consumer(enable_partition_eof=True, **overrides), logger=librdkafka)
    try:
        yield made
    except KafkaException as error:
        raise in_words(error, f"reading the topic {topic}") from error
    finally:
        made.close()


def _committed(settings: KafkaSettings, consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    place = (topic, partition)
    with _reader(settings, topic, isolation_level="read_uncommitted") as of_all:
        written = offsets(by_consumer(of_all), {place: LAST}, _PATIENCE).check().get(place)
    begin = offsets(by_consumer(consumer), {place: FIRST}, _PATIENCE).check().get(place)
    if begin is None or written is None:
        raise RailgunError(
            f"the topic {topic} is not there, or this user may not see it: try again where a stream is being made "
            "or deleted, else grant Read and Describe"
        )
    deadline = time.monotonic() + _PATIENCE
    while True:
        end = offsets(by_consumer(consumer), {place: LAST}, _PATIENCE).check().get(place, 0)
        if end >= written:
            return begin, end
        if time.monotonic() > deadline:
            raise RailgunError(
                f"a transaction in the topic {topic} has been open for {_PATIENCE:.0f} seconds: try again later"
            )
        time.sleep(0.02)
