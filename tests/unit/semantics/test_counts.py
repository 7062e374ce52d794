"""Counting what lies ahead of consumers, and telling them what goes: the cost is that of blocks, not of messages."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun.model.subjects import Filter
from railgun.protocol.commands import AckRun, Pull
from railgun.semantics.consumers.collection import Consumers
from railgun.semantics.consumers.delivery import selection
from railgun.semantics.consumers.pending.pending_runs import PendingRuns
from railgun.semantics.messages.blocks import Block, build
from railgun.semantics.streams.owned_stream import OwnedStream
from tests.support.shards import Shards

MESSAGES = 8_000
CONSUMERS = 20

tokens = st.sampled_from(["a", "b", "ab", "a-b", "ä"])
subjects = st.lists(tokens, min_size=1, max_size=4).map(".".join)
patterns = st.lists(
    st.one_of(
        st.lists(st.one_of(tokens, st.just("*")), min_size=1, max_size=4).map(".".join),
        st.lists(st.one_of(tokens, st.just("*")), min_size=0, max_size=3).map(
            lambda one: ".".join([*one, ">"])
        ),
        st.just("x" * 2_000),
    ),
    min_size=1,
    max_size=3,
)


def _created(**config: Any) -> Shards:
    shards = Shards(1)
    request = shards.request("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]} | config)
    shards.settle()
    assert "error" not in shards.answer(request)
    return shards


def _consumer(shards: Shards, name: str, **config: Any) -> None:
    given = {"name": name, "durable_name": name, "ack_policy": "explicit"} | config
    request = shards.request(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": given}, stream="S")
    shards.settle()
    assert "error" not in shards.answer(request)


def _stream(shards: Shards) -> OwnedStream:
    stream = shards.cores[0]._streams.get("S")
    assert stream is not None
    return stream


def _fetch(shards: Shards, number: int, name: str, batch: int) -> None:
    shards.command("S", name, pull=Pull(number, batch=batch, no_wait=True))


def _pending_by_looking(stream: OwnedStream, start: int, wanted: Filter) -> int:
    return sum(1 for entry in stream.iterate(start) if wanted.matches(entry.subject))


@given(patterns, st.lists(subjects, min_size=1, max_size=30), st.sets(st.integers(0, 29)), st.data())
def test_a_block_counts_what_looking_at_each_message_would(
    wanted: list[str], of_messages: list[str], gone: set[int], data: st.DataObject
) -> None:
    block, chosen, count = (
        build(1, of_messages, [1] * len(of_messages), [1] * len(of_messages), [], 0),
        Filter(wanted),
        len(of_messages),
    )
    for index in gone:
        if index < count:
            block.mark_removed(index)
    start, stop = data.draw(st.integers(0, count)), data.draw(st.integers(0, count + 2))
    expected = [
        index
        for index, subject in enumerate(of_messages)
        if start <= index and not block.is_removed(index) and chosen.matches(subject)
    ]
    assert selection.count_in(block, start, chosen, stop) == sum(index < stop for index in expected)
    runs = selection.runs_in(block, start, chosen)
    assert [index for first, length in runs for index in range(first, first + length)] == expected


@pytest.mark.parametrize("patterns", [["S.1.*"], ["S.1.*", "S.2.>"], ["S.*.7"], [">"]])
def test_a_block_of_many_subjects_is_counted_without_asking_for_each(patterns: list[str]) -> None:
    block = build(1, [f"S.{i % 7}.{i}" for i in range(512)], [1] * 512, [1] * 512, [], 0)
    wanted, asked, matches = Filter(patterns), [], Filter(patterns).matches
    wanted.matches = lambda subject: asked.append(subject) or matches(subject)  # type: ignore[func-returns-value]
    assert selection.count_in(block, 100, wanted) == sum(map(matches, block.all_subjects()[100:]))
    assert not asked


@pytest.mark.rule("CON-28")
@pytest.mark.parametrize("same", [True, False])
def test_consumers_of_one_filter_count_once_together(monkeypatch: pytest.MonkeyPatch, same: bool) -> None:
    shards = _created()
    for start in range(0, MESSAGES, 2_000):
        shards.publish("S", [f"S.{i % 7}.{i % 1_000}" for i in range(start, start + 2_000)])
        shards.step(0)
    for number in range(CONSUMERS):
        begin = MESSAGES // 2 + (0 if same else number * 10)
        _consumer(
            shards,
            f"c{number}",
            filter_subject="S.3.*",
            deliver_policy="by_start_sequence",
            opt_start_seq=begin,
        )
    shards.restart(0)  # a new owner has counted nothing
    looked_at = 0
    numbers_of = Block.numbers_of

    def counting(block: Block, wanted: Filter) -> list[int]:
        nonlocal looked_at
        looked_at += 1
        return numbers_of(block, wanted)

    monkeypatch.setattr(Block, "numbers_of", counting)
    stream = _stream(shards)
    found = [consumer.num_pending for consumer in stream.consumers]
    assert looked_at <= MESSAGES / 2 / 500 + 2 * CONSUMERS
    for consumer, pending in zip(stream.consumers, found, strict=True):
        assert pending == _pending_by_looking(stream, consumer.position.next, Filter("S.3.*"))


@pytest.mark.rule("CON-28", "RDL-14")
def test_counts_of_one_filter_stay_exact_whoever_counts_first() -> None:
    chance = random.Random(7)
    shards = _created(max_msgs=1_500)
    wanted = ("S.1.*", "S.>", "S.*.3")
    for number in range(9):
        _consumer(shards, f"c{number}", filter_subject=wanted[number % 3], max_ack_pending=-1)
    for step in range(60):
        shards.publish("S", [f"S.{chance.randrange(3)}.{chance.randrange(5)}" for _ in range(100)])
        if step % 3 == 0:
            _fetch(shards, step + 1, f"c{chance.randrange(9)}", chance.randrange(1, 400))
        shards.step(0)
        stream = _stream(shards)
        if step % 5 == 4:
            for entry in list(stream.iterate(stream.last_seq - 600))[:: chance.randrange(2, 9)]:
                stream.remove(entry.sequence)
        for consumer in chance.sample(list(stream.consumers), 4):
            looked = _pending_by_looking(stream, consumer.position.next, consumer.terms.filter)
            assert consumer.num_pending == looked + consumer.pending.parked
            for run in consumer.pending:
                assert all(stream.exists(one) for one in range(run.sequence, run.end))


@pytest.mark.rule("RDL-14", "LIM-03")
def test_consumers_are_told_of_a_whole_run_of_evictions_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = _created(max_msgs=200)
    shards.publish("S", ["S.a"] * 200)
    shards.settle()
    for number in range(CONSUMERS):
        _consumer(shards, f"c{number}", max_ack_pending=-1)
        _fetch(shards, number + 1, f"c{number}", 100)
    shards.settle()
    told = 0
    remove = PendingRuns.remove

    def counting(runs: PendingRuns, start: int, end: int) -> Any:
        nonlocal told
        told += 1
        return remove(runs, start, end)

    monkeypatch.setattr(PendingRuns, "remove", counting)
    for _ in range(10):  # in one drain, from many clients
        shards.publish("S", ["S.a"] * 9)
    shards.step(0)
    assert told == CONSUMERS
    assert {consumer.num_ack_pending for consumer in _stream(shards).consumers} == {10}


@pytest.mark.rule("SEQ-14", "LIM-03")
@pytest.mark.parametrize("at_once", [True, False])
def test_the_floor_of_policy_all_follows_evictions_told_together_as_one_by_one(at_once: bool) -> None:
    shards = _created(max_msgs=10)
    shards.publish("S", ["S.a"] * 10)
    shards.settle()
    _consumer(shards, "c", ack_policy="all")
    _fetch(shards, 1, "c", 10)
    shards.settle()
    shards.command("S", "c", acks=[AckRun("nak", 1, 1, 1, 1, 0)])  # the first comes again, after all others
    _fetch(shards, 2, "c", 1)
    shards.settle()
    for count in [4] if at_once else [1] * 4:
        shards.publish("S", ["S.a"] * count)
        shards.step(0)
    (consumer,) = _stream(shards).consumers
    assert consumer.delivered.consumer == 11
    assert consumer.floor == (11, 4)


LOOKS: dict[str, Callable[[Consumers], object]] = {
    "all": list,
    "by name": lambda consumers: consumers.get("c"),
    "by number": lambda consumers: consumers.by_number(1),
    "what changed": lambda consumers: consumers.touched,
    "whether any changed": lambda consumers: consumers.changed,
    "when the next is due": lambda consumers: consumers.next_deadline(),
    "the end of the drain": lambda consumers: consumers.seal(),
    "a removal": lambda consumers: consumers.removed(9, "S.a"),
    "a run of removals": lambda consumers: consumers.removed_run(9, 10, {"S.a": 1}),
    "a purge": lambda consumers: consumers.purged(0),
}


@pytest.mark.rule("RDL-14", "LIM-03")
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_whoever_looks_at_consumers_finds_no_evicted_message_pending(
    look: Callable[[Consumers], object],
) -> None:
    shards = _created(max_msgs=10)
    shards.publish("S", ["S.a"] * 10)
    shards.settle()
    _consumer(shards, "c", filter_subject="S.a")
    _fetch(shards, 1, "c", 8)
    shards.settle()
    stream = _stream(shards)
    (consumer,) = stream.consumers
    for _ in range(3):
        stream.remove(stream.first_seq, why="evicted")
    look(stream.consumers)
    assert (consumer.pending.lowest(), stream.consumers.removals.total > 0) == (4, True)


@pytest.mark.parametrize("between", [{}, {"filter_subject": "S.b"}], ids=["deleted", "changed and deleted"])
def test_a_consumer_that_is_gone_is_not_counted_from(between: dict[str, Any]) -> None:
    shards = _created()
    shards.publish("S", ["S.a", "S.b"] * 20)
    _consumer(shards, "one", filter_subject="S.a")
    consumer = _stream(shards).consumers.get("one")
    assert consumer is not None
    assert consumer.num_pending == 20
    if between:
        _consumer(shards, "one", **between)
    shards.request("CONSUMER.DELETE.S.one", stream="S")
    shards.settle()
    for sequence in range(11, 31):
        shards.request("STREAM.MSG.DELETE.S", {"seq": sequence})
    shards.settle()
    _consumer(shards, "two", filter_subject="S.a")
    consumer = _stream(shards).consumers.get("two")
    assert consumer is not None
    assert consumer.num_pending == 10
