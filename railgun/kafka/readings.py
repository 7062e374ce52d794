"""The place up to which a topic was read, and whether it is still that topic: it may have been made anew, cut back or restored from a copy.

An offset alone does not say it. A topic that is deleted and made again begins at 0, and one that lost its end goes on below
where it was read; a reader that trusts the offset then takes new records for old ones. So the id of the topic and the newest time of
receipt belong to each offset, in a shard's cursor and in the metadata of the group's offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from railgun.kafka.ends import LAST, Ask, Place, by_consumer, offsets
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.topic_admin import topic_ids

_MS = 1_000_000


class Reading(NamedTuple):
    """The next offset to read, the topic's id ("" if it is not known), and the newest time of receipt so far, ns."""

    offset: int
    topic: str = ""
    received: int = 0

    def metadata(self) -> str:
        """The metadata that the group keeps beside the offset.

        It ends with a NUL: confluent-kafka reads the metadata of others' offsets up to the next one, wherever that is.
        """
        return f"{self.topic} {self.received}\0"

    @classmethod
    def from_metadata(cls, offset: int, metadata: str) -> Reading:
        """The reading that the group keeps; from an older version, or from another program, only the offset."""
        topic, _, received = metadata.partition("\0")[0].partition(" ")
        return cls(offset, topic, int(received)) if received.isdigit() else cls(offset)


class Found(NamedTuple):
    """A partition as the brokers have it."""

    topic: str
    end: int
    newer: int | None  # the first record that was received later than all that was read


class Continuation(NamedTuple):
    """The offset to read on from, and the defect of the partition in words."""

    offset: int
    wrong: str = ""
    shortened: bool = False  # wrong only by the end that a broker reported, which may be an old one


def go_on(read: Reading, found: Found) -> Continuation:
    """Compare the place that was read with the partition as it is."""
    if read.topic and read.topic != found.topic:
        return Continuation(0, f"it is another topic now: the id was {read.topic} and is {found.topic}")
    if found.newer is not None and found.newer < read.offset:
        text = f"it was read up to offset {read.offset}, but from {found.newer} on its records are newer than that"
        return Continuation(found.newer, text)
    if found.end < read.offset:
        text = f"it was read up to offset {read.offset}, but ends at {found.end}"
        return Continuation(found.end, text, shortened=True)
    return Continuation(read.offset)


def look_from_worker(
    kafka: KafkaSettings, admin: AdminClient, readings: Mapping[Place, Reading], patience: float = 0.0
) -> dict[Place, Found]:
    """The partitions as :func:`look` finds them, asked for with a consumer of its own."""
    asker = Consumer(kafka.consumer(isolation_level="read_uncommitted"))
    try:
        return look(admin, by_consumer(asker), readings, patience)
    finally:
        asker.close()


def look(
    admin: AdminClient, ask: Ask, readings: Mapping[Place, Reading], patience: float = 0.0
) -> dict[Place, Found]:
    """The partitions as they are; those of a topic that is gone are left out. Raises KafkaException.

    ``ask``: about all records, committed or not.
    """
    ids = topic_ids(admin, {topic for topic, _ in readings})
    there = [place for place in readings if place[0] in ids]
    ends = offsets(ask, dict.fromkeys(there, LAST), patience).check()
    later = {place: readings[place].received // _MS + 1 for place in there if readings[place].received}
    newer = offsets(ask, later, patience).check()
    return {
        place: Found(ids[place[0]], end, newer[place] if newer.get(place, -1) >= 0 else None)
        for place, end in ends.items()
    }
