"""The reader of a worker's records, with librdkafka itself: its mock cluster is the broker."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from railgun.kafka.settings import KafkaSettings
from railgun.worker.group import record_reader
from railgun.worker.group.record_reader import Place, RecordReader
from tests.support.naming import unique
from tests.support.waiting import wait_until

PATIENCE = 10.0
THREAD = "railgun-records"


class Broker:
    """librdkafka's mock cluster, which lives in a producer and is open to every other client."""

    def __init__(self) -> None:
        self._producer = Producer(
            {"test.mock.num.brokers": 1, "bootstrap.servers": "none", "linger.ms": 0, "log_level": 3}
        )
        found = self._producer.list_topics(timeout=PATIENCE).brokers.values()
        self.settings = KafkaSettings(",".join(f"{one.host}:{one.port}" for one in found), {})

    def put(self, place: Place, *values: bytes) -> None:
        topic, partition = place
        for value in values:
            self._producer.produce(topic, value, b"key", partition=partition, headers=[("Kind", value[:1])])
        assert self._producer.flush(PATIENCE) == 0

    def place(self) -> Place:
        """A partition that nobody else has."""
        return unique("records"), 0


@pytest.fixture(scope="module")
def broker() -> Broker:
    return Broker()


@contextmanager
def reading(settings: KafkaSettings) -> Iterator[tuple[RecordReader, list[BaseException]]]:
    """A reader, and what it tells of its failure."""
    failures: list[BaseException] = []
    reader = RecordReader(settings, failures.append)
    try:
        yield reader, failures
    finally:
        reader.close()


@pytest.fixture
async def reader(broker: Broker) -> AsyncIterator[RecordReader]:
    with reading(broker.settings) as (made, failures):
        yield made
    assert failures == []


async def values(reader: RecordReader, place: Place, count: int) -> list[bytes | None]:
    """The values of the next records of a partition, as many as are asked for or more."""
    found: list[bytes | None] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < deadline:
        came = await reader.take([place], 0.5)
        found += [record.value for record in came.get(place, [])]
    return found


async def test_records_come_in_order_with_all_that_they_carry(broker: Broker, reader: RecordReader) -> None:
    place = broker.place()
    before = time.time()
    broker.put(place, *(b"%d" % number for number in range(100)))
    reader.assign({place: None})
    records = (await reader.take([place], PATIENCE))[place]
    while len(records) < 100:
        records += (await reader.take([place], PATIENCE))[place]
    assert [record.offset for record in records] == list(range(100))
    assert [record.value for record in records] == [b"%d" % number for number in range(100)]
    assert {record.key for record in records} == {b"key"}
    assert records[42].headers == [("Kind", b"4")]
    assert before - 1 <= records[0].timestamp / 1_000 <= time.time() + 1


async def test_what_comes_later_wakes_who_waits(broker: Broker, reader: RecordReader) -> None:
    place = broker.place()
    broker.put(place, b"early")
    reader.assign({place: None})
    assert await values(reader, place, 1) == [b"early"]
    waiting = asyncio.create_task(reader.take([place], PATIENCE))
    await asyncio.to_thread(broker.put, place, b"late")
    assert [record.value for record in (await waiting)[place]] == [b"late"]


async def test_only_what_is_asked_for_is_taken_and_the_rest_waits(
    broker: Broker, reader: RecordReader
) -> None:
    commands, forwards = broker.place(), broker.place()
    broker.put(commands, b"a", b"b")
    broker.put(forwards, b"x")
    reader.assign({commands: None, forwards: None})
    assert await values(reader, forwards, 1) == [b"x"]
    assert await reader.take([forwards], 0.05) == {}
    assert await values(reader, commands, 2) == [b"a", b"b"]
    assert await reader.take([commands, forwards], 0.05) == {}


async def test_an_assignment_begins_where_it_says_and_drops_what_was_before(
    broker: Broker, reader: RecordReader
) -> None:
    place, other = broker.place(), broker.place()
    broker.put(place, *(b"%d" % number for number in range(10)))
    broker.put(other, b"x")
    reader.assign({place: None, other: None})
    assert await values(reader, other, 1) == [b"x"]
    reader.assign({place: 7})  # records of the first assignment are there, or on their way
    assert await values(reader, place, 3) == [b"7", b"8", b"9"]
    broker.put(other, b"y")
    reader.assign({place: 9})
    assert await values(reader, place, 1) == [b"9"]
    assert await reader.take([place, other], 0.2) == {}
    reader.assign({})
    broker.put(place, b"10")
    assert await reader.take([place], 0.2) == {}
    reader.assign({place: 10})
    assert await values(reader, place, 1) == [b"10"]


async def test_records_on_their_way_while_the_assignment_changes_are_dropped(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = broker.place()
    broker.put(place, *(b"%d" % number for number in range(10)))
    changes: list[Callable[[], None]] = []

    class Interrupted(Consumer):
        """The assignment changes between reading the first records and handing them over."""

        def consume(self, *arguments: Any) -> list[Message]:
            found = super().consume(*arguments)
            if changes:
                changes.pop()()
            return found

    monkeypatch.setattr(record_reader, "Consumer", Interrupted)
    with reading(broker.settings) as (reader, failures):
        changes.append(lambda: reader.assign({place: 7}))
        reader.assign({place: None})
        assert await values(reader, place, 3) == [b"7", b"8", b"9"]
        assert not changes
    assert failures == []


async def test_a_partition_that_nobody_takes_waits_at_the_broker(
    broker: Broker, reader: RecordReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_reader, "_BATCH", 10)
    monkeypatch.setattr(record_reader, "_FULL_BYTES", 50_000)
    monkeypatch.setattr(record_reader, "_ROOM_BYTES", 10_000)
    slow, fast = broker.place(), broker.place()
    sent = [b"%d" % number + b"." * 1_000 for number in range(500)]
    broker.put(slow, *sent)
    reader.assign({slow: None, fast: None})
    found: list[bytes | None] = []
    for taken in range(3):
        for number in range(20):  # the other partition goes on, long after all of the first could have come
            broker.put(fast, b"%d" % number)
            assert await values(reader, fast, 1) == [b"%d" % number]
        came = (await reader.take([slow], PATIENCE))[slow]
        assert 30 <= len(came) <= 60, f"after {taken} times"
        found += [record.value for record in came]
    assert found + await values(reader, slow, len(sent) - len(found)) == sent


async def test_an_error_that_may_pass_is_logged_and_the_others_go_on(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "railgun.worker")
    strict = KafkaSettings(broker.settings.bootstrap, {"auto.offset.reset": "error"})
    place, trimmed = broker.place(), broker.place()
    broker.put(place, b"a")
    broker.put(trimmed, b"x")
    with reading(strict) as (reader, failures):
        reader.assign({place: None, trimmed: 1_000})
        said = "reading commands: fetch failed due to requested offset not available"
        await asyncio.to_thread(wait_until, lambda: said in caplog.text, "it is said in the log")
        broker.put(place, b"b")
        assert await values(reader, place, 2) == [b"a", b"b"]
    assert failures == []


async def test_what_cannot_go_on_is_told_and_ends_the_thread(broker: Broker) -> None:
    with reading(broker.settings) as (reader, failures):
        reader.assign({broker.place(): -77})  # no offset, and none of librdkafka's words for one
        await asyncio.to_thread(wait_until, lambda: bool(failures), "the failure was told")
        (error,) = failures
        assert isinstance(error, KafkaException)
        assert error.args[0].code() == KafkaError._INVALID_ARG
    assert not alive()
    assert failures == [error]


async def test_closing_ends_the_thread_busy_or_idle(broker: Broker) -> None:
    place = broker.place()
    broker.put(place, b"a")
    with reading(broker.settings) as (idle, failures):
        assert alive()
    assert not alive()
    idle.close()  # again: nothing happens
    assert failures == []
    with reading(broker.settings) as (busy, failures):
        busy.assign({place: None})
        assert await values(busy, place, 1) == [b"a"]
    assert not alive()
    assert failures == []


def alive() -> bool:
    return any(thread.name == THREAD for thread in threading.enumerate())
