"""Work in slices ends as work at once does, however small the slices are and whichever drains are aborted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.semantics.consumers import retention
from railgun.semantics.messages import searching
from railgun.semantics.streams import limits, removal
from railgun.shard import long_calls
from tests.support.shards import Shards

_TINY = [
    (long_calls, "SLICE", 2),
    (long_calls, "LEAST", 1),
    (limits, "STRETCH", 1),
    (removal, "STRETCH", 1),
    (removal, "BLOCKS", 1),
    (searching, "MOST_BLOCKS", 1),
    (searching, "SUBJECTS", 1),
    (retention, "DROPPED_AT_ONCE", 1),
    (retention, "BLOCKS_AT_ONCE", 1),
]

subjects = st.sampled_from(["S.a", "S.b", "S.a.x", "S.a.y", "S.b-c.x"])
patterns = st.sampled_from(["S.a", "S.*", "S.a.>", "S.*.x", "S.>", "S.none.*", ">"])
sequences = st.integers(1, 30)
shapes = st.fixed_dictionaries(
    {},
    optional={
        "max_msgs": st.integers(1, 12),
        "max_bytes": st.integers(100, 400),
        "max_msgs_per_subject": st.integers(1, 4),
        "discard": st.sampled_from(["old", "old", "new"]),
        "allow_direct": st.booleans(),
        "retention": st.sampled_from(["limits", "interest"]),
    },
)
purges = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"seq": sequences}),
    st.fixed_dictionaries({"keep": st.integers(1, 5)}),
    st.fixed_dictionaries({"filter": patterns}),
    st.fixed_dictionaries({"filter": patterns, "keep": st.integers(1, 5)}),
    st.fixed_dictionaries({"filter": patterns, "seq": sequences}),
)
gets = st.one_of(
    st.fixed_dictionaries({"last_by_subj": patterns}),
    st.fixed_dictionaries({"seq": sequences, "next_by_subj": patterns}),
)
direct_gets = st.one_of(
    gets,
    st.fixed_dictionaries({"seq": sequences, "next_by_subj": patterns, "batch": st.integers(1, 5)}),
    st.fixed_dictionaries({"multi_last": st.lists(patterns, min_size=1, max_size=2), "up_to_seq": sequences}),
)
consumers = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["one", "two"]),
        "filter_subject": patterns,
        "deliver_policy": st.sampled_from(["all", "last", "last_per_subject"]),
    }
)
publishes = st.tuples(st.just("publish"), st.lists(subjects, min_size=1, max_size=5))
commands = st.one_of(
    publishes,
    publishes,
    publishes,
    st.tuples(st.just("STREAM.UPDATE.S"), shapes),
    st.tuples(st.just("STREAM.PURGE.S"), purges),
    st.tuples(st.just("STREAM.MSG.GET.S"), gets),
    st.tuples(st.just("DIRECT.GET.S"), direct_gets),
    st.tuples(st.just("STREAM.INFO.S"), st.just({"deleted_details": True, "subjects_filter": ">"})),
    st.tuples(st.just("CONSUMER.CREATE"), consumers),
    st.tuples(st.just("CONSUMER.DELETE"), st.sampled_from(["one", "two"])),
)


@contextmanager
def tiny_slices() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in _TINY:
            patch.setattr(module, name, value)
        yield


@settings(max_examples=120)
@given(shapes, st.lists(commands, max_size=25), st.sets(st.integers(0, 9), max_size=4))
def test_slices_of_any_size_end_the_same(
    shape: dict[str, Any], history: list[tuple[str, Any]], aborted: set[int]
) -> None:
    whole = played(shape, history, set())
    with tiny_slices():
        sliced = played(shape, history, aborted)
        assert sliced.snapshot() == whole.snapshot()
    assert sliced.outcomes == whole.outcomes
    assert sliced.answers == whole.answers
    for core in sliced.cores:
        assert core.next_deadline() == whole.cores[0].next_deadline(), "something is left to do"


def played(shape: dict[str, Any], history: list[tuple[str, Any]], aborted: set[int]) -> Shards:
    """Each command is carried out before the next one is given; of its drains, these are aborted."""
    shards = Shards(1)
    shards.request("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], **shape})
    shards.settle()
    for name, given_ in history:
        if name == "publish":
            shards.publish("S", given_)
        elif name == "CONSUMER.CREATE":
            body = {"stream_name": "S", "config": given_}
            shards.request(f"{name}.S.{given_['name']}", body, stream="S")
        elif name == "CONSUMER.DELETE":
            shards.request(f"{name}.S.{given_}", stream="S")
        else:
            shards.request(name, {"name": "S", "subjects": ["S.>"], **given_} if "UPDATE" in name else given_)
        for number in range(2_000):
            due = shards.cores[0].next_deadline()
            if not shards.inboxes[0] and (due is None or due > shards.now):
                break
            shards.step(0, abort=number in aborted)
        else:
            raise AssertionError(f"{name} {given_} never ends")
    return shards
