"""The bridge from a sink's dead letters, in a plain topic, into a stream: each of them once.

A letter is published under an id that is made of the record's place in the log, so one that Connect wrote twice, or that a
bridge sends again, is stored once within the duplicate window of the stream. How far a bridge has come is kept in Kafka, for each sink and
stream, and moves only behind letters that are stored: a bridge that was ended goes on there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from railgun.client.facade.railgun import Railgun
from railgun.errors import ConfigError, ConnectionLost
from railgun.kafka.ends import FIRST, LAST, by_consumer, offsets
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.trouble import in_words, librdkafka
from railgun.protocol.topics import Names, escape_stream
from railgun.sinks.letter import Letter, letter_of
from railgun.sinks.live import live_incarnation, transport_of
from railgun.sinks.stream_sink import dead_letter_topic

_AT_ONCE: Final = 500  # letters between two notes of how far it is
_PATIENCE: Final = 20.0  # seconds for one answer of Kafka
_POLL: Final = 0.2


class Bridged(NamedTuple):
    """The result of a bridge: letters that were stored, and those that were there already."""

    stored: int
    duplicates: int


def dead_letters(
    rg: Railgun,
    sink: str,
    into: str,
    *,
    subject: str | None = None,
    topic: str | None = None,
    follow: Callable[[], bool] | None = None,
    told: Callable[[Letter], None] | None = None,
) -> Bridged:
    """Publish the dead letters of a sink into a stream, up to where their topic ends now.

    ``subject`` is theirs there; by default it follows from what the stream captures (``dlq.>`` gives ``dlq.<sink>``). With ``follow``
    it goes on until that says False. Raises StreamNotFound, ConfigError, and what the stream refuses: then nothing behind it is noted.
    """
    transport = transport_of(rg)
    names, settings = transport.names, transport.settings
    place = _place(rg, sink, into, subject)
    source = topic or dead_letter_topic(names, sink)
    with _Source(settings, source, _group(names, sink, into, live_incarnation(rg, into))) as letters:
        return _carry(rg, letters, sink, into, place, follow, told)


def _carry(
    rg: Railgun,
    source: _Source,
    sink: str,
    into: str,
    subject: str,
    follow: Callable[[], bool] | None,
    told: Callable[[Letter], None] | None,
) -> Bridged:
    stored = duplicates = 0
    while True:
        batch = source.take(_AT_ONCE)
        letters = [letter_of(sink, record) for record in batch]
        futures = [
            rg.publish_soon(
                subject, one.payload, headers=one.headers, msg_id=one.msg_id, expected_stream=into
            )
            for one in letters
        ]
        for letter, future in zip(letters, futures, strict=True):
            ack = future.result()
            stored += not ack.duplicate
            duplicates += ack.duplicate
            if told is not None:
                told(letter)
        source.note()
        if not batch and (follow is None or not follow()):
            return Bridged(stored, duplicates)


def _place(rg: Railgun, sink: str, into: str, subject: str | None) -> str:
    """The subject of the letters. Raises StreamNotFound, ConfigError."""
    config = rg.stream(into).info().config
    if config.no_ack:
        raise ConfigError(
            f"the stream {into} does not answer publishers (no_ack): it is not a valid place for dead letters"
        )
    if subject is not None:
        return subject
    captured = list(config.subjects or ())
    if len(captured) == 1:
        head, _, last = captured[0].rpartition(".")
        if "*" not in head and ">" not in head:
            name = sink if last in ("*", ">") else last
            return f"{head}.{name}" if head else name
    raise ConfigError(
        f"the stream {into} captures {', '.join(captured) or 'no subject'}, which does not say where dead letters go: name a subject"
    )


def _group(names: Names, sink: str, into: str, incarnation: int | None) -> str:
    return f"{names.prefix}-sink-{sink}-into-{escape_stream(into, 100)}-{incarnation or 0}"


class _Source:
    """The topic of the dead letters, read from where the last bridge of this kind came to. A context manager."""

    def __init__(self, settings: KafkaSettings, topic: str, group: str) -> None:
        self._topic = topic
        config = settings.consumer(group_id=group, enable_partition_eof=True)
        self._consumer = Consumer(config, logger=librdkafka)
        self._next: dict[int, int] = {}  # partition -> offset behind what was taken
        self._ended: set[int] = set()  # partitions that were read to their ends

    def __enter__(self) -> _Source:
        try:
            self._begin()
        except KafkaException as error:
            self._consumer.close()
            raise in_words(error, f"reading the topic {self._topic}") from error
        except BaseException:
            self._consumer.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def _begin(self) -> None:
        found = self._consumer.list_topics(self._topic, timeout=_PATIENCE).topics[self._topic]
        if found.error is not None:
            if found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise KafkaException(found.error)
            raise ConfigError(
                f"there is no topic {self._topic}: Connect makes it when the sink is applied, check the sink's name"
            )
        places = [TopicPartition(self._topic, number) for number in found.partitions]
        noted = {one.partition: one.offset for one in self._consumer.committed(places, timeout=_PATIENCE)}
        ask = by_consumer(self._consumer)
        firsts = offsets(ask, dict.fromkeys(((self._topic, one) for one in noted), FIRST), _PATIENCE).check()
        lasts = offsets(ask, dict.fromkeys(((self._topic, one) for one in noted), LAST), _PATIENCE).check()
        for number, offset in noted.items():
            first, last = firsts[self._topic, number], lasts[self._topic, number]
            # A note behind the end is of a topic of this name that was deleted.
            self._next[number] = offset if first <= offset <= last else first
        self._consumer.assign([TopicPartition(self._topic, *at) for at in self._next.items()])

    def take(self, most: int) -> list[Message]:
        """The next records, of all partitions; none at the end of all of them. Raises ConnectionLost."""
        records: list[Message] = []
        deadline = time.monotonic() + _PATIENCE
        while len(records) < most:
            record = self._consumer.poll(_POLL)
            if record is None:
                if records or len(self._ended) == len(self._next):
                    break
                if time.monotonic() > deadline:
                    raise ConnectionLost(
                        f"the topic {self._topic} could not be read within {_PATIENCE:.0f} seconds"
                    )
                continue
            error, number, offset = record.error(), record.partition(), record.offset()
            assert number is not None, "a record and the end of a partition both name it"
            if error is None and offset is not None:
                self._next[number] = offset + 1
                self._ended.discard(number)
                records.append(record)
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                self._ended.add(number)
            elif error is not None:
                raise in_words(error, f"reading the topic {self._topic}")
        return records

    def note(self) -> None:
        """Note that everything that was taken is stored. Raises NotAuthorized, ConnectionLost."""
        try:
            self._consumer.commit(
                offsets=[TopicPartition(self._topic, *at) for at in self._next.items()], asynchronous=False
            )
        except KafkaException as error:
            raise in_words(error, "noting how far the dead letters are") from error
