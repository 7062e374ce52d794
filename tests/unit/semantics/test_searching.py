"""Messages found by subject: as by looking at each of them, and without looking at those that do not matter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.model.stream_config import StreamConfig
from railgun.model.subjects import Filter
from railgun.protocol.topics import Names
from railgun.semantics.messages import searching
from railgun.semantics.messages.blocks import Block, Entry
from railgun.semantics.messages.budget import ShardMemory
from railgun.semantics.steps import Steps, finish
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.state.table import MemoryTable, Overlay
from tests.support.shards import Shards
from tests.support.tight_memory import room_for_subjects

SUBJECTS = ["a.x", "a.y", "a.z.1", "b", "b-c.x", "c.x"]
PATTERNS = ["a.>", "a.*", "*.x", "b", "none.>", ">", "*", "c.*"]

packs = st.lists(st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=6), max_size=8)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bases of the blocks whose messages were looked at."""
    seen: list[int] = []
    looked_at = Block.is_removed

    def counted(block: Block, index: int) -> bool:
        seen.append(block.base)
        return looked_at(block, index)

    def runs(block: Block, start: int, wanted: Filter) -> list[tuple[int, int]]:
        seen.append(block.base)
        return runs_in(block, start, wanted)

    runs_in = searching.runs_in
    monkeypatch.setattr(Block, "is_removed", counted)
    monkeypatch.setattr(searching, "runs_in", runs)
    return seen


def stream_of(packs: list[list[str]], gone: list[int], *, per_subject: int, held: int | None) -> OwnedStream:
    """Each pack a block, the last one still in the tail; the numbered messages are removed."""
    memory = ShardMemory()
    if held is not None:
        memory.subjects = room_for_subjects(held)
    config = StreamConfig(name="S", subjects=["a.>"], max_msgs_per_subject=per_subject)
    overlay = Overlay(MemoryTable(scratch=MemoryTable()))
    state = OwnedStream(overlay, "S", 1, config, 0, Names().log("S"), memory)
    for number, pack in enumerate(packs):
        for subject in pack:
            state.store(subject, 10, 1)
        if number + 1 < len(packs):
            state.seal()
    for sequence in gone:
        state.remove(sequence)
    return state


@settings(max_examples=300)
@given(
    packs,
    st.lists(st.integers(1, 40), max_size=15),
    st.sampled_from(PATTERNS),
    st.integers(0, 45),
    st.sampled_from([-1, 9]),
    st.sampled_from([None, 0, 2]),
)
@pytest.mark.rule("GET-02", "GET-03", "GET-11", "GET-15")
def test_every_search_finds_what_looking_at_each_message_finds(
    packs: list[list[str]], gone: list[int], pattern: str, start: int, per_subject: int, held: int | None
) -> None:
    stream = stream_of(packs, gone, per_subject=per_subject, held=held)
    wanted = Filter(pattern)
    match = [entry for entry in stream.iterate() if wanted.matches(entry.subject)]
    late = [entry for entry in match if entry.sequence >= start]
    assert finish(searching.newest(stream, wanted)) == max((e.sequence for e in match), default=0)
    assert finish(searching.following(stream, start, wanted)) == next(iter(late), None)
    assert finish(searching.count_from(stream, start, wanted)) == len(late)
    of_each = {e.subject: e.sequence for e in match if e.sequence <= start}
    assert sorted(finish(searching.newest_of_each(stream, wanted, start, 99))) == sorted(of_each.values())
    taken: list[Entry] = []
    finish(searching.all_from(stream, start, wanted, lambda entry: taken.append(entry) or True))
    assert taken == late


@settings(max_examples=200)
@given(packs, packs, st.lists(st.integers(1, 60), max_size=20), st.sampled_from(PATTERNS), st.integers(0, 40))
def test_a_search_sees_what_comes_and_goes_between_its_steps(
    packs: list[list[str]], later: list[list[str]], gone: list[int], pattern: str, start: int
) -> None:
    """What exists from the first step to the last is never missed, and what is found exists."""
    wanted = Filter(pattern)
    changes = iter([*((pack, None) for pack in later), *((None, one) for one in gone)])

    def change(stream: OwnedStream) -> None:
        for pack, one in [next(changes, (None, None))]:
            for subject in pack or ():
                stream.store(subject, 10, 1)
            stream.remove(one or 0)
            stream.seal()

    for search in (
        lambda stream: searching.newest(stream, wanted),
        lambda stream: searching.following(stream, start, wanted),
    ):
        stream = stream_of(packs, [], per_subject=-1, held=1)
        before = {e.sequence for e in stream.iterate() if wanted.matches(e.subject)}
        found = _in_steps(search(stream), lambda stream=stream: change(stream))
        now = {e.sequence for e in stream.iterate() if wanted.matches(e.subject)}
        stayed = before & now
        if isinstance(found, int):
            assert found == max(now, default=0)
        elif found is None:
            assert not {one for one in stayed if one >= start}
        else:
            assert found.sequence in now
            assert not {one for one in stayed if start <= one < found.sequence}


def _in_steps(steps: Steps[Any], between: Any) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        between()


def aggregates(orders: int) -> Shards:
    """A stream as aggregates are written: three events each, far more of them than any look should cost."""
    shards = Shards(1)
    shards.request("STREAM.CREATE.S", {"name": "S", "subjects": ["orders.>", "rare.*"]})
    shards.settle()
    for event in ("made", "paid", "sent"):
        for start in range(0, orders, 64):
            shards.publish("S", [f"orders.{n}.{event}" for n in range(start, start + 64)])
            shards.settle()
    return shards


@pytest.mark.rule("GET-02", "PUB-10", "STA-02", "STA-06")
def test_wildcards_cost_their_matches_and_not_the_stream(looks: list[int]) -> None:
    shards = aggregates(1_280)  # 60 blocks
    ask = {"Nats-Expected-Last-Subject-Sequence-Subject": b"orders.42.>"}
    shards.request("STREAM.MSG.GET.S", {"last_by_subj": "orders.41.>"})
    shards.settle()
    looks.clear()
    got = shards.request("STREAM.MSG.GET.S", {"last_by_subj": "orders.42.>"})
    put = shards.publish(
        "S",
        ["orders.42.sent"],
        headers=[[(h.EXPECTED_LAST_SUBJECT_SEQUENCE, b"2603"), *((n, v) for n, v in ask.items())]],
    )
    none = shards.request("STREAM.MSG.GET.S", {"last_by_subj": "rare.*"})
    for name, policy in (("last", "last"), ("each", "last_per_subject")):
        body = {"name": name, "deliver_policy": policy, "filter_subject": "orders.7.*"}
        shards.request(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": body}, stream="S")
    shards.settle()
    (frame,) = shards.answers[got]
    found = frame.located.sequence if frame.located else json.loads(frame.body)["message"]["seq"]
    assert found == 2_560 + 43
    assert shards.outcomes[put] == 3_841
    assert shards.answer(none)["error"]["err_code"] == 10037
    stream = shards.cores[0]._streams.get("S")
    assert stream is not None
    begins = {one.name: one.position.next for one in stream.consumers}
    assert begins == {"last": 2_568, "each": 3_842}
    assert len(set(looks)) <= 5, "blocks were looked at although few subjects match"


@pytest.mark.rule("GET-02")
def test_a_wildcard_that_nearly_everything_matches_looks_at_the_newest_messages(looks: list[int]) -> None:
    shards = aggregates(1_280)
    for _ in range(2):
        looks.clear()
        request = shards.request("STREAM.MSG.GET.S", {"last_by_subj": "orders.*.sent"})
        shards.settle()
        (frame,) = shards.answers[request]
        assert json.loads(frame.body)["message"]["seq"] == 3_840
        assert len(set(looks)) <= 2


@pytest.mark.rule("GET-03")
@pytest.mark.parametrize("subject", ["orders.42.lost", "rare.*", "orders.7.made"])
def test_what_is_not_ahead_is_not_looked_for(looks: list[int], subject: str) -> None:
    shards = aggregates(1_280)
    shards.request("STREAM.MSG.GET.S", {"last_by_subj": "orders.41.>"})
    shards.settle()
    looks.clear()
    request = shards.request("STREAM.MSG.GET.S", {"seq": 9, "next_by_subj": subject})
    shards.settle()
    assert shards.answer(request)["error"]["err_code"] == 10037
    assert len(set(looks)) <= 1


def test_one_message_far_ahead_is_found_at_once(looks: list[int]) -> None:
    shards = aggregates(1_280)
    shards.publish("S", ["rare.1"])
    shards.settle()
    looks.clear()
    request = shards.request("STREAM.MSG.GET.S", {"seq": 9, "next_by_subj": "rare.1"})
    shards.settle()
    (frame,) = shards.answers[request]
    assert json.loads(frame.body)["message"]["seq"] == 3_841
    assert len(set(looks)) <= 1


def test_who_searches_often_has_the_subjects_put_in_order() -> None:
    """A condition on a wildcard comes with each publish: it must not look at the newest messages each time."""
    state = stream_of([[f"a.{number}" for number in range(20)]], [], per_subject=-1, held=None)
    assert state.last_matching(Filter(["a.*"])) == 20
    assert not state.subjects_sorted  # the newest message was near: nothing to put in order for
    for number in range(20):
        assert state.last_matching(Filter([f"*.{number}"])) == number + 1
    assert state.subjects_sorted
