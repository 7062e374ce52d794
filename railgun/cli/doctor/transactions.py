"""Transactions that stay open hold up every reader behind them: found by comparing the ends of partitions.

Kafka's last stable offset stops at the first open transaction. Where it lies below the end, the age of the record there
tells a transaction at work from one that will not end by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from railgun.cli.doctor.findings import Finding, note, ok, some, wrong
from railgun.kafka.ends import FIRST, LAST, Place, by_admin, offsets
from railgun.kafka.settings import KafkaSettings

# A worker's transaction times out after 10 s, and the broker looks for such every 10 s: older than this is not normal.
HUNG_AFTER: Final = 30.0
_READ: Final = 3.0


def records_in(admin: AdminClient, topic: str, partitions: int) -> int:
    """About how many records the topic holds (markers of transactions count too)."""
    places = [(topic, number) for number in range(partitions)]
    ask = by_admin(admin, committed=False)
    first, last = (offsets(ask, dict.fromkeys(places, end)).found for end in (FIRST, LAST))
    return sum(last[place] - first.get(place, last[place]) for place in last)


def hung_transactions(
    admin: AdminClient, settings: KafkaSettings, topics: Mapping[str, int]
) -> Iterator[Finding]:
    """One finding a partition that an old transaction holds up, or one that all is well."""
    places = [(name, number) for name, count in topics.items() for number in range(count)]
    stable = offsets(by_admin(admin, committed=True), dict.fromkeys(places, LAST)).found
    ends = offsets(by_admin(admin, committed=False), dict.fromkeys(places, LAST)).found
    held = {place: offset for place, offset in stable.items() if offset < ends.get(place, offset)}
    ages = {place: age_of_record(settings, *place, offset) for place, offset in held.items()}
    hung = [place for place, age in ages.items() if age is not None and age > HUNG_AFTER]
    for topic, partition in hung:
        start = held[topic, partition]
        yield wrong(
            "transactions",
            f"{topic}/{partition} is held up at offset {start} by a transaction {ages[topic, partition]:.0f} s old",
            f"kafka-transactions.sh --bootstrap-server {settings.bootstrap} abort --topic {topic} "
            f"--partition {partition} --start-offset {start}",
        )
    unasked = [place for place in places if place not in stable.keys() & ends.keys()]
    if unasked:
        yield note(
            "transactions",
            f"{len(unasked)} of {len(places)} partitions did not tell their end offsets: {_some(unasked)}",
            "look at the brokers that lead them, then run railgun doctor again",
        )
    unknown = [place for place, age in ages.items() if age is None]
    if unknown:
        yield note(
            "transactions",
            f"the age of open transactions is unknown at {_some(unknown)}",
            "run railgun doctor again in a minute",
        )
    if not hung and not unknown and not unasked:
        yield ok("transactions", f"no transaction hangs ({len(held)} at work in {len(stable)} partitions)")


def _some(places: list[Place]) -> str:
    return some([f"{topic}/{partition}" for topic, partition in places])


def age_of_record(settings: KafkaSettings, topic: str, partition: int, offset: int) -> float | None:
    """Seconds since the record was written; None if it cannot be read."""
    consumer = Consumer(settings.consumer(isolation_level="read_uncommitted"))
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        message = consumer.poll(_READ)
        if message is None or message.error() is not None:
            return None
        _, written = message.timestamp()
        return max(time.time() - written / 1000, 0.0)
    finally:
        consumer.close()
