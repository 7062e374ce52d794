"""Calls that take more than one drain: bounded in each, right at the end, and as if nothing had been when a drain is aborted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from railgun.semantics.messages import budget as memory
from railgun.semantics.messages import searching
from railgun.semantics.streams import removal
from railgun.shard import long_calls
from tests.support.shards import Shards

ORDERS = 400  # messages on each of the subjects s.0 … s.4


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain does little, so that a few hundred messages are a long stream."""
    monkeypatch.setattr(long_calls, "SLICE", 100)
    monkeypatch.setattr(long_calls, "LEAST", 50)
    monkeypatch.setattr(removal, "STRETCH", 20)
    monkeypatch.setattr(searching, "MOST_BLOCKS", 2)
    monkeypatch.setattr(searching, "SUBJECTS", 2)


def filled(**fields: Any) -> Shards:
    shards = Shards(1)
    shards.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], **fields})
    shards.settle()
    for start in range(0, 5 * ORDERS, 20):
        shards.publish("S", [f"s.{number % 5}" for number in range(start, start + 20)])
        shards.step(0)
    return shards


def state_of(shards: Shards) -> Any:
    return shards.cores[0]._streams.get("S")


PURGES: list[tuple[dict[str, Any], int]] = [
    ({"filter": "s.1"}, ORDERS),
    ({"filter": "s.*"}, 5 * ORDERS),
    ({"filter": "s.1", "keep": 3}, ORDERS - 3),
    ({"filter": "s.1", "seq": 1_001}, 200),
    ({"seq": 1_001}, 1_000),
    ({"keep": 3}, 5 * ORDERS - 3),
    ({"keep": 3_000}, 0),
    ({"seq": 5_000}, 5 * ORDERS),
    ({}, 5 * ORDERS),
]


@pytest.mark.rule("DEL-06", "DEL-07", "DEL-08", "DEL-09")
@pytest.mark.parametrize("fields", [{}, {"max_msgs_per_subject": 1_000}, {"allow_direct": True}])
@pytest.mark.parametrize("request_body, purged", PURGES)
def test_a_purge_of_many_takes_drains_of_few(
    request_body: dict[str, Any], purged: int, fields: dict[str, Any]
) -> None:
    shards = filled(**fields)
    asked = shards.request("STREAM.PURGE.S", request_body)
    removed, left = [], state_of(shards).messages
    for _ in range(500):
        shards.step(0)
        removed.append(left - state_of(shards).messages)
        left = state_of(shards).messages
        if asked in shards.answers:
            break
    assert shards.answer(asked)["purged"] == purged == sum(removed)
    whole = not fields.get("max_msgs_per_subject") and request_body in ({}, {"seq": 5_000})
    assert whole or max(removed) <= 120, "one drain removed too much"
    assert shards.cores[0].next_deadline() is None, "nothing is left to do"
    if "seq" in request_body and request_body["seq"] == 5_000:
        assert state_of(shards).last_seq == 4_999


@pytest.mark.rule("DEL-09")
def test_what_comes_during_a_purge_stays_and_other_commands_go_on() -> None:
    shards = filled()
    asked = shards.request("STREAM.PURGE.S", {"filter": "s.*"})
    shards.step(0)
    assert asked not in shards.answers
    stored = shards.publish("S", ["s.1", "s.2"])
    got = shards.request("STREAM.MSG.GET.S", {"seq": 2_000})
    shards.step(0)
    assert shards.outcomes[stored] == 2_001
    assert got in shards.answers
    assert asked not in shards.answers
    shards.settle()
    assert shards.answer(asked)["purged"] == 5 * ORDERS
    assert [entry.sequence for entry in state_of(shards).iterate()] == [2_001, 2_002]


@pytest.mark.rule("DEL-09")
@pytest.mark.parametrize("body", [{"filter": "s.1"}, {"seq": 1_500}, {"filter": "s.*", "keep": 10}])
def test_a_purge_counts_right_although_drains_are_aborted(body: dict[str, Any]) -> None:
    calm, rough = filled(), filled()
    requests = [shards.request("STREAM.PURGE.S", body) for shards in (calm, rough)]
    calm.settle()
    for number in range(1_000):
        if requests[1] in rough.answers:
            break
        rough.step(0, abort=number % 3 == 1)
    assert rough.answer(requests[1]) == calm.answer(requests[0])
    assert rough.snapshot() == calm.snapshot()


def test_a_purge_of_a_stream_that_is_deleted_meanwhile_does_not_touch_its_successor() -> None:
    shards = filled()
    asked = shards.request("STREAM.PURGE.S", {"filter": "s.*"})
    shards.step(0)
    shards.request("STREAM.DELETE.S")
    shards.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    shards.publish("S", ["s.1"])
    shards.settle()
    assert shards.answer(asked)["error"]["err_code"] == 10059


@pytest.mark.rule("GET-02", "GET-03")
def test_a_long_look_goes_on_in_later_drains_and_its_answer_is_the_same() -> None:
    shards = filled()
    for start in range(0, 2_000, 20):
        shards.publish("S", [f"s.new.{number}" for number in range(start, start + 20)])
        shards.step(0)
    looks = {
        shards.request("STREAM.MSG.GET.S", {"seq": 1_990, "next_by_subj": "s.new.1999"}): 4_000,
        shards.request("STREAM.MSG.GET.S", {"seq": 2, "next_by_subj": "s.new.*"}): 2_001,
        shards.request("STREAM.MSG.GET.S", {"last_by_subj": "s.*"}): 2_000,
    }
    shards.step(0)
    assert not all(request in shards.answers for request in looks)
    drains = len(shards.drains)
    shards.settle()
    assert len(shards.drains) > drains + 3
    for request, sequence in looks.items():
        (frame,) = shards.answers[request]
        found = frame.located.sequence if frame.located else json.loads(frame.body)["message"]["seq"]
        assert found == sequence


def test_details_of_a_large_stream_are_gathered_over_several_drains() -> None:
    shards = filled()
    for sequence in range(2, 2_000, 7):
        shards.request("STREAM.MSG.DELETE.S", {"seq": sequence})
    shards.settle()
    drains = len(shards.drains)
    asked = shards.request("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})
    shards.settle()
    assert len(shards.drains) > drains + 3
    state = shards.answer(asked)["state"]
    assert state["deleted"] == list(range(2, 2_000, 7))
    assert sum(state["subjects"].values()) == state["messages"]


def test_small_calls_are_answered_in_order_in_their_own_drain() -> None:
    shards = filled()
    shards.request("STREAM.PURGE.S", {"filter": "s.1"})
    asked = [shards.request("STREAM.MSG.GET.S", {"seq": sequence}) for sequence in range(1_000, 1_060)]
    shards.step(0)
    assert [one for one in shards.answers if one in asked] == asked


def test_more_long_calls_than_a_shard_takes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_calls, "AT_ONCE", 3)
    shards = filled()
    asked = [shards.request("STREAM.INFO.S", {"deleted_details": True}) for _ in range(5)]
    small, purge = (
        shards.request("STREAM.MSG.GET.S", {"seq": 9}),
        shards.request("STREAM.PURGE.S", {"filter": "s.1"}),
    )
    shards.settle()
    codes = [shards.answer(one).get("error", {}).get("err_code") for one in (*asked, small, purge)]
    assert codes == [None, None, None, 10167, 10167, None, 10167]


def test_a_new_owner_answers_nothing_that_it_was_not_asked() -> None:
    shards = filled()
    asked = shards.request("STREAM.PURGE.S", {"filter": "s.*"})
    shards.step(0)
    shards.restart(0)
    shards.settle()
    assert asked not in shards.answers
    again = shards.request("STREAM.PURGE.S", {"filter": "s.*"})
    shards.settle()
    assert 0 < shards.answer(again)["purged"] < 5 * ORDERS
    assert state_of(shards).messages == 0


@pytest.mark.rule("STA-02")
@pytest.mark.parametrize("abort_every", [0, 4])
def test_a_consumer_that_starts_at_the_last_of_many_is_made_when_that_is_found(abort_every: int) -> None:
    shards = Shards(1)
    shards.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    shards.settle()
    for kind in ("old", "new"):
        for start in range(0, 400, 20):
            shards.publish("S", [f"s.{kind}.{number}" for number in range(start, start + 20)])
            shards.step(0)
    body = {"name": "c", "deliver_policy": "last", "filter_subject": "s.old.*"}
    asked = shards.request("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": body}, stream="S")
    shards.step(0)
    assert asked not in shards.answers
    assert len(state_of(shards).consumers) == 0
    shards.publish("S", ["s.old.7", "s.new.7"])
    for number in range(1, 100):
        if asked in shards.answers:
            break
        shards.step(0, abort=abort_every > 0 and number % abort_every == 0)
    assert shards.answer(asked)["name"] == "c"
    assert state_of(shards).consumers.get("c").position.next == 801


@pytest.mark.rule("UPD-06")
def test_an_update_that_is_decided_is_never_refused_for_want_of_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_calls, "AT_ONCE", 3)
    shards = filled()
    for _ in range(3):
        shards.request("STREAM.INFO.S", {"deleted_details": True})
    shards.step(0)
    assert len(shards.cores[0]._long_calls._calls) == 3
    asked = shards.request("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "max_msgs": 10})
    shards.settle()
    assert shards.answer(asked)["config"]["max_msgs"] == 10
    assert shards.answer(asked)["state"]["messages"] == 10


SUBJECTS = 1_000


def with_many_subjects() -> Shards:
    """One message on each of them, half of them s.0.*, the others s.1.*."""
    shards = Shards(1)
    shards.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    shards.settle()
    for start in range(0, SUBJECTS, 20):
        shards.publish(
            "S", [f"s.{number % 2}.{number * 7 % SUBJECTS}" for number in range(start, start + 20)]
        )
        shards.step(0)
    return shards


def ask_for_last_of_each(shards: Shards, pattern: str) -> int:
    body = {
        "name": "c",
        "deliver_policy": "last_per_subject",
        "filter_subject": pattern,
        "ack_policy": "explicit",
    }
    return shards.request("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": body}, stream="S")


def drains_until_answered(shards: Shards, asked: int, abort_every: int = 0) -> int:
    for number in range(1, 1_000):
        shards.step(0, abort=abort_every > 0 and number % abort_every == 0)
        if asked in shards.answers:
            return number
    raise AssertionError("never answered")


@pytest.mark.rule("CON-14", "STA-06")
@pytest.mark.parametrize("abort_every", [0, 4])
def test_another_filter_for_the_last_of_each_subject_is_looked_for_over_several_drains(
    abort_every: int,
) -> None:
    shards = with_many_subjects()
    drains_until_answered(shards, ask_for_last_of_each(shards, "s.0.*"))
    asked = ask_for_last_of_each(shards, "s.*.*")
    assert drains_until_answered(shards, asked, abort_every) > 4
    assert shards.answer(asked)["num_pending"] == SUBJECTS
    assert shards.answer(asked)["config"]["filter_subject"] == "s.*.*"


@pytest.mark.rule("STA-06")
@pytest.mark.parametrize("recreated", [False, True])
def test_a_consumer_that_goes_while_its_new_filter_is_looked_for_is_made_anew(recreated: bool) -> None:
    shards = with_many_subjects()
    drains_until_answered(shards, ask_for_last_of_each(shards, "s.0.*"))
    asked = ask_for_last_of_each(shards, "s.*.*")
    shards.step(0)
    shards.publish("S", ["s.0.new"])
    shards.request("CONSUMER.DELETE.S.c", stream="S")
    shards.step(0)
    assert asked not in shards.answers
    if recreated:
        ask_for_last_of_each(shards, "s.1.*")
    drains_until_answered(shards, asked)
    shards.settle()
    assert shards.answer(asked)["num_pending"] == SUBJECTS + 1


@pytest.mark.rule("STA-06")
@pytest.mark.parametrize("wait", [1, 3, 6, 9])
def test_a_search_starts_again_if_the_index_by_subject_is_built_anew(
    monkeypatch: pytest.MonkeyPatch, wait: int
) -> None:
    monkeypatch.setattr(memory, "SUBJECTS", 100 * memory.SUBJECT_BYTES)
    shards = with_many_subjects()
    asked = ask_for_last_of_each(shards, "s.*.*")
    for _ in range(wait):
        shards.step(0)
    assert asked not in shards.answers
    shards.request("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "max_msgs_per_subject": 5})
    shards.settle()
    assert shards.answer(asked)["num_pending"] == SUBJECTS
