"""The consumers' side of a client against a shard that the test plays: leases, acknowledgements as runs, failures, new owners."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

import railgun
from railgun.client.connection.connection import Connection
from railgun.client.consuming import commands, hub, push_buffer
from railgun.client.facade.railgun import Railgun
from railgun.client.facade.sync.message import Message
from railgun.client.transport import Delivered
from railgun.errors import ConnectionLost, RailgunError
from railgun.protocol.commands import CONSUME, AckRun
from railgun.protocol.leases import Lease
from tests.support.transports import PlayedShard
from tests.support.waiting import wait_until


@pytest.fixture
def shard() -> PlayedShard:
    return PlayedShard()


@pytest.fixture
def rg(shard: PlayedShard) -> Any:
    with Railgun(Connection(shard, timeout=0.5, max_in_flight=100, label="nowhere")) as facade:
        yield facade


def lease(pull: int, sequences: Sequence[int], counts: Sequence[int], **fields: Any) -> Lease:
    """Runs whose consumer sequences are those of the stream plus 100."""
    return Lease(
        "S",
        1,
        "C",
        7,
        "log",
        pull=pull,
        sequences=list(sequences),
        counts=list(counts),
        offsets=[0] * len(counts),
        consumer_sequences=[one + 100 for one in sequences],
        deliveries=[1] * len(counts),
        **fields,
    )


def fetched(shard: PlayedShard, rg: Railgun, count: int, *, first: int = 1) -> list[Message]:
    """Fetch so many messages; the shard leases them at once."""
    found: list[Message] = []
    thread = threading.Thread(target=lambda: found.extend(rg.stream("S").consumer("C").fetch(count)))
    before = len(shard.pulls)
    thread.start()
    wait_until(lambda: len(shard.pulls) > before, "the pull was sent", pause=0.002)
    shard.reply([lease(shard.pulls[-1].id, [first], [count], done=True)])
    thread.join()
    return found


# ------------------------------------------------------------ acknowledgements


def test_acks_that_follow_each_other_are_one_run(shard: PlayedShard, rg: Railgun) -> None:
    for message in fetched(shard, rg, 1_000):
        message.ack()
    wait_until(lambda: sum(run.length for run in shard.acks) == 1_000, "all acks were sent", pause=0.002)
    assert len(shard.acks) <= 20  # one for each time that the box was emptied meanwhile
    assert shard.acks[0].sequence == 1
    assert {(command.incarnation, command.number) for command in shard.commands if command.acks} == {(1, 7)}


def test_acknowledgements_keep_their_order_and_their_kind(shard: PlayedShard, rg: Railgun) -> None:
    one, two, three, four, five = fetched(shard, rg, 5)
    one.ack()
    two.ack()
    three.nak(delay=1.5)
    four.term("why")
    five.in_progress()
    five.ack()
    wait_until(lambda: sum(run.length for run in shard.acks) == 6, "all were sent", pause=0.002)
    assert shard.acks[-4:] == [
        AckRun("nak", 3, 1, 103, 1, 1_500_000_000),
        AckRun("term", 4, 1, 104, 1, 0, "why"),
        AckRun("progress", 5, 1, 105, 1),
        AckRun("ack", 5, 1, 105, 1),
    ]


def leave_acks_in_the_box(rg: Railgun, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on no thread empties the boxes: acknowledgements travel with another command, or not at all."""
    monkeypatch.setattr(rg.connection.consuming, "wake", lambda box: None)


def test_the_next_pull_carries_the_acks_that_wait(
    shard: PlayedShard, rg: Railgun, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_acks_in_the_box(rg, monkeypatch)
    for message in fetched(shard, rg, 3):
        message.ack()
    fetched(shard, rg, 1, first=4)
    first, second = shard.commands
    assert (first.acks, first.number) == ([], 0)  # no delivery has said yet which consumer of this name lives
    assert (second.acks, second.number) == ([AckRun("ack", 1, 3, 101, 1)], 7)
    assert second.pull is not None


class WatchedLock:
    """The lock of an ack box; ``waited`` is set once a thread finds it taken."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.waited = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.waited.set()
            self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def watch_sending(message: Message, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a thread waits until another has sent what it took out of the message's box."""
    assert message._box is not None
    lock = WatchedLock()
    monkeypatch.setattr(message._box, "sending", lock)
    return lock.waited


def hold_next_command(
    shard: PlayedShard, monkeypatch: pytest.MonkeyPatch
) -> tuple[threading.Event, threading.Event]:
    """Hold the next command to a consumer back: set when it is about to be sent, and to be set to let it go."""
    under_way, go_on, send = threading.Event(), threading.Event(), shard.send

    def slowly(partition: int, key: bytes, kind: str, value: bytes, delivered: Delivered) -> None:
        if kind == CONSUME and not under_way.is_set():
            under_way.set()
            assert go_on.wait(5)
        send(partition, key, kind, value, delivered)

    monkeypatch.setattr(shard, "send", slowly)
    return under_way, go_on


def test_a_pull_does_not_overtake_what_another_thread_is_sending(
    shard: PlayedShard, rg: Railgun, monkeypatch: pytest.MonkeyPatch
) -> None:
    (message,) = fetched(shard, rg, 1)
    waited = watch_sending(message, monkeypatch)
    under_way, go_on = hold_next_command(shard, monkeypatch)
    message.nak()
    assert under_way.wait(5)  # taken out of the box, and not sent yet

    def let_it_go() -> None:
        wait_until(lambda: waited.is_set() or len(shard.pulls) > 1, "the pull waits or is sent", pause=0.002)
        go_on.set()

    threading.Thread(target=let_it_go).start()
    fetched(shard, rg, 1)
    assert [run.kind for run in shard.acks] == ["nak"]
    assert [bool(command.acks) for command in shard.commands] == [False, True, False]


@pytest.mark.rule("ACK-13")
def test_a_confirmed_ack_does_not_overtake_a_flush_that_is_under_way(
    shard: PlayedShard, rg: Railgun, monkeypatch: pytest.MonkeyPatch
) -> None:
    (message,) = fetched(shard, rg, 1)
    shard.confirm = True
    waited = watch_sending(message, monkeypatch)
    under_way, go_on = hold_next_command(shard, monkeypatch)
    message.in_progress()
    assert under_way.wait(5)  # taken out of the box, and not sent yet
    confirming = threading.Thread(target=message.ack_sync, args=(5,))
    confirming.start()
    wait_until(lambda: waited.is_set() or bool(shard.acks), "the ack waits or is sent", pause=0.002)
    go_on.set()
    confirming.join(5)
    assert [run.kind for run in shard.acks] == ["progress", "ack"]
    assert message.acknowledged


@pytest.mark.rule("ACK-13")
def test_a_flush_does_not_overtake_a_confirmed_ack_that_is_under_way(
    shard: PlayedShard, rg: Railgun, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = fetched(shard, rg, 2)
    shard.confirm = True
    waited = watch_sending(one, monkeypatch)
    under_way, go_on = hold_next_command(shard, monkeypatch)
    confirming = threading.Thread(target=one.ack_sync, args=(5,))
    confirming.start()
    assert under_way.wait(5)
    two.nak()
    wait_until(lambda: waited.is_set() or bool(shard.acks), "the nak waits or is sent", pause=0.002)
    go_on.set()
    confirming.join(5)
    wait_until(lambda: len(shard.acks) == 2, "both were sent", pause=0.002)
    assert [(run.kind, run.sequence) for run in shard.acks] == [("ack", 1), ("nak", 2)]


def test_what_the_broker_did_not_take_is_sent_before_what_was_said_later(
    shard: PlayedShard, rg: Railgun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "_PAUSE", 1_000.0)
    one, two = fetched(shard, rg, 2)
    refused: list[Delivered] = []
    send = shard.send
    error: RailgunError | None = ConnectionLost("away")

    def refusing(partition: int, key: bytes, kind: str, value: bytes, delivered: Delivered) -> None:
        if kind == CONSUME and error is not None:
            refused.append(delivered)
        else:
            send(partition, key, kind, value, delivered)

    monkeypatch.setattr(shard, "send", refusing)
    for sent, said in enumerate((one.in_progress, two.in_progress), 1):
        said()
        wait_until(lambda sent=sent: len(refused) == sent, "it was handed over", pause=0.002)
    for delivered in refused:
        delivered(error)
    error = None
    two.nak()
    wait_until(lambda: "nak" in [run.kind for run in shard.acks], "it was sent", pause=0.002)
    assert [(run.kind, run.sequence) for run in shard.acks] == [("progress", 1), ("progress", 2), ("nak", 2)]


@pytest.mark.rule("EXO-05")
def test_a_confirmed_ack_that_failed_is_not_sent_again_behind_the_callers_back(
    shard: PlayedShard, rg: Railgun
) -> None:
    (message,) = fetched(shard, rg, 1)
    shard.refuse = ConnectionLost("away")
    with pytest.raises(ConnectionLost):
        message.ack_sync()
    shard.refuse = None
    message.nak()
    rg.connection.consuming.commands.repeat(math.inf)
    wait_until(lambda: bool(shard.acks), "it was sent", pause=0.002)
    assert [run.kind for run in shard.acks] == ["nak"]


def test_a_message_whose_ack_was_never_sent_can_be_acknowledged(
    shard: PlayedShard, rg: Railgun, monkeypatch: pytest.MonkeyPatch
) -> None:
    (message,) = fetched(shard, rg, 1)
    with monkeypatch.context() as patched:
        patched.setattr(shard, "workers", lambda: 0)
        rg.connection.routing.heard = -1_000.0
        with pytest.raises(railgun.NoWorker, match="nothing was sent"):
            message.ack_next()
    message.ack()
    wait_until(lambda: bool(shard.acks), "it was sent", pause=0.002)


def test_acks_that_the_broker_did_not_take_are_sent_again(
    shard: PlayedShard, rg: Railgun, caplog: pytest.LogCaptureFixture
) -> None:
    messages = fetched(shard, rg, 10)
    shard.refuse = ConnectionLost("away")
    for message in messages:
        message.ack()
    wait_until(lambda: "sent again" in caplog.text, "it is said in the log", pause=0.002)
    shard.refuse = None
    wait_until(lambda: sum(run.length for run in shard.acks) == 10, "they were sent", pause=0.002)


def test_acks_that_never_reach_the_broker_are_told_at_the_end(
    shard: PlayedShard, caplog: pytest.LogCaptureFixture
) -> None:
    facade = Railgun(Connection(shard, timeout=0.5, max_in_flight=100, label="nowhere"))
    messages = fetched(shard, facade, 10)
    shard.refuse = ConnectionLost("away")
    for message in messages:
        message.ack()
    facade.close()
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert ["10 messages" in record.getMessage() for record in told] == [True]


@pytest.mark.rule("EXO-05")
def test_a_confirmation_that_did_not_come_may_be_asked_for_again(shard: PlayedShard, rg: Railgun) -> None:
    (message,) = fetched(shard, rg, 1)
    with pytest.raises(railgun.RequestTimeout, match="again"):
        message.ack_sync(timeout=0.05)
    assert not message.acknowledged
    shard.confirm = True
    message.ack_sync()
    assert message.acknowledged
    assert shard.acks == [AckRun("ack", 1, 1, 101, 1)] * 2


def test_a_connection_that_failed_refuses_acks(shard: PlayedShard, rg: Railgun) -> None:
    first, second = fetched(shard, rg, 2)
    assert shard.receiver is not None
    shard.receiver.failed(ConnectionLost("gone for good"))
    for say in (first.ack, second.nak, second.ack_sync):
        with pytest.raises(ConnectionLost, match="gone for good"):
            say()
    with pytest.raises(ConnectionLost):
        rg.stream("S").consumer("C").fetch(1)


# ------------------------------------------------------------ leases


def test_a_fetch_puts_leases_together_in_their_order(shard: PlayedShard, rg: Railgun) -> None:
    found: list[Message] = []
    thread = threading.Thread(target=lambda: found.extend(rg.stream("S").consumer("C").fetch(9)))
    thread.start()
    wait_until(lambda: len(shard.pulls) == 1, "the pull was sent", pause=0.002)
    pull = shard.pulls[0]
    assert (pull.batch, pull.expires) == (9, 1_000_000_000)
    carried = {"subjects": ["s.b"], "payloads": [b"inside"], "times": [3]}
    shard.reply([lease(pull.id, [5, 9], [2, 3], pending=4), lease(pull.id, [20], [1], **carried)])
    shard.reply([lease(pull.id, [], [], done=True, status=408, description="Request Timeout")])
    thread.join()
    assert [(m.sequence, m.consumer_sequence, m.payload) for m in found] == [
        (5, 105, b"5"), (6, 106, b"6"), (9, 109, b"9"), (10, 110, b"10"), (11, 111, b"11"), (20, 120, b"inside"),
    ]  # fmt: skip
    assert [m.pending for m in found] == [8, 7, 6, 5, 4, 0]


def test_a_fetch_is_empty_when_the_owner_says_so(shard: PlayedShard, rg: Railgun) -> None:
    found: list[list[Message]] = []
    thread = threading.Thread(target=lambda: found.append(rg.stream("S").consumer("C").fetch(2, wait=0.01)))
    thread.start()
    wait_until(lambda: len(shard.pulls) == 1, "the pull was sent", pause=0.002)
    over = {"done": True, "status": 408, "description": "Request Timeout"}
    shard.reply([lease(shard.pulls[0].id, [], [], **over)])
    thread.join()
    assert found == [[]]


def test_a_fetch_that_nobody_answers_is_not_empty(shard: PlayedShard, rg: Railgun) -> None:
    worker = rg.stream("S").consumer("C")
    with pytest.raises(railgun.RequestTimeout, match="the owner of the stream has not answered the fetch"):
        worker.fetch(2, wait=0.01)
    with pytest.raises(railgun.RequestTimeout, match="there may be messages"):
        worker.next(wait=0.01)
    shard.refuse = ConnectionLost("the broker is away")
    with pytest.raises(ConnectionLost, match="the broker is away"):
        worker.fetch(2, wait=0.01)


def test_a_fetch_without_a_worker_is_not_empty(
    shard: PlayedShard, rg: Railgun, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = rg.stream("S").consumer("C")
    monkeypatch.setattr(shard, "workers", lambda: 0)
    rg.connection.routing.heard = -1_000.0  # nothing was heard of a worker for long
    with pytest.raises(railgun.NoWorker, match="nothing was sent"):
        worker.fetch(2, wait=0.01)
    assert not shard.pulls


def test_a_lease_that_nobody_waits_for_goes_back(shard: PlayedShard, rg: Railgun) -> None:
    rg.stream("S")
    shard.reply([lease(999, [3], [4])])
    wait_until(lambda: bool(shard.acks), "it was given back", pause=0.002)
    assert shard.acks == [AckRun("back", 3, 4, 103, 1)]


def test_a_fetch_that_is_given_up_is_told_to_the_shard(shard: PlayedShard, rg: Railgun) -> None:
    with pytest.raises(railgun.RequestTimeout):
        rg.stream("S").consumer("C").fetch(2, wait=0.01)
    wait_until(lambda: any(command.cancelled for command in shard.commands), "it was cancelled", pause=0.002)
    shard.reply([lease(shard.pulls[0].id, [1], [1])])
    wait_until(lambda: bool(shard.acks), "what came too late went back", pause=0.002)
    assert shard.acks == [AckRun("back", 1, 1, 101, 1)]


def test_a_fetch_that_is_over_time_hands_out_what_came(shard: PlayedShard, rg: Railgun) -> None:
    found: list[Message] = []
    thread = threading.Thread(target=lambda: found.extend(rg.stream("S").consumer("C").fetch(5, wait=0.01)))
    thread.start()
    wait_until(lambda: len(shard.pulls) == 1, "the pull was sent", pause=0.002)
    shard.reply([lease(shard.pulls[0].id, [1], [2])])  # and then nothing more is heard of the shard
    thread.join()
    assert [message.sequence for message in found] == [1, 2]


def test_a_consumer_that_was_made_anew_is_asked_instead(
    shard: PlayedShard, rg: Railgun, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_acks_in_the_box(rg, monkeypatch)
    (old,) = fetched(shard, rg, 1)
    old.ack()
    found: list[Message] = []
    thread = threading.Thread(target=lambda: found.extend(rg.stream("S").consumer("C").fetch(1)))
    thread.start()
    wait_until(lambda: len(shard.pulls) == 2, "the pull was sent", pause=0.002)
    sent = shard.pulling[-1]
    assert (sent.number, sent.incarnation, len(sent.acks)) == (7, 1, 1)  # with the ack, so for the old one
    pull = shard.pulls[-1]
    shard.reply([lease(pull.id, [], [], done=True, status=409, description="Consumer Deleted")])
    wait_until(lambda: len(shard.pulls) == 3, "it was sent again", pause=0.002)
    again = shard.pulling[-1]
    assert (again.number, again.incarnation, again.pull and again.pull.id) == (0, 0, pull.id)
    shard.reply([lease(pull.id, [8], [1], done=True)])
    thread.join()
    assert [message.sequence for message in found] == [8]


def test_statuses_of_a_pull_become_errors_only_where_they_are(shard: PlayedShard, rg: Railgun) -> None:
    cases: list[tuple[int, str, type[Exception] | None]] = [
        (404, "No Messages", None),
        (408, "Request Timeout", None),
        (409, "Batch Completed", None),
        (409, "Message Size Exceeds MaxBytes", None),
        (409, "Consumer Deleted", railgun.ConsumerNotFound),
        (409, "Exceeded MaxWaiting", railgun.Overloaded),
        (409, "Consumer is push based", railgun.ApiError),
        (409, "Exceeded MaxRequestBatch of 5", railgun.ApiError),
    ]
    for status, description, error in cases:
        outcome: list[Any] = []

        def fetch(outcome: list[Any] = outcome) -> None:
            try:
                outcome.append(rg.stream("S").consumer("C").fetch(1))
            except RailgunError as raised:
                outcome.append(type(raised))

        thread = threading.Thread(target=fetch)
        before = len(shard.pulls)
        thread.start()
        wait_until(lambda before=before: len(shard.pulls) > before, "the pull was sent", pause=0.002)  # type: ignore[misc]
        shard.reply([lease(shard.pulls[-1].id, [], [], done=True, status=status, description=description)])
        thread.join()
        assert outcome == [[] if error is None else error], description


def test_a_raw_pull_gives_messages_and_statuses_in_order(shard: PlayedShard, rg: Railgun) -> None:
    found: list[railgun.Reply] = []
    thread = threading.Thread(target=lambda: found.extend(rg.request("CONSUMER.MSG.NEXT.S.C", b"3")))
    thread.start()
    wait_until(lambda: len(shard.requests) == 1, "the request was sent", pause=0.002)
    number = shard.requests[0].request
    shard.reply([lease(number, [], [], status=100, description="Idle Heartbeat")])
    shard.reply([lease(number, [4], [2], pending=1, done=True, status=404, description="No Messages")])
    thread.join()
    assert [(reply.status, reply.body, reply.subject, reply.reply) for reply in found] == [
        (100, b"", "", ""),
        (None, b"4", "s.a", "$JS.ACK.S.C.1.4.104.1.2"),
        (None, b"5", "s.a", "$JS.ACK.S.C.1.5.105.1.1"),
        (404, b"", "", ""),
    ]


def test_a_raw_pull_that_is_over_time_gives_what_came_and_is_given_up(
    shard: PlayedShard, rg: Railgun
) -> None:
    with pytest.raises(railgun.RequestTimeout):
        rg.request("CONSUMER.MSG.NEXT.S.C", b"3", timeout=0.05)
    number = shard.requests[0].request
    wait_until(lambda: [c.cancelled for c in shard.commands] == [[number]], "it was cancelled", pause=0.002)


# ------------------------------------------------------------ new owners, presence


def test_a_new_owner_is_told_of_pulls_and_presence_again(shard: PlayedShard, rg: Railgun) -> None:
    found: list[Message] = []
    thread = threading.Thread(target=lambda: found.extend(rg.stream("S").consumer("C").fetch(5, wait=9.0)))
    thread.start()
    wait_until(lambda: len(shard.pulls) == 1, "the pull was sent", pause=0.002)
    pull = shard.pulls[0]
    shard.reply([lease(pull.id, [1], [2])])
    assert shard.receiver is not None
    shard.receiver.registry([(b"epoch/1", b'{"epoch": 5}')])
    assert len(shard.pulls) == 1
    shard.presence.clear()
    shard.receiver.registry([(b"epoch/1", b'{"epoch": 6}')])
    again = shard.pulls[-1]
    assert (again.id, again.batch) == (pull.id, 3)
    assert 0 < again.expires < pull.expires
    assert len(shard.presence) == 1
    shard.reply([lease(pull.id, [3], [5], done=True)])  # two of them were leased by the old owner as well
    thread.join()
    assert [message.sequence for message in found] == [1, 2, 3, 4, 5]
    wait_until(lambda: bool(shard.acks), "the others went back", pause=0.002)
    assert shard.acks == [AckRun("back", 6, 2, 106, 1)]


def test_listeners_are_announced_and_take_their_leave(shard: PlayedShard, rg: Railgun) -> None:
    with rg.listen("deliver.here", group="g"):
        assert [one.listens for one in shard.presence] == [[("deliver.here", "g")]] * 2  # one for each shard
        count = len(shard.presence)
        wait_until(lambda: len(shard.presence) >= count + 2, "it is said again", timeout=10.0)
    assert [one.listens for one in shard.presence[-2:]] == [[]] * 2
    rg.close()
    assert [one.leaving for one in shard.presence[-2:]] == [True, True]


def test_of_a_group_one_listener_gets_each_message_and_plain_ones_get_all(
    shard: PlayedShard, rg: Railgun
) -> None:
    plain = [rg.listen("deliver.*"), rg.listen("deliver.here")]
    members = [rg.listen("deliver.here", group="g") for _ in range(2)]
    for sequence in range(1, 5):
        shard.reply([lease(0, [sequence], [1], subject="deliver.here")])
        shard.reply([lease(0, [sequence], [1], subject="deliver.here", group="g")])
    assert [[m.sequence for m in one.fetch(4, wait=5.0)] for one in plain] == [[1, 2, 3, 4]] * 2
    shares = [[m.sequence for m in one.fetch(4, wait=0.01)] for one in members]
    assert sorted(shares[0] + shares[1]) == [1, 2, 3, 4]
    assert len(shares[0]) == 2


@pytest.mark.rule("PSH-07")
def test_flow_control_is_answered_once_everything_before_it_was_taken(
    shard: PlayedShard, rg: Railgun
) -> None:
    listener = rg.listen("deliver.here")
    shard.reply([lease(0, [1], [2], subject="deliver.here")])
    request = {"status": 100, "description": "FlowControl Request", "reply": "$JS.FC.S.C.1"}
    shard.reply([lease(0, [], [], subject="deliver.here", **request)])
    listener.next()
    assert shard.requests == []
    listener.next()
    assert [one.api for one in shard.requests] == ["$JS.FC.S.C.1"]
    assert listener.next(wait=0.01) is None


def test_a_listener_that_wants_statuses_gets_them(shard: PlayedShard, rg: Railgun) -> None:
    listener = rg.listen("deliver.here", statuses=True)
    request = {"status": 100, "description": "FlowControl Request", "reply": "$JS.FC.S.C.1"}
    shard.reply([lease(0, [], [], subject="deliver.here", **request)])
    message = listener.next()
    assert message is not None
    assert (message.status, message.description, message.reply) == (
        100,
        "FlowControl Request",
        "$JS.FC.S.C.1",
    )
    assert shard.requests == []
    with pytest.raises(RailgunError, match="it needs no acknowledgement"):
        message.ack()


async def test_tasks_of_one_loop_wait_for_their_own_pulls(shard: PlayedShard) -> None:
    connection = Connection(shard, timeout=5.0, max_in_flight=100, label="nowhere")
    arg = railgun.AsyncRailgun(connection)
    worker = arg.stream("S").consumer("C")
    tasks = [asyncio.create_task(worker.fetch(1)) for _ in range(20)]
    while len(shard.pulls) < 20:
        await asyncio.sleep(0.002)
    for number, pull in enumerate(reversed(shard.pulls), 1):
        shard.reply([lease(pull.id, [number], [1], done=True)])
    found = await asyncio.gather(*tasks)
    assert [messages[0].sequence for messages in found] == list(range(20, 0, -1))
    await arg.close()


def test_a_push_subscription_notices_that_its_consumer_is_gone(
    shard: PlayedShard, rg: Railgun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_buffer, "_SILENCE", 0.2)
    info = {
        "stream_name": "S",
        "name": "C",
        "config": {"deliver_subject": "deliver.here", "ack_policy": "none"},
    }
    gone = {"error": {"code": 404, "err_code": 10014, "description": "consumer not found"}}
    shard.answer = lambda request: json.dumps(info).encode()
    subscription = rg.stream("S").consumer("C").subscribe(lambda message: None)
    wait_until(lambda: len(shard.requests) > 2, "it is asked for now and then")
    assert subscription.error is None
    shard.answer = lambda request: json.dumps(gone).encode()
    with pytest.raises(railgun.ConsumerNotFound):
        subscription.wait(10.0)


def test_pulls_are_told_again_after_a_silence_of_the_client(
    shard: PlayedShard, rg: Railgun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen, or cut off from the broker: shards forget a client of which they hear nothing."""
    monkeypatch.setattr(hub, "PRESENCE_SECONDS", 0.1)
    monkeypatch.setattr(hub, "_FORGOTTEN", 0.5)
    found: list[Message] = []
    thread = threading.Thread(target=lambda: found.extend(rg.stream("S").consumer("C").fetch(1, wait=20.0)))
    thread.start()
    wait_until(lambda: len(shard.presence) > 2, "the client is present")
    assert len(shard.pulls) == 1
    shard.refuse = ConnectionLost("away")
    time.sleep(0.7)  # the silence
    shard.refuse = None
    wait_until(lambda: len(shard.pulls) == 2, "the pull was sent again")
    assert shard.pulls[0].id == shard.pulls[1].id
    shard.reply([lease(shard.pulls[0].id, [1], [1], done=True)])
    thread.join()
    assert [message.sequence for message in found] == [1]
