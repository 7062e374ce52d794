"""Transactions of a message against a shard that the test plays: what is sent, in which order, and what a lost answer leaves."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import railgun
from railgun.api.responses import refusal_frame
from railgun.client import steps
from railgun.client.connection.connection import Connection
from railgun.client.facade.railgun import Railgun
from railgun.client.facade.sync.message import Message
from railgun.errors import ConnectionLost
from railgun.model import refusals
from railgun.protocol.commands import AckRun, HandOver, PublishPack
from railgun.protocol.leases import Lease
from railgun.protocol.replies import Answer, Frame
from tests.support.transports import PlayedShard
from tests.support.waiting import wait_until


@pytest.fixture
def shard() -> PlayedShard:
    played = PlayedShard()
    played.confirm = True
    return played


@pytest.fixture
def rg(shard: PlayedShard) -> Any:
    with Railgun(Connection(shard, timeout=0.5, max_in_flight=100, label="nowhere")) as facade:
        yield facade


def fetched(shard: PlayedShard, rg: Railgun, count: int) -> list[Message]:
    """Fetch so many messages; the shard leases them at once. Consumer sequences are those of the stream plus 100."""
    found: list[Message] = []
    thread = threading.Thread(target=lambda: found.extend(rg.stream("S").consumer("C").fetch(count)))
    thread.start()
    wait_until(lambda: bool(shard.pulls), "the pull was sent", pause=0.002)
    runs: dict[str, Any] = {"sequences": [1], "counts": [count], "offsets": [0], "consumer_sequences": [101]}
    lease = Lease("S", 1, "C", 7, "log", pull=shard.pulls[-1].id, deliveries=[2], done=True, **runs)
    shard.reply([lease])
    thread.join()
    return found


def hand_over(message: Message, *payloads: bytes, **options: Any) -> None:
    with message.transaction(**options) as t:
        for payload in payloads:
            t.publish("s.a", payload)


def handed(shard: PlayedShard) -> list[HandOver]:
    return [command.hand_over for command in shard.commands if command.hand_over is not None]


@pytest.mark.rule("EXO-08")
def test_a_transaction_is_one_command_behind_the_acks_that_wait(shard: PlayedShard, rg: Railgun) -> None:
    first, second = fetched(shard, rg, 2)
    with first._box.sending:  # type: ignore[union-attr] # so that the thread of the hub does not empty the box before
        first.ack()
        hand_over(second, b"one", b"two")
    command = shard.commands[-1]
    assert (command.incarnation, command.number, command.acks) == (1, 7, [AckRun("ack", 1, 1, 101, 2)])
    pack = PublishPack("S", "", 0, ["s.a", "s.a"], [], [], [b"one", b"two"])
    assert command.hand_over == HandOver(2, 102, 2, [pack.encode()])
    assert second.acknowledged


@pytest.mark.rule("EXO-08")
def test_acks_leave_before_a_transaction_that_fills_its_record(shard: PlayedShard, rg: Railgun) -> None:
    first, second, third = fetched(shard, rg, 3)
    with first._box.sending:  # type: ignore[union-attr]
        first.nak()
        hand_over(second, bytes(900_000), bytes(900_000))
        third.term("never")
    wait_until(lambda: len(shard.acks) == 2, "all was sent", pause=0.002)
    said = [([run.kind for run in one.acks], one.hand_over is not None) for one in shard.commands[1:]]
    assert said == [(["nak"], False), ([], True), (["term"], False)]
    assert len(handed(shard)[0].packs) == 2  # none is larger than a pack may be


@pytest.mark.rule("EXO-11")
def test_a_lost_answer_says_what_is_known(shard: PlayedShard, rg: Railgun) -> None:
    (message,) = fetched(shard, rg, 1)
    shard.confirm = False
    with pytest.raises(
        railgun.RequestTimeout, match=r"outcome is unknown.*if it was not, the message comes again"
    ):
        hand_over(message, b"x", timeout=0.05)
    assert not message.acknowledged
    shard.confirm = True
    hand_over(message, b"x")
    assert message.acknowledged
    assert handed(shard)[0] == handed(shard)[1]  # the same delivery: it is done once at most


@pytest.mark.rule("EXO-09")
def test_a_refusal_is_raised_and_ends_the_delivery(shard: PlayedShard, rg: Railgun) -> None:
    first, second = fetched(shard, rg, 2)
    shard.confirm = False
    for message, refusal, error, ended in (
        (first, refusals.NOT_PENDING, railgun.NotPending, True),
        (second, refusals.CONSUMER_NOT_FOUND, railgun.ConsumerNotFound, False),
    ):
        count = len(handed(shard))
        failed: list[Exception] = []

        def attempt(message: Message = message, failed: list[Exception] = failed) -> None:
            try:
                hand_over(message, b"x", timeout=10)
            except Exception as raised:  # noqa: BLE001 - looked at below
                failed.append(raised)

        thread = threading.Thread(target=attempt)
        thread.start()
        wait_until(lambda count=count: len(handed(shard)) > count, "it was sent", pause=0.002)  # type: ignore[misc]
        shard.reply(answers=[Answer(shard.commands[-1].request, [refusal_frame(refusal)])])
        thread.join()
        assert [type(one) for one in failed] == [error]
        assert message.acknowledged is ended


@pytest.mark.rule("EXO-11")
def test_what_the_broker_did_not_take_is_not_sent_again(shard: PlayedShard, rg: Railgun) -> None:
    (message,) = fetched(shard, rg, 1)
    shard.refuse = ConnectionLost("away")
    with pytest.raises(ConnectionLost):
        hand_over(message, b"x")
    shard.refuse = None
    assert not message.acknowledged
    message.ack()
    wait_until(lambda: bool(shard.acks), "the ack was sent", pause=0.002)
    assert handed(shard) == []


class Attempts:
    """Transactions that run at the same time, each in a thread."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self.failed: dict[int, Exception] = {}  # by sequence

    def begin(self, message: Message, *payloads: bytes, subject: str = "s.a", **options: Any) -> None:
        def attempt() -> None:
            try:
                with message.transaction(timeout=10) as t:
                    for payload in payloads:
                        t.publish(subject, payload, **options)
            except Exception as error:  # noqa: BLE001 - looked at by the test
                self.failed[message.sequence] = error

        self._threads.append(threading.Thread(target=attempt))
        self._threads[-1].start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


def box_of(message: Message) -> Any:
    assert message._box is not None
    return message._box


@pytest.mark.rule("EXO-08", "EXO-09")
def test_transactions_that_run_at_once_leave_together_and_end_each_by_itself(
    shard: PlayedShard, rg: Railgun
) -> None:
    messages = fetched(shard, rg, 4)
    box, attempts = box_of(messages[0]), Attempts()
    shard.confirm = False
    attempts.begin(messages[0], b"alone")
    wait_until(lambda: bool(handed(shard)), "the first has left", pause=0.002)
    with box.sending:  # the thread of the hub waits until all are there
        for number, message in enumerate(messages[1:], 1):
            attempts.begin(
                message, b"%d" % number, b"more", headers={"n": str(number)} if number == 2 else None
            )
            wait_until(lambda number=number: len(box.handed) == number, "it waits", pause=0.002)  # type: ignore[misc]
    wait_until(lambda: bool(shard.hand_overs), "they have left", pause=0.002)
    (given,) = shard.hand_overs
    assert given[:5] == ("S", 1, "C", 7, shard.commands[0].client)
    assert (given.sequences, given.consumer_sequences, given.deliveries) == (
        [2, 3, 4],
        [102, 103, 104],
        [2, 2, 2],
    )
    ((of, data),) = given.packs
    assert of == [0, 0, 1, 1, 2, 2]
    pack = PublishPack.decode(data)
    assert pack.payloads == [b"1", b"more", b"2", b"more", b"3", b"more"]
    assert pack.headers == [[], [], [("n", b"2")], [("n", b"2")], [], []]
    first, second, third = given.requests
    shard.reply(
        answers=[
            Answer(shard.commands[-1].request, [Frame([], b"")]),
            Answer(first, [Frame([], b"")]),
            Answer(second, [refusal_frame(refusals.NOT_PENDING)]),
            Answer(third, [Frame([], b"")]),
        ]
    )
    attempts.join()
    assert {sequence: type(error) for sequence, error in attempts.failed.items()} == {3: railgun.NotPending}
    assert all(message.acknowledged for message in messages)


@pytest.mark.rule("EXO-08")
def test_what_is_said_before_and_after_transactions_keeps_its_order(shard: PlayedShard, rg: Railgun) -> None:
    first, before, second, after = fetched(shard, rg, 4)
    box, attempts = box_of(first), Attempts()
    shard.confirm = False
    attempts.begin(first, b"alone")
    wait_until(lambda: bool(handed(shard)), "the first has left", pause=0.002)
    shard.kinds.clear()
    with box.sending:
        before.ack()
        attempts.begin(second, b"x")
    wait_until(lambda: bool(shard.hand_overs), "it has left", pause=0.002)
    after.ack()
    wait_until(lambda: len(shard.acks) == 2, "all was sent", pause=0.002)
    assert [kind for kind in shard.kinds if kind != "presence"] == ["consume", "hand_overs", "consume"]
    requests = [shard.commands[1].request, *shard.hand_overs[0].requests]
    shard.reply(answers=[Answer(request, [Frame([], b"")]) for request in requests])
    attempts.join()
    assert attempts.failed == {}


@pytest.mark.rule("EXO-11")
def test_transactions_that_the_broker_did_not_take_end_with_its_reason(
    shard: PlayedShard, rg: Railgun, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = PublishPack.encode

    def encode_what_can_travel(pack: PublishPack) -> bytes:
        if b"odd" in pack.payloads:
            raise ValueError("odd")
        return encode(pack)

    monkeypatch.setattr(PublishPack, "encode", encode_what_can_travel)
    first, second, third = fetched(shard, rg, 3)
    box, attempts = box_of(first), Attempts()
    shard.confirm = False
    attempts.begin(first, b"alone")
    wait_until(lambda: bool(handed(shard)), "the first has left", pause=0.002)
    with box.sending:
        attempts.begin(second, b"x")
        attempts.begin(third, b"odd")
        wait_until(lambda: len(box.handed) == 2, "they wait", pause=0.002)
    wait_until(lambda: bool(shard.hand_overs), "one of them has left", pause=0.002)
    shard.reply(
        answers=[
            Answer(request, [Frame([], b"")])
            for request in (shard.commands[-1].request, *shard.hand_overs[0].requests)
        ]
    )
    attempts.join()
    assert list(attempts.failed) == [3]
    assert "could not be sent" in str(attempts.failed[3])
    assert not third.acknowledged


@pytest.mark.rule("EXO-05", "EXO-11")
def test_a_task_that_is_cancelled_leaves_its_message_to_be_tried_again(
    shard: PlayedShard, rg: Railgun
) -> None:
    """It knows as little of the outcome as one whose time was over."""
    first, second = fetched(shard, rg, 2)
    shard.confirm = False

    async def cut_short() -> None:
        for begun in (first._confirmed(10), second._hand_over([], 0, 10)):
            task = asyncio.create_task(steps.run_async(begun))
            await asyncio.sleep(0)  # it has sent what it had to say
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cut_short())
    assert (len(shard.acks), len(handed(shard))) == (1, 1)
    assert (first.acknowledged, second.acknowledged) == (False, False)
    shard.confirm = True
    first.ack_sync()
    hand_over(second, b"x")
    assert (first.acknowledged, second.acknowledged) == (True, True)
