"""Tables: whatever holds them, the same operations give the same answers; the store on disk knows when not to be trusted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railgun.state.restore import restore
from railgun.state.rocks import RocksTable
from railgun.state.table import MemoryTable, Overlay, Reached, Table

# Few letters, short keys: collisions, prefixes of each other, and neighbours at the borders of a prefix.
keys = st.binary(min_size=1, max_size=3).map(lambda raw: bytes(b"\x00ab\xff"[byte % 4] for byte in raw))
values = st.binary(max_size=4)
operations = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "change"]), keys, values),
        st.tuples(st.sampled_from(["delete", "discard", "search"]), keys, st.just(b"")),
        st.tuples(st.just("commit"), st.just(b""), st.just(b"")),
        st.tuples(st.just("drop"), st.just(b""), st.just(b"")),
    ),
    max_size=40,
)
questions = st.lists(st.tuples(st.binary(max_size=2), keys), min_size=1, max_size=8)


class NaiveTable:
    """What a table should do, in the most obvious way."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self.entries.get(key)

    def floor(self, prefix: bytes, key: bytes) -> tuple[bytes, bytes] | None:
        found = [one for one in self.entries if one.startswith(prefix) and one <= key]
        return (max(found), self.entries[max(found)]) if found else None

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        first = start or prefix
        return iter(
            sorted(item for item in self.entries.items() if item[0].startswith(prefix) and item[0] >= first)
        )

    def apply(self, changes: dict[bytes, bytes | None]) -> None:
        for key, value in changes.items():
            if value is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = value


class NaiveOverlay(NaiveTable):
    """A copy of everything, changed in place."""

    def __init__(self, table: NaiveTable) -> None:
        self.table = table
        self.clear()

    def put(self, key: bytes, value: bytes) -> None:
        self.entries[key] = value
        self.changes[key] = value

    def delete(self, key: bytes) -> None:
        self.entries.pop(key, None)
        self.changes[key] = None

    def discard(self, key: bytes) -> None:
        self.entries.pop(key, None)
        self.changes.pop(key, None)
        if key in self.table.entries:
            self.changes[key] = None

    def clear(self) -> None:
        self.entries = dict(self.table.entries)
        self.changes: dict[bytes, bytes | None] = {}


@pytest.fixture(scope="module")
def rocks_folder() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        yield Path(folder)


def opened(path: Path, *, identity: str = "cluster/topic", max_age: float = 3600) -> RocksTable:
    return RocksTable(path, identity=identity, max_age=max_age)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(todo=operations, asked=questions)
def test_every_table_answers_alike(
    rocks_folder: Path, todo: list[tuple[str, bytes, bytes]], asked: list[tuple[bytes, bytes]]
) -> None:
    rocks = opened(rocks_folder / "alike")
    rocks.apply({key: None for key, _ in rocks.scan(b"")})
    naive = NaiveTable()
    tables: list[Table] = [MemoryTable(), rocks]
    overlays = [Overlay(table) for table in tables]
    expected = NaiveOverlay(naive)
    try:
        for kind, key, value in todo:
            if kind == "put":
                expected.put(key, value)
                for overlay in overlays:
                    overlay.put(key, value)
            elif kind == "change":
                expected.put(key, value)
                expected.put(key + b"b", value)
                expected.delete(key + b"c")
                for overlay in overlays:
                    overlay.change({key: value, key + b"b": value, key + b"c": None})
            elif kind == "delete":
                expected.delete(key)
                for overlay in overlays:
                    overlay.delete(key)
            elif kind == "discard":
                expected.discard(key)
                for overlay in overlays:
                    overlay.discard(key)
            elif kind == "search":
                for overlay in overlays:
                    assert list(overlay.scan(key)) == list(expected.scan(key))
            else:
                if kind == "commit":
                    naive.apply(expected.changes)
                    for table, overlay in zip(tables, overlays, strict=True):
                        table.apply(overlay.changes)
                expected.clear()
                for overlay in overlays:
                    overlay.clear()
        wanted = [key for _, key in asked]
        for overlay in overlays:
            assert overlay.get_many(wanted) == [expected.get(key) for key in wanted]
        for table in tables:
            assert table.get_many(wanted) == [naive.get(key) for key in wanted]
            assert table.get_many([]) == []
        for prefix, key in asked:
            for overlay in overlays:
                assert overlay.changes == expected.changes
                assert overlay.get(key) == expected.get(key)
                assert list(overlay.scan(prefix)) == list(expected.scan(prefix))
                if key.startswith(prefix):
                    assert overlay.floor(prefix, key) == expected.floor(prefix, key)
                    assert list(overlay.scan(prefix, key)) == list(expected.scan(prefix, key))
            for table in tables:
                assert table.get(key) == naive.get(key)
                assert list(table.scan(prefix)) == list(naive.scan(prefix))
                if key.startswith(prefix):
                    assert table.floor(prefix, key) == naive.floor(prefix, key)
    finally:
        rocks.close()


def test_a_store_keeps_entries_and_position(tmp_path: Path) -> None:
    table = opened(tmp_path)
    table.apply({b"a": b"1", b"b": b"2"}, reached=Reached(10))
    table.apply({b"a": None}, reached=Reached(12))
    table.close()
    again = opened(tmp_path)
    assert (list(again.scan(b"")), again.position) == ([(b"b", b"2")], 12)
    again.close()


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """The folder of a store that holds something."""
    table = opened(tmp_path)
    table.apply({b"a": b"1"}, reached=Reached(10))
    table.close()
    return tmp_path


def assert_wiped(table: RocksTable, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    assert (table.get(b"a"), table.position) == (None, 0)
    assert reason in caplog.text
    table.apply({b"a": b"2"}, reached=Reached(3))
    assert table.get(b"a") == b"2"
    table.close()


def test_a_store_of_another_changelog_is_wiped(used: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert_wiped(opened(used, identity="cluster/other"), "another changelog", caplog)


def test_a_store_that_slept_too_long_is_wiped(used: Path, caplog: pytest.LogCaptureFixture) -> None:
    time.sleep(0.01)
    assert_wiped(opened(used, max_age=0.001), "too long", caplog)


HOUR = 3600.0


@pytest.mark.parametrize(
    "ours, theirs, slept, trusted",
    [
        (0, 0, 11, True),
        (0, 0, 13, False),
        (48, 0, 11, False),  # our clock was two days ahead, and was set right: the mark is yet to come
        (48, 0, 53, False),  # the same, after a long sleep: only the broker's clock knows how long it was
        (0, 48, 11, True),  # the broker's was ahead, ours is right
        (0, 48, 53, False),
        (-48, 0, 1, False),  # our clock was behind: nothing is lost by reading the changelog once more
        (0.01, 0, 0, True),  # a clock that is kept right wavers by seconds
    ],
)
def test_no_clock_alone_makes_a_store_younger_than_it_is(
    tmp_path: Path, ours: float, theirs: float, slept: float, trusted: bool
) -> None:
    """In hours: how far our clock and the broker's were ahead at the last change, and how long ago that was."""
    start = 1_700_000_000.0

    def at(moment: float) -> RocksTable:
        return RocksTable(tmp_path, identity="c", max_age=12 * HOUR, clock=lambda: moment)

    table = at(start + ours * HOUR)
    table.apply({b"a": b"1"}, reached=Reached(10, int((start + theirs * HOUR) * 1000)))
    table.close()
    again = at(start + slept * HOUR)
    assert (again.position == 10) is trusted
    again.close()


def test_a_store_that_was_marked_before_there_were_two_clocks_is_read(tmp_path: Path) -> None:
    table = opened(tmp_path)
    old = json.dumps({"identity": "cluster/topic", "position": 10, "time": time.time()}).encode()
    table._db.get_column_family("meta").put(b"mark", old)
    table.close()
    again = opened(tmp_path)
    assert (again.position, again.trusted_until) == (10, None)
    again.close()


def test_a_damaged_store_is_wiped(used: Path, caplog: pytest.LogCaptureFixture) -> None:
    (used / "CURRENT").write_text("MANIFEST-999999\n")
    assert_wiped(opened(used), "cannot be opened", caplog)


def test_a_store_in_use_is_not_wiped(tmp_path: Path) -> None:
    table = opened(tmp_path)
    table.apply({b"a": b"1"}, reached=Reached(10))
    with pytest.raises(Exception, match=r"(?i)lock"):
        opened(tmp_path)
    assert table.get(b"a") == b"1"
    table.close()


@dataclass(frozen=True)
class Record:
    offset: int
    key: bytes
    value: bytes | None
    written: int = 7


def test_restore_follows_the_changelog(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    table = opened(tmp_path)
    ticks = iter(range(0, 1000, 6))
    batches = [
        [Record(0, b"a", b"1"), Record(1, b"d", b"2"), Record(2, b"b", b"a key that is cut off")],
        [Record(5, b"a", None), Record(6, b"", b"no key"), Record(7, b"c", json.dumps({}).encode())],
    ]
    assert restore(table, batches, end=9, name="shard 3", clock=lambda: next(ticks)) == 6
    assert dict(table.scan(b"")) == {b"d": b"2", b"c": b"{}"}
    assert caplog.text.count("its key is not valid") == 2
    assert table.position == 8
    assert "shard 3" in caplog.text
    table.close()


def test_the_scratch_space_is_apart_and_does_not_outlive_the_table(tmp_path: Path) -> None:
    table = RocksTable(tmp_path, identity="c", max_age=60)
    table.scratch.apply({b"aa": b"1", b"ab": b"2", b"b": b"3"})
    table.scratch.apply({b"aa": None})
    assert [table.get(b"ab"), table.scratch.get(b"ab"), table.scratch.get(b"aa")] == [None, b"2", None]
    table.scratch.clear(b"a")
    assert list(table.scratch.scan(b"")) == [(b"b", b"3")]
    table.apply({b"k": b"v"}, reached=Reached(5))
    table.close()
    again = RocksTable(tmp_path, identity="c", max_age=60)
    assert (list(again.scratch.scan(b"")), again.get(b"k"), again.position) == ([], b"v", 5)
    again.wipe("for the test")
    again.scratch.apply({b"a": b"1"})
    assert again.scratch.get(b"a") == b"1"
    again.close()
