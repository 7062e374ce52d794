"""Gets of keys: what they cost does not grow with the bucket, and whatever happened to it they find the newest message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from railgun.model.refusals import NO_MESSAGE_FOUND
from railgun.protocol import avro as wire
from railgun.protocol.columnar.read_records import LAST, ReadReply
from railgun.semantics.messages import block_store, budget
from railgun.semantics.messages.blocks import Block
from railgun.semantics.messages.body_lookup import BodyLookup
from railgun.semantics.messages.budget import WorkerMemory
from railgun.shard.core import ShardCore
from railgun.state import keys
from railgun.state.table import MemoryTable
from tests.support.shards import Shards

BUCKET = {"max_msgs_per_subject": 1, "allow_direct": True, "allow_rollup_hdrs": True}
DELETED = [("KV-Operation", b"DEL"), ("Nats-Rollup", b"sub")]


class CountedTable(MemoryTable):
    """A table that counts the entries that are asked for, and the searches."""

    def __init__(self, reads: Counter[str], name: str, scratch: CountedTable | None = None) -> None:
        super().__init__(scratch)
        self._reads, self._name = reads, name

    def get(self, key: bytes) -> bytes | None:
        self._reads[self._name] += 1
        return super().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._reads[self._name] += len(keys)
        return super().get_many(keys)

    def floor(self, prefix: bytes, key: bytes) -> tuple[bytes, bytes] | None:
        self._reads["searches"] += 1
        return super().floor(prefix, key)

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        self._reads["searches"] += 1
        return super().scan(prefix, start)


class CountedShards(Shards):
    """A shard whose table is counted."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        super().__init__(partitions=1, memory=WorkerMemory())

    def _load(self, number: int) -> ShardCore:
        if not isinstance(self.tables[number], CountedTable):
            self.tables[number] = CountedTable(self.counts, "entries", CountedTable(self.counts, "scratch"))
        return super()._load(number)


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for hardly any subject, block or message."""
    monkeypatch.setattr(budget, "SUBJECTS", 1_000)
    monkeypatch.setattr(budget, "CACHES", 1_000)
    monkeypatch.setattr(block_store, "CACHED_BLOCKS", 2)


def created(shards: Shards, **fields: Any) -> None:
    shards.request("STREAM.CREATE.A", {"name": "A", "subjects": ["A.*"], **BUCKET, **fields})
    shards.settle()


def answered(shards: Shards, subjects: list[str]) -> list[ReadReply]:
    """The answers to gets of these subjects, sent together."""
    asked = shards.gets("A", *((LAST, 0, subject) for subject in subjects))
    shards.settle()
    return shards.reads[asked]


class Cost(NamedTuple):
    """What a get asked of the table, in hundredths, and how many blocks of the index were decoded."""

    entries: int
    scratch: int
    searches: int
    blocks: int


def cost_of_a_get(many: int, monkeypatch: pytest.MonkeyPatch, *, restart: bool) -> Cost:
    """Of 100 keys, drawn from a bucket of so many."""
    shards, decode = CountedShards(), Block.decode
    created(shards)
    subjects = [f"A.{number}" for number in range(many)]
    for start in range(0, many, 20):
        shards.publish("A", subjects[start : start + 20])
        shards.step(0)
    if restart:
        shards.restart(0)

    def counted(base: int, data: bytes) -> Block:
        shards.counts["blocks"] += 1
        return decode(base, data)

    monkeypatch.setattr(Block, "decode", counted)
    shards.counts.clear()
    wanted = [subjects[number * 7_919 % many] for number in range(100)]
    replies = answered(shards, wanted)
    assert [subject for reply in replies for subject in reply.subjects] == wanted
    monkeypatch.setattr(Block, "decode", decode)
    return Cost(*(shards.counts[name] for name in Cost._fields))


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("restart", [False, True])
def test_a_get_of_a_key_costs_the_same_in_a_bucket_of_any_size(
    restart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for many in (200, 1_000, 5_000):
        cost = cost_of_a_get(many, monkeypatch, restart=restart)
        assert cost.blocks == cost.scratch == cost.searches == 0
        assert cost.entries <= 110  # the entry of the key, and what the drain itself asks for


# ------------------------------------------------------------ the newest message, whatever happened


def check_gets(shards: Shards, subjects: list[str]) -> None:
    """Every get finds what the index says, as it was written."""
    found = {}
    for reply in answered(shards, subjects):
        for place, index in enumerate(reply.indexes):
            sequence = reply.sequences[place]
            headers = list(reply.headers[place]) if reply.headers else []
            payload = reply.payloads[place] if reply.payloads else b""
            written = shards.written[reply.topic, sequence]
            if not reply.offsets or reply.offsets[place] < 0:
                assert (headers, payload) == (list(written.headers), written.payload)
            assert (reply.subjects[place], reply.times[place]) == (written.subject, written.time_ns)
            assert (place in reply.tombstones) == (DELETED[0] in written.headers)
            found[subjects[index]] = sequence
        assert all(refusal == NO_MESSAGE_FOUND for _, refusal in reply.refusals)
    state = shards.cores[0]._streams.get("A")
    assert state is not None
    alive = {entry.subject: entry.sequence for entry in state.iterate()}
    assert found == {subject: alive[subject] for subject in subjects if subject in alive}


def as_written_once(shards: Shards) -> None:
    """The table as a version left it that kept no times beside bodies."""
    table, changes = shards.tables[0], dict[bytes, bytes | None]()
    for key, value in table.scan(b""):
        if key[:1] == keys.VALUE:
            time = wire.decode("message_body", value[keys.NUMBER_BYTES :])["time"]
            changes[key] = value.removesuffix(wire.encode_time(time))
        elif key[:1] == keys.STREAM:
            record = wire.decode("stream_record", value) | {"newest_from": -1}
            changes[key] = wire.encode("stream_record", record)[:-1]
    table.apply(changes)
    shards.restart(0)


SUBJECTS = ["A.a", "A.b", "A.c", "A.d"]
numbers = st.integers(1, 12)
some = st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=4)
events = st.one_of(
    st.tuples(st.just("put"), some),
    st.tuples(st.just("delete key"), st.sampled_from(SUBJECTS)),
    st.tuples(st.just("remove"), numbers),
    st.tuples(st.just("purge"), st.sampled_from([{}, {"filter": "A.a"}, {"seq": 4}, {"keep": 1}])),
    st.tuples(st.just("change"), st.sampled_from([{}, {"allow_direct": False}, {"max_msgs_per_subject": 2}])),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("upgrade"), st.none()),
    st.tuples(st.just("get in the drain"), some),
    st.tuples(st.just("abort"), some),
)


@pytest.mark.rule("GET-02", "GET-06")
@pytest.mark.usefixtures("little_memory")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@example([("put", ["A.a"]), ("change", {"allow_direct": False}), ("put", ["A.a"]), ("change", {})])
@example(
    [("put", ["A.a"]), ("change", {"allow_direct": False}), ("remove", 1), ("restart", None), ("change", {})]
)
@example([("put", ["A.a"]), ("change", {"max_msgs_per_subject": 2}), ("put", ["A.a"]), ("change", {})])
@example([("put", ["A.a"]), ("upgrade", None), ("put", ["A.a", "A.b"]), ("restart", None)])
@given(st.lists(events, max_size=12))
def test_a_get_finds_the_newest_message_of_a_key(history: list[tuple[str, Any]]) -> None:
    shards = CountedShards()
    created(shards)
    for payload, (kind, given_) in enumerate(history):
        shards.now += 1_000_000
        if kind in ("put", "get in the drain", "abort"):
            shards.publish("A", given_, payloads=[b"%d" % payload] * len(given_))
            if kind == "abort":
                shards.step(0, abort=True)
            elif kind == "get in the drain":
                check_gets(shards, SUBJECTS)
        elif kind == "delete key":
            shards.publish("A", [given_], headers=[DELETED])
        elif kind == "remove":
            shards.request("STREAM.MSG.DELETE.A", {"seq": given_})
        elif kind == "purge":
            shards.request("STREAM.PURGE.A", given_)
        elif kind == "change":
            fields = {"name": "A", "subjects": ["A.*"], **BUCKET, **given_}
            shards.request("STREAM.UPDATE.A", fields)
        shards.settle()
        if kind == "restart":
            shards.restart(0)
        elif kind == "upgrade":
            as_written_once(shards)
        check_gets(shards, SUBJECTS)


@pytest.mark.usefixtures("little_memory")
def test_a_value_from_before_bodies_were_not_kept_for_a_while_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(BodyLookup, "find_strays", lambda *_: None)  # so soon nothing is swept
    shards = CountedShards()
    created(shards)
    for change in ({"allow_direct": False}, {}):
        shards.publish("A", SUBJECTS)
        shards.settle()
        shards.request("STREAM.UPDATE.A", {"name": "A", "subjects": ["A.*"], **BUCKET, **change})
        shards.settle()
    shards.restart(0)
    check_gets(shards, SUBJECTS)


@pytest.mark.usefixtures("little_memory")
def test_large_values_and_many_of_them_are_answered_too() -> None:
    shards = CountedShards()
    created(shards)
    sizes = [10, 900_000, 1_048_500, 1_100_000, 700_000, 900_000, 900_000, 900_000, 10]
    subjects = [f"A.{number}" for number in range(len(sizes))]
    for subject, size in zip(subjects, sizes, strict=True):
        shards.publish("A", [subject], payloads=[bytes(size)])
        shards.settle()
    shards.restart(0)
    check_gets(shards, [*subjects, "A.none"])
    assert len(answered(shards, subjects)) > 1
