"""Acknowledgements: what each kind does, what confirms it, and what is ignored (ACK)."""

from __future__ import annotations

from typing import Any

import pytest

from railgun import Railgun, Stream
from railgun.errors import AlreadyAcknowledged
from railgun.testing import Clock
from tests.support.consumers import (
    about,
    add,
    address,
    delivered,
    delivery,
    floor,
    messages,
    pull,
    sequences,
    settle,
    take,
    unconfirmed,
    waiters,
)
from tests.support.raw import nobody_answers, statuses
from tests.support.streams import Make, Unique, put_numbers
from tests.support.waiting import wait_until

ACK_WAIT = 30.0  # the default
KINDS = [b"", b"+ACK", b"+OK", b"-NAK", b'-NAK {"delay": 1000000000}', b"+WPI", b"+TERM", b"+TERM why"]


def unresolved(rg: Railgun, stream: Stream, name: str = "C") -> int:
    pending = about(rg, stream.name, name)["num_ack_pending"]
    assert isinstance(pending, int)
    return pending


@pytest.fixture
def stream(rg: Railgun, make: Make) -> Stream:
    """A stream with ten messages and a pull durable ``C`` that acks explicitly."""
    made = make()
    put_numbers(rg, made, 10)
    add(rg, made.name)
    return made


# ------------------------------------------------------------ policies


@pytest.mark.rule("ACK-01")
def test_explicit_resolves_one(rg: Railgun, stream: Stream, clock: Clock) -> None:
    found = take(rg, stream.name, batch=5)
    settle(rg, found[3])
    assert unresolved(rg, stream) == 4
    assert floor(about(rg, stream.name)) == (0, 0)
    settle(rg, found[0])
    assert floor(about(rg, stream.name)) == (1, 1)
    clock.advance(ACK_WAIT + 1)
    assert sequences(take(rg, stream.name, batch=3)) == [2, 3, 5]


@pytest.mark.rule("ACK-02")
def test_all_resolves_everything_below(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make()
    put_numbers(rg, stream, 120)
    add(rg, stream.name, ack_policy="all")
    found = take(rg, stream.name, batch=110)
    settle(rg, found[99])
    info = about(rg, stream.name)
    assert (floor(info), info["num_ack_pending"]) == ((100, 100), 10)
    clock.advance(ACK_WAIT + 1)
    assert sequences(take(rg, stream.name, batch=200)) == list(range(101, 121))


@pytest.mark.rule("ACK-02")
def test_all_through_the_facade(rg: Railgun, make: Make) -> None:
    stream = make()
    put_numbers(rg, stream, 6)
    worker = stream.create_consumer("C", ack_policy="all")
    found = worker.fetch(5, wait=5.0)
    found[3].ack_sync()
    assert unresolved(rg, stream) == 1
    found[4].ack_sync()
    assert unresolved(rg, stream) == 0


@pytest.mark.rule("ACK-03")
def test_all_at_or_below_the_floor_changes_nothing(rg: Railgun, make: Make) -> None:
    stream = make()
    put_numbers(rg, stream, 10)
    add(rg, stream.name, ack_policy="all")
    found = take(rg, stream.name, batch=8)
    settle(rg, found[4])
    before = about(rg, stream.name)
    for message in (found[4], found[0], found[2]):
        settle(rg, message)
        after = about(rg, stream.name)
        assert (floor(after), after["num_ack_pending"]) == ((5, 5), 3)
        assert delivered(after) == delivered(before)


@pytest.mark.rule("ACK-04")
def test_none_is_done_when_delivered(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make()
    put_numbers(rg, stream, 4)
    add(rg, stream.name, ack_policy="none")
    found = take(rg, stream.name, batch=3)
    info = about(rg, stream.name)
    assert (floor(info), delivered(info), info["num_ack_pending"]) == ((3, 3), (3, 3), 0)
    for body in (b"-NAK", b"+TERM", b"+ACK", b"", b"+NXT", b"+WPI"):
        assert nobody_answers(rg, found[0].reply, body)
    clock.advance(86_400)
    info = about(rg, stream.name)
    assert (floor(info), info["num_ack_pending"], info["num_redelivered"]) == ((3, 3), 0, 0)
    assert sequences(take(rg, stream.name, batch=5)) == [4]


# ------------------------------------------------------------ kinds


@pytest.mark.rule("ACK-05")
@pytest.mark.parametrize("body", [b"", b"+ACK", b"+OK"])
def test_done(rg: Railgun, stream: Stream, clock: Clock, body: bytes) -> None:
    first, _ = take(rg, stream.name, batch=2)
    settle(rg, first, body)
    info = about(rg, stream.name)
    assert (floor(info), info["num_ack_pending"]) == ((1, 1), 1)
    clock.advance(ACK_WAIT + 1)
    assert sequences(take(rg, stream.name, batch=20)) == list(range(2, 11))


@pytest.mark.rule("ACK-06")
def test_not_now(rg: Railgun, stream: Stream) -> None:
    found = take(rg, stream.name, batch=3)
    settle(rg, found[1], b"-NAK")
    again = take(rg, stream.name, batch=2)
    assert [(delivery(one).sequence, delivery(one).deliveries) for one in again] == [(2, 2), (4, 1)]
    settle(rg, found[0])
    assert unresolved(rg, stream) == 3


@pytest.mark.rule("ACK-06")
def test_a_waiting_pull_gets_it_at_once(rg: Railgun, make: Make) -> None:
    stream = make()
    put_numbers(rg, stream, 1)
    add(rg, stream.name)
    (message,) = take(rg, stream.name)
    with waiters() as room:
        waiting = room.pull(rg, stream.name, waiting=1)
        settle(rg, message, b"-NAK")
        (again,) = waiting.result()
    assert (delivery(again).sequence, delivery(again).deliveries) == (1, 2)


@pytest.mark.rule("ACK-07")
@pytest.mark.parametrize("body", [b'-NAK {"delay": 120000000000}', b"-NAK 2m", b"-NAK 120s"])
def test_not_before(rg: Railgun, stream: Stream, clock: Clock, body: bytes) -> None:
    found = take(rg, stream.name, batch=2)
    settle(rg, found[0], body)
    settle(rg, found[1], b"-NAK")
    assert sequences(take(rg, stream.name, batch=2)) == [2, 3]  # only that message waits
    for message in take(rg, stream.name, batch=20):
        settle(rg, message)
    clock.advance(100)
    assert sequences(take(rg, stream.name, batch=20)) == [2, 3]  # their ack wait is over, the delay is not
    clock.advance(21)
    (again,) = take(rg, stream.name)
    assert (delivery(again).sequence, delivery(again).deliveries) == (1, 2)


@pytest.mark.rule("ACK-07")
@pytest.mark.parametrize("body", [b"-NAK soon", b'-NAK {"delay": "x"}', b"-NAK {", b'-NAK {"other": 1}'])
def test_a_bad_delay_is_none(rg: Railgun, stream: Stream, body: bytes) -> None:
    (message,) = take(rg, stream.name)
    settle(rg, message, body)
    (again,) = take(rg, stream.name)
    assert (delivery(again).sequence, delivery(again).deliveries) == (1, 2)


@pytest.mark.rule("ACK-07")
def test_a_delay_through_the_facade(rg: Railgun, stream: Stream, clock: Clock) -> None:
    worker = stream.consumer("C")
    first = worker.next(wait=5.0)
    assert first is not None
    first.nak(delay=300.0)
    (second,) = worker.fetch(1, wait=5.0)
    assert second.sequence == 2
    second.nak()
    (again,) = worker.fetch(1, wait=5.0)
    assert (again.sequence, again.deliveries) == (2, 2)
    again.ack_sync()
    clock.advance(301)
    (late,) = worker.fetch(1, wait=5.0)
    assert (late.sequence, late.deliveries) == (1, 2)


@pytest.mark.rule("ACK-08")
def test_work_in_progress_restarts_the_wait(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make()
    put_numbers(rg, stream, 2)
    add(rg, stream.name)
    working, idle = take(rg, stream.name, batch=2)
    for _ in range(3):
        clock.advance(20)
        settle(rg, working, b"+WPI")
    again = take(rg, stream.name, batch=5)
    assert [(delivery(one).sequence, delivery(one).deliveries) for one in again] == [(2, 2)]
    settle(rg, idle)
    info = about(rg, stream.name)
    assert (info["num_ack_pending"], info["num_redelivered"]) == (1, 0)
    clock.advance(29)
    assert take(rg, stream.name) == []
    clock.advance(2)
    (late,) = take(rg, stream.name)
    assert (delivery(late).sequence, delivery(late).deliveries) == (1, 2)


@pytest.mark.rule("ACK-08")
def test_in_progress_of_the_facade(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make()
    put_numbers(rg, stream, 1)
    worker = stream.create_consumer("C", ack_wait=30)
    message = worker.next(wait=5.0)
    assert message is not None
    for _ in range(3):
        clock.advance(20)
        message.in_progress()
        assert worker.fetch(1, wait=0.1) == []  # the pull follows what was said before it
    assert take(rg, stream.name) == []
    message.ack_sync()
    assert unresolved(rg, stream) == 0


@pytest.mark.rule("ACK-09")
def test_next_acks_and_brings_the_next(rg: Railgun, stream: Stream) -> None:
    (first,) = take(rg, stream.name)
    (second,) = rg.request(first.reply, b"+NXT")
    assert (second.status, delivery(second).sequence) == (None, 2)
    info = about(rg, stream.name)
    assert (floor(info), info["num_ack_pending"]) == ((1, 1), 1)
    facade = stream.consumer("C").next(wait=5.0)
    assert facade is not None
    following = facade.ack_next()
    assert following is not None
    assert (facade.sequence, following.sequence) == (3, 4)
    assert unresolved(rg, stream) == 2


@pytest.mark.rule("ACK-09")
def test_next_waits_for_what_is_not_there_yet(rg: Railgun, make: Make) -> None:
    stream = make()
    put_numbers(rg, stream, 1)
    add(rg, stream.name)
    (first,) = take(rg, stream.name)
    with waiters() as room:
        waiting = room.ack_next(rg, first, b"+NXT", waiting=1)
        assert unresolved(rg, stream) == 0
        put_numbers(rg, stream, 1)
        assert sequences(waiting.result()) == [2]


@pytest.mark.rule("ACK-09")
def test_next_on_a_push_consumer_only_acks(rg: Railgun, make: Make, unique: Unique) -> None:
    stream, inbox = make(), unique("in")
    put_numbers(rg, stream, 1)
    add(rg, stream.name, deliver_subject=inbox)
    with rg.listen(inbox) as listener:
        message = next(iter(listener))
        assert statuses(rg.request(message.reply, b"+NXT")) == [(409, "Consumer is push based")]
        assert unresolved(rg, stream) == 0


@pytest.mark.rule("ACK-10")
@pytest.mark.parametrize(
    "body, count",
    [(b"+NXT 5", 5), (b'+NXT {"batch": 5}', 5), (b'+NXT{"batch": 5}', 5), (b'+NXT {"no_wait": true}', 1)],
)
def test_next_may_ask_for_more(rg: Railgun, stream: Stream, body: bytes, count: int) -> None:
    (first,) = take(rg, stream.name)
    replies = rg.request(first.reply, body)
    assert statuses(replies) == [(None, None)] * count
    assert sequences(replies) == list(range(2, 2 + count))
    assert unresolved(rg, stream) == count


@pytest.mark.rule("ACK-10")
def test_next_takes_the_body_of_a_pull(rg: Railgun, stream: Stream) -> None:
    found = take(rg, stream.name, batch=10)
    nothing = rg.request(found[0].reply, b'+NXT {"no_wait": true}')
    assert statuses(nothing) == [(404, "No Messages")]
    late = rg.request(found[1].reply, b'+NXT {"batch": 2, "expires": 200000000}')
    assert statuses(late) == [(408, "Request Timeout")]
    assert floor(about(rg, stream.name)) == (2, 2)


@pytest.mark.rule("ACK-11")
@pytest.mark.parametrize("body", [b"+TERM", b"+TERM no such address"])
def test_term_resolves_like_an_ack(rg: Railgun, stream: Stream, clock: Clock, body: bytes) -> None:
    first, _ = take(rg, stream.name, batch=2)
    settle(rg, first, body)
    info = about(rg, stream.name)
    assert (floor(info), info["num_ack_pending"]) == ((1, 1), 1)
    clock.advance(ACK_WAIT + 1)
    assert sequences(take(rg, stream.name, batch=3)) == [2, 3, 4]
    assert stream.get(1).payload == b"1"


@pytest.mark.rule("ACK-11")
def test_term_removes_from_a_work_queue(rg: Railgun, make: Make) -> None:
    stream = make(retention="workqueue")
    put_numbers(rg, stream, 3)
    worker = stream.create_consumer("C")
    first, second = worker.fetch(2, wait=5.0)
    first.term("broken")
    second.ack_sync()
    wait_until(lambda: stream.info().state.messages == 1, "both are removed")
    assert stream.info().state.first_seq == 3


@pytest.mark.rule("ACK-12")
@pytest.mark.parametrize("body", [b"+WHAT", b"NAK", b"-ACK", b"\xff\x00", b"+ack"])
def test_unknown_bodies_are_answered_and_ignored(
    rg: Railgun, stream: Stream, clock: Clock, body: bytes
) -> None:
    (message,) = take(rg, stream.name)
    settle(rg, message, body)
    assert unresolved(rg, stream) == 1
    assert sequences(take(rg, stream.name)) == [2]
    clock.advance(ACK_WAIT + 1)
    assert sequences(take(rg, stream.name)) == [1]


# ------------------------------------------------------------ confirmation


@pytest.mark.rule("ACK-13")
@pytest.mark.parametrize("policy", ["explicit", "all"])
def test_every_kind_is_confirmed_with_nothing(rg: Railgun, make: Make, policy: str) -> None:
    stream = make()
    put_numbers(rg, stream, len(KINDS))
    add(rg, stream.name, ack_policy=policy)
    for message, body in zip(take(rg, stream.name, batch=len(KINDS)), KINDS, strict=True):
        settle(rg, message, body)


@pytest.mark.rule("ACK-13")
def test_the_confirmation_comes_when_it_is_processed(rg: Railgun, stream: Stream) -> None:
    for number, message in enumerate(stream.consumer("C").fetch(10, wait=5.0), 1):
        message.ack_sync()
        assert floor(about(rg, stream.name)) == (number, number)


@pytest.mark.rule("ACK-14")
@pytest.mark.parametrize("policy", ["explicit", "all"])
def test_acking_twice_is_harmless(rg: Railgun, make: Make, clock: Clock, policy: str) -> None:
    stream = make()
    put_numbers(rg, stream, 3)
    add(rg, stream.name, ack_policy=policy)
    first, second = take(rg, stream.name, batch=2)
    for _ in range(3):
        settle(rg, first)
        info = about(rg, stream.name)
        assert (floor(info), info["num_ack_pending"]) == ((1, 1), 1)
    settle(rg, second)
    settle(rg, second)
    settle(rg, first)
    info = about(rg, stream.name)
    assert (floor(info), info["num_ack_pending"], info["num_pending"]) == ((2, 2), 0, 1)
    clock.advance(ACK_WAIT + 1)
    assert sequences(take(rg, stream.name, batch=3)) == [3]


@pytest.mark.rule("ACK-15")
def test_a_late_ack_still_counts(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make()
    put_numbers(rg, stream, 3)
    add(rg, stream.name)
    before, after, both = take(rg, stream.name, batch=3)
    clock.advance(ACK_WAIT + 1)
    settle(rg, before)  # after the ack wait, before the redelivery
    again = take(rg, stream.name, batch=3)
    assert sequences(again) == [2, 3]
    settle(rg, after)  # the first delivery's ack, after the redelivery
    settle(rg, again[1])
    settle(rg, both)
    assert unresolved(rg, stream) == 0
    clock.advance(ACK_WAIT + 1)
    assert take(rg, stream.name, batch=3) == []


@pytest.mark.rule("ACK-12")
@pytest.mark.parametrize(
    "body", [b" +ACK", b"+ACK ", b" ", b"\n+TERM", b" -NAK", b"+ack", b"+WPI ", b" +NXT"]
)
def test_an_answer_with_spaces_around_it_is_unknown(rg: Railgun, stream: Stream, body: bytes) -> None:
    (message,) = take(rg, stream.name)
    settle(rg, message, body)
    assert unresolved(rg, stream) == 1
    assert sequences(take(rg, stream.name)) == [2]


@pytest.mark.rule("ACK-16")
def test_nak_of_what_is_resolved_or_was_never_delivered(rg: Railgun, stream: Stream) -> None:
    acked, other = take(rg, stream.name, batch=2)
    settle(rg, acked)
    rg.request(acked.reply, b"-NAK")
    rg.request(acked.reply, b'-NAK {"delay": 1}')
    assert sequences(take(rg, stream.name)) == [3]
    settle(rg, other, b"+TERM")
    rg.request(other.reply, b"-NAK")
    unconfirmed(rg, address(acked, sequence=9, consumer_sequence=9), b"-NAK")
    found = take(rg, stream.name, batch=20)
    assert sequences(found) == [4, 5, 6, 7, 8, 9, 10]
    assert {delivery(one).deliveries for one in found} == {1}


@pytest.mark.rule("ACK-17")
@pytest.mark.parametrize("policy", ["explicit", "all"])
def test_an_ack_above_what_was_delivered(rg: Railgun, make: Make, policy: str) -> None:
    stream = make()
    put_numbers(rg, stream, 10)
    add(rg, stream.name, ack_policy=policy)
    first, _ = take(rg, stream.name, batch=2)
    before = about(rg, stream.name)
    assert unconfirmed(rg, address(first, sequence=5, consumer_sequence=5))
    assert unconfirmed(rg, address(first, sequence=500, consumer_sequence=1))
    assert about(rg, stream.name) == before
    assert sequences(take(rg, stream.name, batch=20)) == list(range(3, 11))


@pytest.mark.rule("ACK-13", "ACK-16")
def test_a_nak_or_progress_above_what_was_delivered_does_nothing_and_is_confirmed(
    rg: Railgun, make: Make
) -> None:
    stream = make()
    put_numbers(rg, stream, 3)
    add(rg, stream.name)
    (first,) = take(rg, stream.name, batch=1)
    before = about(rg, stream.name)
    for body in (b"-NAK", b"-NAK 1h", b"+WPI"):
        assert not unconfirmed(rg, address(first, sequence=3, consumer_sequence=3), body)
    assert about(rg, stream.name) == before


@pytest.mark.rule("ACK-18")
def test_an_ack_is_of_one_consumer(rg: Railgun, stream: Stream, clock: Clock) -> None:
    add(rg, stream.name, "D")
    for message in take(rg, stream.name, batch=10):
        settle(rg, message)
    assert sequences(take(rg, stream.name, "D", batch=20)) == list(range(1, 11))
    clock.advance(ACK_WAIT + 1)
    assert take(rg, stream.name) == []
    assert sequences(take(rg, stream.name, "D", batch=20)) == list(range(1, 11))
    add(rg, stream.name, "E")
    assert sequences(take(rg, stream.name, "E", batch=20)) == list(range(1, 11))


@pytest.mark.rule("ACK-19")
@pytest.mark.parametrize("first", ["ack", "ack_sync", "nak", "term"])
def test_a_message_is_acknowledged_once(rg: Railgun, stream: Stream, first: str) -> None:
    message = stream.consumer("C").next(wait=5.0)
    assert message is not None
    message.in_progress()
    message.in_progress()
    getattr(message, first)()
    for again in ("ack", "ack_sync", "nak", "term", "ack_next"):
        with pytest.raises(AlreadyAcknowledged, match="already acknowledged"):
            getattr(message, again)()


@pytest.mark.rule("ACK-19")
async def test_a_message_is_acknowledged_once_async(arg: Any, stream: Stream) -> None:
    worker = arg.stream(stream.name).consumer("C")
    message = await worker.next(wait=5.0)
    await message.in_progress()
    await message.ack_sync()
    for again in ("ack", "ack_sync", "nak", "term", "ack_next"):
        with pytest.raises(AlreadyAcknowledged, match="already acknowledged"):
            await getattr(message, again)()


@pytest.mark.rule("ACK-05")
def test_acks_that_nobody_waits_for_count_too(rg: Railgun, stream: Stream) -> None:
    worker = stream.consumer("C")
    found = worker.fetch(10, wait=5.0)
    for message in found:
        message.ack()
    wait_until(lambda: unresolved(rg, stream) == 0, "all are resolved")
    assert statuses(pull(rg, stream.name, body={"no_wait": True})) == [(404, "No Messages")]
    assert messages(take(rg, stream.name)) == []
