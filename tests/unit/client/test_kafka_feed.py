"""How the reader of logs sorts what Kafka brings: the order of records and ends matters."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError

from railgun.client.transports.kafka.cursors import Cursor, Track
from railgun.client.transports.kafka.feed import KafkaFeed
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.trouble import Troubles
from tests.unit.client.test_log_cursors import Stored, parcel_of


class Brought(Stored):
    """A record as the consumer brings it, or the news that the log ends."""

    def __init__(self, offset: int, sequence: int = 0, *, end: bool = False) -> None:
        super().__init__(offset, sequence)
        self._end = end

    def topic(self) -> str:
        return "log"

    def error(self) -> Any:
        return KafkaError(KafkaError._PARTITION_EOF) if self._end else None


def feed_with_track() -> tuple[KafkaFeed, Track]:
    feed = KafkaFeed(KafkaSettings("localhost:1", {}), Troubles("localhost:1"), lambda *_: 0, lambda _: None)
    track = feed._tracks["log"] = Track("log")
    track.assigned = True
    parcel, _ = parcel_of([(1, 5, 0)])
    track.add(Cursor(parcel))
    return feed, track


def test_an_end_behind_the_records_that_come_with_it_is_noted() -> None:
    feed, track = feed_with_track()
    feed._sort([Brought(0, 1), Brought(1, 2), Brought(3, end=True)])
    assert (track.position, track.ended) == (2, 3)


def test_an_end_before_the_records_that_come_with_it_is_none() -> None:
    feed, track = feed_with_track()
    feed._sort([Brought(0, end=True), Brought(0, 1), Brought(1, 2)])
    assert (track.position, track.ended) == (2, -1)
