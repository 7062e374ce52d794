"""The reader of an adopted topic against a real broker: whatever fails in between, it goes on behind what it handed over."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from railgun.kafka.settings import KafkaSettings
from railgun.model.stream_config import TopicSource
from railgun.semantics.streams.adopting.topic_records import (
    UNLIMITED,
    Adoption,
    PartitionOrder,
    TopicFetch,
    TopicOrder,
    TopicSeen,
)
from railgun.worker.adopting import topic_reader
from railgun.worker.adopting.topic_reader import TopicReader
from railgun.worker.adopting.topic_sight import Described, described
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka
COUNT = 20


@pytest.mark.rule("TOP-08", "TOP-11")
def test_a_reader_that_failed_goes_on_where_it_was(
    kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the beginning of its order is gone meanwhile: to begin there again would be to stand still for good."""
    topic = f"adopted-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    fails = threading.Event()

    def described_or_not(admin: AdminClient, topic: str) -> Described | None:
        if fails.is_set():
            fails.clear()
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "a broker is away"))
        return described(admin, topic)

    monkeypatch.setattr(topic_reader, "described", described_or_not)
    write(kafka_bootstrap, topic, 0, COUNT)
    found = wait_for_topic(admin, topic)
    given: list[TopicFetch | TopicSeen] = []
    crashes: list[BaseException] = []

    def take(brought: Sequence[TopicFetch | TopicSeen]) -> None:
        given.extend(brought)

    context: Any = SimpleNamespace(kafka=KafkaSettings(kafka_bootstrap), admin=admin, on_crash=crashes.append)
    order = TopicOrder(TopicSource(topic=topic), found.topic_id, {0: PartitionOrder(1, 0, UNLIMITED)})
    reader = TopicReader(Adoption("S", 1, topic), order, context, take)
    try:
        wait_until(lambda: offsets(given) == list(range(COUNT)), "all is read")
        admin.delete_records([TopicPartition(topic, 0, COUNT // 2)])
        fails.set()
        wait_until(lambda: errors(given) != [], "the failure is told")
        write(kafka_bootstrap, topic, COUNT, COUNT + 5)
        wait_until(lambda: offsets(given)[-1] == COUNT + 4, "it reads on")
    finally:
        reader.stop()
        reader.join(10)
    assert offsets(given) == list(range(COUNT + 5)), "nothing was read twice"
    assert crashes == []


def write(bootstrap: str, topic: str, start: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(start, end):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(20) == 0


def wait_for_topic(admin: AdminClient, topic: str) -> Described:
    wait_until(lambda: described(admin, topic) is not None, "the topic is there")
    found = described(admin, topic)
    assert found is not None
    return found


def offsets(given: Sequence[TopicFetch | TopicSeen]) -> list[int]:
    return [record.offset for one in list(given) if isinstance(one, TopicFetch) for record in one.records]


def errors(given: Sequence[TopicFetch | TopicSeen]) -> list[str]:
    return [one.error for one in list(given) if isinstance(one, TopicSeen) and one.error]
