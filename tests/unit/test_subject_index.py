"""Count, newest and oldest per subject, against lists of sequences."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun.semantics.subject_index import SubjectIndex

SUBJECTS = ("a", "b", "c")

subjects = st.sampled_from(SUBJECTS)
steps = st.one_of(
    st.tuples(st.just("add"), subjects),
    st.tuples(st.just("run"), st.lists(subjects, max_size=6)),
    st.tuples(st.just("discard"), st.integers(0, 100)),
    st.tuples(st.just("clear")),
)


@pytest.mark.parametrize("ordered", [True, False])
@given(history=st.lists(steps, max_size=40))
def test_the_index_equals_lists_of_sequences(ordered: bool, history: list[tuple[Any, ...]]) -> None:
    index = SubjectIndex(ordered=ordered)
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
        elif name == "clear":
            index.clear()
            kept.clear()
        for subject in SUBJECTS:
            own = [one for one, of in kept.items() if of == subject]
            assert index.count(subject) == len(own)
            assert index.last(subject) == max(own, default=0)
            if own and (ordered or len(own) == 1):
                assert index.oldest(subject) == min(own)
        assert set(index) == set(kept.values())
        assert len(index) == len(set(kept.values()))


def test_the_oldest_is_not_guessed_where_it_is_not_kept() -> None:
    index = SubjectIndex(ordered=False)
    index.add_run(["a", "a"], 1)
    with pytest.raises(AssertionError, match="not kept"):
        index.oldest("a")
