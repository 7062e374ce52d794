"""What consumers know outlives their owner: restarted in order, killed, or with its disk lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import railgun
from railgun.testing import Clock
from tests.support.cell import Cell
from tests.support.consumers import SECOND, delivery, sequences
from tests.support.raw_consumer import Numbers, RawConsumer
from tests.support.streams import filled, held
from tests.support.waiting import wait_until
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

WAYS = ["stop", "kill", "lost disk"]


@pytest.fixture(scope="module")
def crashing(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    """One cell for all of these tests: each leaves its worker running."""
    with Cell(kafka_bootstrap, tmp_path_factory.mktemp("cell")) as made:
        made.ready_worker()
        yield made


@pytest.fixture
def worker(crashing: Cell) -> WorkerProcess:
    (only,) = crashing.workers
    if not only.alive:  # a test before failed half-way
        only.start()
        only.await_ready()
    return only


@pytest.fixture
def rg(crashing: Cell, worker: WorkerProcess) -> Iterator[railgun.Railgun]:
    with crashing.connect(timeout=60.0) as facade:
        yield facade


def restart(worker: WorkerProcess, way: str) -> None:
    """End the worker in one of the ways, and wait until it serves again."""
    if way == "stop":
        worker.stop()
    else:
        worker.kill()
    if way == "lost disk":
        worker.wipe()
    worker.start()
    worker.await_ready()


def lasting(consumer: RawConsumer) -> dict[str, Any]:
    """What a report shows, without what is about the moment."""
    momentary = ("num_waiting", "push_bound", "ts")
    return {name: value for name, value in consumer.info().items() if name not in momentary}


@pytest.mark.rule("SEQ-12", "SEQ-16", "RDL-16")
@pytest.mark.parametrize("way", WAYS)
def test_every_number_of_a_consumer_survives(rg: railgun.Railgun, worker: WorkerProcess, way: str) -> None:
    stream = filled(rg, *"abababababab")
    name = stream.name
    fresh = RawConsumer(rg, name, "FRESH", filter_subject=f"{name}.a", description="never used")
    holes = RawConsumer(rg, name, "HOLES", ack_wait=3600 * SECOND)
    found = holes.take(10)
    holes.ack(found[0], found[2], found[5])
    holes.nak(found[3])
    holes.take()
    cumulative = RawConsumer(rg, name, "ALL", ack_policy="all", ack_wait=3600 * SECOND)
    cumulative.ack(cumulative.take(6)[3])
    silent = RawConsumer(rg, name, "NONE", ack_policy="none")
    silent.take(4)
    filtered = RawConsumer(rg, name, "FILTERED", filter_subject=f"{name}.b", ack_wait=3600 * SECOND)
    filtered.ack(filtered.take(3)[1])
    last = RawConsumer(rg, name, "LAST", deliver_policy="last")
    turns = RawConsumer(rg, name, "TURNS", max_ack_pending_per_subject=1, ack_wait=3600 * SECOND)
    first_turn = turns.fetch(9)
    assert sequences(first_turn) == [1, 2]
    everybody = (fresh, holes, cumulative, silent, filtered, last, turns)
    before = {one.name: lasting(one) for one in everybody}
    assert holes.numbers() == Numbers(delivered=(11, 10), floor=(1, 1), ack_pending=7, redelivered=1)

    restart(worker, way)

    assert {one.name: lasting(one) for one in everybody} == before
    assert stream.info().state.consumer_count == len(everybody)
    assert sequences(fresh.take(9)) == [1, 3, 5, 7, 9, 11]
    assert [(one.sequence, one.consumer_sequence) for one in map(delivery, holes.take(9))] == [
        (11, 12),
        (12, 13),
    ]
    assert [(one.sequence, one.consumer_sequence) for one in map(delivery, cumulative.take(1))] == [(7, 7)]
    assert sequences(silent.take(9)) == [5, 6, 7, 8, 9, 10, 11, 12]
    assert sequences(filtered.take(9)) == [8, 10, 12]
    assert sequences(last.take(9)) == [12]
    turns.ack(first_turn[1])
    assert sequences(turns.fetch(9)) == [4]
    holes.ack(found[1])  # the address of a delivery before the restart still counts
    assert holes.numbers().floor == (3, 3)


@pytest.mark.rule("RDL-16")
@pytest.mark.parametrize("way", WAYS)
def test_pending_messages_and_their_counts_survive(
    rg: railgun.Railgun, worker: WorkerProcess, way: str
) -> None:
    clock = Clock(rg)
    stream = filled(rg, *"aaaa")
    limited = RawConsumer(rg, stream.name, "LIMITED", max_deliver=3)
    refused, acked, *_ = limited.take(3)
    limited.ack(acked)
    limited.nak(refused)
    (refused,) = limited.take()
    delayed = RawConsumer(rg, stream.name, "DELAYED", ack_wait=3600 * SECOND)
    delayed.nak(*delayed.take(), delay="600s")

    restart(worker, way)

    assert limited.numbers() == Numbers(delivered=(4, 3), floor=(0, 0), ack_pending=2, redelivered=1)
    clock.advance(31)  # at worst the ack wait began anew
    again = limited.take(9)
    assert [(delivery(one).sequence, delivery(one).deliveries) for one in again] == [(1, 3), (3, 2), (4, 1)]
    assert [delivery(one).consumer_sequence for one in again] == [5, 6, 7]
    assert [one.body for one in again] == [b"1", b"3", b"4"]
    limited.nak(again[0])  # the third and last
    assert limited.take(9) == []
    assert limited.numbers().ack_pending == 2
    assert sequences(delayed.take(9)) == [2, 3, 4]
    clock.advance(600)
    assert [(delivery(one).sequence, delivery(one).deliveries) for one in delayed.take(9)] == [(1, 2)]


@pytest.mark.rule("RET-11", "RDL-16")
def test_what_was_given_up_stays_given_up(rg: railgun.Railgun, worker: WorkerProcess) -> None:
    clock = Clock(rg)
    queue = filled(rg, "a", "b", retention="workqueue")
    consumer = RawConsumer(rg, queue.name, max_deliver=1)
    consumer.take()
    clock.advance(31)
    wait_until(lambda: consumer.numbers().ack_pending == 0, "the message is given up")
    restart(worker, "lost disk")
    clock.advance(31)
    assert sequences(consumer.take(9)) == [2]
    assert held(queue) == [1, 2]


@pytest.mark.rule("RET-11", "RET-13", "RDL-16")
def test_what_one_consumer_gave_up_is_still_kept_for_it(rg: railgun.Railgun, worker: WorkerProcess) -> None:
    stream = filled(rg, retention="interest")
    gives_up = RawConsumer(rg, stream.name, "GIVES_UP", max_deliver=1)
    works = RawConsumer(rg, stream.name, "WORKS")
    for _ in range(3):
        rg.publish(f"{stream.name}.a", b"x")
    first, second, third = gives_up.take(3)
    gives_up.nak(first, second)
    gives_up.ack(third)
    restart(worker, "lost disk")
    works.ack(*works.take(3))
    assert held(stream) == [1, 2]
    gives_up.ack(second)
    assert held(stream) == [1]


@pytest.mark.rule("EXO-03", "EXO-04")
def test_a_confirmed_ack_survives_the_crash_of_the_node(rg: railgun.Railgun, worker: WorkerProcess) -> None:
    """Acks go on while the worker is killed: what was confirmed is never delivered again, all else is."""
    clock = Clock(rg)
    stream = filled(rg)
    for _ in range(400):
        rg.publish_soon(f"{stream.name}.a", b"x")
    rg.flush()
    consumer = stream.create_consumer("C")
    found = consumer.fetch(400, wait=20.0)
    assert len(found) == 400
    confirmed: list[int] = []
    stop = threading.Event()

    def acknowledge() -> None:
        for message in found:
            if stop.is_set():
                return
            try:
                message.ack_sync(timeout=1.0)
            except railgun.RailgunError:
                return
            confirmed.append(message.sequence)

    thread = threading.Thread(target=acknowledge)
    thread.start()
    wait_until(lambda: len(confirmed) >= 20, "some acks are confirmed", 60.0)
    worker.kill()
    stop.set()
    thread.join(30)
    worker.start()
    worker.await_ready()
    assert confirmed == list(range(1, len(confirmed) + 1))
    clock.advance(31)
    again = [message.sequence for message in consumer.fetch(400, wait=5.0)]
    assert again == list(range(401 - len(again), 401))
    assert len(again) in (
        400 - len(confirmed),
        399 - len(confirmed),
    )  # one was on its way when the worker ended
    assert consumer.info().num_ack_pending == len(again)


@pytest.mark.rule("EXO-05", "EXO-06")
def test_only_a_confirmed_ack_says_that_it_counts(rg: railgun.Railgun, worker: WorkerProcess) -> None:
    stream = filled(rg, "a", "b")
    consumer = stream.create_consumer("C")
    plain, asked = consumer.fetch(2, wait=20.0)
    worker.kill()
    plain.ack()  # returns, although nobody has taken it
    with pytest.raises(railgun.RailgunError):
        asked.ack_sync(timeout=1.0)
    assert not asked.acknowledged
    worker.start()
    worker.await_ready()
    asked.ack_sync()
    wait_until(lambda: consumer.info().num_ack_pending == 0, "both are resolved", 30.0)


@pytest.mark.rule("DLQ-07", "DLQ-10")
def test_a_crash_neither_loses_nor_doubles_a_dead_letter(rg: railgun.Railgun, worker: WorkerProcess) -> None:
    """The worker is killed while hundreds of messages are terminated, from several streams, so that some are on another shard."""
    streams = [filled(rg), filled(rg), filled(rg)]
    dead = filled(rg)
    for stream in streams:
        for number in range(300):
            rg.publish_soon(f"{stream.name}.a", f"{stream.name} {number}")
    rg.flush()
    consumers = [stream.create_consumer("C", dead_letter=dead.name) for stream in streams]
    fetched = [consumer.fetch(300, wait=20.0) for consumer in consumers]
    found = [message for row in zip(*fetched, strict=True) for message in row]
    assert len(found) == 900

    def terminate() -> None:
        for message in found:
            message.term("crash")
            time.sleep(0.004)  # spread over many transactions

    thread = threading.Thread(target=terminate)
    thread.start()
    wait_until(lambda: dead.info().state.messages >= 100, "some dead letters", 60.0, pause=0.0)
    worker.kill()
    assert thread.is_alive(), "the worker was killed too late"
    worker.start()
    worker.await_ready()
    thread.join(60)
    wait_until(
        lambda: not any(consumer.info().num_ack_pending for consumer in consumers), "all are terminated", 60.0
    )
    wait_until(lambda: dead.info().state.messages >= 900, "all dead letters", 60.0)
    reader = dead.create_consumer("READER")
    bodies: list[str] = []
    while batch := reader.fetch(300, wait=2.0):
        bodies += [message.text for message in batch]
        for message in batch:
            message.ack()
    assert sorted(bodies) == sorted(f"{stream.name} {number}" for stream in streams for number in range(300))
