"""Subjects found by wildcard: the same as by trying each of them, at the cost of what matches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.model.subjects import Filter
from railgun.semantics.messages.subject_index import SubjectIndex
from railgun.semantics.messages.subject_search import BEGINNING, leap, scan
from railgun.state.table import MemoryTable
from tests.support.tight_memory import room_for_subjects

# Characters on both sides of the dot in the order of texts, and tokens that begin like others.
tokens = st.sampled_from(["a", "b", "a-", "a-b", "a/", "a!b", "ab", "é", "+", "~"])
subjects = st.lists(tokens, min_size=1, max_size=4).map(".".join)
patterns = st.builds(
    lambda parts, tail: ".".join([*parts, *tail]),
    st.lists(st.one_of(tokens, st.just("*")), max_size=4),
    st.sampled_from([[], [], [">"]]),
).filter(bool)


@settings(max_examples=500)
@given(
    st.lists(st.lists(subjects, max_size=8), max_size=5),
    st.lists(patterns, min_size=1, max_size=3),
    st.sampled_from([None, 0, 1, 5]),
    st.integers(1, 7),
)
@pytest.mark.rule("SUB-04", "SUB-05")
def test_a_search_finds_what_trying_each_subject_finds(
    published: list[list[str]], wanted: list[str], held: int | None, steps: int
) -> None:
    budget = None if held is None else room_for_subjects(held)
    index = SubjectIndex(ordered=False, incarnation=7, scratch=MemoryTable(), budget=budget)
    chosen, following = Filter(wanted), 1
    newest: dict[str, int] = {}
    for pack in published:
        index.add_run(pack, following)
        newest |= dict(zip(pack, range(following, following + len(pack)), strict=True))
        following += len(pack)
        assert _searched(index, chosen, steps) == {s: n for s, n in newest.items() if chosen.matches(s)}
        assert index.matching(chosen).keys() == {s for s in newest if chosen.matches(s)}
        index.settle()
    for subject in list(newest)[::2]:
        for _ in range(index.count(subject)):
            index.discard(subject, newest[subject], lambda _, sequence: sequence)
        del newest[subject]
        index.settle()
    assert _searched(index, chosen, steps) == {s: n for s, n in newest.items() if chosen.matches(s)}


def _searched(index: SubjectIndex, chosen: Filter, steps: int) -> dict[str, int]:
    """In slices of so many steps; subjects come from the scratch space and go there in between."""
    found: dict[str, int] = {}
    place: object = BEGINNING
    while place is not None:
        some, place = index.search(chosen, place, steps)
        found |= {one.subject: one.last for one in some}
        index.settle()
    return found


@settings(max_examples=1_000)
@given(patterns, subjects, subjects)
def test_nothing_that_matches_is_leapt_over(pattern: str, subject: str, other: str) -> None:
    if Filter(pattern).matches(subject):
        return
    further = leap(pattern.split("."), subject)
    if other > subject and (further is None or other < further):
        assert not Filter(pattern).matches(other)
    assert further is None or further > subject


@pytest.mark.parametrize(
    "pattern, found, most",
    [
        ("orders.42.>", 3, 10),
        ("orders.42.*", 3, 10),
        ("*.42.paid", 1, 10),
        ("nothing.>", 0, 5),
        ("orders.*.lost", 1, 3_010),  # a leap over each of the thousand orders
        ("*.*.lost", 1, 3_010),
    ],
)
def test_a_search_costs_what_matches(pattern: str, found: int, most: int) -> None:
    known = sorted(
        [f"orders.{n}.{what}" for n in range(1_000) for what in ("made", "paid", "sent")] + ["orders.7.lost"]
    )
    looked_at = 0

    def seek(begin: str) -> Iterator[str]:
        nonlocal looked_at
        for subject in known:
            if subject >= begin:
                looked_at += 1
                yield subject

    matching, further, _ = scan(seek, pattern, "", 1 << 30)
    assert (len(matching), further) == (found, None)
    assert looked_at <= most
