"""Transactions of a message: its ack and publishes to any streams, all or nothing, exactly once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import railgun
from railgun.client.facade.railgun import Railgun
from railgun.model import headers as h
from railgun.testing import Clock
from tests.support.streams import Make, filled
from tests.support.waiting import wait_until


def texts(stream: railgun.Stream, count: int) -> list[str]:
    """The payloads of a stream, once there are so many: they come a moment after the transaction."""
    wait_until(lambda: stream.info().state.messages >= count, f"{count} messages in {stream.name}")
    state = stream.info().state
    return [stream.get(number).text for number in range(state.first_seq, state.last_seq + 1)]


def taken(stream: railgun.Stream, count: int = 1, **config: object) -> Sequence[railgun.Message]:
    """The first messages of a new consumer ``C``."""
    messages = stream.create_consumer("C", **config).fetch(count, wait=5.0)
    assert len(messages) == count
    return messages


def hand_over(
    message: railgun.Message, *publishes: tuple[str, bytes], last: Callable[[], object] = lambda: None
) -> None:
    """One transaction with these subjects and payloads; ``last`` is called at the end of its block."""
    with message.transaction() as t:
        for subject, payload in publishes:
            t.publish(subject, payload)
        last()


def pending(stream: railgun.Stream) -> int:
    return stream.consumer("C").info().num_ack_pending


# ------------------------------------------------------------ all of it


@pytest.mark.rule("EXO-08")
def test_a_message_is_done_together_with_what_follows_from_it(rg: Railgun, make: Make) -> None:
    orders = filled(rg, "new")
    invoices, parcels = make("INVOICES"), make("PARCELS")
    (order,) = taken(orders)
    with order.transaction() as t:
        t.publish(f"{invoices.name}.new", b"invoice", headers={"Kind": "a"}, msg_id="order 1")
        t.publish(f"{parcels.name}.new", "parcel one")
        t.publish(f"{parcels.name}.new", "parcel two", expected_last_sequence=1)
        t.publish(f"{orders.name}.done", "goes on")
        assert len(t) == 4
        assert not order.acknowledged
        assert invoices.info().state.messages == parcels.info().state.messages == 0
    assert order.acknowledged
    assert pending(orders) == 0
    assert texts(invoices, 1) == ["invoice"]
    assert texts(parcels, 2) == ["parcel one", "parcel two"]
    assert texts(orders, 2) == ["1", "goes on"]
    stored = invoices.get(1)
    assert stored.headers == [("Kind", b"a"), (h.MSG_ID, b"order 1")]


@pytest.mark.rule("EXO-08")
async def test_async_messages_have_transactions_too(
    arg: railgun.AsyncRailgun, rg: Railgun, make: Make
) -> None:
    orders, invoices = filled(rg, "a", "b", "c"), make("INVOICES")
    worker = await arg.stream(orders.name).create_consumer("C")

    async def work(message: railgun.AsyncMessage) -> None:
        async with message.transaction(timeout=10.0) as t:
            t.publish(f"{invoices.name}.new", message.payload)

    await asyncio.gather(*(work(message) for message in await worker.fetch(3, wait=5.0)))
    assert (await worker.info()).num_ack_pending == 0
    assert sorted(await asyncio.to_thread(texts, invoices, 3)) == ["1", "2", "3"]


@pytest.mark.rule("EXO-08")
def test_a_transaction_comes_behind_the_acks_that_were_said_before(rg: Railgun, make: Make) -> None:
    stream, target = filled(rg, *"abcdef"), make("TARGET")
    *others, last = taken(stream, 6)
    others[0].nak(delay=60)
    for message in others[1:]:
        message.ack()
    with last.transaction() as t:
        t.publish(f"{target.name}.x", "done")
    assert pending(stream) == 1  # only what was put off
    assert texts(target, 1) == ["done"]


@pytest.mark.rule("EXO-08")
def test_an_empty_transaction_is_an_ack(rg: Railgun) -> None:
    stream = filled(rg, "a")
    (message,) = taken(stream)
    with message.transaction():
        pass
    assert (message.acknowledged, pending(stream)) == (True, 0)


@pytest.mark.rule("EXO-08", "ACK-02")
def test_policy_all_covers_what_is_below(rg: Railgun, make: Make) -> None:
    stream, target = filled(rg, *"abc"), make("TARGET")
    messages = taken(stream, 3, ack_policy="all")
    with messages[1].transaction() as t:
        t.publish(f"{target.name}.x", "two")
    assert pending(stream) == 1
    with pytest.raises(railgun.NotPending), messages[0].transaction() as t:
        t.publish(f"{target.name}.x", "one")
    assert texts(target, 1) == ["two"]


@pytest.mark.rule("EXO-08", "DUP-01", "CTR-01")
def test_the_streams_decide_as_for_any_publish(rg: Railgun, make: Make) -> None:
    stream, hits, jobs = filled(rg, *"ab"), make("HITS", allow_msg_counter=True), make("JOBS")
    for message in taken(stream, 2):
        with message.transaction() as t:
            t.publish(f"{hits.name}.x", headers={"Nats-Incr": "+2"})
            t.publish(f"{jobs.name}.x", message.text, msg_id="one for both")
    assert texts(hits, 2) == ['{"val":"2"}', '{"val":"4"}']
    assert texts(jobs, 1) == ["1"]


@pytest.mark.rule("EXO-08")
def test_a_transaction_of_many_bytes(rg: Railgun, make: Make) -> None:
    stream, target = filled(rg, *"ab"), make("TARGET")
    large, largest = taken(stream, 2)
    with large.transaction() as t:
        for number in range(7):
            t.publish(f"{target.name}.x", (b"%d" % number).ljust(1_000_000))
        for number in range(993):
            t.publish(f"{target.name}.y.{number}", b"small")
        with pytest.raises(railgun.ConfigError, match="1,000 messages at most"):
            t.publish(f"{target.name}.x", b"one too many")
    wait_until(lambda: target.info().state.messages == 1_000, "all are stored")
    with pytest.raises(railgun.MessageTooLarge, match="nothing was sent"):
        hand_over(largest, *[(f"{target.name}.x", bytes(1_000_000))] * 9)
    assert not largest.acknowledged
    largest.ack_sync()
    assert target.info().state.messages == 1_000


# ------------------------------------------------------------ nothing of it


@pytest.mark.rule("EXO-08")
def test_an_exception_leaves_the_message_as_it_was(rg: Railgun, make: Make) -> None:
    stream, target = filled(rg, "a"), make("TARGET")
    (message,) = taken(stream)
    with pytest.raises(ZeroDivisionError):
        hand_over(message, (f"{target.name}.x", b"first"), last=lambda: 1 // 0)
    assert (message.acknowledged, pending(stream)) == (False, 1)
    with message.transaction() as t:
        t.publish(f"{target.name}.x", "second")
    assert texts(target, 1) == ["second"]


@pytest.mark.rule("EXO-08", "PUB-05", "SUB-08")
def test_a_subject_without_a_stream_sends_nothing(rg: Railgun, make: Make) -> None:
    stream, target = filled(rg, "a"), make("TARGET")
    (message,) = taken(stream)
    with pytest.raises(railgun.NoStreamResponse) as refused:
        hand_over(message, (f"{target.name}.x", b"first"), ("nobody.captures.this", b""))
    assert refused.value.subject == "nobody.captures.this"
    with pytest.raises(railgun.ConfigError, match="not a valid subject"), message.transaction() as t:
        t.publish(f"{target.name}.*", "first")
    assert (message.acknowledged, pending(stream)) == (False, 1)
    with message.transaction() as t:
        t.publish(f"{target.name}.x", "second")
    assert texts(target, 1) == ["second"]


@pytest.mark.rule("EXO-08")
def test_what_no_transaction_takes(rg: Railgun, make: Make) -> None:
    stream, target = filled(rg, "a"), make("TARGET")
    (message,) = taken(stream)
    transaction = message.transaction()
    with pytest.raises(railgun.ConfigError, match="inside the block"):
        transaction.publish(f"{target.name}.x")
    with transaction as t:
        with pytest.raises(railgun.ConfigError, match="no messages of a batch"):
            t.publish(
                f"{target.name}.x", headers={h.BATCH_ID: "b", h.BATCH_SEQUENCE: "1", h.BATCH_COMMIT: "1"}
            )
        with pytest.raises(railgun.MessageTooLarge):
            t.publish(f"{target.name}.x", bytes(9_000_000))
        with pytest.raises(railgun.ConfigError, match="not a valid payload"):
            t.publish(f"{target.name}.x", 5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="colour"):
            t.publish(f"{target.name}.x", colour="red")  # type: ignore[call-arg]
    assert message.acknowledged
    with pytest.raises(railgun.ConfigError, match="used before"), transaction:
        raise AssertionError("the block is not entered")
    assert target.info().state.messages == 0


@pytest.mark.rule("EXO-08", "ACK-19")
def test_a_message_is_resolved_once(rg: Railgun, make: Make) -> None:
    stream, target = filled(rg, *"abc"), make("TARGET")
    first, second, third = taken(stream, 3)
    with first.transaction():
        pass
    with pytest.raises(railgun.AlreadyAcknowledged):
        first.ack()
    second.ack_sync()
    for message in (first, second):
        with pytest.raises(railgun.AlreadyAcknowledged), message.transaction():
            raise AssertionError("the block is not entered")
    with pytest.raises(railgun.AlreadyAcknowledged):  # said inside: the block cannot end any more
        hand_over(third, (f"{target.name}.x", b"never"), last=third.ack)
    assert target.info().state.messages == 0


@pytest.mark.rule("EXO-08", "ACK-04")
def test_messages_that_need_no_ack_have_no_transactions(rg: Railgun, make: Make) -> None:
    stream, target = filled(rg, "a"), make("TARGET")
    (message,) = taken(stream, ack_policy="none")
    with pytest.raises(railgun.BadRequest, match="ack policy none"), message.transaction() as t:
        t.publish(f"{target.name}.x", "never")
    assert target.info().state.messages == 0


@pytest.mark.rule("EXO-08")
def test_without_its_consumer_nothing_happens(rg: Railgun, make: Make) -> None:
    stream, target = filled(rg, "a"), make("TARGET")
    (message,) = taken(stream)
    stream.delete_consumer("C")
    with pytest.raises(railgun.ConsumerNotFound), message.transaction() as t:
        t.publish(f"{target.name}.x", "never")
    assert target.info().state.messages == 0


# ------------------------------------------------------------ exactly once


@pytest.mark.rule("EXO-09")
def test_only_the_newest_delivery_can_hand_over(rg: Railgun, make: Make, clock: Clock) -> None:
    stream, target = filled(rg, "a"), make("TARGET")
    (slow,) = taken(stream)
    clock.advance(31)
    (fast,) = stream.consumer("C").fetch(1, wait=5.0)
    assert fast.deliveries == 2
    with pytest.raises(railgun.NotPending) as refused, slow.transaction() as t:
        t.publish(f"{target.name}.x", "slow")
    assert (refused.value.err_code, refused.value.code, refused.value.stream) == (20001, 409, stream.name)
    assert slow.acknowledged  # nothing that is said about this delivery counts
    with fast.transaction() as t:
        t.publish(f"{target.name}.x", "fast")
    assert texts(target, 1) == ["fast"]
    assert pending(stream) == 0


@pytest.mark.rule("EXO-09", "ACK-15")
def test_a_late_transaction_counts_until_the_message_is_delivered_again(
    rg: Railgun, make: Make, clock: Clock
) -> None:
    stream, target = filled(rg, "a"), make("TARGET")
    (message,) = taken(stream)
    clock.advance(31)
    with message.transaction() as t:
        t.publish(f"{target.name}.x", "late")
    assert texts(target, 1) == ["late"]
    assert stream.consumer("C").fetch(1, wait=0.2) == []


@pytest.mark.rule("EXO-09")
def test_a_message_that_was_removed_is_not_handed_over(rg: Railgun, make: Make) -> None:
    stream, target = filled(rg, "a"), make("TARGET")
    (message,) = taken(stream)
    stream.delete_message(1)
    with pytest.raises(railgun.NotPending), message.transaction() as t:
        t.publish(f"{target.name}.x", "never")
    assert target.info().state.messages == 0


@pytest.mark.rule("EXO-11")
def test_a_transaction_without_an_answer_may_be_tried_again(rg: Railgun, make: Make) -> None:
    stream, target = filled(rg, *"abcde"), make("TARGET")
    for message in taken(stream, 5):
        with (
            contextlib.suppress(railgun.RequestTimeout),
            message.transaction(timeout=0.000_001) as t,  # decided or not: nobody knows
        ):
            t.publish(f"{target.name}.x", message.text)
        while not message.acknowledged:
            with contextlib.suppress(railgun.NotPending, railgun.RequestTimeout), message.transaction() as t:
                t.publish(f"{target.name}.x", message.text)
    assert texts(target, 5) == ["1", "2", "3", "4", "5"]
    assert pending(stream) == 0


@pytest.mark.rule("EXO-08", "EXO-09")
def test_a_pipeline_with_two_clients_has_each_result_once(rg: Railgun, make: Make, clock: Clock) -> None:
    """Every message is worked on twice: by one whose ack wait is over, and by one that comes later."""
    stream, target = filled(rg, *["a"] * 20), make("TARGET")
    worker = stream.create_consumer("C", ack_wait=30)
    slow = worker.fetch(20, wait=5.0)
    clock.advance(31)
    fast = worker.fetch(20, wait=5.0)
    assert [message.deliveries for message in fast] == [2] * 20
    refused = 0
    for pair in zip(slow, fast, strict=True):
        for message in pair:
            try:
                with message.transaction() as t:
                    t.publish(f"{target.name}.x", message.text)
            except railgun.NotPending:
                refused += 1
    assert refused == 20
    assert texts(target, 20) == [str(number) for number in range(1, 21)]
    assert worker.info().num_ack_pending == 0


# ------------------------------------------------------------ refused later


@pytest.mark.rule("EXO-10", "DLQ-06")
def test_what_a_stream_refuses_is_a_dead_letter(rg: Railgun, make: Make) -> None:
    stream, full, dead = filled(rg, "a"), make("FULL", max_msgs=1, discard="new"), make("DEAD")
    fine = make("FINE")
    (message,) = taken(stream, dead_letter=dead.name)
    with message.transaction() as t:
        t.publish(f"{full.name}.x", "fits")
        t.publish(f"{full.name}.x", b"does not", headers={"Kind": "a"}, msg_id="7")
        t.publish(f"{fine.name}.x", "taken")
        t.publish(f"{fine.name}.x", "wrong", expected_last_sequence=9)
    assert message.acknowledged
    assert (texts(full, 1), texts(fine, 1)) == (["fits"], ["taken"])
    texts(dead, 2)
    letters = {letter.payload: letter for letter in map(dead.get, (1, 2))}
    letter = letters[b"does not"]
    assert (letter.subject, letter.header("Kind"), letter.header("Railgun-Origin-Msg-Id")) == (
        f"{full.name}.x", "a", "7"
    )  # fmt: skip
    origin = [
        letter.header(f"Railgun-Origin-{name}") for name in ("Stream", "Sequence", "Consumer", "Deliveries")
    ]
    assert origin == [stream.name, "1", "C", "1"]
    assert letter.header("Railgun-Origin-Reason") == f"not taken by {full.name}: maximum messages exceeded"
    reason = letters[b"wrong"].header("Railgun-Origin-Reason")
    assert reason == f"not taken by {fine.name}: wrong last sequence: 1"


# ------------------------------------------------------------ handlers


@pytest.mark.rule("EXO-08")
def test_a_handler_may_end_its_message_by_a_transaction(rg: Railgun, make: Make, cluster: object) -> None:
    stream, target = filled(rg, *"abcd"), make("TARGET")
    with cluster.connect() as own:  # type: ignore[attr-defined] # handlers belong to a facade
        tried: list[str] = []

        @own.handler(stream.name, "C", retry=[0.0, 0.0])
        def work(message: railgun.Message) -> None:
            tried.append(message.text)
            with message.transaction() as t:
                t.publish(f"{target.name}.x", message.text)
                if message.deliveries == 1 and message.text == "2":
                    raise ConnectionError("the first attempt fails")
            if len(set(tried)) == 4:
                own.stop()

        own.run()
    assert sorted(texts(target, 4)) == ["1", "2", "3", "4"]
    assert sorted(tried) == ["1", "2", "2", "3", "4"]
    assert pending(stream) == 0


@pytest.mark.rule("EXO-08")
async def test_an_async_handler_may_do_so_too(arg: railgun.AsyncRailgun, rg: Railgun, make: Make) -> None:
    stream, target = filled(rg, *"abcd"), make("TARGET")

    @arg.handler(stream.name, "C", concurrency=4)
    async def work(message: railgun.AsyncMessage) -> None:
        async with message.transaction() as t:
            t.publish(f"{target.name}.x", message.text)
        if message.text == "4":
            arg.stop()

    await arg.run()
    assert sorted(await asyncio.to_thread(texts, target, 4)) == ["1", "2", "3", "4"]
    assert await asyncio.to_thread(pending, stream) == 0


@pytest.mark.parametrize("time", [float("nan"), "5", None, b""], ids=str)
def test_what_is_no_time_leaves_a_message_as_it_was(rg: Railgun, make: Make, time: Any) -> None:
    stream, target = filled(rg, "a"), make("TARGET")
    (message,) = taken(stream)
    if time is not None:
        for call in (lambda: message.ack_sync(timeout=time), lambda: message.transaction(timeout=time)):
            with pytest.raises(railgun.ConfigError, match="is not a valid timeout"):
                call()
    with pytest.raises(railgun.ConfigError, match="is not a valid wait"):
        message.ack_next(wait=time)
    with pytest.raises(railgun.ConfigError, match="is not a valid wait"):
        stream.consumer("C").fetch(1, wait=time)
    with message.transaction() as t:
        t.publish(f"{target.name}.x", "1")
    assert texts(target, 1) == ["1"]
