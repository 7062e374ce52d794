"""Ranges of sequences behave as the set of them does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from railgun.semantics.consumers.ranges import Ranges

_step = st.tuples(st.booleans(), st.integers(0, 20), st.integers(1, 8))


@given(st.lists(_step, max_size=12), st.integers(0, 25), st.integers(1, 8))
def test_ranges_are_the_set_of_their_sequences(
    steps: list[tuple[bool, int, int]], start: int, count: int
) -> None:
    ranges, expected = Ranges(), set[int]()
    for adds, begin, length in steps:
        some = set(range(begin, begin + length))
        expected = expected | some if adds else expected - some
        (ranges.add if adds else ranges.remove)(begin, begin + length)
    assert {sequence for sequence in range(40) if sequence in ranges} == expected
    assert ranges.meets(start, start + count) == bool(expected & set(range(start, start + count)))
    assert ranges.bounds == sorted(set(ranges.bounds))
    assert Ranges(ranges.bounds).bounds == ranges.bounds
