"""Consumers through the facade, on every backend: fetching, iterating, acknowledging, what a client gives back."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import railgun
from railgun import Consumer, Message, Railgun
from tests.support.streams import Make, Unique, put_numbers
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.contract.conftest import Cluster


def resolved(consumer: Consumer) -> None:
    wait_until(lambda: consumer.info().num_ack_pending == 0, "everything is acknowledged")


# ------------------------------------------------------------ fetching


def test_fetches_what_is_there_with_everything_about_it(rg: Railgun, make: Make) -> None:
    stream = make("ORDERS")
    worker = stream.create_consumer("DISPATCH", filter_subject=f"{stream.name}.new")
    rg.publish(f"{stream.name}.new", '{"id": 7}', headers={"Trace": "x"})
    rg.publish(f"{stream.name}.other", b"not this")
    rg.publish(f"{stream.name}.new", b"second")
    first, second = worker.fetch(10, wait=0.5)
    assert (first.subject, first.json(), first.header("Trace")) == (f"{stream.name}.new", {"id": 7}, "x")
    assert (first.stream, first.consumer) == (stream.name, "DISPATCH")
    assert [(m.sequence, m.consumer_sequence, m.deliveries, m.pending) for m in (first, second)] == [
        (1, 1, 1, 1),
        (3, 2, 1, 0),
    ]
    assert (second.text, list(second.headers)) == ("second", [])
    assert first.time == stream.get(1).time
    assert first.reply == f"$JS.ACK.{stream.name}.DISPATCH.1.1.1.{first.time_ns}.1"


def test_a_silent_consumer_gives_an_empty_list(make: Make) -> None:
    worker = make().create_consumer("C")
    assert worker.fetch(5, wait=0.1) == []
    assert worker.fetch(5, wait=0) == []
    assert worker.next(wait=0.1) is None


def test_a_fetch_waits_until_it_is_filled(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C")
    found: list[Message] = []
    thread = threading.Thread(target=lambda: found.extend(worker.fetch(3, wait=3_600.0)), daemon=True)
    thread.start()
    wait_until(lambda: worker.info().num_waiting == 1, "the pull waits")
    put_numbers(rg, stream, 3)
    wait_until(lambda: not thread.is_alive(), "the fetch has returned")
    assert [message.sequence for message in found] == [1, 2, 3]


def test_a_large_fetch_reads_the_log(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C", max_ack_pending=-1)
    put_numbers(rg, stream, 3_000, size=100)
    found = worker.fetch(2_500, wait=10.0)
    assert [(m.sequence, m.payload.rstrip()) for m in found] == [(n, b"%d" % n) for n in range(1, 2_501)]
    assert [m.pending for m in found] == list(range(2_999, 499, -1))
    for message in found:
        message.nak()
    again = worker.fetch(2_500, wait=10.0)
    assert [m.sequence for m in again] == list(range(1, 2_501))
    assert {m.deliveries for m in again} == {2}
    assert [m.sequence for m in worker.fetch(500, wait=10.0)] == list(range(2_501, 3_001))


def test_a_start_time_is_given_as_a_datetime(rg: Railgun, make: Make) -> None:
    stream = make()
    put_numbers(rg, stream, 3)
    worker = stream.create_consumer("C", deliver_policy="by_start_time", opt_start_time=stream.get(1).time)
    assert len(worker.fetch(3, wait=5.0)) == 3
    begun = railgun.ConsumerConfig(
        name="M", deliver_policy="by_start_time", opt_start_time=stream.get(1).time
    )
    assert len(stream.create_consumer(begun).fetch(3, wait=5.0)) == 3
    as_text = begun.model_copy(update={"name": "T"})
    assert begun.opt_start_time == as_text.opt_start_time == worker.info().config.opt_start_time
    assert len(stream.create_consumer(as_text).fetch(3, wait=5.0)) == 3
    naive = stream.get(1).time.replace(tzinfo=None)
    with pytest.raises(railgun.ConfigError, match="time zone"):
        stream.create_consumer("D", deliver_policy="by_start_time", opt_start_time=naive)
    with pytest.raises(ValueError, match="time zone"):
        railgun.ConsumerConfig(opt_start_time=naive)


@pytest.mark.rule("CON-28")
def test_a_redelivery_has_nothing_of_its_own_lease_behind_it(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C")
    put_numbers(rg, stream, 3)
    for message in worker.fetch(2, wait=5.0):
        message.nak()
    assert [(m.deliveries, m.pending) for m in worker.fetch(3, wait=5.0)] == [(2, 1), (2, 1), (1, 0)]


def test_removed_messages_are_left_out(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C", max_ack_pending=-1)
    put_numbers(rg, stream, 500, size=100)
    for sequence in (1, 250, 500):
        stream.delete_message(sequence)
    found = worker.fetch(500, wait=0.5)
    assert [m.sequence for m in found] == [n for n in range(1, 501) if n not in (1, 250, 500)]


@pytest.mark.rule("CON-26")
def test_headers_only_leaves_the_payload_out(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C", headers_only=True)
    put_numbers(rg, stream, 200, size=77)
    found = worker.fetch(200, wait=5.0)
    assert {(m.payload, m.header("Nats-Msg-Size")) for m in found} == {(b"", "77")}


def test_who_is_not_there_is_said_in_words(rg: Railgun, make: Make, unique: Unique) -> None:
    stream = make()
    for call in (
        lambda: stream.consumer("NO").fetch(1),
        lambda: stream.consumer("NO").info(),
        lambda: next(stream.consumer("NO").messages()),
        lambda: stream.consumer("NO").subscribe(print),
        lambda: stream.delete_consumer("NO"),
        lambda: stream.update_consumer("NO", ack_wait=3),
    ):
        with pytest.raises(railgun.ConsumerNotFound):
            call()
    with pytest.raises(railgun.StreamNotFound):
        rg.stream(unique("NOWHERE")).consumer("C").fetch(1)
    with pytest.raises(railgun.ConfigError):
        stream.create_consumer("C", no_such_field=1)
    with pytest.raises(railgun.ConfigError):
        stream.create_consumer("C").fetch(0)


@pytest.mark.rule("CON-31")
def test_a_fetch_ends_when_its_consumer_is_deleted(make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C")
    threading.Timer(0.2, stream.delete_consumer, ["C"]).start()
    with pytest.raises(railgun.ConsumerNotFound):
        worker.fetch(1, wait=20.0)


def test_a_handle_finds_a_consumer_that_was_made_anew(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C")
    put_numbers(rg, stream, 2)
    old = worker.next()
    assert old is not None
    stream.delete_consumer("C")
    stream.create_consumer("C")
    old.ack()  # of a consumer that is gone: it resolves nothing of its successor
    assert [m.sequence for m in worker.fetch(2, wait=5.0)] == [1, 2]
    assert worker.info().num_ack_pending == 2


def test_creating_again_changes_nothing_and_updating_changes_what_is_given(make: Make) -> None:
    stream = make()
    stream.create_consumer("C", ack_wait=7, max_deliver=5)
    stream.create_consumer("C", ack_wait=7, max_deliver=5)
    with pytest.raises(railgun.ConsumerExists):
        stream.create_consumer("C", ack_wait=8)
    config = stream.update_consumer("C", ack_wait=8).info().config
    assert (config.ack_wait.total_seconds(), config.max_deliver) == (8, 5)  # type: ignore[union-attr]
    with pytest.raises(railgun.InvalidConsumerConfig):
        stream.update_consumer("C", ack_policy="none")
    names = ["A", "B", "C"]
    for name in names[:2]:
        stream.create_consumer(railgun.ConsumerConfig(name=name))
    infos = stream.consumers()
    assert [info.name for info in infos] == names
    assert {info.config.ack_policy for info in infos} == {"explicit"}
    assert {info.config.durable_name for info in infos} == set(names)
    ephemeral = stream.create_consumer("E", ephemeral=True).info()
    assert (ephemeral.name, ephemeral.config.durable_name) == ("E", None)


@pytest.mark.rule("CON-07")
@pytest.mark.parametrize(
    "fields, number",
    [
        ({"name": "no blanks"}, 10052),
        ({"filter_subject": "a..b"}, 10052),
        ({"dead_letter": "no blanks"}, 10052),
        ({"num_replicas": -1}, 10133),
    ],
)
def test_a_number_that_streams_have_too_is_of_the_consumer(
    rg: Railgun, make: Make, fields: dict[str, Any], number: int
) -> None:
    stream = make()
    with pytest.raises(railgun.InvalidConsumerConfig) as refused:
        stream.create_consumer(railgun.ConsumerConfig(**fields))
    assert refused.value.err_code == number
    with pytest.raises(railgun.InvalidStreamConfig):
        rg.create_stream(f"{stream.name}_2", subjects=["a..b"])


# ------------------------------------------------------------ acknowledging


@pytest.mark.rule("ACK-19")
def test_a_message_is_acknowledged_once(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C", max_deliver=3)
    put_numbers(rg, stream, 4)
    for say in (Message.ack, Message.ack_sync, Message.nak, Message.term):
        message = worker.next()
        assert message is not None
        message.in_progress()
        message.in_progress()
        say(message)
        assert message.acknowledged
        for again in (
            Message.ack,
            Message.ack_sync,
            Message.nak,
            Message.term,
            Message.in_progress,
            Message.ack_next,
        ):
            with pytest.raises(railgun.AlreadyAcknowledged, match="already acknowledged"):
                again(message)


def test_acks_travel_as_runs_and_all_arrive(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C", max_ack_pending=-1)
    put_numbers(rg, stream, 1_000)
    found = worker.fetch(1_000, wait=10.0)
    for message in [*found[::2], *reversed(found[1::2])]:
        message.ack()
    resolved(worker)
    assert worker.info().ack_floor == railgun.SequencePair(1_000, 1_000)


@pytest.mark.rule("EXO-03", "EXO-04", "EXO-06")
def test_a_confirmed_ack_is_durable_when_it_returns(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C")
    put_numbers(rg, stream, 2)
    first, second = worker.fetch(2, wait=5.0)
    first.ack()
    second.ack_sync()
    info = worker.info()
    assert (info.num_ack_pending, info.ack_floor.stream_seq) == (
        0,
        2,
    )  # what waited beside it travelled with it


def test_a_confirmation_from_a_consumer_that_is_gone(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C")
    put_numbers(rg, stream, 1)
    message = worker.next()
    assert message is not None
    stream.delete_consumer("C")
    with pytest.raises(railgun.ConsumerNotFound):
        message.ack_sync()


@pytest.mark.rule("ACK-07", "ACK-11")
def test_naks_wait_and_terms_end(rg: Railgun, make: Make, clock: railgun.testing.Clock) -> None:
    stream = make()
    worker = stream.create_consumer("C")
    put_numbers(rg, stream, 3)
    first, second, third = worker.fetch(3, wait=5.0)
    first.nak(delay=100)
    second.nak()
    third.term("broken")
    again = worker.fetch(3, wait=0.5)
    assert [(m.sequence, m.deliveries) for m in again] == [(2, 2)]
    clock.advance(101)
    late = worker.next(wait=5.0)
    assert late is not None
    assert (late.sequence, late.deliveries) == (1, 2)
    with pytest.raises(railgun.ConfigError):
        late.nak(delay=-1)


@pytest.mark.rule("ACK-09")
def test_answers_that_cannot_travel_are_refused_and_end_nothing(rg: Railgun, make: Make) -> None:
    stream = make("ORDERS")
    worker = stream.create_consumer("DISPATCH")
    put_numbers(rg, stream, 2)
    first, second = worker.fetch(2, wait=5)
    with pytest.raises(railgun.ConfigError, match="is not a valid delay of a nak"):
        first.nak(delay=1e10)
    with pytest.raises(railgun.ConfigError, match="is not a valid reason"):
        first.term(5)  # type: ignore[arg-type]
    first.ack_sync()
    second.ack_sync()
    assert worker.info().num_ack_pending == 0


def test_ack_next_acknowledges_and_gets_the_next(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C", max_ack_pending=1)
    put_numbers(rg, stream, 3)
    message = worker.next()
    seen = []
    while message is not None:
        seen.append(message.sequence)
        message = message.ack_next(wait=0.5)
    assert seen == [1, 2, 3]
    assert worker.info().num_ack_pending == 0


def test_closing_sends_every_ack(cluster: Cluster, rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C", max_ack_pending=-1)
    put_numbers(rg, stream, 500)
    with cluster.connect() as other:
        found = other.stream(stream.name).consumer("C").fetch(500, wait=10.0)
        for message in found:
            message.ack()
    assert worker.info().num_ack_pending == 0
    with pytest.raises(railgun.AlreadyAcknowledged):
        found[0].ack()


def test_after_closing_an_ack_is_refused(cluster: Cluster, rg: Railgun, make: Make) -> None:
    stream = make()
    stream.create_consumer("C")
    put_numbers(rg, stream, 1)
    with cluster.connect() as other:
        (message,) = other.stream(stream.name).consumer("C").fetch(1, wait=5.0)
    with pytest.raises(railgun.ConnectionClosed):
        message.ack()
    with pytest.raises(railgun.ConnectionClosed):
        message.ack_sync()


# ------------------------------------------------------------ iterating


def test_an_iteration_goes_on_with_what_comes(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C")
    put_numbers(rg, stream, 50)
    threading.Timer(0.3, put_numbers, [rg, stream, 50]).start()
    seen = []
    for message in worker.messages():
        seen.append(message.sequence)
        message.ack()
        if len(seen) == 100:
            break
    assert seen == list(range(1, 101))
    resolved(worker)
    wait_until(lambda: worker.info().num_waiting == 0, "no pull is left")


def test_a_backlog_comes_whole_and_in_order(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C", max_ack_pending=4_000)
    put_numbers(rg, stream, 10_000, size=50)
    expected = 1
    for message in worker.messages():
        assert (message.sequence, message.consumer_sequence, message.deliveries) == (expected, expected, 1)
        message.ack()
        expected += 1
        if expected > 10_000:
            break
    resolved(worker)
    assert worker.info().ack_floor == railgun.SequencePair(10_000, 10_000)


def test_leaving_an_iteration_gives_back_what_was_leased_ahead(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C")
    put_numbers(rg, stream, 200)
    for message in worker.messages():
        message.ack()
        if message.sequence == 10:
            break
    resolved(worker)
    found = worker.fetch(190, wait=10.0)
    assert [(m.sequence, m.deliveries) for m in found] == [(n, 1) for n in range(11, 201)]


def test_what_waits_ahead_is_kept_alive(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C", ack_wait=1.0)
    put_numbers(rg, stream, 5)
    with worker.messages() as messages:
        first = next(messages)
        first.ack()
        time.sleep(2.5)  # more than twice the ack wait, with four messages leased ahead
        seen = [(m.sequence, m.deliveries) for m in (next(messages) for _ in range(4))]
    assert seen == [(n, 1) for n in range(2, 6)]


def test_an_iteration_ends_with_its_consumer(rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C")
    put_numbers(rg, stream, 1)
    messages = worker.messages()
    assert next(messages).sequence == 1
    stream.delete_consumer("C")
    with pytest.raises(railgun.ConsumerNotFound):
        next(messages)


def test_an_iteration_is_ended_from_another_thread(make: Make) -> None:
    worker = make().create_consumer("C")
    messages = worker.messages()
    threading.Timer(0.3, messages.close).start()
    assert list(messages) == []
    assert list(messages) == []


def test_large_messages_are_leased_few_at_a_time(rg: Railgun, make: Make) -> None:
    stream = make(max_msg_size=6 * 1024 * 1024)
    worker = stream.create_consumer("C")
    sizes = [10, 5 * 1024 * 1024, 1024 * 1024, 1024 * 1024, 1024 * 1024, 1024 * 1024, 5 * 1024 * 1024, 10]
    for size in sizes:
        rg.publish(f"{stream.name}.a", bytes(size))
    seen = []
    for message in worker.messages():
        seen.append(len(message.payload))
        message.ack()
        if len(seen) == len(sizes):
            break
    assert seen == sizes


@pytest.mark.rule("PUL-15")
def test_workers_share_the_messages_of_a_consumer(cluster: Cluster, rg: Railgun, make: Make) -> None:
    stream = make()
    worker = stream.create_consumer("C", max_ack_pending=-1)
    seen: list[list[int]] = [[], [], []]
    with cluster.connect() as one, cluster.connect() as two:
        streams = [facade.stream(stream.name).consumer("C").messages() for facade in (rg, one, two)]

        def work(number: int) -> None:
            for message in streams[number]:
                seen[number].append(message.sequence)
                message.ack()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: worker.info().num_waiting >= 3, "all of them wait")
        put_numbers(rg, stream, 900)
        wait_until(lambda: sum(map(len, seen)) >= 900, "everything was handed out")
        for messages in streams:
            messages.close()
        for thread in threads:
            thread.join()
    assert sorted(seen[0] + seen[1] + seen[2]) == list(range(1, 901))
    assert all(seen)
    resolved(worker)


# ------------------------------------------------------------ async


async def test_the_async_consumer_has_the_same_names(
    arg: railgun.AsyncRailgun, rg: Railgun, unique: Unique
) -> None:
    name = unique("ASYNC")
    stream = await arg.create_stream(name, subjects=[f"{name}.*"])
    worker = await stream.create_consumer("C")
    assert await worker.fetch(1, wait=0.1) == []
    for number in range(100):
        arg.publish_soon(f"{name}.a", str(number))
    await arg.flush()
    found = await worker.fetch(10, wait=5.0)
    await found[0].ack_sync()
    await found[1].nak(delay=1_000)
    await found[2].term("no")
    await found[3].in_progress()
    following = await found[4].ack_next()
    assert following is not None
    assert following.sequence == 11
    for message in (found[3], *found[5:], following):
        await message.ack()
    async with worker.messages() as messages:
        async for message in messages:
            await message.ack()
            if message.sequence == 100:
                break
    while (await worker.info()).num_ack_pending > 1:  # the one that waits out its delay
        await asyncio.sleep(0.01)
    handled = []

    async def handle(message: railgun.AsyncMessage) -> None:
        handled.append(message.sequence)
        await message.ack()

    async with await worker.subscribe(handle, concurrency=3):
        await asyncio.gather(*(arg.publish(f"{name}.b", b"x") for _ in range(20)))
        while len(handled) < 20:
            await asyncio.sleep(0.01)
    assert sorted(handled) == list(range(101, 121))
    await stream.update_consumer("C", description="new")
    assert [info.config.description for info in await stream.consumers()] == ["new"]
    await stream.delete_consumer("C")
    with pytest.raises(railgun.ConsumerNotFound):
        await worker.fetch(1)


async def test_a_cancelled_fetch_gives_its_messages_back(
    arg: railgun.AsyncRailgun, rg: Railgun, make: Make
) -> None:
    stream = await asyncio.to_thread(make)
    worker = await arg.stream(stream.name).create_consumer("C")
    task = asyncio.create_task(worker.fetch(2, wait=30.0))
    while (await worker.info()).num_waiting == 0:
        await asyncio.sleep(0.01)
    await arg.publish(f"{stream.name}.a", b"x")  # one of two: the fetch goes on waiting
    while (await worker.info()).num_ack_pending == 0:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    found = await worker.fetch(1, wait=10.0)
    assert [(m.sequence, m.deliveries) for m in found] == [(1, 1)]
    assert (await worker.info()).num_waiting == 0
