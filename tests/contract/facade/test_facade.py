"""The facade itself, on every backend: threads, event loops, pipelines, closing, refusals before anything is sent."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import railgun
from railgun.testing import Clock
from tests.support.streams import Unique

if TYPE_CHECKING:
    from tests.contract.conftest import Cluster


def test_publishes_and_reads_back(rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("ORDERS")
    orders = rg.create_stream(name, subjects=[f"{name}.*"])
    ack = rg.publish(f"{name}.new", "text too", headers={"Trace": "7"}, msg_id="1")
    assert ack == railgun.PubAck(name, 1)
    assert rg.publish(f"{name}.new", b"again", msg_id="1") == railgun.PubAck(name, 1, duplicate=True)
    message = orders.get(1)
    assert (message.subject, message.text, message.header("Trace")) == (f"{name}.new", "text too", "7")
    assert orders.get_last(f"{name}.*").sequence == 1
    assert orders.info().state.messages == 1
    assert name in [info.config.name for info in rg.streams()]


@pytest.mark.rule("SUB-08")
@pytest.mark.parametrize("bad", ["*", ">", "x.*", "", "a..b", ".a", "a b"])
def test_what_is_no_literal_subject_is_refused_before_it_is_sent(
    rg: railgun.Railgun, unique: Unique, bad: str
) -> None:
    name = unique("S")
    stream = rg.create_stream(name, subjects=[f"{name}.>"])
    subject = f"{name}.{bad}" if bad != "" else ""
    for call in (rg.publish, rg.publish_soon, rg.request):
        with pytest.raises(railgun.ConfigError):
            call(subject, b"x")
    assert stream.info().state.messages == 0


@pytest.mark.rule("PUB-05")
def test_a_subject_of_no_stream_is_said_at_once(rg: railgun.Railgun, unique: Unique) -> None:
    subject = unique("nobody")
    with pytest.raises(railgun.NoStreamResponse) as raised:
        rg.publish(subject, b"x")
    assert raised.value.subject == subject
    (reply,) = rg.request(subject, b"x")
    assert (reply.status, reply.body) == (503, b"")


@pytest.mark.rule("PUB-01", "PUB-08")
def test_a_raw_publish_is_answered_in_json(rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("RAW")
    rg.create_stream(name, subjects=[name])
    (reply,) = rg.request(name, b"x")
    assert json.loads(reply.body) == {"stream": name, "seq": 1}
    (refused,) = rg.request(name, b"x", headers={"Nats-Expected-Last-Sequence": "9"})
    assert refused.json()["error"]["err_code"] == 10071


@pytest.mark.rule("PUB-02")
def test_a_publish_without_an_answer_is_stored_all_the_same(rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("QUIET")
    stream = rg.create_stream(name, subjects=[name])
    assert rg.publish(name, b"x", ack=False) is None
    assert stream.info().state.messages == 1


@pytest.mark.rule("PUB-03")
def test_a_stream_that_never_answers_times_out(rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("NOACK")
    stream = rg.create_stream(name, subjects=[name], no_ack=True)
    with pytest.raises(railgun.RequestTimeout) as raised:
        rg.request(name, b"x", timeout=0.5)
    assert "stored" in str(raised.value)
    assert isinstance(raised.value, TimeoutError)
    assert stream.info().state.messages == 1


@pytest.mark.rule("PUB-23")
def test_a_pipeline_keeps_its_order_and_every_message_has_its_ack(
    rg: railgun.Railgun, unique: Unique
) -> None:
    name = unique("PIPE")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    futures = [rg.publish_soon(f"{name}.{number % 7}", str(number)) for number in range(5_000)]
    rg.flush()
    assert [future.result().sequence for future in futures] == list(range(1, 5_001))
    assert all(future.done() and future.exception() is None for future in futures)
    assert [stream.get(sequence).text for sequence in (1, 2_500, 5_000)] == ["0", "2499", "4999"]


def test_a_pipeline_mixes_stored_duplicate_and_refused(rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("MIX")
    rg.create_stream(name, subjects=[name])
    futures = [
        rg.publish_soon(name, b"a", msg_id="1"),
        rg.publish_soon(name, b"b", msg_id="1"),
        rg.publish_soon(name, b"c", expected_last_sequence=7),
        rg.publish_soon(name, b"d"),
    ]
    called: list[object] = []
    futures[3].add_done_callback(called.append)
    rg.flush()
    assert futures[0].result() == railgun.PubAck(name, 1)
    assert futures[1].result() == railgun.PubAck(name, 1, duplicate=True)
    assert isinstance(futures[2].exception(), railgun.WrongLastSequence)
    assert futures[3].result() == railgun.PubAck(name, 2)
    assert called == [futures[3]]


def test_several_threads_share_one_facade(rg: railgun.Railgun, unique: Unique) -> None:
    names = [unique("A"), unique("B")]
    for name in names:
        rg.create_stream(name, subjects=[f"{name}.*"])
    sequences: list[tuple[str, int]] = []

    def work(number: int) -> None:
        for turn in range(25):
            ack = rg.publish(f"{names[turn % 2]}.{number}", b"x")
            sequences.append((ack.stream, ack.sequence))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sequences) == 200
    assert len(set(sequences)) == 200
    assert sum(rg.stream(name).info().state.messages for name in names) == 200


async def test_the_async_facade_has_the_same_names(arg: railgun.AsyncRailgun, unique: Unique) -> None:
    name = unique("ASYNC")
    stream = await arg.create_stream(name, subjects=[f"{name}.*"])
    acks = await asyncio.gather(*(arg.publish(f"{name}.{number}", b"x") for number in range(300)))
    assert sorted(ack.sequence for ack in acks) == list(range(1, 301))
    futures = [arg.publish_soon(f"{name}.soon", b"y") for _ in range(300)]
    await arg.flush()
    assert [(await future).sequence for future in futures] == list(range(301, 601))
    assert (await stream.get(1)).payload == b"x"
    await stream.delete_message(1)
    assert await stream.purge(keep=10) == 589
    with pytest.raises(railgun.MessageNotFound):
        await stream.get(1)
    with pytest.raises(railgun.NoStreamResponse):
        await arg.publish_soon(unique("nobody"), b"x")
    (reply,) = await arg.request(f"STREAM.INFO.{name}")
    assert reply.json()["state"]["messages"] == 10
    await arg.update_stream(name, max_msgs=5)
    assert (await stream.info()).config.max_msgs == 5
    await arg.delete_stream(name)
    assert name not in [info.config.name for info in await arg.streams()]


def test_several_event_loops_share_one_facade(cluster: Cluster, rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("LOOPS")
    rg.create_stream(name, subjects=[name])
    facade = asyncio.run(_connected(cluster))
    counts: list[int] = []

    async def work() -> None:
        acks = await asyncio.gather(*(facade.publish(name, b"x") for _ in range(100)))
        counts.append(len({ack.sequence for ack in acks}))

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(facade.close())
    assert counts == [100, 100, 100]
    assert rg.stream(name).info().state.messages == 300


async def _connected(cluster: Cluster) -> railgun.AsyncRailgun:
    return await cluster.connect_async()


def test_closing_loses_nothing_that_was_sent(cluster: Cluster, rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("CLOSE")
    stream = rg.create_stream(name, subjects=[name])
    other = cluster.connect()
    futures = [other.publish_soon(name, b"x" * 100) for _ in range(10_000)]
    other.publish(name, b"last", ack=False)
    other.close()
    assert [future.result(0).sequence for future in futures] == list(range(1, 10_001))
    assert stream.info().state.messages == 10_001
    other.close()
    for call in (other.publish, other.publish_soon, other.request):
        with pytest.raises(railgun.ConnectionClosed):
            call(name, b"x")
    with pytest.raises(railgun.ConnectionClosed):
        other.stream(name).info()


@pytest.mark.rule("LIM-13")
def test_the_size_of_a_message_has_two_limits(rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("BIG")
    rg.create_stream(name, subjects=[name])
    with pytest.raises(railgun.MessageRefused):
        rg.publish(name, b"x" * (1024 * 1024 + 1))
    larger = unique("BIGGER")
    stream = rg.create_stream(larger, subjects=[larger], max_msg_size=6 * 1024 * 1024)
    assert rg.publish(larger, b"y" * (5 * 1024 * 1024)).sequence == 1
    assert len(stream.get(1).payload) == 5 * 1024 * 1024
    with pytest.raises(railgun.MessageTooLarge):
        rg.publish(larger, b"z" * (9 * 1024 * 1024))


def test_few_in_flight_only_slow_a_pipeline_down(
    cluster: Cluster, rg: railgun.Railgun, unique: Unique
) -> None:
    name = unique("WINDOW")
    rg.create_stream(name, subjects=[name])
    with cluster.connect(max_in_flight=10) as narrow:
        futures = [narrow.publish_soon(name, b"x") for _ in range(200)]
        narrow.flush()
        assert [future.result().sequence for future in futures] == list(range(1, 201))


@pytest.mark.rule("CFG-31")
def test_the_list_of_streams_is_merged_over_all_shards(rg: railgun.Railgun, unique: Unique) -> None:
    names = sorted(unique(f"L{number}") for number in range(6))
    for name in names:
        rg.create_stream(name, subjects=[name])
    (reply,) = rg.request("STREAM.LIST")
    listed = [info["config"]["name"] for info in reply.json()["streams"]]
    assert listed == sorted(listed)
    assert set(names) <= set(listed)
    (page,) = rg.request("STREAM.LIST", json.dumps({"offset": len(listed) - 1}))
    assert [info["config"]["name"] for info in page.json()["streams"]] == listed[-1:]
    assert [info.config.name for info in rg.streams(subject=names[0])] == [names[0]]


def test_a_stream_that_was_made_again_is_another_one(rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("AGAIN")
    for _ in range(2):
        stream = rg.create_stream(name, subjects=[f"{name}.*"])
        assert rg.publish(f"{name}.a", b"x").sequence == 1
        assert stream.get(1).payload == b"x"
        rg.delete_stream(name)
        with pytest.raises(railgun.NoStreamResponse):
            rg.publish(f"{name}.a", b"x")
        with pytest.raises(railgun.StreamNotFound):
            stream.info()


def test_an_update_changes_what_is_given_and_keeps_the_rest(rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("UPDATE")
    rg.create_stream(name, subjects=[f"{name}.a"], max_msgs=7)
    rg.update_stream(name, subjects=[f"{name}.b"])
    assert rg.publish(f"{name}.b", b"x").sequence == 1
    with pytest.raises(railgun.NoStreamResponse):
        rg.publish(f"{name}.a", b"x")
    assert rg.stream(name).info().config.max_msgs == 7
    with pytest.raises(railgun.ConfigError):
        rg.create_stream(name, no_such_field=1)


def test_the_clock_moves_by_hand(rg: railgun.Railgun, clock: Clock, unique: Unique) -> None:
    name = unique("CLOCK")
    stream = rg.create_stream(name, subjects=[name], max_age=3_600)
    rg.publish(name, b"x")
    before = clock.now_ns()
    clock.advance(3_601)
    assert clock.now_ns() - before >= 3_601 * 10**9
    assert stream.info().state.messages == 0


def test_a_loop_that_is_closed_in_the_middle_of_a_publish_holds_up_no_other(
    cluster: Cluster, rg: railgun.Railgun, unique: Unique
) -> None:
    """Loops come and go at the same place in memory, and what one of them has begun leaves all the same."""
    name = unique("S")
    stream = rg.create_stream(name, subjects=[f"{name}.>"])

    def cut_short(arg: railgun.AsyncRailgun) -> None:
        async def begin() -> None:
            async def publish() -> None:
                await asyncio.sleep(0)
                await arg.publish(f"{name}.a", "begun")

            tasks.append(asyncio.create_task(publish()))
            await asyncio.sleep(0)

        tasks: list[asyncio.Task[None]] = []
        loop = asyncio.new_event_loop()
        loop.run_until_complete(begin())
        tasks.pop()._log_destroy_pending = False  # type: ignore[attr-defined] # of no interest here
        loop.close()

    with asyncio.Runner() as runner:
        arg: railgun.AsyncRailgun = runner.run(_connected(cluster))
        runner.run(arg.publish(f"{name}.a", "the first"))
        for number in range(60):
            cut_short(arg)
            gc.collect()
            asyncio.run(asyncio.wait_for(arg.publish(f"{name}.a", str(number)), 5))
        cut_short(arg)
        runner.run(arg.close())
    assert stream.info().state.messages == 122


async def _connected(cluster: Cluster) -> railgun.AsyncRailgun:
    return await cluster.connect_async()


@pytest.mark.parametrize(
    "timeout", [float("nan"), float("inf"), -1, 10**400, "5", 1e10], ids=lambda given: f"{given}"[:9]
)
def test_a_timeout_that_is_none_is_refused_before_anything_is_sent(
    rg: railgun.Railgun, unique: Unique, timeout: Any
) -> None:
    name = unique("S")
    stream = rg.create_stream(name, subjects=[f"{name}.>"])
    calls: list[Callable[[], object]] = [
        lambda: rg.publish(f"{name}.a", timeout=timeout),
        lambda: rg.request(f"{name}.a", timeout=timeout),
        lambda: rg.request(f"STREAM.INFO.{name}", timeout=timeout),
        lambda: rg.counter(f"{name}.a").add(timeout=timeout),
        lambda: rg.flush(timeout=timeout),
    ]
    for call in calls:
        with pytest.raises(railgun.ConfigError, match="is not a valid timeout"):
            call()
    assert stream.info().state.messages == 0
    assert rg.publish(f"{name}.a").sequence == 1
