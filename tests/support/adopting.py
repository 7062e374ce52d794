"""A shard that adopts topics, and the topics themselves, in memory: fetches of any size, dropped drains, new owners."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from railgun.model.cluster_limits import ClusterLimits
from railgun.semantics.streams.adopting.topic_records import (
    Adoption,
    PartitionSeen,
    TopicFetch,
    TopicRecord,
    TopicSeen,
)
from railgun.shard.core import ShardCore
from railgun.shard.drain import Given
from tests.support.shards import NAMES, Shards

SECOND = 1_000_000_000
STREAM = "ORDERS"
TOPIC = "orders"


@dataclass
class Topic:
    """Partitions of records; None is an offset that readers do not see: a marker, or a record that was aborted."""

    topic_id: str = "id-1"
    partitions: list[list[TopicRecord | None]] = field(default_factory=list)
    low: dict[int, int] = field(default_factory=dict)

    def add(
        self,
        partition: int,
        value: bytes | None,
        key: bytes | None = b"k",
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> None:
        records = self.partitions[partition]
        records.append(TopicRecord(len(records), 1_700_000_000_000, key, headers, value))

    def skip(self, partition: int) -> None:
        self.partitions[partition].append(None)


class Adopter(Shards):
    """One shard with one stream, and a topic that it copies. The test is the reader, and follows the orders."""

    def __init__(self, partitions: int = 1, **limits: Any) -> None:
        super().__init__(1, ClusterLimits(own_topics="railgun.", **limits))
        self.topic = Topic(partitions=[[] for _ in range(partitions)])

    def make(self, **fields: Any) -> dict[str, Any]:
        config = {"name": STREAM, "topics": [{"topic": TOPIC}], **fields}
        return self.ask(f"STREAM.CREATE.{STREAM}", config)

    def ask(self, api: str, body: dict[str, Any] | bytes = b"") -> dict[str, Any]:
        request = self.request(api, body)
        self.settle()
        return self.answer(request)

    @property
    def core(self) -> ShardCore:
        return self.cores[0]

    @property
    def state(self) -> Any:
        found = self.core._streams.get(STREAM)
        assert found is not None
        return found

    @property
    def of(self) -> Adoption:
        return Adoption(STREAM, self.state.incarnation, TOPIC)

    def decide(self, *given: Given, commit: bool = True) -> None:
        """One drain."""
        drain = self.core.apply(given, self.now)
        if commit:
            self._deliver(self.core, drain)
        else:
            self.core.aborted()

    # -- the reader

    def seen(self, *, start: str = "beginning", unreadable: tuple[int, ...] = ()) -> TopicSeen:
        found = []
        for number, records in enumerate(self.topic.partitions):
            low, high = self.topic.low.get(number, 0), len(records)
            begin = low if start == "beginning" else high
            found.append(PartitionSeen(number, low, high, begin, number in unreadable))
        return TopicSeen(self.of, self.topic.topic_id, found)

    def look(self, **options: Any) -> None:
        self.decide(self.seen(**options))

    def fetch(self, partition: int, count: int = 1_000, after: int | None = None) -> TopicFetch:
        """What a reader brings that follows its order, or begins at ``after``."""
        order = self.core.adopting.orders()[self.of].partitions[partition]
        begin = order.offset if after is None else after
        records = self.topic.partitions[partition]
        part = records[begin : begin + count]
        reached = begin + len(part)
        real = [one for one in part if one is not None]
        return TopicFetch(
            *(self.of, self.topic.topic_id, partition, begin, reached, real, order.number, len(records), 1)
        )

    def position(self, partition: int) -> int:
        return int(self.state.adopted.partitions(TOPIC)[partition].position)

    def copy_all(self) -> None:
        """Read until nothing is left or the stream takes no more."""
        for _ in range(200):
            orders = self.core.adopting.orders()[self.of].partitions
            left = [
                number
                for number, one in orders.items()
                if one.most and self.position(number) < len(self.topic.partitions[number])
            ]
            if not left:
                return
            for number in left:
                at, most = self.position(number), orders[number].most
                self.decide(self.fetch(number, most, at))

    def texts(self) -> list[bytes]:
        topic = NAMES.log(STREAM)
        return [self.written[topic, entry.sequence].payload for entry in self.state.iterate()]

    def message(self, sequence: int) -> Any:
        return self.written[NAMES.log(STREAM), sequence]

    def info(self) -> dict[str, Any]:
        told = self.ask(f"STREAM.INFO.{STREAM}")
        (topic,) = told["topics"]
        return dict(topic)
