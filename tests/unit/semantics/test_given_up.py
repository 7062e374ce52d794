"""What a consumer has given up behaves as the set of sequences does, and is written in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun.protocol import avro as wire
from railgun.protocol.commands import AckRun, Pull
from railgun.semantics.consumers.pending.given_up import GivenUp
from railgun.state import keys
from railgun.state.table import MemoryTable, Overlay
from tests.support.shards import MILLI, Shards

SECOND = 1_000 * MILLI
FAR = 2_048 - 10  # so that ranges cross from one stretch into the next

_ranges = st.tuples(st.integers(0, 20), st.integers(1, 8))
_step = st.tuples(
    st.sampled_from(["add", "add", "remove", "commit"]), *(st.integers(0, 20), st.integers(1, 8))
)


@given(st.lists(_ranges, max_size=2), st.lists(_step, max_size=12), st.integers(0, 25), st.integers(1, 8))
def test_it_is_the_set_of_its_sequences(
    old: list[tuple[int, int]], steps: list[tuple[str, int, int]], start: int, count: int
) -> None:
    table = MemoryTable()
    overlay = Overlay(table)
    expected = {FAR + begin + at for begin, length in old for at in range(length)}
    found = GivenUp(overlay, 1, 7)
    found.load([bound for begin, length in old for bound in (FAR + begin, FAR + begin + length)])
    for name, begin, length in steps:
        some = set(range(FAR + begin, FAR + begin + length))
        if name == "add":
            expected |= some
            found.add(min(some), max(some) + 1)
        elif name == "remove":
            assert found.remove(min(some), max(some) + 1) == bool(expected & some)
            expected -= some
        else:
            found.seal()
            table.apply(overlay.changes)
            overlay.clear()
            found = GivenUp(overlay, 1, 7)
            found.load([])
    assert {FAR + at for at in range(40) if FAR + at in found} == expected
    assert found.meets(FAR + start, FAR + start + count) == any(
        FAR + start + at in expected for at in range(count)
    )
    assert found.lowest() == min(expected, default=None)
    assert bool(found) == bool(expected)


def queue(retention: str = "interest", **config: object) -> Shards:
    """One shard with the stream A and a consumer C that gives up at once."""
    shards = Shards(partitions=1)
    shards.request("STREAM.CREATE.A", {"name": "A", "subjects": ["A.>"], "retention": retention})
    shards.settle()
    fields = {"durable_name": "C", "ack_policy": "explicit", "max_deliver": 1, "max_ack_pending": -1}
    shards.request("CONSUMER.CREATE.A.C", {"stream_name": "A", "config": {**fields, **config}}, stream="A")
    shards.settle()
    return shards


def give_up_every_second(shards: Shards, messages: int) -> None:
    """Of so many messages, half are acknowledged and half are out of deliveries."""
    shards.publish("A", ["A.x"] * messages)
    shards.command("A", "C", pull=Pull(1, batch=messages))
    shards.settle()
    answers = [AckRun("nak" if at % 2 else "ack", at, 1, at, 1) for at in range(1, messages + 1)]
    shards.command("A", "C", acks=answers)
    shards.settle()


@pytest.mark.rule("RET-11")
def test_a_drain_writes_only_what_it_changed() -> None:
    shards = queue()
    give_up_every_second(shards, 10_000)
    pieces = list(shards.tables[0].scan(keys.GIVEN_UP))
    assert len(pieces) == 5
    assert max(len(value) for _, value in pieces) <= 256
    ((_, record),) = shards.tables[0].scan(keys.CONSUMER)
    assert len(record) < 1_000
    shards.command("A", "C", acks=[AckRun("ack", 2_501, 1, 2_501, 1)])
    drain = shards.step(0)
    assert [key[:1] for key in drain.changes].count(keys.GIVEN_UP) == 1
    before = shards.snapshot()["A"]["counts"]
    shards.restart(0)
    assert shards.snapshot()["A"]["counts"] == before == (4_999, *before[1:])
    shards.request("STREAM.PURGE.A")
    shards.settle()
    assert not list(shards.tables[0].scan(keys.GIVEN_UP))


@pytest.mark.rule("RET-11")
def test_what_leaves_the_stream_is_forgotten() -> None:
    shards = queue()
    give_up_every_second(shards, 20)
    shards.restart(0)
    for sequence in range(3, 20, 2):
        shards.request("STREAM.MSG.DELETE.A", {"seq": sequence})
    shards.settle()
    state = shards.cores[0]._streams.get("A")
    assert state is not None
    (consumer,) = state.consumers
    assert [one for one in range(30) if one in consumer.given_up] == [1]


def test_what_an_older_record_lists_is_given_up() -> None:
    shards = queue()
    shards.publish("A", ["A.x"] * 6)
    shards.command("A", "C", pull=Pull(1, batch=6))
    shards.settle()
    shards.command("A", "C", acks=[AckRun("nak", at, 1, at, 1) for at in (2, 3, 5)])
    shards.settle()
    table = shards.tables[0]
    ((key, data),) = table.scan(keys.CONSUMER)
    table.apply({one: None for one, _ in list(table.scan(keys.GIVEN_UP))})
    table.apply(
        {
            key: wire.encode(
                "consumer_record", wire.decode("consumer_record", data) | {"given_up": [2, 4, 5, 6]}
            )
        }
    )
    shards.restart(0)
    shards.command("A", "C", acks=[AckRun("ack", at, 1, at, 1) for at in (1, 4, 6, 3)])
    shards.settle()
    for _ in range(2):
        assert [entry.sequence for entry in shards.snapshot()["A"]["entries"]] == [2, 5]
        shards.restart(0)


@pytest.mark.rule("RET-11", "RDL-08")
@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_a_dead_letter_resolves_the_message_in_the_same_drain(retention: str) -> None:
    shards = queue(retention, dead_letter="DEAD", ack_wait=2 * SECOND)
    shards.request("STREAM.CREATE.DEAD", {"name": "DEAD", "subjects": ["DEAD.>"]})
    shards.settle()
    shards.publish("A", ["A.x", "A.y", "A.z"], payloads=[b"1", b"2", b"3"])
    shards.command("A", "C", pull=Pull(1, batch=3))
    shards.settle()
    shards.restart(0)  # only the log has the messages
    shards.command("A", "C", acks=[AckRun("nak", 2, 1, 2, 1)])
    shards.step(0)
    seen = shards.snapshot()
    assert [entry.sequence for entry in seen["A"]["entries"]] == [1, 3]
    assert list(seen["DEAD"]["payloads"].values()) == [b"2"]
    shards.now += 3 * SECOND
    shards.step(0)
    seen = shards.snapshot()
    assert seen["A"]["entries"] == []
    assert list(seen["DEAD"]["payloads"].values()) == [b"2", b"1", b"3"]
    assert not shards.rejected


@pytest.mark.parametrize("kind", [keys.STREAM, *keys.OF_A_STREAM])
def test_a_key_of_a_stream_that_was_cut_is_not_whole(kind: bytes) -> None:
    alone = dict.fromkeys(
        (keys.STREAM, keys.CONSUMERS_MADE, keys.STRAY_TOTALS, keys.TOTAL, keys.ORIGIN, keys.VALUE), 1
    )
    numbers = (alone | {keys.PENDING: 3, keys.GIVEN_UP: 3}).get(kind, 2)
    whole = kind + b"".join(keys.number(one) for one in range(numbers))
    if kind in (keys.TOTAL, keys.ORIGIN, keys.VALUE, keys.ADOPTED):
        whole += b"a"  # the shortest subject, stream or topic
    assert keys.is_whole(whole)
    assert not any(keys.is_whole(whole[:length]) for length in range(len(whole)))
