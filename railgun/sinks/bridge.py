"""The bridge from a sink's dead letters, in a plain topic, into a stream: each of them once.

A letter is published under an id that is made of the record's place in the log, so one that Connect wrote twice is stored once within the
duplicate window of the stream. How far a bridge has come is kept in Kafka, for each sink and stream, and moves only behind letters that are
stored. Before letters are published, the last sequence of the stream is noted with it: a bridge that goes on where another one was ended, however
long ago, looks behind that sequence for what is there already. One that finds that another has come further goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from railgun.client.facade.railgun import Railgun
from railgun.client.facade.sync.stream import Stream
from railgun.errors import ConfigError, ConnectionLost
from railgun.kafka.ends import FIRST, LAST, by_consumer, offsets
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.trouble import in_words, librdkafka
from railgun.model import headers as h
from railgun.protocol.topics import Names, escape_stream
from railgun.sinks.letter import Letter, letter_of
from railgun.sinks.live import live_incarnation, transport_of
from railgun.sinks.stream_sink import dead_letter_topic

_AT_ONCE: Final = 500  # letters between two notes of how far it is
_PATIENCE: Final = 20.0  # seconds for one answer of Kafka
_POLL: Final = 0.2

_Notes = dict[
    int, tuple[int, str]
]  # by partition the offset behind what is stored, and the text noted with it


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
    stream = rg.stream(into)
    while True:
        batch = source.take(_AT_ONCE)
        if batch and not source.claim(stream.info().state.last_seq):
            continue  # another bridge has carried them
        known = _ids_behind(stream, source.behind) if batch and source.behind is not None else frozenset()
        letters = [letter_of(sink, record) for record in batch]
        futures = [
            None
            if one.msg_id in known
            else rg.publish_soon(
                subject, one.payload, headers=one.headers, msg_id=one.msg_id, expected_stream=into
            )
            for one in letters
        ]
        for letter, future in zip(letters, futures, strict=True):
            fresh = future is not None and not future.result().duplicate
            stored += fresh
            duplicates += not fresh
            if told is not None:
                told(letter)
        if batch:
            source.note()
        elif follow is None or not follow():
            return Bridged(stored, duplicates)


def _ids_behind(stream: Stream, sequence: int) -> frozenset[str | None]:
    """The ids of the messages behind a sequence of the stream."""
    return frozenset(one.header(h.MSG_ID) for one in stream.read(start=sequence + 1, headers_only=True))


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
        self._places: list[TopicPartition] = []
        self._noted: dict[int, int] = {}  # partition -> offset as it was noted last
        self._begun: dict[int, int] = {}  # partition -> offset of what is not noted as stored
        self._next: dict[int, int] = {}  # partition -> offset behind what was taken
        self._ended: set[int] = set()  # partitions that were read to their ends
        self.behind: int | None = (
            None  # the sequence of the stream behind which some of them may be stored already
        )

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
        self._places = [TopicPartition(self._topic, number) for number in found.partitions]
        self._go_on(self._notes())

    def _notes(self) -> _Notes:
        found = self._consumer.committed(self._places, timeout=_PATIENCE)
        return {one.partition: (one.offset, one.metadata or "") for one in found}

    def _go_on(self, notes: _Notes) -> None:
        """Read from where the last bridge has come to."""
        ask = by_consumer(self._consumer)
        firsts = offsets(ask, dict.fromkeys(((self._topic, one) for one in notes), FIRST), _PATIENCE).check()
        lasts = offsets(ask, dict.fromkeys(((self._topic, one) for one in notes), LAST), _PATIENCE).check()
        for number, (offset, _) in notes.items():
            first, last = firsts[self._topic, number], lasts[self._topic, number]
            # A note behind the end is of a topic of this name that was deleted.
            self._next[number] = offset if first <= offset <= last else first
        self._noted = {number: offset for number, (offset, _) in notes.items()}
        self._ended.clear()
        self._begun = dict(self._next)
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

    def claim(self, last: int) -> bool:
        """Note that what was taken is published now, behind this sequence of the stream, if it was not noted so before.

        False if another bridge has come further meanwhile: it goes on from there, and what was taken is void. Raises as ``note``.
        """
        try:
            notes = self._notes()
            if any(offset != self._noted[number] for number, (offset, _) in notes.items()):
                self._go_on(notes)
                return False
            self.behind = _oldest(notes)
            if self.behind is None:
                self._commit(
                    [TopicPartition(self._topic, *at, metadata=str(last)) for at in self._begun.items()]
                )
        except KafkaException as error:
            raise in_words(error, "noting how far the dead letters are") from error
        return True

    def note(self) -> None:
        """Note that everything that was taken is stored. Raises NotAuthorized, ConnectionLost."""
        try:
            self._commit([TopicPartition(self._topic, *at) for at in self._next.items()])
        except KafkaException as error:
            raise in_words(error, "noting how far the dead letters are") from error

    def _commit(self, places: list[TopicPartition]) -> None:
        self._consumer.commit(offsets=places, asynchronous=False)
        self._noted = {place.partition: place.offset for place in places}
        self._begun = dict(self._noted)


def _oldest(notes: _Notes) -> int | None:
    """The sequence of the stream behind which letters are that no note says are stored; None: there are none."""
    return min((int(text) for _, text in notes.values() if text.isdecimal()), default=None)
