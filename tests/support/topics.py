"""Kafka topics that belong to somebody else: made, written, cut and made anew by a test."""

from __future__ import annotations

import secrets
import time

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from railgun.kafka.settings import KafkaSettings

_SECONDS = 15.0


class ForeignTopic:
    """One topic, and a producer for it."""

    def __init__(self, bootstrap: str, partitions: int = 3, *, create: bool = True) -> None:
        self.name = f"foreign-{secrets.token_hex(4)}"
        self._kafka = KafkaSettings(bootstrap)
        self._admin = AdminClient(self._kafka.admin())
        if create:
            self.create(partitions)

    def create(self, partitions: int = 3) -> None:
        self._admin.create_topics([NewTopic(self.name, partitions, 1)])[self.name].result(_SECONDS)
        self._wait(partitions)

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result(_SECONDS)
        self._wait(0)

    def add_partitions(self, total: int) -> None:
        self._admin.create_partitions([NewPartitions(self.name, total)])[self.name].result(_SECONDS)
        self._wait(total)

    def _wait(self, partitions: int) -> None:
        """Until the broker's own view of the topic has changed."""
        deadline = time.monotonic() + _SECONDS
        while (
            len(getattr(self._admin.list_topics(timeout=5).topics.get(self.name), "partitions", ()))
            != partitions
        ):
            assert time.monotonic() < deadline, f"{self.name} never had {partitions} partitions"
            time.sleep(0.02)
        self._producer = Producer(self._kafka.producer())  # which knows the topic as it is now

    def cut(self, partition: int, offset: int) -> None:
        """Remove the records below the offset, as retention does."""
        for future in self._admin.delete_records([TopicPartition(self.name, partition, offset)]).values():
            future.result(_SECONDS)

    def write(self, first: int, count: int, partitions: int = 3, **options: bytes | None) -> None:
        """Records whose values count on, in all partitions by turns."""
        for number in range(first, first + count):
            self.put(number % partitions, b"%d" % number, options.get("key", b"k%d" % (number % 7)))
        self.flush()

    def put(
        self,
        partition: int,
        value: bytes | None,
        key: bytes | None,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> None:
        self._producer.produce(self.name, value, key, partition, headers=headers)

    def flush(self) -> None:
        assert self._producer.flush(_SECONDS) == 0

    def transaction(self, first: int, count: int, *, commit: bool) -> None:
        """Records in a transaction that is committed or aborted."""
        producer = Producer(self._kafka.transactional_producer(f"tx-{self.name}-{first}"))
        producer.init_transactions(_SECONDS)
        producer.begin_transaction()
        for number in range(first, first + count):
            producer.produce(self.name, b"%d" % number, b"t", number % 3)
        producer.flush(_SECONDS)
        (producer.commit_transaction if commit else producer.abort_transaction)(_SECONDS)
