"""Removals of very many messages by limits and retention: a part in each drain, and whoever owns the stream goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from railgun.semantics.consumers import retention
from railgun.semantics.messages import searching
from railgun.semantics.streams import limits
from railgun.shard import long_calls
from railgun.state import keys
from tests.support.shards import Shards

STORED = 1_000
MOST = 160  # what one drain may remove with the slices below


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_calls, "SLICE", 100)
    monkeypatch.setattr(long_calls, "LEAST", 50)
    monkeypatch.setattr(limits, "STRETCH", 20)
    monkeypatch.setattr(searching, "MOST_BLOCKS", 2)
    monkeypatch.setattr(retention, "DROPPED_AT_ONCE", 60)
    monkeypatch.setattr(retention, "BLOCKS_AT_ONCE", 1)


def filled(**fields: Any) -> Shards:
    shards = Shards(1)
    shards.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"], **fields})
    shards.settle()
    if fields.get("retention") == "interest":
        for name in ("one", "two"):
            config = {"name": name, "durable_name": name, "ack_policy": "explicit", "filter_subject": "s.*"}
            shards.request(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config}, stream="S")
    for start in range(0, STORED, 10):
        shards.publish("S", [f"s.{number % 10}" for number in range(start, start + 10)])
        shards.step(0)
    return shards


def state_of(shards: Shards) -> Any:
    return shards.cores[0]._streams.get("S")


def update(**fields: Any) -> Callable[[Shards], int]:
    return lambda shards: shards.request("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.*"], **fields})


def settled(shards: Shards, fate: str = "commit") -> list[int]:
    """How many messages each drain removed, until nothing is left to do."""
    removed, left = [], state_of(shards).messages
    for number in range(2_000):
        due = shards.cores[0].next_deadline()
        if not shards.inboxes[0] and (due is None or due > shards.now):
            return removed
        if number % 4 == 3 and fate == "restart":
            shards.restart(0)
        shards.step(0, abort=number % 3 == 1 and fate == "abort")
        removed.append(left - state_of(shards).messages)
        left = state_of(shards).messages
    raise AssertionError("it never ends")


LOWERED = [
    ({}, {"max_msgs": 10}, list(range(991, 1_001))),
    ({}, {"max_bytes": 340}, list(range(991, 1_001))),
    ({}, {"max_msgs_per_subject": 1}, list(range(991, 1_001))),
    ({}, {"max_msgs_per_subject": 2, "max_msgs": 15}, list(range(986, 1_001))),
    ({"max_msgs_per_subject": 500}, {"max_msgs_per_subject": 1}, list(range(991, 1_001))),
    ({"allow_direct": True}, {"allow_direct": True, "max_msgs": 10}, list(range(991, 1_001))),
]


@pytest.mark.rule("UPD-06", "LIM-03", "LIM-04", "LIM-07")
@pytest.mark.parametrize("fate", ["commit", "abort", "restart"])
@pytest.mark.parametrize("before, after, kept", LOWERED)
def test_a_limit_that_sinks_far_removes_a_part_in_each_drain(
    before: dict[str, Any], after: dict[str, Any], kept: list[int], fate: str
) -> None:
    shards = filled(**before)
    asked = update(**after)(shards)
    removed = settled(shards, fate)
    assert [entry.sequence for entry in state_of(shards).iterate()] == kept
    assert max(removed) <= MOST, "one drain removed too much"
    if fate != "restart":  # a new owner does not know who waits
        assert shards.answer(asked)["state"]["messages"] == len(kept)


@pytest.mark.rule("LIM-03")
def test_a_stream_that_is_being_trimmed_does_not_grow_by_publishes() -> None:
    shards = filled()
    update(max_msgs=10)(shards)
    shards.step(0)
    before = state_of(shards).messages
    shards.publish("S", ["s.x"] * 40, headers=[[("a", b"b")]] * 40)
    shards.step(0)
    assert state_of(shards).messages < before
    settled(shards)
    assert state_of(shards).messages == 10


@pytest.mark.rule("LIM-04")
def test_a_large_message_pushes_out_many_small_ones_over_several_drains() -> None:
    shards = filled(max_bytes=40 * STORED)
    request = shards.publish("S", ["s.x"], payloads=[b"x" * 39_000])
    removed = settled(shards)
    assert shards.outcomes[request] == STORED + 1
    assert max(removed) <= MOST
    assert state_of(shards).bytes <= 40 * STORED
    assert state_of(shards).last_seq == STORED + 1
    assert state_of(shards).messages < 40


@pytest.mark.rule("LIM-07")
def test_publishes_under_discard_new_go_on_while_subjects_are_thinned_out() -> None:
    shards = filled(discard="new", max_msgs=2_000)
    update(discard="new", max_msgs=2_000, max_msgs_per_subject=1)(shards)
    shards.step(0)
    requests = [shards.publish("S", [f"s.{number}"]) for number in range(10)]
    settled(shards)
    assert [shards.outcomes[one] for one in requests] == list(range(STORED + 1, STORED + 11))
    assert state_of(shards).subjects() == {f"s.{number}": 1 for number in range(10)}


@pytest.mark.rule("RET-15", "RET-17")
@pytest.mark.parametrize("fate", ["commit", "abort", "restart"])
def test_what_only_a_deleted_consumer_needed_goes_over_several_drains(fate: str) -> None:
    shards = filled(retention="interest")
    state = state_of(shards)
    two = state.consumers.get("two")
    shards.command("S", "two", pull=None, client="c")
    assert two is not None
    config = {"name": "two", "durable_name": "two", "ack_policy": "explicit", "filter_subject": "s.9"}
    asked = {"stream_name": "S", "config": config}
    shards.request("CONSUMER.CREATE.S.two", asked, stream="S")
    shards.settle()
    assert state_of(shards).messages == STORED, "the other one needs them all"
    deleted = shards.request("CONSUMER.DELETE.S.one", stream="S")
    removed = settled(shards, fate)
    assert shards.answer(deleted)["success"]
    assert max(removed) <= MOST
    assert {entry.subject for entry in state_of(shards).iterate()} == {"s.9"}
    assert state_of(shards).messages == STORED // 10


@pytest.mark.rule("RET-15")
@pytest.mark.parametrize("fields", [{}, {"max_msgs_per_subject": 900}])
def test_the_last_consumer_takes_everything_with_it(fields: dict[str, Any]) -> None:
    shards = filled(retention="interest", **fields)
    for name in ("one", "two"):
        shards.request(f"CONSUMER.DELETE.S.{name}", stream="S")
    removed = settled(shards)
    assert state_of(shards).messages == 0
    assert state_of(shards).first_seq == STORED + 1
    assert not fields or max(removed) <= MOST


@pytest.mark.rule("UPD-08")
@pytest.mark.parametrize("fate", ["commit", "abort", "restart"])
def test_a_stream_that_is_sealed_keeps_what_was_still_to_be_removed(fate: str) -> None:
    shards = filled(retention="interest")
    config = {"name": "two", "durable_name": "two", "ack_policy": "explicit", "filter_subject": "s.9"}
    shards.request("CONSUMER.CREATE.S.two", {"stream_name": "S", "config": config}, stream="S")
    shards.settle()
    shards.request("CONSUMER.DELETE.S.one", stream="S")
    shards.step(0)
    sealing = update(retention="interest", sealed=True)(shards)
    while not state_of(shards).config.sealed:
        shards.step(0)
    left = state_of(shards).messages
    assert STORED // 10 < left < STORED, "it is sealed in the midst of the removal"
    assert not any(settled(shards, fate))
    assert state_of(shards).messages == left
    if fate != "restart":
        assert shards.answer(sealing)["state"]["messages"] == left


@pytest.mark.rule("LIM-07")
@pytest.mark.parametrize("restarted", [False, True])
def test_a_limit_that_was_raised_and_sinks_leaves_nothing_of_what_goes(restarted: bool) -> None:
    """The oldest message of each subject has the subject as its key, and goes drains before the others do."""
    shards, config = Shards(1), {"name": "S", "subjects": ["s.*"], "allow_direct": True}
    shards.request("STREAM.CREATE.S", {**config, "max_msgs_per_subject": 1})
    shards.settle()
    subjects = [f"s.{number}" for number in range(300)]
    shards.publish("S", subjects)
    shards.settle()
    shards.request("STREAM.UPDATE.S", {**config, "max_msgs_per_subject": 3})
    shards.settle()
    for _ in range(2):
        shards.publish("S", subjects)
        shards.settle()
    shards.request("STREAM.UPDATE.S", {**config, "max_msgs_per_subject": 1})
    shards.step(0)
    assert len(shards.snapshot()["S"]["entries"]) > 300, "it takes several drains"
    if restarted:
        shards.restart(0)
    shards.settle()
    (log,) = shards.logs.values()
    log.compact()
    assert {sequence for _, sequence, _ in log.records.values()} == set(range(601, 901))
    kept = [key for key, _ in shards.tables[0].scan(b"") if key.startswith((keys.BODY, keys.VALUE))]
    assert len(kept) == 300
