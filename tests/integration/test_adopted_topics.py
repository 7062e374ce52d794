"""Adopted topics on Kafka: transactions of others, kills in mid-copy, rebalances, topics that change under the reader, full streams."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

import railgun
from railgun.kafka.settings import KafkaSettings
from railgun.model import headers as h
from railgun.protocol.topics import Names
from tests.chaos.copying.logs import read_logs
from tests.support.cell import Cell
from tests.support.topics import ForeignTopic
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]
PATIENCE = 60.0


@pytest.fixture
def topic(kafka_bootstrap: str) -> ForeignTopic:
    return ForeignTopic(kafka_bootstrap)


@pytest.fixture
def rg(shared_cell: Cell) -> Iterator[railgun.Railgun]:
    with shared_cell.connect(PATIENCE) as facade:
        yield facade


@pytest.fixture
def name(topic: ForeignTopic) -> str:
    return "S" + topic.name.removeprefix("foreign-")


def holds(stream: railgun.Stream, count: int) -> railgun.TopicSourceInfo:
    """Wait until so many messages are there, and nothing is left to copy."""

    def done() -> bool:
        info = stream.info()
        return info.state.messages == count and info.topics[0].lag == 0 and bool(info.topics[0].partitions)

    wait_until(done, f"{count} messages in {stream.name}", PATIENCE)
    info = stream.info()
    assert info.state.messages == count, "and no more"
    return info.topics[0]


def values(stream: railgun.Stream) -> list[int]:
    return [int(message.payload) for message in stream.read()]


def in_order(found: list[int], wanted: list[int]) -> None:
    """Each once, and in the order of its partition."""
    assert len(found) == len(wanted)
    digests = [hashlib.sha256(repr(sorted(one)).encode()).hexdigest() for one in (found, wanted)]
    assert digests[0] == digests[1]
    for partition in range(3):
        mine = [one for one in found if one % 3 == partition]
        assert mine == sorted(mine)


@pytest.mark.rule("TOP-01", "TOP-07", "TOP-15")
def test_committed_records_of_all_partitions_are_copied(
    topic: ForeignTopic, rg: railgun.Railgun, name: str
) -> None:
    topic.write(0, 300)
    topic.transaction(300, 60, commit=True)
    topic.transaction(360, 60, commit=False)
    stream = rg.create_stream(name, topics=[topic.name])
    topic.write(420, 30)
    told = holds(stream, 390)
    in_order(values(stream), [*range(360), *range(420, 450)])
    assert told.error is None
    assert [one.partition for one in told.partitions] == [0, 1, 2]
    assert all(one.position == one.end and one.lag == 0 for one in told.partitions)
    message = stream.get(1)
    source, partition, offset, _ = (message.header(h.TOPIC_SOURCE) or "").split()
    assert (source, int(partition), offset) == (topic.name, int(message.payload) % 3, "0")
    assert message.subject == f"{topic.name}.{message.header(h.TOPIC_KEY)}"

    worker = stream.create_consumer("WORKER", filter_subject=f"{topic.name}.k3")
    task = worker.next(wait=10)
    assert task.subject == f"{topic.name}.k3"
    task.ack_sync()


@pytest.mark.rule("TOP-08")
def test_a_worker_is_killed_in_mid_copy_and_another_one_shares_its_shards(
    cell: Cell, topic: ForeignTopic, name: str
) -> None:
    first = cell.ready_worker()
    with cell.connect(PATIENCE) as rg:
        topic.write(0, 9_000)
        stream = rg.create_stream(name, topics=[topic.name])
        wait_until(lambda: stream.info().state.messages > 0, "a first copy", PATIENCE, pause=0.005)
        first.kill()
        second = cell.worker()
        first.start()  # whoever comes first, the shards move when the other one does
        topic.transaction(9_000, 300, commit=False)
        topic.write(9_300, 3_000)
        second.wait_for(": ready after")
        topic.write(12_300, 300)
        told = holds(stream, 12_300)
        wanted = [*range(9_000), *range(9_300, 12_600)]
        log = Names(cell.prefix).log(name)
        in_order([int(one.payload) for one in read_logs(cell.bootstrap, [log])[log]], wanted)
        assert told.error is None


@pytest.mark.rule("TOP-12", "TOP-13", "TOP-11", "TOP-14")
def test_a_topic_that_grows_is_cut_and_is_made_anew(
    topic: ForeignTopic, rg: railgun.Railgun, name: str
) -> None:
    topic.write(0, 30)
    source = railgun.TopicSource(topic=topic.name, start="end", subject="all")
    stream = rg.create_stream(name, topics=[source])
    wait_until(lambda: bool(stream.info().topics[0].partitions), "a first look", PATIENCE)
    topic.write(30, 30)
    holds(stream, 30)
    topic.add_partitions(4)
    topic.put(3, b"100", b"")
    topic.flush()
    wait_until(lambda: stream.info().state.messages == 31, "the record of a new partition", PATIENCE)

    rg.update_stream(name, topics=None, subjects=[f"{name}.own"])
    topic.write(60, 30)
    topic.cut(0, 25)  # 20 were copied, 10 more are there
    rg.update_stream(name, topics=[source], subjects=[])
    told = holds(stream, 31 + 25)
    assert [one.lost for one in told.partitions] == [5, 0, 0, 0]
    assert told.error is not None
    assert "5 offsets from 20 on were removed by Kafka" in told.error.description

    topic.delete()
    wait_until(lambda: "does not exist" in said(stream), "the missing topic told", PATIENCE)
    topic.create(3)
    topic.write(300, 240)  # beyond the offsets that were reached in the old one
    told = holds(stream, 31 + 25 + 240)
    in_order(values(stream)[-240:], [*range(300, 540)])
    assert "was deleted and created anew" in said(stream)


def said(stream: railgun.Stream) -> str:
    error = stream.info().topics[0].error
    return "" if error is None else error.description


@pytest.mark.rule("TOP-10", "TOP-03")
def test_a_full_stream_makes_its_topic_wait(kafka_bootstrap: str, rg: railgun.Railgun, name: str) -> None:
    """The topic comes only after the stream."""
    topic = ForeignTopic(kafka_bootstrap, create=False)
    stream = rg.create_stream(name, topics=[topic.name], max_msgs=20, discard="new", retention="workqueue")
    wait_until(lambda: "does not exist" in said(stream), "the missing topic told", PATIENCE)
    topic.create(3)
    topic.write(0, 200)
    wait_until(lambda: stream.info().state.messages == 20, "a full stream", PATIENCE)
    wait_until(lambda: "maximum messages exceeded" in said(stream), "why it waits", PATIENCE)
    assert stream.info().topics[0].lag > 0
    worker = stream.create_consumer("WORKER")
    found: list[int] = []
    for _ in range(200):
        batch = worker.fetch(10, wait=5)
        found += [int(one.payload) for one in batch]
        for one in batch:
            one.ack()
        if len(found) >= 200:
            break
    in_order(found, list(range(200)))
    holds(stream, 0)
    assert said(stream) == ""


@pytest.mark.rule("TOP-09", "TOP-06", "TOP-05")
def test_odd_records_pass(topic: ForeignTopic, rg: railgun.Railgun, name: str, shared_cell: Cell) -> None:
    source = railgun.TopicSource(topic=topic.name, subject="odd.{key}", message_id="{header:id}")
    stream = rg.create_stream(name, topics=[source], max_msg_size=1_000)
    topic.put(0, b"1", b"a.b \xff")
    topic.put(0, None, None)
    topic.put(0, b"x" * 2_000, b"large", [("mine", b"yes")])
    topic.put(0, b"2", b"k", [("id", b"same")])
    topic.put(0, b"3", b"k", [("id", b"same")])
    topic.put(0, b"4", b"")
    topic.flush()
    told = holds(stream, 4)
    found = list(stream.read())
    assert [(one.subject, one.payload) for one in found] == [
        ("odd.a%2Eb%20%FF", b"1"),
        ("odd.%-", b""),
        ("odd.k", b"2"),
        ("odd.%", b"4"),
    ]
    assert found[1].header(h.TOPIC_NULL) == "1"
    assert [(one.passed, one.lost) for one in told.partitions] == [(1, 0), (0, 0), (0, 0)]
    kept = next(one for one in rejected(shared_cell) if one.key() == b"large")
    headers = dict(kept.headers() or [])
    assert (kept.value(), headers["mine"]) == (b"x" * 2_000, b"yes")
    assert headers[h.REJECTED_SOURCE] == f"{topic.name}/0/2".encode()
    assert (
        headers[h.REJECTED_REASON]
        == f"passed over by the stream {name}: message size exceeds maximum allowed".encode()
    )


def rejected(cell: Cell) -> Iterator[Message]:
    """The records of ``rejected``; ends with an error when none comes."""
    reader = Consumer(KafkaSettings(cell.bootstrap).consumer())
    try:
        name = Names(cell.prefix).rejected
        reader.assign([TopicPartition(name, number, 0) for number in range(PARTITIONS)])
        while True:
            message = reader.poll(20)
            assert message is not None, "nothing was rejected"
            if message.error() is None:
                yield message
    finally:
        reader.close()


@pytest.mark.rule("TOP-13", "TOP-04")
def test_copying_begins_at_a_time(topic: ForeignTopic, rg: railgun.Railgun, name: str) -> None:
    topic.write(0, 30)
    begin = datetime.now(UTC) + timedelta(milliseconds=2)
    wait_until(lambda: datetime.now(UTC) > begin + timedelta(milliseconds=2), "a later time", pause=0.001)
    topic.write(30, 20)
    source = railgun.TopicSource(topic=topic.name, subject="since.p{partition}", opt_start_time=begin)
    stream = rg.create_stream(name, topics=[source])
    holds(stream, 20)
    in_order(values(stream), list(range(30, 50)))
    assert {one.subject for one in stream.read()} == {"since.p0", "since.p1", "since.p2"}


@pytest.mark.rule("TOP-02", "TOP-03", "TOP-04")
def test_topics_that_are_not_adopted(rg: railgun.Railgun, shared_cell: Cell) -> None:
    source = railgun.TopicSource
    wrong = {
        "is railgun's own": [Names(shared_cell.prefix).commands],
        "the same topic twice": ["orders", source(topic="orders", subject="other.{key}")],
        "{what} is not one of": [source(topic="orders", subject="orders.{what}")],
        "is not a valid name": ["no/topic"],
    }
    for text, topics in wrong.items():
        with pytest.raises(railgun.InvalidStreamConfig, match=re.escape(text)):
            rg.create_stream("WRONG", topics=topics)
    rg.create_stream("RIGHT", subjects=["right"])
    with pytest.raises(railgun.InvalidStreamConfig, match="is railgun's own"):
        rg.update_stream("RIGHT", topics=[Names(shared_cell.prefix).commands])
