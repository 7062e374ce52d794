"""Transactions that Kafka decided and never finished.

When the only broker of a partition comes back from a crash, the transaction coordinator may find no leader yet for the
partitions of a decided transaction, take them for deleted, and call the transaction complete without its markers (seen
with Kafka 4.3.1, one replica). Its records then stay undecided for every reader, until the next marker of the same producer
on the same partition decides them along with its own: as committed or as aborted, whatever comes first.

So no commit is trusted that took suspiciously long, and a new owner looks for such records after
``init_transactions``, when nothing of its id may be open. Every transaction of a shard writes to its changelog, so:

- undecided there: the state of its messages in the logs decides; where they are undecided too, no client saw any of it, and
  it is committed;
- decided there, undecided in a log: the log follows the changelog, which is known by then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

from confluent_kafka import Consumer, Message, TopicPartition

from railgun.errors import ConnectionLost
from railgun.kafka.ends import LAST, Place, by_consumer, offsets
from railgun.kafka.record_headers import identity_of
from railgun.kafka.settings import KafkaSettings
from railgun.protocol import avro as wire
from railgun.protocol import log_record, registry
from railgun.protocol.commands import Forward
from railgun.protocol.topics import Names
from railgun.shard.drain import Drain, LogAppend, Replies
from railgun.state import keys

log = logging.getLogger("railgun.worker")

Write = Callable[[Drain, bool], None]  # a drain, and whether it is to be committed or aborted

_PATIENCE: Final = 3.0  # the markers of a transaction that ends in order are there by then
_SECONDS: Final = 10.0
_SILENT_POLLS: Final = 10  # a second without a record: the end


class Undecided:
    """Finds records without an end. A context manager: it holds two consumers."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._readers: list[Consumer] = []

    def __enter__(self) -> Undecided:
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self._readers:
            reader.close()

    @cached_property
    def _committed(self) -> Consumer:
        return self._reader("read_committed")

    @cached_property
    def _written(self) -> Consumer:
        return self._reader("read_uncommitted")

    def _reader(self, isolation: str) -> Consumer:
        reader = Consumer(self._kafka.consumer(isolation_level=isolation))
        self._readers.append(reader)
        return reader

    def among(self, places: Iterable[Place]) -> dict[Place, int]:
        """The partitions among these that hold records which stay undecided for longer than any orderly transaction, with
        the offset from which on they do. All are asked at once.

        A topic that is gone holds none: its stream is quarantined with the next publish to it.
        """
        left = list(places)
        deadline = time.monotonic() + _PATIENCE
        while True:
            ends = _ends(left, self._written)
            stable = _ends(left, self._committed)
            left = [place for place, end in ends.items() if stable.get(place, end) < end]
            if not left or time.monotonic() >= deadline:
                return {place: stable[place] for place in left}
            time.sleep(0.05)

    def sequence_at(self, topic: str, offset: int) -> int:
        """The sequence of the first message from this offset of a log on; 0 if only tombstones follow."""
        return next((_sequence(one) for one in _read(self._written, topic, 0, offset) if _sequence(one)), 0)

    def was_committed(self, names: Names, partition: int, offset: int) -> bool:
        """Whether the transaction whose undecided changelog records begin here was committed, as its logs show."""
        streams: dict[bytes, str] = {}
        # Incarnation, first sequence, where to look for it in the log.
        blocks: list[tuple[bytes, int, int]] = []
        for record in _read(self._written, names.changelog, partition, offset):
            key, value = record.key() or b"", record.value()
            if value is None or not keys.is_whole(key):
                continue
            try:
                if key.startswith(keys.STREAM):
                    streams[key[1:9]] = wire.decode("stream_record", value)["name"]
                elif key.startswith(keys.BLOCK):
                    floor = wire.decode("message_block", value)["offset_floor"]
                    blocks.append((key[1:9], keys.sequence_in(key), floor))
            except wire.WireError as error:
                # Its stream is set aside when it is loaded; the other records are enough.
                log.error("shard %d: a record of the changelog cannot be read: %s", partition, error)
        for incarnation, sequence, floor in blocks:
            topic = names.log(streams[incarnation]) if incarnation in streams else ""
            # Nobody wrote after it, and where the log is compacted a later message of it may have replaced its first.
            if topic and any(_sequence(one) >= sequence for one in _read(self._committed, topic, 0, floor)):
                return True
            if topic and not self.among([(topic, 0)]):
                return False  # decided, and yet not to be seen
        return True


def _ends(places: list[Place], asker: Consumer) -> dict[Place, int]:
    return offsets(by_consumer(asker), dict.fromkeys(places, LAST), patience=_SECONDS).check()


def _read(consumer: Consumer, topic: str, partition: int, offset: int) -> Iterator[Message]:
    """Records from the offset on, until none comes for a while."""
    consumer.assign([TopicPartition(topic, partition, offset)])
    try:
        silent = 0
        while silent < _SILENT_POLLS:
            message = consumer.poll(0.1)
            silent += message is None
            if message is not None and message.error() is None:
                silent = 0
                yield message
    finally:
        consumer.unassign()


def _sequence(message: Message) -> int:
    return identity_of(message)[1]


def end_state(undecided: Undecided, names: Names, partition: int, partitions: int, write: Write) -> None:
    """Records that Kafka left undecided in a shard's changelog are decided. Raises ConnectionLost if they stay undecided."""
    changelog = (names.changelog, partition)
    offset = undecided.among([changelog]).get(changelog)
    if offset is None:
        return
    commit = undecided.was_committed(names, partition, offset)
    outcome = "committed" if commit else "aborted"
    log.error("shard %d: Kafka never ended the last transaction: it is %s now", partition, outcome)
    nothing = Forward(partition, "nothing", "").encode()
    marks = Drain(
        changes={keys.UNFINISHED: None},
        replies={"": Replies()},
        registry=[(registry.unfinished_key(partition), None)],
        sent=[(other, nothing) for other in range(partitions)],
    )
    write(marks, commit)
    if undecided.among([changelog]):
        raise ConnectionLost(f"the last transaction of shard {partition} could not be ended")


def end_logs(undecided: Undecided, names: Names, last_sequences: Mapping[str, int], write: Write) -> None:
    """Records that Kafka left undecided in the logs of these streams are decided as the changelog has it."""
    streams = {names.log(stream): stream for stream in last_sequences}
    for (topic, _), offset in undecided.among((topic, 0) for topic in streams).items():
        stream = streams[topic]
        stored = undecided.sequence_at(topic, offset) <= last_sequences[stream]
        log.error("%s holds undecided messages: they are %s", topic, "stored" if stored else "dropped")
        write(
            Drain(appends={topic: LogAppend(stream, topic, 0, tombstones=[(0, log_record.MARKER_KEY)])}),
            stored,
        )
