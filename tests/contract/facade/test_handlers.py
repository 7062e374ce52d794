"""Functions that are called for messages, on every backend: subscriptions, handlers with types, ordered consumers."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

import railgun
from railgun import Message, Railgun, Stream
from railgun.testing import Clock
from tests.support.checkout import TOP, environment
from tests.support.streams import Make, Unique
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.contract.conftest import Cluster


class Order(BaseModel):
    id: int
    lines: list[str] = []


@dataclass
class Line:
    id: int


def put_orders(rg: Railgun, stream: Stream, count: int) -> None:
    """Publish so many orders, as JSON; their ids count from 1."""
    for number in range(1, count + 1):
        rg.publish_soon(f"{stream.name}.a", f'{{"id": {number}}}')
    rg.flush()


class Seen:
    """What a handler was called for."""

    def __init__(self) -> None:
        self.sequences: list[int] = []
        self.gate = threading.Event()
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()

    def __call__(self, message: Message) -> None:
        self.sequences.append(message.sequence)
        message.ack()

    def slowly(self, message: Message) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self.sequences.append(message.sequence)
        self.gate.wait(20.0)
        with self._lock:
            self._now -= 1
        message.ack()


# ------------------------------------------------------------ subscriptions


def test_a_handler_is_called_for_every_message(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C")
    put_orders(rg, stream, 300)
    seen = Seen()
    with worker.subscribe(seen):
        wait_until(lambda: len(seen.sequences) == 300, "the backlog was handled")
        put_orders(rg, stream, 10)
        wait_until(lambda: len(seen.sequences) == 310, "what came later was handled")
    assert seen.sequences == list(range(1, 311))
    wait_until(lambda: worker.info().num_ack_pending == 0, "everything is acknowledged")


def test_handlers_run_side_by_side_and_draining_lets_them_end(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C")
    put_orders(rg, stream, 20)
    seen = Seen()
    subscription = worker.subscribe(seen.slowly, concurrency=3)
    wait_until(lambda: len(seen.sequences) == 3, "three of them run")
    assert not subscription.drain(timeout=0.1)
    seen.gate.set()
    assert subscription.drain(timeout=20.0)
    assert seen.most == 3
    assert sorted(seen.sequences) == [1, 2, 3]
    wait_until(lambda: worker.info().num_waiting == 0, "no pull is left")
    rest = worker.fetch(17, wait=10.0)
    assert [(m.sequence, m.deliveries) for m in rest] == [(n, 1) for n in range(4, 21)]
    with pytest.raises(railgun.ConfigError):
        worker.subscribe(seen, concurrency=0)


def test_what_a_handler_raises_is_logged_and_the_next_message_is_handled(
    rg: Railgun, make: Make, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    stream = make()
    worker = stream.create_consumer("C", ack_wait=500)
    put_orders(rg, stream, 3)
    handled: list[tuple[int, int]] = []

    def handle(message: Message) -> None:
        handled.append((message.sequence, message.deliveries))
        if handled[-1] == (2, 1):
            raise ValueError("not this one")
        message.ack()

    with worker.subscribe(handle):
        wait_until(lambda: len(handled) == 3, "all were handled")
        clock.advance(501)
        wait_until(lambda: (2, 2) in handled, "the one that failed came again")
    assert "not this one" in caplog.text


def test_a_subscription_ends_with_its_consumer_and_says_so(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    stream = make()
    subscription = stream.create_consumer("C").subscribe(print, concurrency=2)
    stream.delete_consumer("C")
    with pytest.raises(railgun.ConsumerNotFound):
        subscription.wait(20.0)
    assert isinstance(subscription.error, railgun.ConsumerNotFound)
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


@pytest.mark.rule("PSH-05")
def test_a_push_consumer_has_one_subscriber_unless_it_has_a_group(
    rg: Railgun, make: Make, unique: Unique
) -> None:
    stream = make()
    worker = stream.create_consumer("C", deliver_subject=unique("deliver"))
    seen = Seen()
    with worker.subscribe(seen):
        with pytest.raises(railgun.ConsumerBound, match="already bound to a subscription"):
            worker.subscribe(seen)
        put_orders(rg, stream, 100)
        wait_until(lambda: len(seen.sequences) == 100, "everything was pushed")
    assert seen.sequences == list(range(1, 101))
    wait_until(lambda: worker.info().num_ack_pending == 0, "everything is acknowledged")
    assert not worker.info().push_bound
    grouped = stream.create_consumer("G", deliver_subject=unique("deliver.g"), deliver_group="g")
    shared = Seen()
    with grouped.subscribe(shared), grouped.subscribe(shared):
        wait_until(lambda: len(shared.sequences) == 100, "everything was pushed")
    assert sorted(shared.sequences) == list(range(1, 101))


def test_leaving_a_push_subscription_loses_nothing(rg: Railgun, make: Make, unique: Unique) -> None:
    stream = make()
    worker = stream.create_consumer("C", deliver_subject=unique("deliver"))
    put_orders(rg, stream, 50)
    first = []
    with worker.messages() as messages:
        for message in messages:
            first.append(message.sequence)
            message.ack()
            if len(first) == 5:
                break
    second = []
    with worker.messages() as messages:
        for message in messages:
            second.append((message.sequence, message.deliveries))
            message.ack()
            if len(first) + len(second) == 50:
                break
    assert first == [1, 2, 3, 4, 5]
    assert sorted(second) == [(n, 1) for n in range(6, 51)]


@pytest.mark.rule("PSH-12")
def test_an_ordered_consumer_heals_a_gap_and_leaves_nothing_behind(rg: Railgun, make: Make) -> None:
    stream = make()
    put_orders(rg, stream, 500)
    got: list[int] = []
    with stream.ordered_consumer(filter_subject=f"{stream.name}.>") as messages:
        for message in messages:
            got.append(message.sequence)
            if message.sequence == 500:
                (info,) = stream.consumers()
                stream.delete_consumer(info.name)
                put_orders(rg, stream, 500)
            if message.sequence == 1_000:
                break
    assert got == list(range(1, 1_001))
    assert stream.consumers() == []
    with pytest.raises(railgun.ConfigError):
        stream.ordered_consumer(ack_policy="explicit")


# ------------------------------------------------------------ handlers


def running(rg: Railgun) -> threading.Thread:
    thread = threading.Thread(target=rg.run)
    thread.start()
    return thread


def test_arguments_follow_the_types(cluster: Cluster, rg: Railgun, make: Make) -> None:
    stream = make()
    calls: dict[str, list[Any]] = {}
    with cluster.connect() as own:

        @own.handler(stream.name, "MODEL")
        def with_model(order: Order, message: Message) -> None:
            calls.setdefault("model", []).append((order, message.subject))

        @own.handler(stream.name, "PLAIN", concurrency=2)
        def plain(line: Line, text: str, data: bytes, fields: dict[str, int], message) -> None:  # type: ignore[no-untyped-def]
            calls.setdefault("plain", []).append((line, text, data, fields, message.sequence))

        with pytest.raises(railgun.ConfigError, match="coroutine"):

            @own.handler(stream.name, "ASYNC")
            async def never(message: Message) -> None: ...

        with pytest.raises(railgun.ConfigError, match="is not a valid handler: give it a parameter"):
            own.handler(stream.name, "NOTHING")(lambda: None)

        thread = running(own)
        put_orders(rg, stream, 1)
        wait_until(lambda: len(calls) == 2, "both were called")
        for name in ("MODEL", "PLAIN"):
            worker = stream.consumer(name)
            wait_until(lambda worker=worker: worker.info().num_ack_pending == 0, "returning acks")  # type: ignore[misc]
        own.stop()
        thread.join(20.0)
    assert calls["model"] == [(Order(id=1), f"{stream.name}.a")]
    assert calls["plain"] == [(Line(1), '{"id": 1}', b'{"id": 1}', {"id": 1}, 1)]


def test_failures_are_tried_again_and_then_given_up(
    cluster: Cluster, rg: Railgun, make: Make, unique: Unique
) -> None:
    stream, letters = make(), unique("DEAD")
    attempts: list[tuple[int, int]] = []
    with cluster.connect() as own:

        @own.handler(stream.name, "WORK", filter=f"{stream.name}.a", retry=[0.1, 0.2], dead_letter=letters)
        def work(order: Order, message: Message) -> None:
            attempts.append((order.id, message.deliveries))
            if order.id == 2:
                raise ValueError("never works")
            if order.id == 3 and message.deliveries == 1:
                raise ValueError("works later")
            if order.id == 4:
                raise railgun.Reject("not for us")

        thread = running(own)
        put_orders(rg, stream, 4)
        rg.publish(f"{stream.name}.a", b"no JSON at all")
        worker = stream.consumer("WORK")
        wait_until(lambda: letters in [info.config.name for info in rg.streams()], "the handler has begun")
        wait_until(lambda: rg.stream(letters).info().state.messages == 3, "three were given up")
        wait_until(lambda: worker.info().num_ack_pending == 0, "nothing is left")
        own.stop()
        thread.join(20.0)
    assert sorted(attempts) == [(1, 1), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1)]
    found = [rg.stream(letters).get(sequence) for sequence in (1, 2, 3)]
    reasons = {one.header("Railgun-Origin-Sequence"): one.header("Railgun-Origin-Reason") for one in found}
    assert set(reasons) == {"2", "4", "5"}
    assert reasons["4"] == "not for us"
    assert "not a valid Order" in (reasons["5"] or "")


def test_a_slow_handler_keeps_its_message(cluster: Cluster, rg: Railgun, make: Make) -> None:
    stream = make()
    attempts: list[int] = []
    with cluster.connect() as own:

        @own.handler(stream.name, "SLOW", ack_wait=0.6)
        def slow(message: Message) -> None:
            attempts.append(message.deliveries)
            time.sleep(2.0)  # more than three times the ack wait

        thread = running(own)
        put_orders(rg, stream, 1)
        worker = stream.consumer("SLOW")
        wait_until(lambda: bool(attempts) and worker.info().num_ack_pending == 0, "it is done")
        own.stop()
        thread.join(20.0)
    assert attempts == [1]


def test_running_ends_with_the_error_that_ended_a_handler(
    cluster: Cluster, make: Make, unique: Unique
) -> None:
    with cluster.connect() as own:
        with pytest.raises(railgun.ConfigError, match="nothing to run"):
            own.run()
        own.handler(unique("NOWHERE"), "C")(lambda message: None)
        with pytest.raises(railgun.StreamNotFound):
            own.run()
    stream = make()
    with cluster.connect() as own:
        own.handler(stream.name, "C")(lambda message: None)
        threading.Timer(1.0, stream.delete_consumer, ["C"]).start()
        with pytest.raises(railgun.ConsumerNotFound):
            own.run()


async def test_coroutines_are_handlers_of_the_async_facade(
    arg: railgun.AsyncRailgun, rg: Railgun, make: Make
) -> None:
    stream = await asyncio.to_thread(make)
    seen: list[tuple[str, int]] = []

    @arg.handler(stream.name, "TASKS", concurrency=4)
    async def in_a_task(order: Order, message: railgun.AsyncMessage) -> None:
        await asyncio.sleep(0.01)
        seen.append(("task", order.id))

    @arg.handler(stream.name, "THREADS")
    def in_a_thread(order: Order) -> None:
        seen.append(("thread", order.id))

    run = asyncio.create_task(arg.run())
    await asyncio.to_thread(put_orders, rg, stream, 10)
    async with asyncio.timeout(20):
        while len(seen) < 20:
            await asyncio.sleep(0.01)
    arg.stop()
    await run
    assert sorted(seen) == [(kind, number) for kind in ("task", "thread") for number in range(1, 11)]
    for name in ("TASKS", "THREADS"):
        while (await arg.stream(stream.name).consumer(name).info()).num_ack_pending:
            await asyncio.sleep(0.01)


PROGRAM = """
import sys, time
import railgun

rg = railgun.connect(sys.argv[1], prefix=sys.argv[2], timeout=15.0)

@rg.handler(sys.argv[3], "WORK", concurrency=2)
def work(message: railgun.Message) -> None:
    say(f"began {message.sequence}")
    time.sleep(1.0)
    say(f"ended {message.sequence}")

def say(what: str) -> None:
    sys.stdout.write(what + "\\n")  # one write: two threads speak
    sys.stdout.flush()

rg.run()
say("left")
"""


@pytest.mark.kafka
def test_a_terminated_program_finishes_what_it_has_begun(kafka_cluster: Cluster) -> None:
    name = f"TERM_{time.time_ns()}"
    with kafka_cluster.connect() as rg:
        stream = rg.create_stream(name, subjects=[f"{name}.*"])
        put_orders(rg, stream, 10)
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, kafka_cluster.address, kafka_cluster.prefix, name],
            cwd=TOP,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert program.stdout is not None
        lines = [program.stdout.readline().split() for _ in range(2)]
        program.send_signal(signal.SIGTERM)
        rest, _ = program.communicate(timeout=60)
        lines += [line.split() for line in rest.splitlines()]
        assert program.returncode == 0
        began = [line[1] for line in lines if line[0] == "began"]
        ended = [line[1] for line in lines if line[0] == "ended"]
        assert sorted(began) == sorted(ended)
        assert lines[-1] == ["left"]
        info = stream.consumer("WORK").info()
        assert (info.num_ack_pending, info.num_redelivered) == (0, 0)
        found = stream.consumer("WORK").fetch(10, wait=2.0)
        assert [m.sequence for m in found] == [n for n in range(1, 11) if str(n) not in ended]
        assert {m.deliveries for m in found} == {1}
        rg.delete_stream(name)
