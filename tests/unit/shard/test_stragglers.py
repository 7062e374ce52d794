"""A few old messages do not hold up the log behind them: they are copied into the table and read from there."""

from __future__ import annotations

from typing import Any

import pytest

from railgun.client.facade.railgun import Railgun
from railgun.protocol.commands import AckRun, Pull
from railgun.protocol.replies import Located
from railgun.semantics.streams import stragglers
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.streams import owned as ownership
from railgun.state import keys
from railgun.testing import Clock
from tests.support.shards import MILLI, Shards

SECOND = 1_000 * MILLI
STUCK = [1, 2, 3, 700]  # never acknowledged


@pytest.fixture(autouse=True)
def _short_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stragglers, "SPAN", 100)
    monkeypatch.setattr(stragglers, "AT_ONCE", 2)


def queue(**config: Any) -> Shards:
    """One shard with a work queue Q, of which a consumer C has done everything but a few messages."""
    shards = Shards(partitions=1)
    shards.request("STREAM.CREATE.Q", {"name": "Q", "subjects": ["Q.>"], "retention": "workqueue"})
    shards.request("STREAM.CREATE.DEAD", {"name": "DEAD", "subjects": ["DEAD.>"]})
    shards.settle()
    fields = {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": -1, "ack_wait": 60 * SECOND}
    shards.request("CONSUMER.CREATE.Q.C", {"stream_name": "Q", "config": fields | config}, stream="Q")
    shards.settle()
    for first in range(1, 2_000, 10):
        shards.publish("Q", ["Q.x"] * 10, payloads=[b"%d" % (first + at) for at in range(10)])
        shards.command("Q", "C", pull=Pull(first, batch=10))
        shards.settle()
        done = [AckRun("ack", at, 1, at, 1) for at in range(first, first + 10) if at not in STUCK]
        shards.command("Q", "C", acks=done)
        shards.settle()
        trim(shards)
    return shards


def trim(shards: Shards) -> None:
    for drain in shards.drains:
        for one in drain.trims:
            if one.topic in shards.logs:
                shards.logs[one.topic].trim(one.offset)
    shards.drains.clear()


def state_of(shards: Shards) -> OwnedStream:
    found = shards.cores[0]._streams.get("Q")
    assert found is not None
    return found


def test_the_log_is_as_long_as_what_is_live() -> None:
    shards = queue()
    state = state_of(shards)
    assert [entry.sequence for entry in state.iterate()] == STUCK
    records = shards.logs[state.topic].records
    assert len(records) < 200, "it would have 2,000 records behind the first one"
    assert [keys.sequence_in(key) for key, _ in shards.tables[0].scan(keys.BODY)] == STUCK
    shards.restart(0)
    seen = shards.snapshot()["Q"]
    assert seen["payloads"] == {sequence: b"%d" % sequence for sequence in STUCK}


def test_a_lease_carries_what_the_log_no_longer_has() -> None:
    shards = queue()
    shards.restart(0)
    shards.leases.clear()
    shards.now += 61 * SECOND
    for _ in range(30):
        shards.publish("Q", ["Q.x"] * 4, payloads=[b"new"] * 4)
        shards.settle()
    shards.restart(0)  # nothing of it is at hand: only the table and the log have it
    shards.command("Q", "C", pull=Pull(9_000, batch=124))
    shards.settle()
    given: dict[int, bytes | None] = {}
    for lease in shards.leases["client"]:
        assert lease.done == (lease is shards.leases["client"][-1])
        for at, first in enumerate(lease.sequences):
            for step in range(lease.counts[at]):
                log = shards.logs[lease.topic]
                carried = lease.payloads[sum(lease.counts[:at]) + step] if lease.payloads else None
                given[first + step] = carried or log.payload_of(first + step, lease.offsets[at])
    expected = {one: b"%d" % one for one in STUCK} | dict.fromkeys(range(2_001, 2_121), b"new")
    assert given == expected


@pytest.mark.rule("RET-11", "DLQ-06")
def test_a_dead_letter_of_a_straggler_is_whole() -> None:
    shards = queue(max_deliver=1, dead_letter="DEAD")
    shards.restart(0)
    shards.now += 61 * SECOND
    shards.settle()
    seen = shards.snapshot()
    assert sorted(seen["DEAD"]["payloads"].values()) == sorted(b"%d" % one for one in STUCK)
    assert seen["Q"]["entries"] == []
    assert not shards.rejected
    assert not list(shards.tables[0].scan(keys.BODY))
    assert state_of(shards).copied_below == 0


def test_a_log_that_cannot_be_read_is_left_as_it_is() -> None:
    shards = Shards(partitions=1)
    asked: list[Located] = []

    def unreadable(places: Any) -> list[None]:
        asked.extend(places)
        return [None for _ in places]

    shards._read_log = unreadable  # type: ignore[method-assign, assignment]
    shards.request("STREAM.CREATE.Q", {"name": "Q", "subjects": ["Q.>"]})
    shards.settle()
    shards.publish("Q", ["Q.x"] * 2)
    shards.settle()
    shards.restart(0)
    for sequence in range(3, 300):
        shards.publish("Q", ["Q.x"])
        shards.settle()
        shards.request("STREAM.MSG.DELETE.Q", {"seq": sequence})
        shards.settle()
    assert len(asked) == 2, "it is not asked for again in each drain"
    assert state_of(shards).copied_below == 0
    assert shards.drains[-1].trims[0].offset <= min(shards.logs[state_of(shards).topic].records)


def kept(shards: Shards, stream: str) -> list[int]:
    """The messages whose bodies are in the table."""
    state = shards.cores[0]._streams.get(stream)
    assert state is not None
    found = shards.tables[0].scan(keys.all_of(keys.BODY, state.incarnation))
    return [keys.sequence_in(key) for key, _ in found]


@pytest.mark.parametrize("fate", ["commit", "abort", "restart"])
def test_copies_made_while_strays_are_swept_stay(monkeypatch: pytest.MonkeyPatch, fate: str) -> None:
    """The bodies of A are swept first; meanwhile stragglers of Q are copied, whose kept bodies wait to be swept."""
    monkeypatch.setattr(ownership, "SWEPT_KEYS", 5)
    shards = Shards(partitions=1)
    for name in "AQ":
        config = {"name": name, "subjects": [f"{name}.>"], "allow_direct": True}
        shards.request(f"STREAM.CREATE.{name}", config)
        shards.settle()
        for first in range(1, 300, 100):
            payloads = [b"%d" % (first + at) for at in range(100)]
            shards.publish(name, [f"{name}.x"] * 100, payloads=payloads)
            shards.settle()
    for name in "AQ":
        shards.request(f"STREAM.UPDATE.{name}", {"name": name, "subjects": [f"{name}.>"]})
    for _ in range(3):
        shards.step(0)
    for sequence in range(11, 301):
        shards.request("STREAM.MSG.DELETE.Q", {"seq": sequence})
    shards.step(0)
    for number in range(8):
        shards.publish("Q", ["Q.x"], payloads=[b"new"])
        shards.step(0, abort=fate == "abort" and number % 2 == 0)
        if fate == "restart":
            shards.restart(0)
    assert state_of(shards).copied_below == 301
    assert len(kept(shards, "A")) > 100, "the sweep has not come to Q"
    shards.settle()
    trim(shards)
    shards.restart(0)
    shards.settle()
    assert (kept(shards, "A"), kept(shards, "Q")) == ([], list(range(1, 11)))
    expected = {one: b"%d" % one for one in range(1, 11)} | dict.fromkeys(range(301, 309), b"new")
    assert shards.snapshot()["Q"]["payloads"] == expected


def test_what_is_removed_before_it_is_swept_leaves_nothing_among_the_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ownership, "SWEPT_KEYS", 1)
    monkeypatch.setattr(stragglers, "OF_THE_LIVE", 1)
    shards = Shards(partitions=1)
    config = {"name": "Q", "subjects": ["Q.>"], "retention": "workqueue"}
    shards.request("STREAM.CREATE.Q", config | {"allow_direct": True})
    shards.settle()
    fields = {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": -1}
    shards.request("CONSUMER.CREATE.Q.C", {"stream_name": "Q", "config": fields}, stream="Q")
    shards.publish("Q", ["Q.x"] * 300)
    shards.command("Q", "C", pull=Pull(1, batch=300))
    shards.settle()
    shards.request("STREAM.UPDATE.Q", config)
    shards.command("Q", "C", acks=[AckRun("ack", 11, 279, 11, 1)])
    for _ in range(8):
        shards.publish("Q", ["Q.x"])
        shards.step(0)
    assert state_of(shards).copied_below == 290
    shards.settle()
    assert kept(shards, "Q") == list(range(1, 11))


@pytest.mark.rule("DEL-06")
def test_copies_leave_the_table_with_a_purge() -> None:
    shards = queue()
    assert kept(shards, "Q") == STUCK
    shards.request("STREAM.PURGE.Q")
    shards.settle()
    assert kept(shards, "Q") == []


@pytest.mark.rule("RET-01", "RDL-01")
def test_a_client_does_not_notice(rg: Railgun, clock: Clock) -> None:
    stream = rg.create_stream("JOBS", subjects=["jobs.>"], retention="workqueue")
    worker = stream.create_consumer("C", ack_wait=30)
    for number in range(150):
        rg.publish("jobs.x", b"%d" % number, headers={"Number": str(number)})
        (message,) = worker.fetch(1, wait=5)
        if number:
            message.ack_sync()
    found = stream.get(1)
    assert (found.payload, found.header("Number")) == (b"0", "0")
    clock.advance(31)
    (again,) = worker.fetch(5, wait=1)
    assert (again.payload, again.header("Number")) == (b"0", "0")
    again.ack_sync()
    assert stream.info().state.messages == 0
