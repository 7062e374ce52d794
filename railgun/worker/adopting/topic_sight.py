"""The sight of a topic: its id, its partitions and their bounds, asked of the brokers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from railgun.kafka.answers import answer_of
from railgun.kafka.ends import FIRST, LAST, by_consumer, offsets
from railgun.model.durations import parse_rfc3339
from railgun.model.stream_config import TopicSource
from railgun.semantics.streams.adopting.topic_records import PartitionSeen

_SECONDS: Final = 5.0


class Described(NamedTuple):
    """A topic: its id, and how many partitions it has."""

    topic_id: str
    partitions: int


def described(admin: AdminClient, topic: str) -> Described | None:
    """The topic as it is now; None if there is none that this worker may see. Raises KafkaException."""
    future = admin.describe_topics(TopicCollection([topic]), request_timeout=_SECONDS)[topic]
    try:
        found = answer_of(future, _SECONDS + 2)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise
    return Described(str(found.topic_id), len(found.partitions))


def partitions_seen(
    consumer: Consumer, source: TopicSource, count: int, known: Iterable[int], unreadable: Iterable[int]
) -> list[PartitionSeen]:
    """The bounds of all partitions; of those that are not ``known`` also where the source begins. Raises KafkaException.

    Empty when a partition is not there yet, or no more: one that was left out would be taken for one that was added later (TOP-13).
    """
    ask, places = by_consumer(consumer), [(source.topic, number) for number in range(count)]
    low = offsets(ask, dict.fromkeys(places, FIRST)).check()
    high = offsets(ask, dict.fromkeys(places, LAST)).check()
    begun, told = set(known), set(unreadable)
    starts = low if source.start == "beginning" else high
    if source.opt_start_time:  # TOP-13: where there is no record since, it is the end
        millis = -(-parse_rfc3339(source.opt_start_time) // 1_000_000)
        fresh = [place for place in places if place[1] not in begun]
        since = offsets(ask, dict.fromkeys(fresh, millis)).check() if fresh else {}
        starts = {place: high[place] if offset < 0 else offset for place, offset in since.items()}
    if any(
        place not in low or place not in high or not (place in starts or place[1] in begun)
        for place in places
    ):
        return []
    return [
        PartitionSeen(place[1], low[place], high[place], starts.get(place, low[place]), place[1] in told)
        for place in places
    ]
