"""Pull requests: what they ask for, how long they wait, in which order they are served, how they end (PUL)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from railgun import Railgun, Stream
from railgun.errors import RequestTimeout
from railgun.testing import Clock
from tests.support.consumers import (
    MILLI,
    SECOND,
    about,
    add,
    await_waiting,
    delivery,
    messages,
    pull,
    sequences,
    settle,
    take,
    waiters,
)
from tests.support.raw import statuses
from tests.support.streams import Make, put

MESSAGE = (None, None)
NO_MESSAGES = (404, "No Messages")
TIMED_OUT = (408, "Request Timeout")
COMPLETED = (409, "Batch Completed")
LONG = 3600 * SECOND


@pytest.fixture
def stream(rg: Railgun, make: Make) -> Stream:
    """A stream with a pull durable ``C`` that acks explicitly, and waits long for it: the tests here move the clock."""
    made = make()
    add(rg, made.name, ack_wait=90 * 86_400 * SECOND)
    return made


@pytest.mark.rule("PUL-01")
@pytest.mark.parametrize(
    "body, count",
    [
        (b"", 1),
        (b"3", 3),
        (b'{"batch": 3}', 3),
        (b'{"batch":4,"expires":3600000000000,"no_wait":false,"max_bytes":0,"idle_heartbeat":0}', 4),
        (b'{"expires": 3600000000000}', 1),
        (b"{}", 1),
        (b"please", 1),
    ],
)
def test_what_a_request_asks_for(rg: Railgun, stream: Stream, body: bytes, count: int) -> None:
    put(rg, stream, 6)
    replies = pull(rg, stream.name, body=body)
    assert statuses(replies) == [MESSAGE] * count
    assert sequences(replies) == list(range(1, count + 1))
    assert about(rg, stream.name)["num_pending"] == 6 - count


@pytest.mark.rule("PUL-02")
def test_a_request_without_an_end_waits_until_it_is_filled(rg: Railgun, stream: Stream, clock: Clock) -> None:
    with waiters() as room:
        waiting = room.pull(rg, stream.name, body=b"2", waiting=1)
        put(rg, stream, 1)
        clock.advance(86_400)
        await_waiting(rg, stream.name, "C", 1)
        assert not waiting.done()
        put(rg, stream, 1)
        assert sequences(waiting.result()) == [1, 2]
    await_waiting(rg, stream.name, "C", 0)


@pytest.mark.rule("PUL-02", "PUL-14")
def test_a_request_ends_with_its_requester(rg: Railgun, stream: Stream) -> None:
    with pytest.raises(RequestTimeout):
        pull(rg, stream.name, body=b"2", timeout=0.5)
    await_waiting(rg, stream.name, "C", 0)
    put(rg, stream, 1)
    (message,) = take(rg, stream.name)
    assert (delivery(message).sequence, delivery(message).deliveries) == (1, 1)


@pytest.mark.rule("PUL-03")
def test_no_wait(rg: Railgun, stream: Stream) -> None:
    assert statuses(pull(rg, stream.name, body={"batch": 5, "no_wait": True})) == [NO_MESSAGES]
    put(rg, stream, 3)
    some = pull(rg, stream.name, body={"batch": 5, "no_wait": True})
    assert statuses(some) == [MESSAGE] * 3 + [NO_MESSAGES]
    assert sequences(some) == [1, 2, 3]
    put(rg, stream, 2)
    assert statuses(pull(rg, stream.name, body={"batch": 2, "no_wait": True})) == [MESSAGE] * 2
    assert about(rg, stream.name)["num_waiting"] == 0


@pytest.mark.rule("PUL-04")
def test_expiry_says_what_was_not_delivered(rg: Railgun, stream: Stream, clock: Clock) -> None:
    with waiters() as room:
        body = {"batch": 10, "max_bytes": 100_000, "expires": 60 * SECOND}
        waiting = room.pull(rg, stream.name, body=body, waiting=1)
        put(rg, stream, 2)
        clock.advance(59)
        assert about(rg, stream.name)["num_waiting"] == 1
        clock.advance(1)
        first, second, status = waiting.result()
    assert statuses([first, second, status]) == [MESSAGE, MESSAGE, TIMED_OUT]
    assert status.body == b""
    assert status.header("Nats-Pending-Messages") == "8"
    spent = sum(len(one.subject) + len(one.reply) + len(one.body) for one in (first, second))
    assert status.header("Nats-Pending-Bytes") == str(100_000 - spent)
    assert about(rg, stream.name)["num_waiting"] == 0


@pytest.mark.rule("PUL-04")
def test_expiry_without_bytes(rg: Railgun, stream: Stream) -> None:
    (status,) = pull(rg, stream.name, body={"batch": 3, "expires": 200 * MILLI})
    assert (status.status, status.description) == TIMED_OUT
    assert status.header("Nats-Pending-Messages") == "3"
    assert status.header("Nats-Pending-Bytes") == "0"


@pytest.mark.rule("PUL-05")
def test_no_wait_with_expiry_waits_for_one(rg: Railgun, stream: Stream, clock: Clock) -> None:
    body = {"batch": 10, "no_wait": True, "expires": 60 * SECOND}
    with waiters() as room:
        waiting = room.pull(rg, stream.name, body=body, waiting=1)
        put(rg, stream, 1)
        assert sequences(waiting.result()) == [1]
    put(rg, stream, 3)
    assert sequences(pull(rg, stream.name, body=body)) == [2, 3, 4]
    await_waiting(rg, stream.name, "C", 0)
    with waiters() as room:
        waiting = room.pull(rg, stream.name, body=body, waiting=1)
        clock.advance(59)
        assert not waiting.done()
        clock.advance(2)
        (status,) = waiting.result()
        assert status.status in (404, 408)


@pytest.mark.rule("PUL-06")
def test_max_bytes(rg: Railgun, stream: Stream) -> None:
    too_large = (409, "Message Size Exceeds MaxBytes")
    put(rg, stream, 5, b"x" * 1000)
    assert statuses(pull(rg, stream.name, body={"batch": 5, "max_bytes": 900})) == [too_large]
    assert about(rg, stream.name)["delivered"]["consumer_seq"] == 0
    some = pull(rg, stream.name, body={"batch": 5, "max_bytes": 2500})
    assert statuses(some) == [MESSAGE, MESSAGE, too_large]
    assert sequences(some) == [1, 2]
    filled = pull(rg, stream.name, body={"batch": 2, "max_bytes": 100_000})
    assert statuses(filled) == [MESSAGE, MESSAGE, COMPLETED]
    assert sequences(filled) == [3, 4]


@pytest.mark.rule("PUL-06")
def test_the_size_of_a_message(rg: Railgun, stream: Stream) -> None:
    put(rg, stream, 1, b"x" * 1000)
    (probe,) = take(rg, stream.name)
    size = len(probe.subject) + len(probe.reply) + len(probe.body)
    add(rg, stream.name, "D")
    short = pull(rg, stream.name, "D", {"batch": 1, "max_bytes": size - 1})
    assert statuses(short) == [(409, "Message Size Exceeds MaxBytes")]
    enough = pull(rg, stream.name, "D", {"batch": 1, "max_bytes": size})
    assert sequences(enough) == [1]
    assert len(messages(enough)[0].reply) == len(probe.reply)
    rg.publish(f"{stream.name}.a", b"x" * 1000, headers={"Colour": "red"})
    more = pull(rg, stream.name, "D", {"batch": 1, "max_bytes": size + len("Colour:red") - 1})
    assert statuses(more) == [(409, "Message Size Exceeds MaxBytes")]


@pytest.mark.rule("PUL-07")
def test_single_messages_go_to_each_in_turn(rg: Railgun, stream: Stream) -> None:
    with waiters() as room:
        body = {"batch": 2, "expires": LONG}
        waiting = [room.pull(rg, stream.name, body=body, waiting=number) for number in (1, 2, 3)]
        for _ in range(6):
            rg.publish(f"{stream.name}.a", b"x")
        assert [sequences(one.result()) for one in waiting] == [[1, 4], [2, 5], [3, 6]]


@pytest.mark.rule("PUL-07")
def test_a_backlog_goes_out_in_runs(rg: Railgun, stream: Stream) -> None:
    put(rg, stream, 30)
    add(rg, stream.name, max_ack_pending=1, ack_wait=LONG)
    (first,) = take(rg, stream.name)
    with waiters() as room:
        body = {"batch": 10, "expires": LONG}
        waiting = [room.pull(rg, stream.name, body=body, waiting=number) for number in (1, 2)]
        add(rg, stream.name, max_ack_pending=1000, ack_wait=LONG)
        settle(rg, first)
        assert [sequences(one.result()) for one in waiting] == [list(range(2, 12)), list(range(12, 22))]
    assert sequences(pull(rg, stream.name, body=b"9")) == list(range(22, 31))


@pytest.mark.rule("PUL-10")
@pytest.mark.parametrize("more", [{}, {"no_wait": True}, {"expires": 0}, {"batch": 5}])
def test_a_heartbeat_without_an_end_is_too_large(rg: Railgun, stream: Stream, more: dict[str, Any]) -> None:
    add(rg, stream.name)
    too_large = [(400, "Bad Request - heartbeat value too large")]
    assert statuses(pull(rg, stream.name, body={"idle_heartbeat": 1, **more})) == too_large


@pytest.mark.rule("PUL-08")
def test_max_waiting(rg: Railgun, stream: Stream, clock: Clock) -> None:
    add(rg, stream.name, "FEW", max_waiting=2)
    with waiters() as room:
        body = {"batch": 1, "expires": 60 * SECOND}
        waiting = [room.pull(rg, stream.name, "FEW", body, waiting=number) for number in (1, 2)]
        assert statuses(pull(rg, stream.name, "FEW", body)) == [(409, "Exceeded MaxWaiting")]
        with pytest.raises(RequestTimeout):
            pull(rg, stream.name, "FEW", body | {"idle_heartbeat": 20 * SECOND}, timeout=1.0)
        assert about(rg, stream.name, "FEW")["num_waiting"] == 2
        put(rg, stream, 1)
        assert sequences(waiting[0].result()) == [1]
        waiting[0] = room.pull(rg, stream.name, "FEW", body, waiting=2)
        clock.advance(61)
        assert [statuses(one.result()) for one in waiting] == [[TIMED_OUT]] * 2
    assert about(rg, stream.name, "FEW")["num_waiting"] == 0


@pytest.mark.rule("PUL-09")
def test_limits_of_the_consumer(rg: Railgun, stream: Stream) -> None:
    put(rg, stream, 10)
    add(rg, stream.name, "SMALL", max_batch=5, max_expires=2 * SECOND, max_bytes=1000)
    fine = {"batch": 5, "expires": 2 * SECOND, "max_bytes": 1000}

    def ended(**fields: Any) -> tuple[int | None, str]:
        (status,) = pull(rg, stream.name, "SMALL", fine | fields)
        return status.status, status.description or ""

    assert ended(batch=6) == (409, "Exceeded MaxRequestBatch of 5")
    status, text = ended(expires=2 * SECOND + 1)
    assert (status, text.startswith("Exceeded MaxRequestExpires of 2")) == (409, True)
    assert ended(max_bytes=1001) == (409, "Exceeded MaxRequestMaxBytes of 1000")
    assert about(rg, stream.name, "SMALL")["delivered"]["consumer_seq"] == 0
    assert sequences(pull(rg, stream.name, "SMALL", fine)) == [1, 2, 3, 4, 5]


@pytest.mark.rule("PUL-10")
def test_heartbeats_of_a_pull(rg: Railgun, stream: Stream, clock: Clock) -> None:
    too_large = (400, "Bad Request - heartbeat value too large")
    for beat in (31, 60):
        body = {"expires": 60 * SECOND, "idle_heartbeat": beat * SECOND}
        assert statuses(pull(rg, stream.name, body=body)) == [too_large]
    put(rg, stream, 3)
    settle(rg, take(rg, stream.name, batch=2)[1])
    with waiters() as room:
        body = {"batch": 5, "expires": 80 * SECOND, "idle_heartbeat": 25 * SECOND}
        waiting = room.pull(rg, stream.name, body=body, waiting=1)
        for _ in range(2):  # it is never idle for long enough
            clock.advance(20)
            put(rg, stream, 1)
            assert about(rg, stream.name)["num_pending"] == 0
        clock.advance(26)
        clock.advance(20)
        replies = waiting.result()
    assert statuses(replies) == [MESSAGE] * 3 + [(100, "Idle Heartbeat"), TIMED_OUT]
    assert sequences(replies) == [3, 4, 5]
    heartbeat = replies[3]
    assert (heartbeat.header("Nats-Last-Consumer"), heartbeat.header("Nats-Last-Stream")) == ("5", "5")
    assert heartbeat.body == b""


@pytest.mark.rule("PUL-10")
def test_heartbeats_keep_coming(rg: Railgun, stream: Stream, clock: Clock) -> None:
    with waiters() as room:
        body = {"expires": 60 * SECOND, "idle_heartbeat": 15 * SECOND}
        waiting = room.pull(rg, stream.name, body=body, waiting=1)
        for _ in range(4):
            clock.advance(15.1)
        assert statuses(waiting.result()) == [(100, "Idle Heartbeat")] * 3 + [TIMED_OUT]


@pytest.mark.rule("PUL-12")
@pytest.mark.parametrize("body", [b'{"batch": ', b'{"batch": "many"}', b"{,}", b'{"expires": []}'])
def test_bad_json(rg: Railgun, stream: Stream, body: bytes) -> None:
    put(rg, stream, 1)
    (status,) = pull(rg, stream.name, body=body)
    assert status.status == 400
    assert (status.description or "").startswith("Bad Request - ")
    assert about(rg, stream.name)["delivered"]["consumer_seq"] == 0


@pytest.mark.rule("PUL-13")
def test_what_a_delivered_message_carries(rg: Railgun, stream: Stream) -> None:
    rg.publish(f"{stream.name}.x.y", b"one", headers={"Colour": "red"})
    rg.publish(f"{stream.name}.z", b"two")
    (message,) = pull(rg, stream.name)
    assert (message.subject, message.body) == (f"{stream.name}.x.y", b"one")
    assert message.header("Colour") == "red"
    stored = stream.get(1)
    assert message.reply == f"$JS.ACK.{stream.name}.C.1.1.1.{stored.time_ns}.1"
    settle(rg, message, b"-NAK")
    (again,) = pull(rg, stream.name)
    assert again.reply == f"$JS.ACK.{stream.name}.C.2.1.2.{stored.time_ns}.1"
    (second,) = pull(rg, stream.name)
    found = delivery(second)
    assert (found.deliveries, found.sequence, found.consumer_sequence, found.pending) == (1, 2, 3, 0)


@pytest.mark.rule("PUL-13")
def test_a_message_of_the_facade_knows_the_same(rg: Railgun, stream: Stream) -> None:
    body = json.dumps({"n": 1})
    rg.publish(f"{stream.name}.x", body, headers={"Colour": "red"})
    rg.publish(f"{stream.name}.y", b"two")
    (first, second) = stream.consumer("C").fetch(2, wait=5.0)
    assert (first.subject, first.payload, first.text, first.json()) == (
        f"{stream.name}.x",
        body.encode(),
        body,
        {"n": 1},
    )
    assert dict(first.headers) == {"Colour": b"red"}
    assert (first.sequence, first.consumer_sequence, first.deliveries, first.pending) == (1, 1, 1, 1)
    assert (second.sequence, second.consumer_sequence, second.deliveries, second.pending) == (2, 2, 1, 0)
    assert first.time == stream.get(1).time


@pytest.mark.rule("PUL-14")
def test_a_requester_that_went_away_gets_nothing(cluster: Any, rg: Railgun, stream: Stream) -> None:
    with waiters() as room:
        with cluster.connect() as leaving:
            # A pull that its own client ends: what waits at the consumer is gone with the connection.
            lost = room.pull(leaving, stream.name, body={"batch": 1, "expires": LONG}, waiting=1)
            kept = room.pull(rg, stream.name, body={"batch": 1, "expires": LONG}, waiting=2)
        await_waiting(rg, stream.name, "C", 1)
        put(rg, stream, 1)
        (message,) = kept.result()
        assert (delivery(message).sequence, delivery(message).deliveries) == (1, 1)
        assert lost.exception() is not None


@pytest.mark.rule("PUL-15")
def test_workers_share_the_messages(cluster: Any, rg: Railgun, stream: Stream) -> None:
    put(rg, stream, 200)
    with cluster.connect() as second:
        workers = [rg.stream(stream.name).consumer("C"), second.stream(stream.name).consumer("C")]
        shares: list[list[int]] = [[], []]
        for _ in range(10):
            for worker, share in zip(workers, shares, strict=True):
                for message in worker.fetch(10, wait=5.0):
                    share.append(message.sequence)
                    message.ack_sync()
    assert Counter(shares[0] + shares[1]) == Counter(range(1, 201))
    assert [len(share) for share in shares] == [100, 100]
    assert about(rg, stream.name)["num_ack_pending"] == 0
