"""``with rg.batch() as batch``: collected by the client, sent and committed at the end of the block."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import railgun
from railgun import AsyncRailgun, PubAck, Railgun, Stream
from railgun.errors import BatchRefused, ConfigError, MessageTooLarge, NoStreamResponse
from railgun.model import headers as h
from tests.support.batches import committed, payloads
from tests.support.streams import Make


@pytest.fixture
def stream(make: Make) -> Stream:
    return make(allow_atomic=True)


@pytest.mark.rule("BAT-04", "BAT-06", "BAT-11")
def test_the_messages_of_a_block_are_stored_together(rg: Railgun, stream: Stream) -> None:
    with rg.batch() as batch:
        batch.add(f"{stream.name}.a", b"one", headers={"Kind": "first"})
        batch.add(f"{stream.name}.b", "two")
        assert (len(batch), stream.info().state.messages, batch.ack) == (2, 0, None)
    assert batch.ack == railgun.PubAck(stream.name, 2, batch=batch.id, count=2)
    assert payloads(stream) == [b"one", b"two"]
    identity = (h.BATCH_ID, batch.id.encode())
    assert stream.get(1).headers == [("Kind", b"first"), identity, (h.BATCH_SEQUENCE, b"1")]
    assert stream.get(2).headers == [identity, (h.BATCH_SEQUENCE, b"2"), (h.BATCH_COMMIT, b"1")]


def test_an_empty_block_sends_nothing(rg: Railgun, stream: Stream) -> None:
    with rg.batch() as batch:
        pass
    assert batch.ack is None
    assert stream.info().state.last_seq == 0


def test_an_exception_in_the_block_gives_the_batch_up(rg: Railgun, stream: Stream) -> None:
    batch = rg.batch()

    def fail() -> None:
        with batch:
            batch.add(f"{stream.name}.a")
            raise KeyError("no such order")

    with pytest.raises(KeyError):
        fail()
    assert batch.ack is None
    assert stream.info().state.last_seq == 0


@pytest.mark.rule("BAT-15")
def test_a_batch_of_two_streams_is_not_sent(rg: Railgun, make: Make, stream: Stream) -> None:
    other = make("OTHER", allow_atomic=True)
    with pytest.raises(ConfigError, match=r"belong to one stream.*nothing was sent"):
        committed(rg, (f"{stream.name}.a", b""), (f"{other.name}.a", b""))
    assert (stream.info().state.last_seq, other.info().state.last_seq) == (0, 0)


def test_a_batch_that_no_stream_captures_is_not_sent(rg: Railgun, stream: Stream, unique: Any) -> None:
    with pytest.raises(NoStreamResponse):
        committed(rg, (f"{stream.name}.a", b""), (unique("nowhere"), b""))
    assert stream.info().state.last_seq == 0


@pytest.mark.parametrize(
    "options",
    [{"msg_id": "X"}, {"headers": {h.BATCH_ID: "X"}}, {"headers": {h.BATCH_COMMIT: "1"}}, {"payload": 7}],
)
def test_what_no_batch_takes_is_refused_at_once(rg: Railgun, stream: Stream, options: dict[str, Any]) -> None:
    with rg.batch() as batch:
        batch.add(f"{stream.name}.a")
        with pytest.raises(ConfigError):
            batch.add(f"{stream.name}.b", **options)
    assert batch.ack is not None
    assert batch.ack.count == 1


def test_a_batch_is_used_once(rg: Railgun, stream: Stream) -> None:
    batch = rg.batch()
    with pytest.raises(ConfigError, match="inside the block"):
        batch.add(f"{stream.name}.a")
    with batch:
        batch.add(f"{stream.name}.a")
    with pytest.raises(ConfigError, match="inside the block"):
        batch.add(f"{stream.name}.a")
    with pytest.raises(ConfigError, match="used before"), batch:
        pass
    assert stream.info().state.last_seq == 1


@pytest.mark.rule("BAT-21")
@pytest.mark.parametrize("messages, stored", [(1, 1), (1000, 1000), (1001, 0)])
def test_as_many_messages_as_a_batch_may_have(
    rg: Railgun, stream: Stream, messages: int, stored: int
) -> None:
    def send() -> None:
        with rg.batch() as batch:
            for number in range(messages):
                batch.add(f"{stream.name}.a", b"%d" % number)
        assert batch.ack is not None
        assert (batch.ack.sequence, batch.ack.count) == (messages, messages)

    if stored:
        send()
    else:
        with pytest.raises(BatchRefused) as refused:
            send()
        assert refused.value.err_code == 10199
    assert stream.info().state.messages == stored


@pytest.mark.parametrize(
    "sizes",
    [[999_000, 500], [999_000, 2_000], [1_000_000] * 4, [900_000] * 20, [10] * 500 + [1_000_000] + [10]],
)
def test_a_batch_that_is_larger_than_a_record_is_one_all_the_same(
    rg: Railgun, stream: Stream, sizes: list[int]
) -> None:
    with rg.batch() as batch:
        for number, size in enumerate(sizes):
            batch.add(f"{stream.name}.a", bytes([number % 256]) * size)
    assert batch.ack is not None
    assert (batch.ack.sequence, batch.ack.count) == (len(sizes), len(sizes))
    for number, size in enumerate(sizes):
        assert stream.get(number + 1).payload == bytes([number % 256]) * size


def test_the_first_refusal_of_a_batch_in_several_records_is_told(rg: Railgun, make: Make) -> None:
    stream = make(allow_atomic=True, max_msg_size=1_100_000)
    with pytest.raises(railgun.MessageRefused) as refused:
        committed(rg, *((f"{stream.name}.a", bytes(size)) for size in (900_000, 1_200_000, 900_000)))
    assert refused.value.err_code == 10054
    assert stream.info().state.last_seq == 0
    with pytest.raises(MessageTooLarge), rg.batch() as batch:
        batch.add(f"{stream.name}.a", bytes(9_000_000))


@pytest.mark.rule("BAT-21")
def test_a_batch_that_no_worker_can_stage_is_too_large(rg: Railgun, stream: Stream) -> None:
    large = (f"{stream.name}.a", bytes(1024 * 1024 - 200))
    with pytest.raises(BatchRefused, match="67108864 bytes") as refused:
        committed(rg, *[large] * 66)
    assert refused.value.err_code == 10199
    assert stream.info().state.last_seq == 0
    assert committed(rg, *[large] * 20) is not None  # its memory is free again


@pytest.mark.parametrize("timeout", ["x", -1, float("nan"), float("inf"), 1e30])
def test_a_time_that_nobody_can_wait_is_refused_before_anything_is_sent(
    rg: Railgun, stream: Stream, timeout: Any
) -> None:
    with pytest.raises(ConfigError, match="is not a valid timeout"):
        rg.batch(timeout=timeout)
    assert committed(rg, (f"{stream.name}.a", b"")) is not None  # the connection is as it was


@pytest.mark.rule("BAT-20")
def test_threads_that_add_to_one_batch_get_a_place_each(rg: Railgun, stream: Stream) -> None:
    threads, each = 8, 25
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # they get into each other's way
    try:
        with rg.batch() as batch, ThreadPoolExecutor(threads) as pool:
            for _ in range(threads * each):
                pool.submit(batch.add, f"{stream.name}.a", b"", headers={"Kind": "any"})
            pool.shutdown()
    finally:
        sys.setswitchinterval(before)
    assert batch.ack is not None
    assert batch.ack.count == threads * each


@pytest.mark.rule("BAT-21")
def test_a_batch_that_is_refused_is_not_sent_to_its_end(
    rg: Railgun, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    packer, sent = rg.connection.packer, []
    adopt = packer.adopt
    monkeypatch.setattr(
        packer, "adopt", lambda lane, pack, **how: (sent.append(pack), adopt(lane, pack, **how))
    )
    with pytest.raises(BatchRefused) as refused:
        committed(rg, *[(f"{stream.name}.a", b"")] * 20_000)
    assert refused.value.err_code == 10199
    assert sum(len(pack.subjects) for pack in sent) < 20_000


@pytest.mark.rule("BAT-16")
def test_a_stream_that_takes_no_batches(rg: Railgun, make: Make) -> None:
    stream = make()
    with pytest.raises(BatchRefused) as refused:
        committed(rg, (f"{stream.name}.a", b""), (f"{stream.name}.a", b""))
    assert refused.value.err_code == 10174


def test_a_stream_that_answers_nothing_stores_batches(rg: Railgun, make: Make) -> None:
    stream = make(allow_atomic=True, no_ack=True)
    with rg.batch() as batch:
        batch.add(f"{stream.name}.a")
        batch.add(f"{stream.name}.a")
    assert batch.ack is None
    assert stream.info().state.messages == 2


def test_batches_and_publishes_of_one_client_keep_their_order(rg: Railgun, stream: Stream) -> None:
    for number in range(3):
        rg.publish_soon(f"{stream.name}.a", b"alone %d" % number)
        with rg.batch() as batch:
            batch.add(f"{stream.name}.a", b"batch %d" % number)
            batch.add(f"{stream.name}.a", b"batch %d" % number)
    expected = [one for n in b"012" for one in (b"alone %c" % n, b"batch %c" % n, b"batch %c" % n)]
    assert payloads(stream) == expected


async def test_a_batch_of_tasks(arg: AsyncRailgun, stream: Stream) -> None:
    async with arg.batch() as batch:
        batch.add(f"{stream.name}.a", b"one")
        batch.add(f"{stream.name}.b", b"two", expected_last_subject_sequence=0)
    assert batch.ack == railgun.PubAck(stream.name, 2, batch=batch.id, count=2)
    with pytest.raises(railgun.WrongLastSequence):
        async with arg.batch() as batch:
            batch.add(f"{stream.name}.a", expected_last_sequence=0)


async def test_batches_that_tasks_of_one_loop_commit_together_travel_together(
    arg: AsyncRailgun, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    packer, sent = arg.connection.packer, []
    send = packer._send

    def counted(*command: Any) -> None:
        sent.append(command)
        send(*command)

    async def commit(number: int) -> PubAck | None:
        async with arg.batch() as batch:
            for place in range(3):
                batch.add(f"{stream.name}.a", b"%d" % (10 * number + place))
        return batch.ack

    await commit(0)  # the stream is known from now on
    monkeypatch.setattr(packer, "_send", counted)
    acks = await asyncio.gather(*map(commit, range(1, 6)))
    assert len(sent) == 1
    assert [(ack.sequence, ack.count) for ack in acks if ack is not None] == [
        (n, 3) for n in (6, 9, 12, 15, 18)
    ]
    assert payloads(stream) == [b"%d" % (10 * number + place) for number in range(6) for place in range(3)]


async def test_a_task_that_is_cancelled_while_it_commits_holds_up_nobody(
    arg: AsyncRailgun, stream: Stream
) -> None:
    async def commit(text: bytes) -> None:
        async with arg.batch() as batch:
            batch.add(f"{stream.name}.a", text)

    await commit(b"first")
    task = asyncio.create_task(commit(b"cancelled"))
    await asyncio.sleep(0)  # it has handed its batch over
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as kept:
        await task
    await arg.flush(10)
    assert payloads(stream) == [b"first", b"cancelled"]
    assert kept.tb is not None  # nothing waited until the error, with all its frames, is forgotten
    await commit(b"last")
    assert payloads(stream) == [b"first", b"cancelled", b"last"]
