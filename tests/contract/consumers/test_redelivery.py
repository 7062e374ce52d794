"""What comes again, when, in which order, and how often."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import railgun
from railgun.client.facade.railgun import Railgun
from railgun.model.messages import Reply
from railgun.testing import Clock
from tests.support.consumers import (
    MILLI,
    SECOND,
    add,
    add_refused,
    delivery,
    messages,
    pull,
    sequences,
    waiters,
)
from tests.support.raw import statuses
from tests.support.raw_consumer import TIMEOUT, Numbers, RawConsumer, bodies
from tests.support.streams import Unique, filled, held
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.contract.conftest import Cluster

HOUR = 3600 * SECOND
TOO_MUCH_BACKOFF = (10116, 400, "max deliver is required to be > length of backoff values")


def attempts(replies: list[Reply]) -> list[tuple[int, int]]:
    """(stream sequence, delivery count) of each message."""
    return [(delivery(one).sequence, delivery(one).deliveries) for one in replies]


def advisories(rg: Railgun, unique: Unique, kind: str, stream: str) -> railgun.Stream:
    """A stream that keeps the advisories of this kind about the consumers of a stream."""
    name = unique("EVENTS")
    return rg.create_stream(name, subjects=[f"$JS.EVENT.ADVISORY.CONSUMER.{kind}.{stream}.*"])


# ------------------------------------------------------------ the ack wait


@pytest.mark.rule("RDL-01")
def test_without_an_answer_a_message_comes_again_after_thirty_seconds(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a")
    worker = RawConsumer(rg, stream.name)
    assert worker.info()["config"]["ack_wait"] == 30 * SECOND
    assert attempts(worker.take()) == [(1, 1)]
    clock.advance(15)
    assert worker.take() == []
    clock.advance(16)
    (again,) = worker.take()
    assert attempts([again]) == [(1, 2)]
    assert again.body == b"1"


@pytest.mark.rule("RDL-01")
def test_a_waiting_pull_gets_what_was_not_acked_in_time(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a")
    worker = RawConsumer(rg, stream.name, ack_wait=600 * SECOND)
    worker.take()
    with waiters() as waiting:
        future = waiting.pull(rg, stream.name, body={"batch": 1, "expires": HOUR}, waiting=1)
        clock.advance(601)
        assert attempts(future.result(20)) == [(1, 2)]


@pytest.mark.rule("RDL-01")
def test_the_facade_is_given_again_what_it_did_not_ack(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a")
    worker = stream.create_consumer("C", ack_wait=600)
    (message,) = worker.fetch(1, wait=5.0)
    assert message.deliveries == 1
    assert worker.fetch(1, wait=0.3) == []
    clock.advance(601)
    (again,) = worker.fetch(1, wait=5.0)
    assert (again.sequence, again.payload, again.deliveries) == (1, b"1", 2)
    again.ack_sync()
    clock.advance(601)
    assert worker.fetch(1, wait=0.3) == []


# ------------------------------------------------------------ order


@pytest.mark.rule("RDL-02", "RDL-03")
def test_what_comes_again_comes_first_and_in_stream_order(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, *"aaa")
    worker = RawConsumer(rg, stream.name)
    worker.take(2)
    worker.take(1)
    rg.publish(f"{stream.name}.a", b"new")
    clock.advance(31)
    found = worker.take(4)
    assert attempts(found) == [(1, 2), (2, 2), (3, 2), (4, 1)]
    worker.nak(found[2])
    rg.publish(f"{stream.name}.a", b"newer")
    assert attempts(worker.take(2)) == [(3, 3), (5, 1)]


@pytest.mark.rule("RDL-03")
def test_what_expires_together_is_in_stream_order_whatever_the_order_of_delivery(
    rg: Railgun, clock: Clock
) -> None:
    stream = filled(rg, *"aaaaa")
    worker = RawConsumer(rg, stream.name)
    found = worker.take(5)
    for index in (3, 0, 4, 1):  # delivered again in this order
        worker.nak(found[index])
        worker.take(1)
    clock.advance(31)
    assert attempts(worker.take(5)) == [(1, 3), (2, 3), (3, 2), (4, 3), (5, 3)]


@pytest.mark.rule("RDL-03", "RDL-17")
def test_ack_all_redelivers_each_message_by_itself_and_in_order(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg)
    for _ in range(100):
        rg.publish_soon(f"{stream.name}.a", b"x")
    rg.flush()
    worker = RawConsumer(rg, stream.name, ack_policy="all")
    for count in range(1, 6):
        found = worker.take(100)
        assert attempts(found) == [(sequence, count) for sequence in range(1, 101)]
        assert [delivery(one).consumer_sequence for one in found] == [
            (count - 1) * 100 + sequence for sequence in range(1, 101)
        ]
        clock.advance(31)
    assert attempts(worker.take(1)) == [(1, 6)]
    (second,) = worker.take(1)
    worker.ack(second)
    assert worker.numbers().ack_pending == 98
    assert attempts(worker.take(2)) == [(3, 6), (4, 6)]
    clock.advance(31)  # 3 and 4 are over later than the others, so that their place is open
    assert sorted(attempts(worker.take(100))) == [
        (sequence, 7 if sequence in (3, 4) else 6) for sequence in range(3, 101)
    ]


# ------------------------------------------------------------ counting


@pytest.mark.rule("RDL-04")
def test_ten_refusals_count_to_ten(rg: Railgun) -> None:
    stream = filled(rg, "a")
    worker = RawConsumer(rg, stream.name)
    for count in range(1, 11):
        (message,) = worker.take()
        said = delivery(message)
        assert (said.deliveries, said.sequence, said.consumer_sequence) == (count, 1, count)
        worker.nak(message)


@pytest.mark.rule("RDL-05")
def test_what_never_reached_anybody_is_not_counted(cluster: Cluster, rg: Railgun) -> None:
    stream = filled(rg, *"aaaa")
    worker = RawConsumer(rg, stream.name, ack_wait=HOUR)
    with cluster.connect() as other:
        ahead = iter(other.stream(stream.name).consumer("C").messages())
        message = next(ahead)
        assert (message.sequence, message.deliveries) == (1, 1)
        message.ack_sync()
        wait_until(lambda: worker.numbers().delivered[1] == 4, "messages leased ahead")
    assert attempts(worker.fetch(3, wait=10.0)) == [(2, 1), (3, 1), (4, 1)]


@pytest.mark.rule("RDL-05")
def test_a_pull_of_somebody_who_left_costs_no_attempt(cluster: Cluster, rg: Railgun) -> None:
    stream = filled(rg)
    worker = RawConsumer(rg, stream.name)
    other = cluster.connect()
    with waiters() as waiting:
        future = waiting.pull(other, stream.name, body={"batch": 1, "expires": HOUR}, waiting=1)
        other.close()
        with pytest.raises(railgun.RailgunError):
            future.result(20)
    rg.publish(f"{stream.name}.a", b"x")
    assert attempts(worker.fetch(1, wait=10.0)) == [(1, 1)]


# ------------------------------------------------------------ backoff


@pytest.mark.rule("RDL-06")
def test_backoff_replaces_the_ack_wait_and_its_last_value_repeats(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a")
    worker = RawConsumer(rg, stream.name, backoff=[100 * SECOND, 1000 * SECOND, 4000 * SECOND])
    assert worker.info()["config"]["ack_wait"] == 100 * SECOND
    for count, wait in enumerate([100, 1000, 4000, 4000, 4000], 1):
        assert attempts(worker.take()) == [(1, count)]
        clock.advance(wait - 50)
        assert worker.take() == [], f"after attempt {count}"
        clock.advance(51)
    assert attempts(worker.take()) == [(1, 6)]


@pytest.mark.rule("RDL-06")
def test_a_plain_nak_does_not_wait_for_the_backoff(rg: Railgun) -> None:
    stream = filled(rg, "a")
    worker = RawConsumer(rg, stream.name, backoff=[1000 * SECOND, 2000 * SECOND])
    (message,) = worker.take()
    worker.nak(message)
    assert attempts(worker.take()) == [(1, 2)]


@pytest.mark.rule("RDL-06")
def test_each_message_waits_by_its_own_count(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a", "a")
    worker = RawConsumer(rg, stream.name, backoff=[100 * SECOND, 1000 * SECOND])
    worker.take()
    clock.advance(101)
    assert attempts(worker.take(2)) == [(1, 2), (2, 1)]
    clock.advance(101)
    assert attempts(worker.take(2)) == [(2, 2)]
    clock.advance(900)
    assert attempts(worker.take(2)) == [(1, 3)]


@pytest.mark.rule("RDL-07")
@pytest.mark.parametrize("action", ["create", "update", None])
def test_more_backoff_than_deliveries_is_refused(rg: Railgun, action: str | None) -> None:
    stream = filled(rg)
    waits = [SECOND, 2 * SECOND, 3 * SECOND]
    if action == "update":
        add(rg, stream.name)
    assert add_refused(rg, stream.name, action=action, backoff=waits, max_deliver=2) == TOO_MUCH_BACKOFF
    for fine in (3, 4, -1):
        info = add(rg, stream.name, f"C{fine}", backoff=waits, max_deliver=fine)
        assert (info["config"]["backoff"], info["config"]["max_deliver"]) == (waits, fine)


# ------------------------------------------------------------ max_deliver


@pytest.mark.rule("RDL-08", "RDL-09")
def test_after_the_last_wait_a_message_is_given_up(rg: Railgun, clock: Clock, unique: Unique) -> None:
    stream = filled(rg, "a", "b")
    events = advisories(rg, unique, "MAX_DELIVERIES", stream.name)
    worker = RawConsumer(rg, stream.name, max_deliver=5)
    worker.ack(worker.take(2)[1])
    for count in range(2, 6):
        clock.advance(31)
        assert attempts(worker.take(2)) == [(1, count)]
    assert worker.numbers() == Numbers((6, 2), (0, 0), 1, 1)
    assert events.info().state.messages == 0
    clock.advance(31)
    assert worker.take(2) == []
    assert worker.numbers() == Numbers((6, 2), (6, 2), 0, 0)
    wait_until(lambda: events.info().state.messages == 1, "the advisory")
    said = events.get(1)
    assert said.subject == f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream.name}.C"
    fields = json.loads(said.payload)
    assert fields["type"] == "io.nats.jetstream.advisory.v1.max_deliver"
    assert (fields["stream"], fields["consumer"]) == (stream.name, "C")
    assert (fields["stream_seq"], fields["deliveries"]) == (1, 5)
    assert stream.get(1).payload == b"1"
    for _ in range(3):
        clock.advance(31)
        assert worker.take(2) == []
    assert events.info().state.messages == 1


@pytest.mark.rule("RDL-08")
def test_a_nak_of_the_last_delivery_gives_up_at_once(rg: Railgun, unique: Unique) -> None:
    stream = filled(rg, "a", "b")
    events = advisories(rg, unique, "MAX_DELIVERIES", stream.name)
    worker = RawConsumer(rg, stream.name, max_deliver=3)
    for count in range(1, 4):
        (message,) = worker.take()
        assert attempts([message]) == [(1, count)]
        worker.nak(message)
    assert worker.numbers() == Numbers((3, 1), (3, 1), 0, 0)
    wait_until(lambda: events.info().state.messages == 1, "the advisory")
    assert json.loads(events.get(1).payload)["deliveries"] == 3
    worker.nak(message)
    assert attempts(worker.take()) == [(2, 1)]
    assert held(stream) == [1, 2]
    assert events.info().state.messages == 1


@pytest.mark.rule("RDL-08")
def test_an_ack_of_the_last_delivery_in_time_is_a_success(rg: Railgun, clock: Clock, unique: Unique) -> None:
    stream = filled(rg, "a")
    events = advisories(rg, unique, "MAX_DELIVERIES", stream.name)
    worker = RawConsumer(rg, stream.name, max_deliver=2)
    worker.nak(*worker.take())
    (last,) = worker.take()
    worker.ack(last)
    clock.advance(31)
    rg.publish(f"{stream.name}.a", b"2")
    assert attempts(worker.take()) == [(2, 1)]
    assert events.info().state.messages == 0


@pytest.mark.rule("RDL-08")
def test_a_lower_max_deliver_counts_for_what_is_pending(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a", "b")
    worker = RawConsumer(rg, stream.name, max_deliver=5)
    worker.nak(worker.take(2)[0])
    assert attempts(worker.take()) == [(1, 2)]
    worker.update(max_deliver=2)
    clock.advance(31)
    assert attempts(worker.take(9)) == [(2, 2)]
    clock.advance(31)
    assert worker.take(9) == []
    numbers = worker.numbers()
    assert (numbers.floor, numbers.ack_pending) == ((4, 2), 0)


@pytest.mark.rule("RDL-08")
def test_the_facade_gets_a_message_no_more_than_max_deliver_times(rg: Railgun) -> None:
    stream = filled(rg, "a", "b")
    worker = stream.create_consumer("C", max_deliver=3)
    seen = []
    for _ in range(3):
        (message,) = worker.fetch(1, wait=5.0)
        seen.append((message.sequence, message.deliveries))
        message.nak()
    assert seen == [(1, 1), (1, 2), (1, 3)]
    (message,) = worker.fetch(1, wait=5.0)
    assert (message.sequence, message.deliveries) == (2, 1)


@pytest.mark.rule("RDL-10")
@pytest.mark.parametrize("given", [0, -1, -5, None])
def test_no_max_deliver_means_no_limit(rg: Railgun, given: int | None) -> None:
    stream = filled(rg, "a")
    fields: dict[str, Any] = {} if given is None else {"max_deliver": given}
    worker = RawConsumer(rg, stream.name, **fields)
    assert worker.info()["config"]["max_deliver"] == -1
    for count in range(1, 8):
        (message,) = worker.take()
        assert attempts([message]) == [(1, count)]
        worker.nak(message)


# ------------------------------------------------------------ max_ack_pending


@pytest.mark.rule("RDL-11")
def test_no_new_message_while_too_many_are_unresolved(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, *"aaaaaaa")
    worker = RawConsumer(rg, stream.name, max_ack_pending=3)
    found = worker.fetch(7)
    assert sequences(found) == [1, 2, 3]
    assert worker.numbers().ack_pending == 3
    assert worker.fetch(1) == []
    clock.advance(31)
    again = worker.fetch(7)
    assert attempts(again) == [(1, 2), (2, 2), (3, 2)]
    worker.nak(again[1])
    assert attempts(worker.fetch(7)) == [(2, 3)]
    worker.ack(again[2])
    assert attempts(worker.fetch(7)) == [(4, 1)]
    worker.term(again[0])
    assert attempts(worker.fetch(7)) == [(5, 1)]
    worker.progress(again[1])
    assert worker.fetch(7) == []


@pytest.mark.rule("RDL-11")
@pytest.mark.parametrize(
    "fields, reported, expected", [({}, 1000, 1000), ({"max_ack_pending": -1}, -1, 1100)], ids=str
)
def test_how_many_may_be_unresolved(
    rg: Railgun, fields: dict[str, int], reported: int, expected: int
) -> None:
    stream = filled(rg)
    for _ in range(1100):
        rg.publish_soon(f"{stream.name}.a", b"x")
    rg.flush()
    worker = RawConsumer(rg, stream.name, **fields)
    assert worker.info()["config"]["max_ack_pending"] == reported
    assert len(worker.fetch(1100, wait=2.0)) == expected
    assert worker.numbers().ack_pending == expected


@pytest.mark.rule("RDL-11")
def test_with_ack_all_one_ack_frees_every_place_below_it(rg: Railgun) -> None:
    stream = filled(rg, *"aaaaaaa")
    worker = RawConsumer(rg, stream.name, ack_policy="all", max_ack_pending=4)
    found = worker.fetch(9)
    assert sequences(found) == [1, 2, 3, 4]
    worker.ack(found[2])
    assert sequences(worker.fetch(9)) == [5, 6, 7]


@pytest.mark.rule("RDL-11")
def test_an_ack_wakes_the_pull_that_waits_at_the_wall(rg: Railgun) -> None:
    stream = filled(rg, *"aaa")
    worker = RawConsumer(rg, stream.name, max_ack_pending=1)
    (first,) = worker.take(1)
    with waiters() as waiting:
        future = waiting.pull(rg, stream.name, body={"batch": 1, "expires": HOUR}, waiting=1)
        worker.ack(first)
        assert attempts(future.result(20)) == [(2, 1)]


@pytest.mark.rule("RDL-12")
def test_at_the_wall_a_pull_that_would_not_wait_waits_for_its_expiry(rg: Railgun) -> None:
    stream = filled(rg, *"aaaaa")
    add(rg, stream.name, max_ack_pending=3)
    body = {"batch": 5, "no_wait": True, "expires": 300 * MILLI}
    replies = pull(rg, stream.name, body=body)
    assert sequences(replies) == [1, 2, 3]
    assert statuses(replies)[3:] == [TIMEOUT]
    assert statuses(pull(rg, stream.name, body=body)) == [TIMEOUT]


@pytest.mark.rule("RDL-12")
def test_at_the_wall_a_pull_that_would_not_wait_gets_what_an_ack_sets_free(rg: Railgun) -> None:
    stream = filled(rg, *"aaa")
    worker = RawConsumer(rg, stream.name, max_ack_pending=2)
    first, _ = worker.take(2)
    with waiters() as waiting:
        body = {"batch": 1, "no_wait": True, "expires": HOUR}
        future = waiting.pull(rg, stream.name, body=body, waiting=1)
        worker.ack(first)
        replies = future.result(20)
    assert sequences(replies) == [3]
    assert messages(replies) == replies


@pytest.mark.rule("RDL-13")
def test_what_was_given_up_is_no_longer_in_the_way(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, *"aaa")
    worker = RawConsumer(rg, stream.name, max_deliver=1, max_ack_pending=1)
    (first,) = worker.take()
    assert worker.fetch() == []
    worker.nak(first)
    assert attempts(worker.take()) == [(2, 1)]
    assert worker.fetch() == []
    clock.advance(31)
    assert attempts(worker.take()) == [(3, 1)]


# ------------------------------------------------------------ messages that go while they are pending


@pytest.mark.rule("RDL-14", "LIM-17")
def test_a_hundred_pending_messages_age_out(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, max_age=600)
    for _ in range(100):
        rg.publish_soon(f"{stream.name}.a", b"x")
    rg.flush()
    worker = RawConsumer(rg, stream.name, ack_wait=HOUR)
    assert len(worker.take(100)) == 100
    assert worker.numbers() == Numbers((100, 100), (0, 0), 100, 0)
    clock.advance(601)
    assert stream.info().state.messages == 0
    assert worker.numbers() == Numbers((100, 100), (100, 100), 0, 0)
    clock.advance(3601)
    assert worker.take() == []
    rg.publish(f"{stream.name}.a", b"x")
    assert attempts(worker.take()) == [(101, 1)]


@pytest.mark.rule("LIM-17", "RDL-14")
@pytest.mark.parametrize(
    "limit",
    [{"max_msgs": 3}, {"max_bytes": 160}, {"max_msgs_per_subject": 3}],
    ids=lambda one: next(iter(one)),
)
def test_a_limit_resolves_what_it_removes(rg: Railgun, clock: Clock, limit: dict[str, int]) -> None:
    stream = filled(rg, *"aaa", **limit)  # subjects of 17, payloads of 1 byte: 48 each
    worker = RawConsumer(rg, stream.name)
    worker.take(3)
    rg.publish(f"{stream.name}.a", b"4")
    assert worker.numbers() == Numbers((3, 3), (1, 1), 2, 0)
    rg.publish(f"{stream.name}.a", b"5")
    assert worker.numbers() == Numbers((3, 3), (2, 2), 1, 0)
    clock.advance(31)
    assert attempts(worker.take(9)) == [(3, 2), (4, 1), (5, 1)]


@pytest.mark.rule("RDL-14")
def test_a_deleted_message_leaves_pending(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, *"aaa")
    worker = RawConsumer(rg, stream.name)
    first, second, third = worker.take(3)
    worker.nak(second, delay="60s")
    stream.delete_message(2)
    assert worker.numbers().ack_pending == 2
    stream.delete_message(1)
    assert worker.numbers() == Numbers((3, 3), (2, 2), 1, 0)
    clock.advance(61)
    assert attempts(worker.take(9)) == [(3, 2)]
    worker.ack(first)  # it is gone: harmless
    worker.ack(third)
    assert worker.numbers() == Numbers((4, 3), (4, 3), 0, 0)


@pytest.mark.rule("RDL-14")
def test_a_message_that_outlives_its_ttl_leaves_pending(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, allow_msg_ttl=True)
    rg.publish(f"{stream.name}.a", b"1", ttl=100)
    rg.publish(f"{stream.name}.a", b"2")
    worker = RawConsumer(rg, stream.name, ack_wait=600 * SECOND)
    worker.take(2)
    clock.advance(101)
    assert held(stream) == [2]
    assert worker.numbers() == Numbers((2, 2), (1, 1), 1, 0)
    clock.advance(600)
    assert attempts(worker.take(9)) == [(2, 2)]


@pytest.mark.rule("RDL-14")
def test_a_roll_up_resolves_what_it_replaces(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a", "b", "a", allow_rollup_hdrs=True)
    worker = RawConsumer(rg, stream.name)
    worker.take(3)
    rg.publish(f"{stream.name}.a", b"4", headers={"Nats-Rollup": "sub"})
    assert worker.numbers() == Numbers((3, 3), (1, 1), 1, 0)
    clock.advance(31)
    assert attempts(worker.take(9)) == [(2, 2), (4, 1)]


@pytest.mark.rule("RDL-14")
def test_a_removed_message_frees_its_place(rg: Railgun) -> None:
    stream = filled(rg, *"aaa")
    worker = RawConsumer(rg, stream.name, max_ack_pending=2)
    worker.take(2)
    assert worker.fetch() == []
    stream.delete_message(1)
    assert attempts(worker.take()) == [(3, 1)]


# ------------------------------------------------------------ changing the ack wait


@pytest.mark.rule("RDL-15")
def test_a_shorter_ack_wait_counts_for_what_is_pending(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a")
    worker = RawConsumer(rg, stream.name, ack_wait=HOUR)
    worker.take()
    clock.advance(31)
    assert worker.take() == []
    worker.update(ack_wait=30 * SECOND)
    clock.advance(1)
    assert attempts(worker.take()) == [(1, 2)]


@pytest.mark.rule("RDL-15")
def test_a_longer_ack_wait_counts_for_what_is_pending(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a")
    worker = RawConsumer(rg, stream.name, ack_wait=100 * SECOND)
    worker.take()
    worker.update(ack_wait=HOUR)
    clock.advance(101)
    assert worker.take() == []
    clock.advance(3500)
    assert attempts(worker.take()) == [(1, 2)]
    assert bodies(worker.take()) == []
