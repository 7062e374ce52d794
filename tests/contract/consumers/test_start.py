"""Consumers: with which message they begin, and that this is decided once (STA)."""

from __future__ import annotations

from typing import Any

import pytest

from railgun import Railgun, Stream
from railgun.model.durations import rfc3339
from railgun.testing import Clock
from tests.support.consumers import (
    SECOND,
    about,
    add,
    add_refused,
    delivered,
    delivery,
    exists,
    floor,
    sequences,
    settle,
    take,
)
from tests.support.streams import Make

MINUTE = 60.0


def orders(rg: Railgun, stream: Stream, count: int, token: str = "new") -> None:
    """So many more messages ``order <sequence>``."""
    first = stream.info().state.last_seq + 1
    for number in range(first, first + count):
        rg.publish_soon(f"{stream.name}.{token}", b"order %d" % number)
    rg.flush()


def starting_at(rg: Railgun, stream: Stream, policy: str, batch: int = 3, **fields: Any) -> list[bytes]:
    """The first messages that a new consumer with this policy gets."""
    add(rg, stream.name, f"C_{policy}", deliver_policy=policy, **fields)
    return [message.body for message in take(rg, stream.name, f"C_{policy}", batch)]


@pytest.mark.rule("STA-01")
def test_all_begins_with_the_first_that_is_still_there(rg: Railgun, make: Make) -> None:
    stream = make()
    orders(rg, stream, 10)
    assert starting_at(rg, stream, "all", 2) == [b"order 1", b"order 2"]
    stream.purge(sequence=4)
    stream.delete_message(5)
    add(rg, stream.name, "LATE")
    assert sequences(take(rg, stream.name, "LATE", 3)) == [4, 6, 7]
    stream.purge(sequence=9)
    assert sequences(take(rg, stream.name, "LATE", 3)) == [9, 10]


@pytest.mark.rule("STA-02")
def test_last_begins_with_the_newest(rg: Railgun, make: Make) -> None:
    stream = make()
    orders(rg, stream, 99)
    orders(rg, stream, 1, "paid")
    assert starting_at(rg, stream, "last") == [b"order 100"]
    add(rg, stream.name, "NEW", deliver_policy="last", filter_subject=f"{stream.name}.new")
    assert sequences(take(rg, stream.name, "NEW", 3)) == [99]
    orders(rg, stream, 2)
    assert sequences(take(rg, stream.name, "C_last", 3)) == [101, 102]
    assert sequences(take(rg, stream.name, "NEW", 3)) == [101, 102]


@pytest.mark.rule("STA-02")
def test_last_steps_over_what_was_deleted(rg: Railgun, make: Make) -> None:
    stream = make()
    orders(rg, stream, 3)
    stream.delete_message(3)
    assert starting_at(rg, stream, "last") == [b"order 2"]


@pytest.mark.rule("STA-03")
def test_new_begins_after_the_creation(rg: Railgun, make: Make) -> None:
    stream = make()
    orders(rg, stream, 5)
    assert starting_at(rg, stream, "new") == []
    orders(rg, stream, 2)
    assert sequences(take(rg, stream.name, "C_new", 5)) == [6, 7]


@pytest.mark.rule("STA-04")
def test_by_start_sequence(rg: Railgun, make: Make) -> None:
    stream = make()
    orders(rg, stream, 20)
    policy = "by_start_sequence"
    assert starting_at(rg, stream, policy, 2, opt_start_seq=10) == [b"order 10", b"order 11"]
    stream.delete_message(15)
    add(rg, stream.name, "HOLE", deliver_policy=policy, opt_start_seq=15)
    assert sequences(take(rg, stream.name, "HOLE", 1)) == [16]
    orders(rg, stream, 1, "paid")
    orders(rg, stream, 1, "new")
    orders(rg, stream, 1, "paid")
    paid = f"{stream.name}.paid"
    add(rg, stream.name, "PAID", deliver_policy=policy, opt_start_seq=12, filter_subject=paid)
    found = take(rg, stream.name, "PAID", 5)
    assert [(delivery(one).sequence, delivery(one).consumer_sequence) for one in found] == [(21, 1), (23, 2)]


@pytest.mark.rule("STA-05")
def test_by_start_time(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make()
    for _ in range(3):
        orders(rg, stream, 1)
        clock.advance(MINUTE)
    policy = "by_start_time"
    two_minutes_ago = rfc3339(clock.now_ns() - int((2 * MINUTE + 5) * SECOND))
    assert starting_at(rg, stream, policy, 1, opt_start_time=two_minutes_ago) == [b"order 2"]
    at = stream.get(2).time_ns
    for name, time, first in (("AT", at, 2), ("AFTER", at + 1, 3), ("BEFORE", at - 1, 2), ("OLD", 1, 1)):
        add(rg, stream.name, name, deliver_policy=policy, opt_start_time=rfc3339(time))
        assert sequences(take(rg, stream.name, name, 1)) == [first]


@pytest.mark.rule("STA-06")
def test_last_per_subject(rg: Railgun, make: Make) -> None:
    stream = make()
    for token in ("a", "b", "a", "c", "b", "d", "a"):
        orders(rg, stream, 1, token)
    missing = (
        10094,
        400,
        "consumer delivery policy is deliver last per subject, but optional filter subject is not set",
    )
    assert add_refused(rg, stream.name, deliver_policy="last_per_subject") == missing
    assert not exists(rg, stream.name)
    add(rg, stream.name, deliver_policy="last_per_subject", filter_subject=f"{stream.name}.*")
    assert about(rg, stream.name)["num_pending"] == 4
    first = take(rg, stream.name, batch=2)
    assert sequences(first) == [4, 5]
    assert [delivery(one).pending for one in first] == [3, 2]
    orders(rg, stream, 2, "c")
    assert sequences(take(rg, stream.name, batch=10)) == [6, 7, 8, 9]
    several = [f"{stream.name}.a", f"{stream.name}.b"]
    add(rg, stream.name, "TWO", deliver_policy="last_per_subject", filter_subjects=several)
    assert sequences(take(rg, stream.name, "TWO", 10)) == [5, 7]


@pytest.mark.rule("STA-07", "STA-12")
@pytest.mark.parametrize(
    "fields",
    [
        {"deliver_policy": "last"},
        {"deliver_policy": "new"},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 5},
    ],
)
def test_the_policy_only_selects_the_first(
    rg: Railgun, make: Make, clock: Clock, fields: dict[str, Any]
) -> None:
    stream = make()
    orders(rg, stream, 5)
    add(rg, stream.name, **fields)
    orders(rg, stream, 3)
    first = 6 if fields["deliver_policy"] == "new" else 5
    found = take(rg, stream.name, batch=2)
    assert sequences(found) == [first, first + 1]
    settle(rg, found[1])
    add(rg, stream.name, **fields)
    clock.advance(31)
    assert sequences(take(rg, stream.name, batch=10)) == [first, *range(first + 2, 9)]


@pytest.mark.rule("STA-08")
def test_start_options_belong_to_their_policies(rg: Railgun, make: Make) -> None:
    stream = make().name
    time = "2024-01-01T00:00:00Z"
    names = {
        "all": "all",
        "last": "last",
        "new": "new",
        "last_per_subject": "last per subject",
        "by_start_sequence": "by start sequence",
        "by_start_time": "by start time",
    }

    def refusal(policy: str, **fields: Any) -> str:
        subject = {"filter_subject": "x"} if policy == "last_per_subject" else {}
        err_code, code, text = add_refused(rg, stream, deliver_policy=policy, **subject, **fields)
        assert (err_code, code) == (10094, 400), text
        return text

    for policy, name in names.items():
        begin = f"consumer delivery policy is deliver {name}, but optional"
        also: dict[str, Any]
        if policy != "by_start_sequence":
            also = {"opt_start_time": time} if policy == "by_start_time" else {}
            assert refusal(policy, opt_start_seq=3, **also) == f"{begin} start sequence is also set"
        if policy != "by_start_time":
            also = {"opt_start_seq": 3} if policy == "by_start_sequence" else {}
            assert refusal(policy, opt_start_time=time, **also) == f"{begin} start time is also set"
    begin = "consumer delivery policy is deliver by start"
    assert refusal("by_start_sequence") == f"{begin} sequence, but optional start sequence is not set"
    assert refusal("by_start_time") == f"{begin} time, but optional start time is not set"
    assert not exists(rg, stream)


@pytest.mark.rule("STA-09")
def test_a_start_sequence_outside_the_stream(rg: Railgun, make: Make) -> None:
    stream = make()
    orders(rg, stream, 6)
    stream.purge(sequence=4)
    add(rg, stream.name, "BELOW", deliver_policy="by_start_sequence", opt_start_seq=2)
    assert sequences(take(rg, stream.name, "BELOW", 2)) == [4, 5]
    add(rg, stream.name, "ABOVE", deliver_policy="by_start_sequence", opt_start_seq=10)
    orders(rg, stream, 3)
    assert take(rg, stream.name, "ABOVE", 5) == []
    assert about(rg, stream.name, "ABOVE")["num_pending"] == 0
    orders(rg, stream, 2)
    (ten, eleven) = take(rg, stream.name, "ABOVE", 5)
    assert (delivery(ten).sequence, delivery(ten).consumer_sequence) == (10, 1)
    assert delivery(eleven).sequence == 11


@pytest.mark.rule("STA-10")
def test_a_start_time_in_the_future_is_new(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make()
    orders(rg, stream, 2)
    future = rfc3339(clock.now_ns() + 3600 * SECOND)
    assert starting_at(rg, stream, "by_start_time", opt_start_time=future) == []
    orders(rg, stream, 1)
    assert sequences(take(rg, stream.name, "C_by_start_time", 5)) == [3]


@pytest.mark.rule("STA-10")
@pytest.mark.parametrize("emptied", [False, True])
def test_on_an_empty_stream_everything_begins_with_what_comes_next(
    rg: Railgun, make: Make, clock: Clock, emptied: bool
) -> None:
    stream = make()
    if emptied:
        orders(rg, stream, 3)
        stream.purge()
    policies: dict[str, dict[str, Any]] = {
        "all": {},
        "last": {},
        "new": {},
        "by_start_sequence": {"opt_start_seq": 1},
        "by_start_time": {"opt_start_time": rfc3339(clock.now_ns())},
        "last_per_subject": {"filter_subject": ">"},
    }
    for policy, fields in policies.items():
        assert starting_at(rg, stream, policy, **fields) == []
    orders(rg, stream, 2)
    for policy in policies:
        assert sequences(take(rg, stream.name, f"C_{policy}", 5)) == ([4, 5] if emptied else [1, 2])


@pytest.mark.rule("STA-11")
def test_the_floor_of_a_fresh_consumer(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make()
    add(rg, stream.name, "EMPTY")
    assert floor(about(rg, stream.name, "EMPTY")) == (0, 0)
    orders(rg, stream, 5)
    orders(rg, stream, 1, "paid")
    clock.advance(1)
    orders(rg, stream, 4, "paid")
    time = rfc3339(stream.get(7).time_ns)
    starts: dict[str, tuple[dict[str, Any], int]] = {
        "ALL": ({}, 0),
        "LAST": ({"deliver_policy": "last"}, 9),
        "LAST_NEW": ({"deliver_policy": "last", "filter_subject": f"{stream.name}.new"}, 4),
        "LAST_NONE": ({"deliver_policy": "last", "filter_subject": f"{stream.name}.none"}, 10),
        "NEW": ({"deliver_policy": "new"}, 10),
        "SEQUENCE": ({"deliver_policy": "by_start_sequence", "opt_start_seq": 4}, 3),
        "TIME": ({"deliver_policy": "by_start_time", "opt_start_time": time}, 6),
    }
    for name, (fields, before) in starts.items():
        info = add(rg, stream.name, name, **fields)
        assert (floor(info), delivered(info)) == ((0, before), (0, 0)), name
        assert floor(about(rg, stream.name, name)) == (0, before)
    stream.purge(sequence=6)
    assert floor(add(rg, stream.name, "PURGED")) == (0, 5)


@pytest.mark.rule("STA-12")
def test_a_reconnect_does_not_begin_again(cluster: Any, rg: Railgun, make: Make) -> None:
    stream = make()
    orders(rg, stream, 3)
    policies = {"NEW": "new", "LAST": "last"}
    with cluster.connect() as first:
        for name, policy in policies.items():
            first.stream(stream.name).create_consumer(name, deliver_policy=policy)
    orders(rg, stream, 3)
    for name, policy in policies.items():
        with cluster.connect() as second:
            worker = second.stream(stream.name).create_consumer(name, deliver_policy=policy)
            message = worker.next(wait=5.0)
            assert message is not None
            assert message.sequence == (4 if name == "NEW" else 3)
            message.ack_sync()
    orders(rg, stream, 1)
    assert sequences(take(rg, stream.name, "NEW", 10)) == [5, 6, 7]
    assert sequences(take(rg, stream.name, "LAST", 10)) == [4, 5, 6, 7]
