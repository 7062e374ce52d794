"""Topics that a worker reads are deleted and made anew, or end before what was read: said loudly, and nothing new is dropped."""

from __future__ import annotations

import asyncio
import logging
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from railgun.cli.doctor.input_checks import check_inputs as doctor
from railgun.kafka.readings import Reading
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.topic_admin import Topics, cell_topics, topic_ids
from railgun.protocol.topics import Names
from railgun.shard.cursor import Cursor
from railgun.worker.shards.inputs import check_inputs
from tests.support.cell import Cell
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS

pytestmark = pytest.mark.kafka
STREAMS = ["ORDERS", "EVENTS", "S"]


def make_anew(cell: Cell) -> None:
    """Delete the commands and make the topic again, as `railgun init` does."""
    names, topics = Names(cell.prefix), Topics(AdminClient({"bootstrap.servers": cell.bootstrap}))
    topics.delete(names.commands)
    topics.create(plan for plan in cell_topics(names, PARTITIONS, 1) if plan.name == names.commands)


def content(cell: Cell) -> bool:
    """The doctor finds nothing wrong with what the workers read, and they have told how far."""
    names = Names(cell.prefix)
    admin = AdminClient({"bootstrap.servers": cell.bootstrap})
    found = list(doctor(admin, names.group, {names.commands, names.forwards}))
    return [one.verdict for one in found] == ["ok"] and not found[0].text.startswith("0 ")


def test_commands_that_were_made_anew_while_no_worker_ran_are_decided(cell: Cell) -> None:
    worker = cell.ready_worker()
    client = cell.client
    client.timeout = 60.0
    for name in STREAMS:
        client.create_stream(name)
        client.publish(name, *[b"x"] * 5)
        client.publish(name, b"x")
    wait_until(lambda: content(cell), "the doctor is content")
    worker.stop()
    make_anew(cell)
    waiting = [client.send_pack(name, [b"waits in the new topic"]) for name in STREAMS]
    worker.start()
    assert [client.pack_reply(first).runs for first in waiting] == [[(0, 1, 7)]] * len(STREAMS)
    assert [client.publish(name, b"y").runs for name in STREAMS] == [[(0, 1, 8)]] * len(STREAMS)
    assert "commands is not what it was: it is another topic now: the id was" in worker.text()


def test_commands_that_are_made_anew_under_a_worker_are_decided(cell: Cell) -> None:
    worker = cell.ready_worker()
    with cell.connect() as rg:
        for name in STREAMS:
            rg.create_stream(name, subjects=[f"{name}.*"])
            for _ in range(5):
                rg.publish(f"{name}.a", b"x")
    make_anew(cell)
    with cell.connect(timeout=60.0) as rg:
        assert [rg.publish(f"{name}.a", b"y").sequence for name in STREAMS] == [6] * len(STREAMS)
    assert "commands is not what it was: it is another topic now: the id was" in worker.text()
    assert worker.alive
    wait_until(lambda: content(cell), "the doctor is content")


class Topic:
    """The commands and forwards of a cell without a worker, with five commands."""

    def __init__(self, bootstrap: str) -> None:
        self.kafka = KafkaSettings(bootstrap)
        self.names = Names(f"anew-{uuid.uuid4().hex[:8]}")
        self.admin = AdminClient(self.kafka.admin())
        inputs = (self.names.commands, self.names.forwards)
        Topics(self.admin).create(plan for plan in cell_topics(self.names, 1, 1) if plan.name in inputs)
        producer = Producer(self.kafka.producer())
        for _ in range(5):
            producer.produce(self.names.commands, b"x", None, 0)
        assert producer.flush(20) == 0
        self.id = topic_ids(self.admin, inputs)[self.names.commands]

    def cursor(self, offset: int, topic: str, received: int) -> Cursor:
        cursor = Cursor()
        stored = {"commands": offset, "commands_topic": topic, "commands_received": received}
        cursor.load(cursor.stored() | stored)
        return cursor

    def check(self, cursor: Cursor) -> bool:
        context: Any = SimpleNamespace(names=self.names, admin=self.admin, kafka=self.kafka)
        return check_inputs(context, 0, cursor)


LATER = 2**52 * 1_000  # ns, long after any test


@pytest.fixture(scope="module")
def topic(kafka_bootstrap: str) -> Topic:
    return Topic(kafka_bootstrap)


@pytest.mark.parametrize(
    "offset,other_id,received,goes_on,said",
    [
        (5, False, LATER, 5, ""),
        (3, False, 0, 3, ""),
        (3, True, LATER, 0, "the id was another and is"),
        (5, False, 1, 0, "from 0 on its records are newer"),
    ],
)
def test_the_cursor_fits_its_topic_or_is_moved(
    topic: Topic,
    offset: int,
    other_id: bool,
    received: int,
    goes_on: int,
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cursor = topic.cursor(offset, "another" if other_id else topic.id, received)
    with caplog.at_level(logging.ERROR, "railgun.worker"):
        assert topic.check(cursor) == (not said)
    assert cursor.reading(False)[:2] == (goes_on, topic.id)
    assert said in caplog.text


def test_an_end_below_the_cursor_is_seen_by_writing_and_new_commands_count(
    kafka_bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = Topic(kafka_bootstrap)
    cursor = topic.cursor(1_000, topic.id, LATER)
    assert not topic.check(cursor)
    assert "read up to offset 1000, but ends at 6" in caplog.text
    assert cursor.reading(False)[:2] == (6, topic.id)
    assert topic.check(cursor)


async def tell(topic: Topic, reading: Reading) -> None:
    """As a worker tells the group."""
    place = TopicPartition(topic.names.commands, 0)
    member = AIOKafkaConsumer(
        bootstrap_servers=topic.kafka.bootstrap, group_id=topic.names.group, enable_auto_commit=False
    )
    member.assign([place])
    async with member:
        await member.commit({place: OffsetAndMetadata(reading.offset, reading.metadata())})


@pytest.mark.parametrize(
    "reading,said",
    [
        (Reading(1_000, "", 0), "read up to offset 1000, but ends at 5"),
        (Reading(3, "another", LATER), "the id was another and is"),
        (Reading(5, "", 1), "from 0 on its records are newer"),
    ],
)
def test_the_doctor_compares_what_the_group_has_read_with_what_is_there(
    kafka_bootstrap: str, reading: Reading, said: str
) -> None:
    topic = Topic(kafka_bootstrap)
    asyncio.run(tell(topic, reading))
    (found,) = doctor(topic.admin, topic.names.group, {topic.names.commands})
    assert found.verdict == "wrong"
    assert said in found.text
