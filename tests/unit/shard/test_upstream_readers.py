"""The upstream's side of copies: who reads for whom, what becomes of messages and records that cannot be taken, and what it costs."""

from __future__ import annotations

import pytest

from railgun.model import headers as h
from railgun.protocol.routing import partition_of
from railgun.protocol.sourcing import SourceLease
from railgun.semantics.streams.sourcing import origins
from railgun.shard.consumers import feeding
from railgun.shard.open_drain import OpenDrain
from tests.support.copying_shards import PARTITIONS, SECOND, Cluster


@pytest.mark.rule("SRC-10")
@pytest.mark.parametrize("change", ["update", "delete"])
def test_nobody_reads_for_a_source_that_went_before_its_upstream_came(change: str) -> None:
    """A consumer that nobody sees would keep every message of the queue, and every worker out of it."""
    shards = Cluster()
    shards.make("B", {"name": "A"})
    if change == "update":
        shards.ask("STREAM.UPDATE.B", {"name": "B", "subjects": ["B.>"]})
    else:
        shards.ask("STREAM.DELETE.B")
    shards.make("A", retention="workqueue")
    assert len(shards.state("A").consumers) == 0
    shards.ask("CONSUMER.CREATE.A.W", {"stream_name": "A", "config": {"name": "W", "ack_policy": "explicit"}})


@pytest.mark.rule("SRC-10")
@pytest.mark.parametrize("retention", ["workqueue", "interest", "limits"])
def test_a_message_that_leaves_a_queue_without_a_copy_is_kept(retention: str) -> None:
    shards = Cluster()
    shards.make("A", retention=retention)
    shards.make("B", {"name": "A"}, max_msg_size=100)
    shards.publish("A", ["A.x", "A.y"], payloads=[b"x" * 200, b"1"])
    shards.settle()
    assert shards.texts("B") == [b"1"]
    if retention == "limits":
        assert not shards.rejected  # the upstream has it
        return
    (kept,) = shards.rejected
    assert (kept.source.key, kept.source.value) == (b"B", b"x" * 200)
    assert h.first(kept.source.headers, h.STREAM_SOURCE) == b"A 1 > > A.x"
    assert "message size exceeds maximum allowed" in kept.reason


def test_an_origin_that_cannot_be_read_sets_its_stream_aside() -> None:
    shards = Cluster()
    shards.make("A")
    shards.make("B", {"name": "A"})
    home = partition_of("B", PARTITIONS)
    ((key, _),) = shards.tables[home].scan(b"l")
    shards.tables[home].apply({key: b"\xff" * 30}, {}, None)
    shards.restart(home)
    shards.rest()
    assert list(shards.cores[home].unreadable()) == ["the stream B"]


def test_an_upstream_that_does_not_come_is_waited_for_once() -> None:
    shards = Cluster()
    shards.make("B", {"name": "A"})
    for _ in range(20):
        shards.now += 11 * SECOND
        shards.settle()
    waiting = shards.cores[partition_of("A", PARTITIONS)]._consumers.feeding._missing
    assert {name: len(commands) for name, commands in waiting.items()} == {"A": 1}
    shards.make("A")
    shards.publish("A", ["A.x"], payloads=[b"0"])
    shards.settle()
    assert shards.texts("B") == [b"0"]


@pytest.mark.rule("SRC-09")
@pytest.mark.parametrize("limit", [{"max_msgs": 4}, {"max_bytes": 400}])
def test_little_is_sent_in_vain_to_a_full_stream_that_is_worked_off(
    limit: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    send = feeding.Feeding._send

    def counted(self: feeding.Feeding, lease: SourceLease, drain: OpenDrain) -> None:
        sent.append(len(lease.payloads))
        send(self, lease, drain)

    shards = Cluster()
    shards.make("A")
    shards.publish("A", ["A.x"] * 100, payloads=[b"%05d" % number for number in range(100)])
    shards.make("B", {"name": "A"}, discard="new", **limit)
    taken = shards.texts("B")
    monkeypatch.setattr(feeding.Feeding, "_send", counted)
    for _ in range(30):
        shards.ask("STREAM.MSG.DELETE.B", {"seq": shards.state("B").first_seq})
        taken += shards.texts("B")[-1:]
    assert taken == [b"%05d" % number for number in range(len(taken))]
    assert sum(sent) <= 100  # thirty are copied
    shards.ask("STREAM.UPDATE.B", {"name": "B", "subjects": ["B.>"], "sources": [{"name": "A"}]})
    assert shards.texts("B")[-1] == b"00099"


def test_a_copy_costs_the_same_beside_many_other_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of the sources are made once for each configuration, not for each of them and each message again."""
    made = 0
    key_of_one = origins.origin_key

    def counted(source: origins.StreamSource) -> str:
        nonlocal made
        made += 1
        return key_of_one(source)

    shards = Cluster()
    shards.make("A")
    monkeypatch.setattr(origins, "origin_key", counted)
    shards.make("B", {"name": "A"}, *({"name": f"MISSING{number}"} for number in range(50)))
    assert made == 51
    for _ in range(10):
        shards.publish("A", ["A.x"])
        shards.settle()
    assert shards.state("B").messages == 10
    assert made == 51


def test_a_feed_that_cannot_be_read_heals(caplog: pytest.LogCaptureFixture) -> None:
    """The upstream and its shard are served; the stream that copies asks again after a while."""
    shards = Cluster()
    shards.make("A")
    copy = next(name for name in "BCDEFG" if partition_of(name, PARTITIONS) != partition_of("A", PARTITIONS))
    shards.make(copy, {"name": "A"})
    home = partition_of("A", PARTITIONS)
    (key,) = [key for key, _ in shards.tables[home].scan(b"f")]
    shards.tables[home].apply({key: b"\xff\xff"})
    shards.restart(home)
    assert "a stream that copies A is not known" in caplog.text
    shards.publish("A", ["A.x"], payloads=[b"late"])
    shards.settle()
    assert shards.texts(copy) == []
    shards.now += 700 * SECOND
    shards.settle()
    assert shards.texts(copy) == [b"late"]


@pytest.mark.rule("SRC-09")
def test_a_stream_that_stays_full_asks_less_and_less_often() -> None:
    shards = Cluster()
    shards.make("A")
    shards.make("B", {"name": "A"}, max_msgs=1, discard="new")
    shards.publish("A", ["A.x"] * 3, payloads=[b"0", b"1", b"2"])
    shards.settle()
    before = shards.state("B").origins.get("A").session
    for _ in range(60):
        shards.now += SECOND
        shards.settle()
        assert shards.state("B").origins.get("A").description == "maximum messages exceeded"
    assert shards.state("B").origins.get("A").session - before < 12
    shards.ask("STREAM.PURGE.B")
    shards.settle()
    assert shards.texts("B") == [b"1"]  # at once, whatever was put off


def test_a_new_owner_asks_again_though_its_first_drain_refuses() -> None:
    """A drain that only refuses an input is no answer to what a takeover has to do."""
    shards = Cluster()
    shards.make("A")
    shards.make("B", {"name": "A"})
    home = partition_of("B", PARTITIONS)
    shards.restart(home)
    shards.record(home, b"garbage", "pack")
    before = shards.state("B").origins.get("A").session
    shards.refuse(home, "cannot be applied")
    shards.settle()
    assert shards.state("B").origins.get("A").session == before + 1
