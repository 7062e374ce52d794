"""What fails after the commit: the state is restored from the changelog, and nothing is ever stored twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rocksdict import WriteBatch

import railgun
from railgun.shard.core import ShardCore
from railgun.shard.drain import AfterCommit
from railgun.state.rocks import RocksTable
from railgun.state.store_errors import StoreFailed
from railgun.state.table import Reached
from railgun.worker.shards import shard_state as state_module
from tests.support.driven_shard import Driven, Gate
from tests.support.shards import Shards
from tests.support.waiting import wait_until


class FullDisk(RocksTable):
    """A store whose disk is full for the next so many writes."""

    full = 0

    def _write(self, batch: WriteBatch) -> None:
        if FullDisk.full:
            FullDisk.full -= 1
            raise Exception("IO error: No space left on device: While appending to file: /data/000004.log")
        super()._write(batch)


@pytest.fixture
def driven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driven]:
    monkeypatch.setattr(state_module, "RocksTable", FullDisk)
    FullDisk.full = 0
    made = Driven(tmp_path, monkeypatch)
    yield made
    FullDisk.full = 0
    made.close()


def ids(count: int, stem: str = "") -> list[str]:
    return [f"{stem}{number}" for number in range(count)]


@pytest.mark.rule("CLU-11")
def test_a_disk_that_is_full_for_a_moment_doubles_nothing(driven: Driven) -> None:
    driven.create("S")
    for round_ in range(6):
        FullDisk.full = round_ % 2  # every second drain is committed and cannot be written down
        driven.await_answers(driven.publish("S", ids(80, f"{round_}-")))
    assert not driven.crashed
    assert driven.stored_ids("S") == [f"{r}-{n}" for r in range(6) for n in range(80)]


@pytest.mark.rule("CLU-11")
def test_a_disk_that_stays_full_ends_the_worker_in_words_and_the_next_one_goes_on(
    driven: Driven,
) -> None:
    driven.create("S")
    FullDisk.full = 1_000
    last = driven.publish("S", ids(500))
    wait_until(lambda: driven.feed() or bool(driven.crashed), "the end of the worker")
    (error,) = driven.crashed
    assert isinstance(error, StoreFailed)
    assert "make room" in str(error)
    assert last in driven.acked()
    assert driven.stored_ids("S") == ids(500)
    FullDisk.full = 0
    driven.shard.close()
    driven.crashed.clear()
    driven.take_over()
    driven.await_answers(driven.publish("S", [*ids(500), "new"]))
    assert driven.stored_ids("S") == [*ids(500), "new"]


def test_messages_with_more_header_names_than_two_bytes_can_count_are_stored_once(driven: Driven) -> None:
    driven.create("S")
    headers = [[(f"h{message}-{n}", b"v") for n in range(140)] for message in range(512)]
    driven.await_answers(driven.publish("S", ids(512), headers))
    driven.await_answers(driven.publish("S", ["one more"]))
    assert driven.stored_ids("S") == [*ids(512), "one more"]
    assert not driven.crashed


def test_a_defect_after_the_commit_is_answered_by_a_restore(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven.create("S")
    honest, left = ShardCore.committed, [1]

    def broken(core: ShardCore, *args: Any) -> None:
        if left and args[0].appends:
            left.pop()
            raise ZeroDivisionError("a defect, and nothing of the drain is in the table")
        honest(core, *args)

    monkeypatch.setattr(ShardCore, "committed", broken)
    driven.await_answers(driven.publish("S", ids(10)))
    driven.await_answers(driven.publish("S", ids(11)))
    assert not left
    assert not driven.crashed
    assert driven.stored_ids("S") == ids(11)


@pytest.mark.parametrize("written", [False, True], ids=["before-the-table", "behind-the-table"])
def test_in_memory_a_defect_after_the_commit_neither_doubles_nor_loses(
    monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    honest, left = ShardCore.committed, [1]

    def broken(core: ShardCore, *args: Any) -> None:
        if written or not left or not args[0].appends:
            honest(core, *args)
        if left and args[0].appends:
            left.pop()
            raise ZeroDivisionError("a defect")

    with railgun.connect("memory://") as rg:
        stream = rg.create_stream("S", subjects=["S"])
        monkeypatch.setattr(ShardCore, "committed", broken)
        assert rg.publish("S", b"1", msg_id="1").sequence == 1
        assert not left
        assert rg.publish("S", b"1", msg_id="1").duplicate
        assert rg.publish("S", b"2", msg_id="2").sequence == 2
        assert stream.info().state.messages == 2
        assert [stream.get(sequence).payload for sequence in (1, 2)] == [b"1", b"2"]


def test_a_core_that_did_not_follow_its_commit_decides_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = Shards(1)
    shards.request("STREAM.CREATE.S", {"name": "S", "subjects": ["S"]})
    shards.settle()
    shards.publish("S", ["S"])

    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(shards.tables[0], "apply", full)
    with pytest.raises(OSError, match="no space"):
        shards.step(0)
    for again in (lambda: shards.step(0), lambda: shards.cores[0].aborted()):
        with pytest.raises(AfterCommit):
            again()


def test_the_position_moves_with_its_batch_or_not_at_all(tmp_path: Path) -> None:
    table = FullDisk(tmp_path, identity="c", max_age=60)
    table.apply({b"a": b"1"}, reached=Reached(5))
    FullDisk.full = 1
    with pytest.raises(StoreFailed):
        table.apply({b"a": b"2"}, reached=Reached(9))
    assert (table.position, table.get(b"a")) == (5, b"1")
    table.apply({b"a": b"2"}, reached=Reached(9))
    table.close()
    again = RocksTable(tmp_path, identity="c", max_age=60)
    assert (again.position, again.get(b"a")) == (9, b"2")
    again.close()


@pytest.mark.rule("CLU-15")
@pytest.mark.parametrize("returns", [False, True])
def test_a_slow_commit_outlives_a_rebalance(driven: Driven, returns: bool) -> None:
    """The partition is taken away in the middle of a commit: its table is closed when the thread is through, not before."""
    driven.create("S")
    gate = driven.broker.before_commit = Gate()
    driven.publish("S", ids(5))
    driven.feed()
    assert gate.reached.wait(10)
    slow = driven.shard
    assert slow.stop(0.1) is False
    slow.close()
    if returns:  # to this very worker, while the thread still holds the table
        driven.broker.before_commit = lambda: None
        driven.take_over()
        driven.await_answers(driven.publish("S", ids(5)))
    gate.opened.set()
    assert slow.stop(10) is True
    assert not driven.crashed
    if returns:
        assert driven.stored_ids("S") == ids(5)
    else:  # the lock is given back
        RocksTable(driven.context.folder / "0", identity="changelog/0", max_age=60).close()
