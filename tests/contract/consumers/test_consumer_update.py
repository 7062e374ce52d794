"""Changing consumers: what an update leaves alone, and where a changed filter goes on (CON-12, CON-14)."""

from __future__ import annotations

from typing import Any

import pytest

from railgun import Railgun, Stream
from railgun.testing import Clock
from tests.support.consumers import (
    about,
    add,
    add_refused,
    creation,
    delivery,
    exists,
    floor,
    sequences,
    settle,
    take,
)
from tests.support.raw import ask, refused
from tests.support.streams import Make, put_on


def narrow(rg: Railgun, stream: Stream, token: str, **config: Any) -> None:
    """Make the consumer want only messages on ``<stream>.<token>``, or change it so."""
    add(rg, stream.name, filter_subject=f"{stream.name}.{token}", **config)


@pytest.mark.rule("CON-12", "CON-02")
@pytest.mark.parametrize("names", [{}, {"name": "C"}])
def test_an_update_without_a_durable_name_leaves_a_durable_as_it_is(
    rg: Railgun, make: Make, clock: Clock, names: dict[str, str]
) -> None:
    stream = make()
    put_on(rg, stream, "a", "b")
    add(rg, stream.name)
    settle(rg, take(rg, stream.name)[0])
    change = {**names, "ack_policy": "explicit", "description": "changed"}
    for action in (None, "update"):
        answer = ask(rg, f"CONSUMER.CREATE.{stream.name}.C", creation(stream.name, change, action))
        assert answer["config"]["durable_name"] == "C"
        assert answer["config"]["description"] == "changed"
        assert "inactive_threshold" not in answer["config"]
    clock.advance(86_400.0)
    assert floor(about(rg, stream.name)) == (1, 1)
    assert sequences(take(rg, stream.name, batch=5)) == [2]


@pytest.mark.rule("CON-10", "CON-12")
def test_to_create_an_ephemeral_consumer_under_the_name_of_a_durable_is_refused(
    rg: Railgun, make: Make
) -> None:
    stream = make().name
    add(rg, stream)
    body = creation(stream, {"name": "C", "ack_policy": "explicit"}, "create")
    taken = (10148, 400, "consumer already exists")
    assert refused(rg, f"CONSUMER.CREATE.{stream}.C", body) == taken
    assert exists(rg, stream)


@pytest.mark.rule("CON-14")
@pytest.mark.parametrize("policy", ["explicit", "all", "none"])
def test_a_filter_changed_before_the_first_delivery_starts_over(rg: Railgun, make: Make, policy: str) -> None:
    stream = make()
    put_on(rg, stream, "a", "b", "a")
    narrow(rg, stream, "none", ack_policy=policy)
    assert take(rg, stream.name) == []
    narrow(rg, stream, "b", ack_policy=policy)
    assert about(rg, stream.name)["num_pending"] == 1
    narrow(rg, stream, ">", ack_policy=policy)
    assert about(rg, stream.name)["num_pending"] == 3
    assert sequences(take(rg, stream.name, batch=5)) == [1, 2, 3]


@pytest.mark.rule("CON-14", "STA-04", "STA-03")
def test_a_consumer_that_starts_over_starts_where_it_was_told_to(rg: Railgun, make: Make) -> None:
    stream = make()
    put_on(rg, stream, "a", "b", "a", "b")
    start = {"deliver_policy": "by_start_sequence", "opt_start_seq": 3}
    narrow(rg, stream, "none", **start)
    add(rg, stream.name, "NEW", filter_subject=f"{stream.name}.none", deliver_policy="new")
    put_on(rg, stream, "a")
    assert take(rg, stream.name) == take(rg, stream.name, "NEW") == []
    narrow(rg, stream, ">", **start)
    add(rg, stream.name, "NEW", filter_subject=f"{stream.name}.>", deliver_policy="new")
    assert sequences(take(rg, stream.name, batch=5)) == [3, 4, 5]
    assert sequences(take(rg, stream.name, "NEW", batch=5)) == [5]


@pytest.mark.rule("CON-14", "STA-06")
def test_the_last_of_each_subject_are_chosen_anew_by_a_changed_filter(rg: Railgun, make: Make) -> None:
    stream = make()
    put_on(rg, stream, "a", "b", "a", "b", "c")
    narrow(rg, stream, "a", deliver_policy="last_per_subject")
    narrow(rg, stream, "*", deliver_policy="last_per_subject")
    assert about(rg, stream.name)["num_pending"] == 3
    assert sequences(take(rg, stream.name, batch=5)) == [3, 4, 5]
    put_on(rg, stream, "b")
    assert sequences(take(rg, stream.name, batch=5)) == [6]


@pytest.mark.rule("CON-14")
def test_a_filter_changed_after_a_delivery_goes_on_behind_it(rg: Railgun, make: Make) -> None:
    stream = make()
    put_on(rg, stream, "a", "b", "a")
    narrow(rg, stream, "b")
    (message,) = take(rg, stream.name)
    narrow(rg, stream, ">")
    found = [delivery(one) for one in take(rg, stream.name, batch=5)]
    assert delivery(message).sequence == 2
    assert [(one.sequence, one.consumer_sequence) for one in found] == [(3, 2)]


@pytest.mark.rule("CON-14", "UPD-18")
def test_a_refused_change_of_the_filter_moves_nothing(rg: Railgun, make: Make) -> None:
    stream = make()
    put_on(rg, stream, "a", "b")
    narrow(rg, stream, "none")
    assert take(rg, stream.name) == []
    assert add_refused(rg, stream.name, filter_subject=f"{stream.name}.>", ack_policy="all")[0] == 10012
    assert (about(rg, stream.name)["num_pending"], take(rg, stream.name)) == (0, [])
