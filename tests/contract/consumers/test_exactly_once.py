"""Exactly once from both sides: ids for those who publish again, confirmed acks for those who consume."""

from __future__ import annotations

import contextlib

import pytest

import railgun
from railgun.client.facade.railgun import Railgun
from railgun.testing import Clock
from tests.support.consumers import sequences
from tests.support.raw_consumer import Numbers, RawConsumer
from tests.support.streams import filled, held
from tests.support.waiting import wait_until


@pytest.mark.rule("EXO-01")
def test_a_retry_with_the_same_id_stores_nothing(rg: Railgun) -> None:
    stream = filled(rg)
    subject = f"{stream.name}.a"
    acks = [rg.publish(subject, b"body", msg_id="order-7") for _ in range(4)]
    assert [(ack.sequence, ack.duplicate) for ack in acks] == [(1, False), (1, True), (1, True), (1, True)]
    state = stream.info().state
    assert (state.messages, state.last_seq) == (1, 1)
    worker = RawConsumer(rg, stream.name)
    assert sequences(worker.take(9)) == [1]


@pytest.mark.rule("EXO-01", "EXO-02")
def test_a_pipeline_that_is_sent_again_is_stored_once(rg: Railgun) -> None:
    stream = filled(rg)
    for turn in range(3):
        futures = [rg.publish_soon(f"{stream.name}.a", str(one), msg_id=f"id-{one}") for one in range(100)]
        rg.flush()
        acks = [future.result() for future in futures]
        assert [ack.sequence for ack in acks] == list(range(1, 101))
        assert {ack.duplicate for ack in acks} == {turn > 0}
    assert stream.info().state.messages == 100


@pytest.mark.rule("EXO-02")
def test_who_lost_the_ack_learns_the_sequence_by_asking_again(rg: Railgun) -> None:
    stream = filled(rg)
    subject = f"{stream.name}.a"
    rg.publish(subject, b"body", msg_id="lost", ack=False)  # nobody hears what became of it
    wait_until(lambda: stream.info().state.messages == 1, "the first one is stored")
    rg.publish(subject, b"another")
    assert rg.publish(subject, b"body", msg_id="lost") == railgun.PubAck(stream.name, 1, duplicate=True)
    assert stream.info().state.messages == 2


@pytest.mark.rule("EXO-02")
def test_the_sequence_is_known_after_the_message_was_consumed_and_removed(rg: Railgun) -> None:
    queue = filled(rg, retention="workqueue")
    assert rg.publish(f"{queue.name}.a", b"body", msg_id="1").sequence == 1
    worker = RawConsumer(rg, queue.name)
    worker.ack(*worker.take())
    assert held(queue) == []
    assert rg.publish(f"{queue.name}.a", b"body", msg_id="1") == railgun.PubAck(queue.name, 1, duplicate=True)
    assert worker.take() == []


@pytest.mark.rule("EXO-03")
def test_after_a_confirmed_ack_a_message_never_comes_again(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a", "b")
    worker = stream.create_consumer("C")
    first, second = worker.fetch(2, wait=5.0)
    first.ack_sync()
    for count in range(2, 5):
        clock.advance(31)
        (again,) = worker.fetch(2, wait=1.0)
        assert (again.sequence, again.deliveries) == (2, count)
    assert worker.info().num_ack_pending == 1
    second.ack_sync()  # of a delivery that is long over
    for _ in range(3):
        clock.advance(31)
        assert worker.fetch(2, wait=0.3) == []
    assert worker.info().num_ack_pending == 0


@pytest.mark.rule("EXO-03")
@pytest.mark.parametrize("policy", ["explicit", "all"])
def test_a_confirmed_ack_stands_against_everything_said_later(rg: Railgun, clock: Clock, policy: str) -> None:
    stream = filled(rg, "a")
    worker = RawConsumer(rg, stream.name, ack_policy=policy)
    (message,) = worker.take()
    worker.ack(message)
    worker.nak(message)
    worker.progress(message)
    worker.term(message)
    clock.advance(31)
    assert worker.take() == []
    assert worker.numbers() == Numbers((1, 1), (1, 1), 0, 0)


@pytest.mark.rule("EXO-03")
async def test_the_async_facade_confirms_too(arg: railgun.AsyncRailgun, rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a", "b")
    worker = await arg.stream(stream.name).create_consumer("C")
    found = await worker.fetch(2, wait=5.0)
    for message in found:
        await message.ack_sync()
    clock.advance(31)
    assert await worker.fetch(1, wait=0.3) == []
    assert (await worker.info()).num_ack_pending == 0


@pytest.mark.rule("EXO-05")
@pytest.mark.parametrize("policy", ["explicit", "all"])
def test_an_ack_without_an_answer_is_safe_to_repeat(rg: Railgun, clock: Clock, policy: str) -> None:
    stream = filled(rg, "a", "b", "c")
    worker = RawConsumer(rg, stream.name, ack_policy=policy)
    for message in worker.take(3):
        with contextlib.suppress(railgun.RequestTimeout):
            rg.request(message.reply, b"+ACK", timeout=0.000_001)  # decided or not: nobody knows
        worker.ack(message)
        worker.ack(message)
    assert worker.numbers() == Numbers((3, 3), (3, 3), 0, 0)
    clock.advance(31)
    assert worker.take(9) == []


@pytest.mark.rule("EXO-05")
def test_a_repeated_ack_is_confirmed_after_the_message_has_gone(rg: Railgun) -> None:
    queue = filled(rg, "a", "b", retention="workqueue")
    worker = RawConsumer(rg, queue.name)
    first, second = worker.take(2)
    worker.ack(first)
    assert held(queue) == [2]
    worker.ack(first)
    assert held(queue) == [2]
    assert worker.numbers().ack_pending == 1
    worker.ack(second, first, second)
    assert held(queue) == []


@pytest.mark.rule("EXO-05")
def test_a_repeated_ack_after_the_message_came_again_resolves_it(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a")
    worker = RawConsumer(rg, stream.name)
    (message,) = worker.take()
    clock.advance(31)
    (again,) = worker.take()
    worker.ack(message)
    worker.ack(again)
    clock.advance(31)
    assert worker.take() == []
    assert worker.numbers() == Numbers((2, 1), (2, 1), 0, 0)


@pytest.mark.rule("EXO-06")
def test_work_without_an_ack_is_done_twice(rg: Railgun, clock: Clock) -> None:
    """Who does the work and loses its plain ack, or says it too late, sees the message again."""
    stream = filled(rg, "a", "b")
    worker = stream.create_consumer("C")
    done: list[int] = []
    for message in worker.fetch(2, wait=5.0):
        done.append(message.sequence)
        if message.sequence == 2:
            message.ack()
    wait_until(lambda: worker.info().num_ack_pending == 1, "the plain ack has arrived")
    clock.advance(31)
    for message in worker.fetch(1, wait=5.0):
        done.append(message.sequence)
        message.ack()
    assert done == [1, 2, 1]
    wait_until(lambda: worker.info().num_ack_pending == 0, "the plain ack has arrived")
    clock.advance(31)
    assert worker.fetch(1, wait=0.3) == []
