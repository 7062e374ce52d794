"""What a shard keeps is measured by what is live, however much has come and gone."""

from __future__ import annotations

from typing import Any

import pytest

from railgun.protocol.commands import AckRun, Pull
from railgun.semantics.deadlines import Deadlines
from railgun.state import keys
from tests.support.shards import MILLI, Shards

SECOND = 1_000 * MILLI


def shard(**fields: Any) -> Shards:
    """One shard with the stream KV."""
    shards = Shards(partitions=1)
    shards.request("STREAM.CREATE.KV", {"name": "KV", "subjects": ["KV.>"], **fields})
    shards.settle()
    return shards


def entries(shards: Shards) -> list[bytes]:
    """The keys of the table."""
    return [key for key, _ in shards.tables[0].scan(b"")]


@pytest.mark.rule("LIM-07")
@pytest.mark.parametrize("packs, in_each", [(2_000, 1), (20, 1_000)], ids=["one by one", "packed"])
@pytest.mark.parametrize("per_subject", [1, 2])
def test_two_live_keys_are_few_entries_after_any_number_of_updates(
    packs: int, in_each: int, per_subject: int
) -> None:
    shards = shard(max_msgs_per_subject=per_subject)
    shards.publish("KV", ["KV.old"])  # lives for ever, below everything else
    for _ in range(packs):
        shards.publish("KV", ["KV.a", "KV.b"] * (in_each // 2) or ["KV.a"])
        shards.step(0)
    before = shards.snapshot()
    assert len(entries(shards)) < 30
    shards.restart(0)
    assert shards.snapshot() == before
    assert len(list(shards.cores[0]._streams.get("KV").iterate())) <= 1 + 2 * per_subject  # type: ignore[union-attr]


@pytest.mark.rule("RET-01")
def test_a_work_queue_behind_one_stuck_message_keeps_only_that() -> None:
    shards = shard(retention="workqueue")
    config = {
        "durable_name": "C",
        "ack_policy": "explicit",
        "max_ack_pending": -1,
        "ack_wait": 1_000 * SECOND,
    }
    shards.request("CONSUMER.CREATE.KV.C", {"stream_name": "KV", "config": config}, stream="KV")
    for number in range(300):
        shards.publish("KV", [f"KV.{number}"] * 10)
        shards.command("KV", "C", pull=Pull(number + 1, batch=10))
        shards.settle()
        first = 10 * number + 1
        done = AckRun("ack", first + (number == 0), 10 - (number == 0), first + (number == 0), 1)
        shards.command("KV", "C", acks=[done])
        shards.settle()
    assert len(entries(shards)) < 30
    state = shards.cores[0]._streams.get("KV")
    assert state is not None
    assert [entry.sequence for entry in state.iterate()] == [1]


def test_blocks_that_an_older_version_left_behind_go() -> None:
    """It kept blocks without messages for as long as an older message lived."""
    shards = shard(max_msgs_per_subject=1)
    shards.publish("KV", ["KV.old"])
    for _ in range(20):
        shards.publish("KV", ["KV.a"])
        shards.step(0)
    table = shards.tables[0]
    state = shards.cores[0]._streams.get("KV")
    assert state is not None
    newest = list(table.scan(keys.BLOCK))[-1][1]
    for sequence in range(3, 20):
        table.apply(
            {
                keys.of(keys.BLOCK, state.incarnation, sequence): newest,
                keys.of(keys.REMOVED, state.incarnation, sequence): b"\1",
            }
        )
    shards.restart(0)
    before = shards.snapshot()
    shards.publish("KV", ["KV.a"])
    shards.settle()
    assert len(entries(shards)) < 15
    assert shards.snapshot()["KV"]["counts"][0] == before["KV"]["counts"][0]


@pytest.mark.rule("TTL-01", "LIM-07")
@pytest.mark.parametrize("in_each", [1, 100])
def test_endings_of_messages_that_are_gone_are_not_kept(in_each: int) -> None:
    shards = shard(max_msgs_per_subject=1, allow_msg_ttl=True)
    state = shards.cores[0]._streams.get("KV")
    assert state is not None
    endings = set()
    for _ in range(40_000 // in_each // 10):
        shards.publish("KV", ["KV.a"] * in_each, headers=[[("Nats-TTL", b"1h")]] * in_each)
        shards.step(0)
        shards.now += MILLI
        endings.add(state.expiry.next())
    assert len(state.expiry) < 600
    assert len(endings) == 40_000 // in_each // 10, "the ending is that of the newest"
    shards.now += 3_600 * SECOND
    shards.settle()
    assert state.messages == 0


def test_deadlines_that_no_longer_count_are_not_kept() -> None:
    """A far one is set anew each time that a near one was over."""
    deadlines = Deadlines[str]()
    for now in range(10_000):
        deadlines.watch("far", 1_000_000)
        deadlines.watch("far", now + 1)
        assert deadlines.pop_due(now + 1) == ["far"]
    assert len(deadlines) < 200
    deadlines.watch("far", 1_000_000)
    deadlines.watch("near", 500)
    deadlines.forget("near")
    assert deadlines.next({"far": 1_000_000}.get) == deadlines.earliest == 1_000_000
