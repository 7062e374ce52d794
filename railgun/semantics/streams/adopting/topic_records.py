"""What passes between a shard and the readers of adopted topics: records and looks come in, orders go out.

All of it lives in memory only. A position in the table decides what is copied; a fetch that does not fit it is dropped, and read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from railgun.model.stream_config import TopicSource

UNLIMITED: Final = 1 << 62


class TopicRecord(NamedTuple):
    """A record of an adopted topic, as Kafka has it."""

    offset: int
    time: int  # ms
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    value: bytes | None


class Adoption(NamedTuple):
    """A topic that a stream adopts. A stream has a topic once (TOP-02)."""

    stream: str
    incarnation: int
    topic: str


class TopicFetch(NamedTuple):
    """Records of one partition: all that there are from ``after`` up to ``reached``, which may lie behind markers and aborted records."""

    of: Adoption
    topic_id: str
    partition: int
    after: int
    reached: int
    records: Sequence[TopicRecord]
    order: int = 0  # the number of the order that it was read by
    end: int = 0  # of the partition, as far as the reader knows
    size: int = 0  # bytes of memory

    @property
    def place(self) -> str:
        """The fetch in words, for whoever reads the log of a worker."""
        return f"the record {self.of.topic}/{self.partition}/{self.after} of the stream {self.of.stream}"

    def parts(self) -> Sequence[TopicFetch]:
        """The same records one by one, for the search for one that cannot be applied."""
        if len(self.records) < 2:
            return (self,)
        ends = [*(record.offset for record in self.records[1:]), self.reached]
        starts = [self.after, *ends[:-1]]
        return [
            self._replace(after=start, reached=end, records=[record])
            for start, end, record in zip(starts, ends, self.records, strict=True)
        ]


class PartitionSeen(NamedTuple):
    """A partition as the brokers have it."""

    partition: int
    low: int
    high: int
    start: int = 0  # where a stream that has not begun begins
    unreadable: bool = False  # its reader was told that its offset is out of range


class TopicSeen(NamedTuple):
    """A look at a topic; with an ``error`` what is wrong with it, whether it could be looked at or not."""

    of: Adoption
    topic_id: str = ""
    partitions: Sequence[PartitionSeen] = ()
    error: str = ""

    @property
    def place(self) -> str:
        """The look in words."""
        return f"a look at the topic {self.of.topic} of the stream {self.of.stream}"

    def parts(self) -> Sequence[TopicSeen]:
        return (self,)


class PartitionOrder(NamedTuple):
    """Read from here on, so many records at most (0: none); followed when its number is new."""

    number: int
    offset: int
    most: int


class TopicOrder(NamedTuple):
    """What the reader of a topic is to do. Partitions that are not named wait for the next look."""

    source: TopicSource
    topic_id: str
    partitions: Mapping[int, PartitionOrder]


TopicOrders = Mapping[Adoption, TopicOrder]
