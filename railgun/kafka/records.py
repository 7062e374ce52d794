"""Records as railgun's rooms want them: small adapters over confluent-kafka's consumer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from railgun.errors import ConnectionLost
from railgun.kafka.settings import KafkaSettings

_BATCH: Final = 10_000
_WAIT: Final = 0.05  # a short batch is only returned after this; at the end of a partition it is pure delay
_PATIENCE: Final = (
    60.0  # seconds without a record, an end or an error before a partition counts as unreadable
)


class KeyedRecord(NamedTuple):
    """One record of a changelog."""

    offset: int
    key: bytes
    value: bytes | None
    written: int  # ms, by the clock of the broker (in topics that were made before: of the producer)


def entry(message: Message) -> KeyedRecord:
    return KeyedRecord(message.offset() or 0, message.key() or b"", message.value(), message.timestamp()[1])


class PartitionReader:
    """Reads the committed records of one partition up to the end as of the moment it gets there."""

    def __init__(self, kafka: KafkaSettings, topic: str, partition: int) -> None:
        self._topic, self._partition = topic, partition
        self._consumer = Consumer(
            # A restore is a burst: let the queue run ahead of Python.
            kafka.consumer(enable_partition_eof=True, queued_min_messages=200_000)
        )

    def __enter__(self) -> PartitionReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def bounds(self) -> tuple[int, int]:
        """The first offset that is still there, and the one behind the last."""
        low, high = self._consumer.get_watermark_offsets(
            TopicPartition(self._topic, self._partition), timeout=15.0
        )
        return low, high

    def batches(self, start: int, cancelled: Callable[[], bool]) -> Iterator[list[KeyedRecord]]:
        """Batches from ``start`` to the end. Ends early when cancelled; raises ConnectionLost when nothing comes."""
        self._consumer.assign([TopicPartition(self._topic, self._partition, start)])
        deadline = time.monotonic() + _PATIENCE
        while not cancelled():
            batch: list[KeyedRecord] = []
            ended = False
            for message in self._consumer.consume(_BATCH, _WAIT):
                error = message.error()
                if error is None:
                    batch.append(entry(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended = True
                elif not error.retriable():
                    raise KafkaException(error)
            if batch:
                yield batch
                deadline = time.monotonic() + _PATIENCE
            if ended:
                return
            if time.monotonic() > deadline:
                raise ConnectionLost(
                    f"{self._topic} partition {self._partition} gave nothing for {_PATIENCE:.0f} s"
                )
