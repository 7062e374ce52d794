"""The bridge of a sink's dead letters, ended in the middle or overtaken by another one: each letter is stored once, long after the duplicate window too."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import railgun
from railgun.kafka.topic_admin import TopicError, Topics
from railgun.protocol.topics import Names
from railgun.sinks import Sink, SinkRefused, bridge, dead_letters
from railgun.sinks.letter import Letter
from railgun.sinks.live import make_dead_letter_topic
from railgun.sinks.stream_sink import dead_letter_topic
from tests.support.cell import Cell
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka
COUNT = 40
WINDOW = 0.1  # seconds


class Ended(Exception):
    """The end of a bridge in the middle of its work."""


@pytest.fixture
def rg(shared_cell: Cell) -> Iterator[railgun.Railgun]:
    with shared_cell.connect() as facade:
        yield facade


@pytest.fixture
def sink(shared_cell: Cell) -> str:
    """A sink without a Connect, with dead letters."""
    name = f"sink_{secrets.token_hex(3)}"
    topic = dead_letter_topic(Names(shared_cell.prefix), name)
    admin = AdminClient({"bootstrap.servers": shared_cell.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(20)
    wait_until(lambda: bool(admin.list_topics(topic, timeout=5).topics[topic].partitions), "the topic")
    producer = Producer({"bootstrap.servers": shared_cell.bootstrap})
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number, b"orders.new", number % 2)
    assert producer.flush(20) == 0
    return name


@pytest.fixture
def letters(rg: railgun.Railgun, sink: str) -> railgun.Stream:
    return rg.create_stream(f"DLQ_{sink}", subjects=[f"{sink}.>"], duplicate_window=WINDOW)


def each_once(letters: railgun.Stream) -> bool:
    return sorted(int(one.payload) for one in letters.read()) == list(range(COUNT))


def test_a_bridge_goes_on_where_another_one_was_ended(
    rg: railgun.Railgun, sink: str, letters: railgun.Stream
) -> None:
    told: list[Letter] = []

    def end(letter: Letter) -> None:
        told.append(letter)
        if len(told) == COUNT // 2:
            raise Ended

    for _ in range(2):
        told.clear()
        with pytest.raises(Ended):
            dead_letters(rg, sink, letters.name, told=end)
        rg.flush()
        rg.publish(f"{sink}.other", "-1", msg_id="another publisher's")
        letters.delete_message(letters.info().state.last_seq)
        time.sleep(3 * WINDOW)
    assert dead_letters(rg, sink, letters.name) == (0, COUNT)
    assert each_once(letters)
    assert dead_letters(rg, sink, letters.name) == (0, 0)


def test_a_bridge_that_was_overtaken_goes_on_behind_the_other(
    rg: railgun.Railgun, sink: str, letters: railgun.Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was frozen with letters in hand, say, while somebody started another."""
    taken, goes_on = threading.Event(), threading.Event()
    found: list[tuple[int, int]] = []
    take = bridge._Source.take

    def frozen(source: bridge._Source, most: int) -> object:
        batch = take(source, most)
        if threading.current_thread() is first and batch and not taken.is_set():
            taken.set()
            assert goes_on.wait(30)
        return batch

    monkeypatch.setattr(bridge._Source, "take", frozen)
    first = threading.Thread(target=lambda: found.append(dead_letters(rg, sink, letters.name)))
    first.start()
    try:
        assert taken.wait(30)
        assert dead_letters(rg, sink, letters.name) == (COUNT, 0)
        time.sleep(3 * WINDOW)
    finally:
        goes_on.set()
        first.join(30)
    assert found == [(0, 0)]
    assert each_once(letters)


def test_where_nobody_may_make_the_topic_it_is_left_to_connect(
    rg: railgun.Railgun, sink: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    codes = [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.INVALID_REPLICATION_FACTOR]

    def refuse(_topics: Topics, topic: str, **_: bool) -> None:
        raise TopicError(topic, "create", KafkaError(codes.pop(0)))

    monkeypatch.setattr(Topics, "create_dead_letters", refuse)
    made = Sink(name=sink, stream="S", connector_class="a.B")
    make_dead_letter_topic(made, rg)
    assert "dead letters above their message.max.bytes are lost" in caplog.text
    with pytest.raises(SinkRefused, match="has no place for dead letters: cannot create the topic"):
        make_dead_letter_topic(made, rg)
