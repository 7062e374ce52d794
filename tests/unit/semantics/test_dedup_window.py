"""The de-duplication window, against a dictionary of times (DUP)."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from railgun.semantics.messages.budget import Pool
from railgun.semantics.messages.id_digest import IdDigest
from railgun.semantics.streams.publishing import deduplication
from railgun.semantics.streams.publishing.deduplication import DedupWindow
from railgun.state import keys
from railgun.state.table import MemoryTable, Overlay
from tests.support.tight_memory import room_for_ids, tight_memory

WINDOW = 10
IDS = [f"id-{number}" for number in range(8)]

steps = st.one_of(
    st.tuples(st.just("one"), st.sampled_from(IDS)),
    st.tuples(st.just("one"), st.sampled_from(IDS)),
    st.tuples(st.just("run"), st.lists(st.sampled_from(IDS), min_size=1, max_size=4, unique=True)),
    st.tuples(st.just("later"), st.integers(0, 7)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("abort")),
    st.tuples(st.just("load")),
    st.tuples(st.just("window"), st.integers(2, 25)),
)


class Machine:
    """A window over a table beside its model: id to (sequence, time), of those that count still."""

    def __init__(self, held: int) -> None:
        self.budget = room_for_ids(held)
        self.overlay = Overlay(MemoryTable())
        self.table = self.overlay._table
        self.now, self.sequence, self.width = 100, 0, WINDOW
        self.model: dict[str, tuple[int, int]] = {}
        self.saved = (dict(self.model), self.sequence, self.width)
        self.window = DedupWindow(self.overlay, 1, self.width, self.budget)

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
        self.window.drop_expired()
        self.window.window = self.width = width
        self._expire()

    def commit(self) -> None:
        self.window.seal()
        self.table.apply(self.overlay.changes)
        self.overlay.clear()
        self.saved = (dict(self.model), self.sequence, self.width)

    def abort(self) -> None:
        self.window.seal()
        self.load()

    def load(self) -> None:
        """A new owner: all it has is the table. What the drain did so far is gone with the former one."""
        self.overlay.clear()
        model, self.sequence, self.width = self.saved
        self.model = dict(model)
        self.window = DedupWindow(self.overlay, 1, self.width, self.budget)
        self.window.load()

    def check(self) -> None:
        self._expire()
        assert len(self.window) == len(self.model)
        assert {one: self.window.original(one) for one in IDS if self.window.original(one) is not None} == {
            one: sequence for one, (sequence, _) in self.model.items()
        }
        assert self.window.everything() == {one: sequence for one, (sequence, _) in self.model.items()}


@settings(max_examples=300)
@example([("one", "id-1"), ("one", "id-0"), ("commit",), ("later", 10), ("one", "id-0")], 1)
@given(st.lists(steps, max_size=40), st.sampled_from([0, 1, 3, 5, 100]))
def test_the_window_equals_a_dictionary_of_times(history: list[tuple[Any, ...]], held: int) -> None:
    # for the size of the digests; and what has expired leaves the table with later drains
    with tight_memory(held), mock.patch.object(deduplication, "DROPPED_BLOCKS", 1):
        _check_history(history, Machine(held))


def _check_history(history: list[tuple[Any, ...]], machine: Machine) -> None:
    for name, *arguments in history:
        getattr(machine, "window_" if name == "window" else name)(*arguments)
        machine.check()
    machine.commit()
    machine.load()
    machine.check()
    machine.later(100)
    for _ in range(50):
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


# ------------------------------------------------------------ what memory does not hold


class CountingTable(MemoryTable):
    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def get(self, key: bytes) -> bytes | None:
        self.looks += 1
        return super().get(key)


def _filled(table: MemoryTable, count: int, held: int) -> DedupWindow:
    overlay = Overlay(table)
    window = DedupWindow(overlay, 1, WINDOW, room_for_ids(held))
    for first in range(0, count, 500):
        window.accept_run([f"id-{number}" for number in range(first, first + 500)], 1 + first, 5)
        window.seal()
        table.apply(overlay.changes)
        overlay.clear()
    return window


def test_memory_holds_no_more_than_its_budget_and_nothing_is_forgotten() -> None:
    window = _filled(MemoryTable(), 10_000, 1_000)
    assert 500 <= len(window._sequence_of) <= 1_000
    assert len(window) == 10_000
    assert [window.original(f"id-{number}") for number in (0, 777, 9_999)] == [1, 778, 10_000]
    assert not window.all_new(["new", "id-42"])


def test_a_new_id_seldom_costs_a_look_into_the_table() -> None:
    table = CountingTable()
    window = _filled(table, 10_000, 1_000)
    table.looks = 0
    assert window.all_new([f"new-{number}" for number in range(10_000)])
    assert table.looks < 100


def test_neighbours_are_found_with_one_look() -> None:
    table = CountingTable()
    window = _filled(table, 2_000, 0)
    table.looks = 0
    assert [window.original(f"id-{number}") for number in range(500)] == list(range(1, 501))
    assert table.looks <= 2  # a second one for a hash that resembles another
    window.seal()
    assert not window._read, "what was read back is held for one drain: there may be very many streams"


def test_streams_share_a_budget_and_each_keeps_a_few() -> None:
    pool = Pool(10)
    one, two = (0, 1), (1, 2)
    assert [pool.excess(one, 10), pool.excess(two, 1), pool.excess(two, 5)] == [0, 0, 3]
    assert (pool.total, pool.room(one), pool.room(two)) == (15, 5, 2)
    pool.leave(0)
    assert pool.excess(two, 5) == 0


def test_digests_grow_with_what_they_hold() -> None:
    rooms = [IdDigest.after(held, 500).room for held in (0, 1_000, 1_000_000)]
    assert rooms == [512, 1_024, 1 << 20]
