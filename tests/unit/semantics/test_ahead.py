"""The messages of a batch as if they were stored: what a limit of subjects pushes out, and what finding that out costs."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun.model.stream_config import StreamConfig
from railgun.model.subjects import Filter, matches
from railgun.protocol.topics import Names
from railgun.semantics.streams.ahead import Ahead
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.state.table import MemoryTable, Overlay

SUBJECTS = ("a", "b")
MESSAGES = st.lists(st.tuples(st.sampled_from(SUBJECTS), st.integers(1, 9)), max_size=12)


def stream(cap: int, stored: list[tuple[str, int]]) -> OwnedStream:
    """A stream under discard new, with these messages: subject and size."""
    fields = {"discard": "new", "max_msgs_per_subject": cap}
    config = StreamConfig(name="S", subjects=list(SUBJECTS), **fields)
    state = OwnedStream(Overlay(MemoryTable()), "S", 1, config, 0, Names().log("S"))
    for subject, size in stored:
        state.store(subject, size, 0)
    return state


@pytest.mark.rule("BAT-34")
@given(st.integers(1, 4), MESSAGES, MESSAGES)
def test_what_a_subject_would_have(
    cap: int, stored: list[tuple[str, int]], batch: list[tuple[str, int]]
) -> None:
    model = {subject: deque(size for one, size in stored if one == subject) for subject in SUBJECTS}
    ahead = Ahead(stream(cap, stored))
    for subject, size in batch:
        assert ahead.count_of(subject) == len(model[subject])
        if model[subject]:
            assert ahead.oldest_size(subject) == model[subject][0]
        ahead.add(subject, size, "", None, wanted=True)
        model[subject].append(size)
        while len(model[subject]) > cap:
            model[subject].popleft()
    written = {subject for subject, _ in batch}
    for subject in written:
        assert ahead.count_of(subject) == len(model[subject])
    others = [size for one, size in stored if one not in written]
    kept = [size for subject in written for size in model[subject]]
    assert (ahead.messages, ahead.bytes) == (len(kept) + len(others), sum(kept) + sum(others))


def test_a_batch_does_not_read_the_stream_for_each_of_its_subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    state = stream(3, [(SUBJECTS[number % 2], number) for number in range(1, 7)])
    monkeypatch.setattr(state, "iterate", None)  # which looks at one message after the other
    ahead = Ahead(state)
    for size in (10, 11):
        for subject in SUBJECTS:
            ahead.add(subject, size, "", None, wanted=True)
    assert [(ahead.count_of(subject), ahead.oldest_size(subject)) for subject in SUBJECTS] == [(3, 6), (3, 5)]


@given(
    st.lists(
        st.tuples(st.sampled_from(["a.x", "a.y", "b", ""]), st.sampled_from(["a.*", "*", ">", "a.y"])),
        max_size=12,
    )
)
def test_what_is_asked_again_and_again_is_answered_by_all_that_was_written(
    history: list[tuple[str, str]],
) -> None:
    ahead = Ahead(stream(1, []))
    for subject, pattern in history:
        if subject:
            ahead.add(subject, 1, "", None, wanted=True)
        assert ahead.wrote(Filter([pattern])) == any(matches(pattern, one) for one in ahead.written)
