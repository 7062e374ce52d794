"""Packs: their bytes, their order, their window, the futures of their messages."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun.client.publishing.pack_codec import encode_pack
from railgun.client.publishing.packer import Packer
from railgun.client.publishing.packs import PACK_BYTES, PACK_MESSAGES, Lane, Pack, PublishFuture
from railgun.client.requests import RequestNumbers
from railgun.client.settlements import Wakeups
from railgun.client.transport import Delivered
from railgun.errors import (
    ConnectionClosed,
    MessageTooLarge,
    NoStreamResponse,
    RailgunError,
    RequestTimeout,
    StreamFull,
)
from railgun.model.cluster_limits import LARGEST_MESSAGE
from railgun.model.messages import PubAck
from railgun.model.refusals import NO_STREAM, store_refused
from railgun.protocol.commands import PublishPack
from railgun.protocol.replies import PackReply
from tests.support.waiting import wait_until


@given(
    st.lists(st.tuples(st.text(max_size=40), st.binary(max_size=300), st.text(max_size=20)), max_size=30),
    st.booleans(),
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(["one", "Größe", "n" * 70]) | st.text(max_size=5), st.binary(max_size=100)
            ),
            max_size=4,
        ),
        min_size=30,
        max_size=30,
    )
    | st.none(),
    st.integers(0, 2**62),
)
def test_the_fast_encoding_is_the_schema_s(
    messages: list[tuple[str, bytes, str]],
    with_ids: bool,
    given: list[list[tuple[str, bytes]]] | None,
    first: int,
) -> None:
    ids = [message_id for _, _, message_id in messages] if with_ids else []
    headers = [] if given is None else given[: len(messages)]
    pack = PublishPack("STRÖM", "me", first, [m[0] for m in messages], ids, headers, [m[1] for m in messages])
    assert encode_pack(pack) == pack.encode()
    assert PublishPack.decode(encode_pack(pack)) == pack


class Sent:
    """A transport's ``send`` that keeps what it is given; the test answers."""

    def __init__(self) -> None:
        self.packs: list[PublishPack] = []
        self.threads: list[str] = []
        self.delivered: list[Delivered] = []

    def __call__(self, partition: int, key: bytes, kind: str, value: bytes, delivered: Delivered) -> None:
        self.packs.append(PublishPack.decode(value))
        self.threads.append(threading.current_thread().name)
        self.delivered.append(delivered)


@pytest.fixture
def sent() -> Sent:
    return Sent()


@pytest.fixture
def packer(sent: Sent) -> Iterator[Packer]:
    packer = Packer(
        "client", sent, RequestNumbers(), max_in_flight=PACK_MESSAGES * 3, timeout=5.0, failed=pytest.fail
    )
    yield packer
    packer.close([])


def answer(packer: Packer, pack: PublishPack, first_sequence: int) -> None:
    count = len(pack.payloads)
    reply = PackReply(pack.stream, pack.first_request, [(0, count, first_sequence)], [], [])
    packer.finish(pack.first_request, reply, None)


def test_a_lone_message_leaves_in_the_thread_of_its_caller(packer: Packer, sent: Sent) -> None:
    future = packer.add_now(Lane("S", 0), "s", b"x", "", None)
    assert sent.threads == [threading.current_thread().name]
    assert not future.done()
    answer(packer, sent.packs[0], 7)
    assert future.result(0) == PubAck("S", 7)


def test_what_comes_while_something_is_on_its_way_travels_together(packer: Packer, sent: Sent) -> None:
    lane = Lane("S", 0)
    packer.add_now(lane, "s", b"0", "", None)
    for number in range(1, 6):
        packer.add(lane, "s", str(number).encode(), queue=False)
    packer.pump(lane)
    assert [pack.payloads for pack in sent.packs] == [[b"0"], [b"1", b"2", b"3", b"4", b"5"]]
    assert sent.packs[1].first_request == sent.packs[0].first_request + 1


def test_a_pack_holds_so_many_messages_and_so_many_bytes(packer: Packer, sent: Sent) -> None:
    lane = Lane("S", 0)
    for _ in range(PACK_MESSAGES + 1):
        packer.add(lane, "s", b"x", queue=False)
    for _ in range(3):
        packer.add(lane, "s", b"y" * (PACK_BYTES // 2), queue=False)
    packer.pump(lane)
    assert [len(pack.payloads) for pack in sent.packs] == [PACK_MESSAGES, 2, 1, 1]
    with pytest.raises(MessageTooLarge):
        packer.add(lane, "s", b"z" * (LARGEST_MESSAGE + 1))


def test_ids_and_headers_are_columns_as_soon_as_one_message_has_them(packer: Packer, sent: Sent) -> None:
    lane = Lane("S", 0)
    packer.add(lane, "a", b"1", queue=False)
    packer.add(lane, "b", b"2", "id", queue=False)
    packer.add(lane, "c", b"3", "", [("H", b"v")], queue=False)
    packer.add(lane, "d", b"4", queue=False)
    packer.pump(lane)
    (pack,) = sent.packs
    assert (pack.subjects, pack.ids) == (["a", "b", "c", "d"], ["", "id", "", ""])
    assert pack.headers == [[], [], [("H", b"v")], []]


def test_a_full_window_blocks_until_there_is_room(sent: Sent) -> None:
    packer = Packer("client", sent, RequestNumbers(), max_in_flight=2, timeout=5.0, failed=pytest.fail)
    lane = Lane("S", 0)
    for _ in range(2):
        packer.add(lane, "s", b"x", queue=False)
    packer.pump(lane)
    blocked = threading.Thread(target=packer.add, args=(lane, "s", b"y"))
    blocked.start()
    blocked.join(0.05)
    assert blocked.is_alive()
    answer(packer, sent.packs[0], 1)
    blocked.join(5)
    assert not blocked.is_alive()
    packer.close([lane])


@pytest.mark.parametrize("patience", [0.0, 0.05])
def test_who_waits_for_room_waits_no_longer_than_it_was_told(sent: Sent, patience: float) -> None:
    packer = Packer("client", sent, RequestNumbers(), max_in_flight=2, timeout=60.0, failed=pytest.fail)
    lane = Lane("S", 0)
    for _ in range(2):
        packer.add(lane, "s", b"x", queue=False)
    packer.pump(lane)
    told: list[BaseException] = []

    def publish() -> None:
        try:
            packer.add_now(lane, "s", b"y", "", None, patience=patience)
        except RequestTimeout as error:
            told.append(error)

    blocked = threading.Thread(target=publish, daemon=True)
    blocked.start()
    blocked.join(20)
    assert [str(one).startswith(f"no room within {patience:g} s: 2 messages") for one in told] == [True]
    assert packer.unanswered == 2
    packer.close([lane])


def test_beyond_the_window_messages_of_a_loop_wait_in_their_lane(sent: Sent) -> None:
    packer = Packer("client", sent, RequestNumbers(), max_in_flight=2, timeout=5.0, failed=pytest.fail)
    lane = Lane("S", 0)
    for turn in range(4):
        packer.add(lane, "s", str(turn).encode(), block=False, queue=False)
        packer.pump(lane)
    assert [pack.payloads for pack in sent.packs] == [[b"0"], [b"1"]]
    for pack in list(sent.packs):
        answer(packer, pack, 1)
    packer.pump(lane)
    packer.push()
    assert sorted(payload for pack in sent.packs for payload in pack.payloads) == [b"0", b"1", b"2", b"3"]
    packer.close([lane])


def test_the_outcome_of_each_message_of_a_mixed_pack() -> None:
    pack = Pack("S")
    pack.subjects = ["a", "b", "c", "d", "e"]
    reply = PackReply(
        "S",
        1,
        [(0, 1, 10), (2, 1, 11)],
        [(1, 3)],
        [(3, store_refused("maximum messages exceeded")), (4, NO_STREAM)],
    )
    pack.settle(reply, None, Wakeups())
    futures = [PublishFuture(pack, index) for index in range(5)]
    assert [future.result() for future in futures[:3]] == [
        PubAck("S", 10),
        PubAck("S", 3, True),
        PubAck("S", 11),
    ]
    assert isinstance(futures[3].exception(), StreamFull)
    missing = futures[4].exception()
    assert isinstance(missing, NoStreamResponse)
    assert missing.subject == "e"


def test_an_impatient_caller_learns_what_is_known(packer: Packer, sent: Sent) -> None:
    future = packer.add_now(Lane("S", 0), "s", b"x", "", None)
    with pytest.raises(RequestTimeout, match="not confirmed"):
        future.result(0.01)
    sent.delivered[0](None)
    with pytest.raises(RequestTimeout, match="stored and its outcome is unknown"):
        future.result(0.01)
    assert not future.done()


def test_a_command_that_the_broker_refuses_ends_with_its_error(packer: Packer, sent: Sent) -> None:
    future = packer.add_now(Lane("S", 0), "s", b"x", "", None)
    sent.delivered[0](RailgunError("no"))
    with pytest.raises(RailgunError, match="no"):
        future.result(0)
    assert packer.unanswered == 0


def test_closing_ends_what_waits(packer: Packer) -> None:
    lane = Lane("S", 0)
    sent = packer.add_now(lane, "s", b"x", "", None)
    waiting = packer.add(lane, "s", b"x", queue=False)
    packer.close([lane])
    for future in (sent, waiting):
        assert isinstance(future.exception(0), ConnectionClosed)
    with pytest.raises(ConnectionClosed):
        packer.add(lane, "s", b"x")


def test_one_call_wakes_all_tasks_of_a_loop() -> None:
    pack = Pack("S")
    calls: list[int] = []

    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        original = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *args: (calls.append(1), original(*args))[1]  # type: ignore[method-assign]
        tasks = [asyncio.ensure_future(_result(PublishFuture(pack, index))) for index in range(100)]
        await asyncio.sleep(0)
        wakeups = Wakeups()
        pack.settle(PackReply("S", 1, [(0, 100, 1)], [], []), None, wakeups)
        wakeups.deliver()
        return [ack.sequence for ack in await asyncio.gather(*tasks)]

    assert asyncio.run(main()) == list(range(1, 101))
    assert calls == [1]


async def _result(future: PublishFuture) -> PubAck:
    return await future


def test_a_callback_that_raises_does_not_keep_others_from_being_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pack = Pack("S")
    told: list[object] = []
    future = PublishFuture(pack, 0)
    future.add_done_callback(lambda _: 1 / 0)
    future.add_done_callback(told.append)
    wakeups = Wakeups()
    pack.settle(PackReply("S", 1, [(0, 1, 1)], [], []), None, wakeups)
    wakeups.deliver()
    assert told == [future]
    assert "a done callback raised" in caplog.text
    future.add_done_callback(told.append)
    assert told == [future, future]


def test_an_interrupt_in_the_middle_of_a_send_holds_up_nobody(packer: Packer, sent: Sent) -> None:
    """The pack that was on its way ends with an answer or at its deadline; what comes later does not wait for it."""

    def interrupted(*_: object) -> None:
        packer._send = sent
        raise KeyboardInterrupt

    lane = Lane("S", 0)
    packer._send = interrupted
    with pytest.raises(KeyboardInterrupt):
        packer.add_now(lane, "s", b"1", "", None)
    future = packer.add_now(lane, "s", b"2", "", None)
    wait_until(lambda: [pack.payloads for pack in sent.packs] == [[b"2"]], "the next message left")
    answer(packer, sent.packs[0], 7)
    assert future.result(0) == PubAck("S", 7)
    assert [pack.count for pack in packer.pending()] == [1]
    packer.push()  # waits for nobody


def test_a_request_waits_for_what_another_thread_is_handing_over(packer: Packer, sent: Sent) -> None:
    """It sees what its client published before."""
    reached, opened = threading.Event(), threading.Event()

    def slow(*command: Any) -> None:
        reached.set()
        assert opened.wait(10)
        sent(*command)

    packer._send = slow
    packer.add(Lane("S", 0), "s", b"1")
    assert reached.wait(10)
    pushing = threading.Thread(target=packer.push)
    pushing.start()
    pushing.join(0.05)
    assert pushing.is_alive()
    opened.set()
    pushing.join(10)
    assert [pack.payloads for pack in sent.packs] == [[b"1"]]


@pytest.mark.parametrize("asks", [True, False], ids=["a request", "a publish"])
def test_a_caller_does_not_send_all_that_comes_while_it_sends(packer: Packer, asks: bool) -> None:
    """What is left is for the sender thread."""
    lane, enough = Lane("S", 0), threading.Event()
    threads: set[str] = set()

    def flooded(partition: int, key: bytes, kind: str, value: bytes, delivered: Delivered) -> None:
        threads.add(threading.current_thread().name)
        if not enough.is_set():
            packer.add(lane, "s", b"x", block=False, queue=False)
        answer(packer, PublishPack.decode(value), 1)

    packer._send = flooded
    packer.add(lane, "s", b"x", queue=asks)
    done = threading.Thread(target=packer.push if asks else partial(packer.pump, lane), daemon=True)
    done.start()
    done.join(20)
    in_time = not done.is_alive()
    wait_until(lambda: "railgun-sender" in threads or not in_time, "the sender thread goes on")
    enough.set()
    assert in_time
    assert packer.wait_empty(10)
