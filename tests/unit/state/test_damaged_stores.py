"""Damaged stores: wiped once, restored from the changelog, and the worker goes on; a failing disk is said in words."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rocksdict import WriteBatch

from railgun.state.rocks import RocksTable
from railgun.state.store_errors import StoreDamaged, StoreFailed, StoreInUse, told
from railgun.state.table import Reached
from railgun.worker.shards import shard_state as state_module
from tests.support.damage import damage_data, damage_ends
from tests.support.driven_shard import NAMES, Driven
from tests.support.waiting import wait_until


def flush(table: RocksTable) -> None:
    table._db.flush()


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """The folder of a store whose entries are in table files, too many for one block."""
    table = RocksTable(tmp_path / "store", identity="log", max_age=60)
    table.apply({b"k%05d" % n: os.urandom(300) for n in range(3_000)}, reached=Reached(10))
    flush(table)
    table.close()
    return tmp_path / "store"


@pytest.mark.parametrize(
    "ask",
    [
        lambda table: table.get(b"k00001"),
        lambda table: table.floor(b"k", b"k00001x"),
        lambda table: list(table.scan(b"k")),
        lambda table: list(table.scan(b"k", b"k00100")),
    ],
    ids=["get", "floor", "scan", "scan-from"],
)
def test_damage_that_is_found_while_reading_is_named(
    full: Path, ask: Callable[[RocksTable], object], caplog: pytest.LogCaptureFixture
) -> None:
    assert damage_data(full)
    table = RocksTable(full, identity="log", max_age=60)
    assert "rebuilt" not in caplog.text, "the damage is where opening does not look"
    with pytest.raises(StoreDamaged, match=r"damaged: Corruption: block checksum mismatch"):
        ask(table)
    table.wipe("as the caller decides")
    assert (list(table.scan(b"")), table.position) == ([], 0)
    table.close()


def test_damage_that_is_found_at_opening_wipes_the_store(
    full: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert damage_ends(full)
    table = RocksTable(full, identity="log", max_age=60)
    assert (table.get(b"k00001"), table.position) == (None, 0)
    assert "cannot be opened" in caplog.text
    assert "Corruption" in caplog.text
    table.close()


@pytest.mark.parametrize(
    "text, kind",
    [
        ("Corruption: block checksum mismatch: stored = 1, computed = 2 in /d/000013.sst", StoreDamaged),
        ("Corruption: Can't access /000013.sst: IO error: No such file", StoreDamaged),
        ("IO error: No such file or directory: While open a file: /d/MANIFEST-999999", StoreDamaged),
        ("IO error: lock hold by current process, acquire time 1: /d/LOCK: No locks available", StoreInUse),
        ("IO error: While lock file: /d/LOCK: Resource temporarily unavailable", StoreInUse),
        ("IO error: No space left on device: While appending to file: /d/000004.log", StoreFailed),
        ("IO error: Input/output error: While pread offset 0 len 4096: /block/000013.sst", StoreFailed),
        ("DB instance already closed", StoreFailed),
    ],
)
def test_what_rocksdb_says_is_told_apart(text: str, kind: type[Exception]) -> None:
    assert type(told(Exception(text), Path("/d"))) is kind


@pytest.fixture
def driven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driven]:
    made = Driven(tmp_path, monkeypatch)
    yield made
    made.close()


def filled(driven: Driven) -> list[str]:
    """A stream of more blocks than a shard remembers; the ids that it stored."""
    driven.create("S")
    ids = [str(number) for number in range(100)]
    for one in ids:
        driven.await_answers(driven.publish("S", [one]))
    flush(driven.shard.owner.state.table)
    return ids


@pytest.mark.rule("CLU-13")
def test_a_store_that_is_damaged_under_a_running_worker_is_restored(
    driven: Driven, caplog: pytest.LogCaptureFixture
) -> None:
    ids = filled(driven)
    assert damage_data(driven.context.folder / "0")
    driven.await_answers(driven.delete("S", 1))  # the first of so many is in the table only
    driven.await_answers(driven.publish("S", [*ids, "new"]))
    assert not driven.crashed
    assert caplog.text.count("is rebuilt from the changelog") == 1
    assert driven.stored_ids("S") == [*ids, "new"]


@pytest.mark.rule("CLU-13")
def test_a_store_that_is_damaged_while_nobody_looks_is_restored_at_the_takeover(
    driven: Driven, caplog: pytest.LogCaptureFixture
) -> None:
    ids = filled(driven)
    driven.close()
    assert damage_data(driven.context.folder / "0")
    driven.take_over()
    driven.await_answers(driven.publish("S", [*ids, "new"]))
    assert not driven.crashed
    assert caplog.text.count("is rebuilt from the changelog") == 1
    assert driven.stored_ids("S") == [*ids, "new"]


def test_damage_that_shows_when_a_committed_drain_is_written_doubles_nothing(
    driven: Driven, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """RocksDB takes no write after its compaction has found damage, and says so to the writer."""
    ids = filled(driven)
    honest, left = RocksTable._write, [1]

    def damaged(table: RocksTable, batch: WriteBatch) -> None:
        if left:
            left.pop()
            raise Exception("Corruption: block checksum mismatch: stored = 1, computed = 2 in /d/000013.sst")
        honest(table, batch)

    monkeypatch.setattr(RocksTable, "_write", damaged)
    driven.await_answers(driven.publish("S", ["new"]))
    driven.await_answers(driven.publish("S", [*ids, "new", "newer"]))
    assert not left
    assert not driven.crashed
    assert caplog.text.count("is rebuilt from the changelog") == 1
    assert driven.stored_ids("S") == [*ids, "new", "newer"]


def test_a_disk_that_damages_a_new_store_at_once_ends_the_worker_in_words(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(driven)
    driven.close()
    assert damage_data(driven.context.folder / "0")

    class FailingDisk(RocksTable):
        def get(self, key: bytes) -> bytes | None:
            raise StoreDamaged("the store is damaged: Corruption: block checksum mismatch")

    monkeypatch.setattr(state_module, "RocksTable", FailingDisk)
    driven.take_over()
    wait_until(lambda: bool(driven.crashed), "the end of the worker")
    (error,) = driven.crashed
    assert isinstance(error, StoreFailed)
    assert "the disk is failing" in str(error)
    assert "Nothing is lost" in str(error)


def test_a_store_that_the_changelog_outlived_is_restored_whatever_the_own_clock_says(
    driven: Driven, caplog: pytest.LogCaptureFixture
) -> None:
    """Our clock stands still and the store looks young; the records behind its place were written a day later."""
    ids = filled(driven)
    driven.close()
    changelog = driven.broker.topics[NAMES.changelog]
    late = changelog[-1].written + 86_400_000
    stray = b"x-stays-without-its-tombstone"
    table = RocksTable(driven.context.folder / "0", identity="changelog/0", max_age=60)
    table.apply({stray: b"1"})
    table.close()
    end = driven.broker.append(NAMES.changelog, b"z-something", b"new")
    changelog[-1] = changelog[-1]._replace(written=late)
    driven.take_over()
    driven.await_answers(driven.publish("S", [*ids, "new"]))
    table = driven.shard.owner.state.table
    assert "by the broker's clock" in caplog.text
    assert (table.get(stray), table.get(b"z-something")) == (None, b"new")
    assert table.position > end
    assert driven.stored_ids("S") == [*ids, "new"]
