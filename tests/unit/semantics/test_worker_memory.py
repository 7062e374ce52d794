"""The memory of a worker: one pool of bytes for all its shards and streams."""

from __future__ import annotations

import pytest

from railgun.model import headers as h
from railgun.semantics.messages import budget as memory
from railgun.semantics.messages.budget import Pool, WorkerMemory
from railgun.shard.drain import Input, record_bytes
from railgun.worker.shards.inbox import Inbox
from tests.support.shards import Shards

KILOBYTE = 1024


def busy(worker: WorkerMemory, streams: int, blocks: int) -> Shards:
    """So many streams, each with so many blocks of messages with ids on subjects of their own, all read once."""
    shards = Shards(4, memory=worker)
    names = [f"S{number}" for number in range(streams)]
    for name in names:
        shards.request(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]})
    shards.settle()
    for block in range(blocks):
        for name in names:
            subjects = [f"{name}.{block}.{number}" for number in range(100)]
            shards.publish(name, subjects, ids=[f"{block}-{number}" for number in range(100)])
        shards.settle()
    for name in names:
        for sequence in range(1, blocks * 100, 100):
            shards.request(f"STREAM.MSG.GET.{name}", {"seq": sequence})
        shards.settle()
    return shards


def test_all_shards_and_streams_of_a_worker_share_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 200 * KILOBYTE
    for name in ("IDS", "SUBJECTS", "CACHES"):
        monkeypatch.setattr(memory, name, limit)
    worker = WorkerMemory()
    shards = busy(worker, streams=40, blocks=6)
    one_stream = 100 * memory.ID_BYTES * 6
    assert 40 * one_stream > 10 * limit, "without a bound it would be far more"
    for pool in (worker.ids, worker.subjects, worker.caches):
        assert limit // 4 < pool.total <= limit * 1.2
    states = [state for core in shards.cores for state in core._streams]
    cached = [block.memory for state in states for block in state.index._cache.values()]
    assert sum(cached) <= limit * 1.2, "what the pool counts is what there is"
    shards.restart(0)
    for number in range(4):
        worker.leave(number)
    assert [pool.total for pool in (worker.ids, worker.subjects, worker.caches)] == [0, 0, 0]


def test_long_ids_and_subjects_count_by_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "IDS", 400 * KILOBYTE)
    monkeypatch.setattr(memory, "SUBJECTS", 400 * KILOBYTE)
    shards = Shards(1, memory=WorkerMemory())
    shards.request("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]})
    shards.settle()
    for number in range(1_000):
        long = f"{number:04}" + "x" * 2_000
        shards.publish("S", [f"S.{long}"], ids=[long])
        shards.settle()
    (state,) = shards.cores[0]._streams
    assert 50 <= len(state.window._sequence_of) <= 200
    assert len(state._by_subject._packed) + len(state._by_subject._older) <= 200
    assert state.num_subjects == len(state.window) == 1_000, "nothing is forgotten"


def record(offset: int, size: int = 100) -> Input:
    return Input(False, offset, 1, b"A", [(h.COMMAND_KIND, b"pack")], b"x" * size)


def test_inboxes_share_a_pool_and_each_has_a_part_of_its_own() -> None:
    pool = Pool(100 * KILOBYTE)
    one, two = Inbox(pool, 1), Inbox(pool, 2)
    assert one.put([record(number, 10 * KILOBYTE) for number in range(5)])
    assert not one.put([record(number, 10 * KILOBYTE) for number in range(5, 10)]), "alone it may use it all"
    assert two.put([record(0, 10 * KILOBYTE)]), "the other has a part that nobody takes away"
    assert not two.put([record(1, 80 * KILOBYTE)])
    assert not one.has_room
    assert one.take(0)[2], "everything is taken"
    assert two.take(0)[2]
    assert pool.total == 0


def test_a_closed_inbox_holds_nothing() -> None:
    pool = Pool(KILOBYTE)
    box = Inbox(pool, 1)
    assert not box.put([record(number) for number in range(10)])
    box.close()
    assert pool.total == 0


def test_small_records_count_by_what_they_cost_not_by_their_value() -> None:
    assert record_bytes(record(0, 0)) > 600
    pool = Pool(100 * KILOBYTE)
    box = Inbox(pool)
    taken = 0
    while box.put([record(taken, 10)]):
        taken += 1
    assert taken < 160
