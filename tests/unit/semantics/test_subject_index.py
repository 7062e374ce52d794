"""Count, newest and oldest per subject, against lists of sequences."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun.model.subjects import Filter
from railgun.semantics.messages.subject_index import SubjectIndex
from railgun.state import keys
from railgun.state.table import MemoryTable
from tests.support.tight_memory import room_for_subjects

SUBJECTS = ("a", "b", "c.é")

subjects = st.sampled_from(SUBJECTS)
steps = st.one_of(
    st.tuples(st.just("add"), subjects),
    st.tuples(st.just("run"), st.lists(subjects, max_size=6)),
    st.tuples(st.just("discard"), st.integers(0, 100)),
    st.tuples(st.just("discard_run"), subjects, st.integers(1, 4)),
    st.tuples(st.just("clear")),
    st.tuples(st.just("settle")),
    st.tuples(st.just("settle")),
)


@pytest.mark.parametrize("ordered", [True, False])
@given(history=st.lists(steps, max_size=40), held=st.sampled_from([None, 0, 1, 2, 3]))
def test_the_index_equals_lists_of_sequences(
    ordered: bool, history: list[tuple[Any, ...]], held: int | None
) -> None:
    scratch = MemoryTable()
    scratch.apply({keys.number(7) + b"a": b"of a former owner", keys.number(8) + b"a": b"of another stream"})
    budget = None if held is None else room_for_subjects(held)
    index = SubjectIndex(ordered=ordered, incarnation=7, scratch=scratch, budget=budget)
    kept: dict[int, str] = {}  # sequence to subject
    following = 1

    def newest_below(subject: str, sequence: int) -> int:
        return max(one for one, of in kept.items() if of == subject and one < sequence)

    for name, *arguments in history:
        if name == "add":
            index.add(arguments[0], following)
            kept[following] = arguments[0]
            following += 1
        elif name == "run":
            index.add_run(arguments[0], following)
            kept |= dict(enumerate(arguments[0], following))
            following += len(arguments[0])
        elif name == "discard" and kept:
            sequence = sorted(kept)[arguments[0] % len(kept)]
            index.discard(kept.pop(sequence), sequence, newest_below)
        elif name == "discard_run" and not ordered:
            subject, count = arguments
            gone = [one for one, of in kept.items() if of == subject][-count:]
            for one in gone:
                del kept[one]
            if gone:
                index.discard_run(subject, len(gone), gone[-1], newest_below)
        elif name == "clear":
            index.clear()
            kept.clear()
        elif name == "settle":
            index.settle()
            assert held is None or len(index._packed) + len(index._older) <= held
        for subject in SUBJECTS:
            own = [one for one, of in kept.items() if of == subject]
            assert index.count(subject) == len(own)
            assert index.last(subject) == max(own, default=0)
            if own and (ordered or len(own) == 1):
                assert index.oldest(subject) == min(own)
        assert index.matching() == Counter(kept.values())
        assert index.matching(Filter("a")) == Counter(of for of in kept.values() if of == "a")
        assert index.matching(Filter(["b", "c.*"])) == Counter(of for of in kept.values() if of != "a")
        assert len(index) == len(set(kept.values()))
    index.clear()
    assert [key for key, _ in scratch.scan(b"")] == [keys.number(8) + b"a"]


def test_the_oldest_is_not_guessed_where_it_is_not_kept() -> None:
    index = SubjectIndex(ordered=False)
    index.add_run(["a", "a"], 1)
    with pytest.raises(AssertionError, match="not kept"):
        index.oldest("a")
