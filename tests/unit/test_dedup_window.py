"""The de-duplication window, against a dictionary of times (DUP)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.semantics import deduplication
from railgun.semantics.deduplication import DedupWindow
from railgun.state import keys
from railgun.state.table import MemoryTable, Overlay

WINDOW = 10
IDS = [f"id-{number}" for number in range(8)]

steps = st.one_of(
    st.tuples(st.just("one"), st.sampled_from(IDS)),
    st.tuples(st.just("one"), st.sampled_from(IDS)),
    st.tuples(st.just("run"), st.lists(st.sampled_from(IDS), min_size=1, max_size=4, unique=True)),
    st.tuples(st.just("later"), st.integers(0, 7)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("abort")),
    st.tuples(st.just("window"), st.integers(2, 25)),
)


class Machine:
    """A window over a table beside its model: id to (sequence, time), of those that count still."""

    def __init__(self) -> None:
        self.overlay = Overlay(MemoryTable())
        self.table = self.overlay._table
        self.now, self.sequence, self.width = 100, 0, WINDOW
        self.model: dict[str, tuple[int, int]] = {}
        self.saved = (dict(self.model), self.sequence, self.width)
        self.window = DedupWindow(self.overlay, 1, self.width)

    def _expire(self) -> None:
        self.window.expire(self.now)
        self.model = {one: (seq, at) for one, (seq, at) in self.model.items() if at + self.width > self.now}

    def one(self, message_id: str) -> None:
        self._expire()
        known = self.model.get(message_id)
        assert self.window.original(message_id) == (None if known is None else known[0])
        self.sequence += 1
        if known is None:
            self.window.accept(message_id, self.sequence, self.now)
            self.model[message_id] = (self.sequence, self.now)

    def run(self, ids: list[str]) -> None:
        self._expire()
        fresh = not any(one in self.model for one in ids)
        assert self.window.all_new(ids) == fresh
        if fresh:
            self.window.accept_run(list(ids), self.sequence + 1, self.now)
            self.model |= {one: (self.sequence + 1 + at, self.now) for at, one in enumerate(ids)}
        self.sequence += len(ids)

    def later(self, by: int) -> None:
        self.now += by

    def window_(self, width: int) -> None:
        self._expire()
        self.window.seal()
        self.window.window = self.width = width
        self._expire()

    def commit(self) -> None:
        self.window.seal()
        self.table.apply(self.overlay.changes)
        self.overlay.clear()
        self.saved = (dict(self.model), self.sequence, self.width)

    def abort(self) -> None:
        self.window.seal()
        self.overlay.clear()
        model, self.sequence, self.width = self.saved
        self.model = dict(model)
        self._load()

    def _load(self) -> None:
        self.window = DedupWindow(self.overlay, 1, self.width)
        self.window.load()

    def check(self) -> None:
        self._expire()
        assert len(self.window) == len(self.model)
        assert {one: self.window.original(one) for one in IDS if self.window.original(one) is not None} == {
            one: sequence for one, (sequence, _) in self.model.items()
        }


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=40))
def test_the_window_equals_a_dictionary_of_times(history: list[tuple[Any, ...]]) -> None:
    machine = Machine()
    for name, *arguments in history:
        getattr(machine, "window_" if name == "window" else name)(*arguments)
        machine.check()
    machine.commit()
    machine._load()
    machine.check()
    machine.later(100)
    machine.check()
    machine.commit()
    assert list(machine.table.scan(keys.IDS)) == []  # nothing is left behind in the table


def test_an_id_beside_a_run_of_the_same_time_does_not_disturb_it() -> None:
    overlay = Overlay(MemoryTable())
    window = DedupWindow(overlay, 1, WINDOW)
    ids = ["a", "b"]
    window.accept_run(ids, 1, 5)
    window.accept("c", 7, 5)
    window.seal()
    assert ids == ["a", "b"]
    read = DedupWindow(overlay, 1, WINDOW)
    read.load()
    assert [read.original(one) for one in "abc"] == [1, 2, 7]


def test_a_drain_that_spans_more_than_the_window_forgets_its_own_ids() -> None:
    window = DedupWindow(Overlay(MemoryTable()), 1, WINDOW)
    window.accept("a", 1, 100)
    window.expire(100 + WINDOW)
    assert window.original("a") is None


def test_a_block_of_ids_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deduplication, "BLOCK_IDS", 2)
    overlay = Overlay(MemoryTable())
    window = DedupWindow(overlay, 1, WINDOW)
    for number in range(5):
        window.accept(f"id-{number}", 1 + 2 * number, 5)
    window.seal()
    assert len(list(overlay.scan(keys.IDS))) == 3


@pytest.mark.parametrize("ids, new", [(["a"], False), ([""], False), (["b", "b"], False), (["b", "c"], True)])
def test_all_new_means_unknown_distinct_and_not_empty(ids: list[str], new: bool) -> None:
    window = DedupWindow(Overlay(MemoryTable()), 1, WINDOW)
    window.accept("a", 1, 5)
    assert window.all_new(ids) == new
