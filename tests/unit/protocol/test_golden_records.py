"""The bytes of every kind of record, as files keep them: a change of the format shows here.

``golden/records.json`` has the hex of each sample, ``golden/log_records.json`` the records of a log. Other versions of railgun, and programs in other languages, read and write these bytes:
a difference is a new format, to be written down in docs/record-format.md, and never a reason to make the file anew.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from railgun.kafka.readings import Reading
from railgun.model.refusals import Refusal
from railgun.protocol import advisory_record, avro, log_record, registry
from railgun.protocol.columnar.hand_overs import HandedPack, HandOverPack, PackOfHandOvers
from railgun.protocol.columnar.read_records import GetPack, ReadReply, ReadRequest
from railgun.protocol.commands import (
    AckRun,
    ApiRequest,
    ConsumerCommand,
    Forward,
    HandedOver,
    HandOver,
    Presence,
    PublishPack,
    Pull,
)
from railgun.protocol.leases import Lease
from railgun.protocol.replies import Answer, Frame, Located, PackReply, ReplyBatch
from railgun.protocol.sourcing import SourceCommand, SourceLease
from railgun.protocol.topics import Names
from railgun.semantics.messages.kept_body import BodyReader
from railgun.shard.drain import Drain, LogAppend
from railgun.worker.shards.transaction import DrainWriter, Prepared

FOLDER = Path(__file__).parent / "golden"
GOLDEN: dict[str, str] = json.loads((FOLDER / "records.json").read_text("utf-8"))
LOG: list[list[Any]] = json.loads((FOLDER / "log_records.json").read_text("utf-8"))
TIME = 1_700_000_000_123_456_789
HEADERS = [("Nats-Msg-Id", b"a-1"), ("kind", b"\x00\xff")]


class Coded(NamedTuple):
    """A value with its codec."""

    value: Any
    decode: Callable[[bytes], Any]

    def encode(self) -> bytes:
        data = self.value.encode()
        assert isinstance(data, bytes)
        return data


CODED = {
    "publish_pack": Coded(
        PublishPack("ORDERS", "client-1", 7, ["orders.a", "orders.b"], ["a-1", ""], [HEADERS, []], [b"one", b""]),
        PublishPack.decode,
    ),
    "publish_pack, plain": Coded(PublishPack("ORDERS", "", 0, ["orders.a"], [], [], [b"one"]), PublishPack.decode),
    "api_request": Coded(
        ApiRequest("client-1", 8, "STREAM.INFO.ORDERS", "ORDERS", HEADERS, b'{"subjects_filter":">"}'), ApiRequest.decode
    ),
    "consumer_command": Coded(
        ConsumerCommand(
            "ORDERS", 3, "C", 2, "client-1", 9,
            [
                AckRun("ack", 1, 5, 1, 1), AckRun("ack", 8, 1, 6, 2), AckRun("nak", 9, 1, 7, 1, 5_000_000_000),
                AckRun("term", 10, 2, 8, 1, 0, "poison"), AckRun("progress", 12, 1, 10, 0), AckRun("back", 13, 1, 11, 1),
            ],
            Pull(10, 100, 65_536, 30_000_000_000, True, 5_000_000_000, 35_000_000_000),
            [4, 5],
        ),
        ConsumerCommand.decode,
    ),
    "consumer_command, hand-over": Coded(
        ConsumerCommand(
            "ORDERS", 3, "C", 2, "client-1", 9, [AckRun("ack", 1, 5, 1, 1)], hand_over=HandOver(6, 6, 2, [b"\x01\x02", b"\x03"])
        ),
        ConsumerCommand.decode,
    ),
    "hand_over_pack": Coded(
        HandOverPack(
            "ORDERS", 3, "C", 2, "client-1", [9, 10], [6, 8], [6, 7], [2, 1], [PackOfHandOvers([0, 1, 1], b"\x01\x02")]
        ),
        HandOverPack.decode,
    ),
    "handed_pack": Coded(
        HandedPack("ORDERS", "C", "ORDERS_DLQ", [6, 8], [TIME, TIME + 1], [2, 1], [0, 1, 1], b"\x01\x02"), HandedPack.decode
    ),
    "handed_over": Coded(HandedOver("ORDERS", 6, TIME, "C", 2, "ORDERS_DLQ", b"\x01\x02"), HandedOver.decode),
    "presence": Coded(Presence("client-1", False, [("deliver.a", ""), ("deliver.b", "workers")]), Presence.decode),
    "presence, leaving": Coded(Presence("client-1", True), Presence.decode),
    "forward": Coded(
        Forward(2, "command", "ORDERS", command_kind="pack", command=b"\x01\x02", time=TIME), Forward.decode
    ),
    "forward, released": Coded(
        Forward(1, "released", "ORDERS", 3, '{"name":"ORDERS"}', "client-1", 11, TIME, outcome="active"), Forward.decode
    ),
    "source_command": Coded(
        SourceCommand("attach", "ORDERS", 3, "COPY", 4, "ORDERS 1a", 2, 41, 300, 64, ("orders.a", "orders.b.>"), 7, "2026-01-01T00:00:00Z"),
        SourceCommand.decode,
    ),
    "source_lease": Coded(
        SourceLease(
            "ORDERS", 3, "COPY", 4, "ORDERS 1a", 2, [41, 44], [2, 1], ["orders.a", "orders.a", "orders.b.c"], [HEADERS, [], []],
            [b"one", b"", b"three"], [TIME, TIME + 1, TIME + 2], 40, 50, 1_000, 9, 1, True, 404, 10059, "stream not found",
        ),
        SourceLease.decode,
    ),
    "forward, nothing": Coded(Forward(1, "nothing", ""), Forward.decode),
    "reply_batch": Coded(
        ReplyBatch(
            2,
            1_700_000_000_123,
            [PackReply("ORDERS", 7, [(0, 2, 40)], [(2, 12)], [(3, Refusal(400, 10071, "wrong last sequence: 41"))])],
            [
                Answer(8, [Frame([], b'{"type":"x"}')]),
                Answer(9, [Frame(HEADERS, b"", Located("direct", "railgun.log.ORDERS", 50, 41, 3, True))]),
            ],
            [
                Lease(
                    "ORDERS", 3, "C", 2, "railgun.log.ORDERS", 10, sequences=[41, 50], counts=[2, 1], offsets=[60, 70],
                    consumer_sequences=[1, 3], deliveries=[1, 2], pending=5,
                ),
                Lease(
                    "ORDERS", 3, "C", 2, "railgun.log.ORDERS", 0, "deliver.b", "workers", [41], [1], [], [1], [1],
                    ["orders.a"], [HEADERS], [b"one"], [TIME], 4, True, True, 408, "Request Timeout",
                    [("Nats-Pending-Messages", b"3")], "$JS.FC.ORDERS.C.1",
                ),
            ],
        ),
        ReplyBatch.decode,
    ),
    "reply_batch, values": Coded(
        ReplyBatch(0, 5, [PackReply("A", 1, [(0, 1, 1)], [], []), PackReply("B", 2, [(0, 3, 7)], [], [], [(0, 5), (2, -6)])], [], []),
        ReplyBatch.decode,
    ),
    "get_pack": Coded(GetPack("ORDERS", "client-1", 7, b"", [41, 42], []), GetPack.decode),
    "get_pack, by subject": Coded(
        GetPack("ORDERS", "client-1", 7, b"\x00\x01\x02", [41, 0, 5], ["", "orders.a", "orders.>"]), GetPack.decode
    ),
    "read_request": Coded(
        ReadRequest("ORDERS", "client-1", 8, ["orders.42.>"], 5, 0, None, TIME, 900, True, False, "headers", 1_024, 65_536),
        ReadRequest.decode,
    ),
    "reply_batch, reads": Coded(
        ReplyBatch(
            0, 5, [], [], [],
            [
                ReadReply(
                    7, "railgun.log.ORDERS", 3, array("H", [1, 0]), array("q", [41, 42]), array("q", [TIME, TIME + 1]), ["orders.a", "orders.b"],
                    [HEADERS, []], [b"one", b""], array("q", [-1, 60]), frozenset({1}), [(2, Refusal(404, 10037, "no message found"))],
                ),
                ReadReply(8, "railgun.log.ORDERS", 3, array("H"), array("q", [41]), array("q", [TIME]), ["orders.a"], (), (), array("q"), end=50, next=42, refusals=[]),
            ],
        ),
        ReplyBatch.decode,
    ),
    "registry_cluster": Coded(
        registry.Protected("main", "railgun", 12, 2), lambda data: registry.parse(registry.CLUSTER_KEY, data)
    ),
}  # fmt: skip

# The tables of a shard, in its changelog: by schema.
CHANGELOG: dict[str, dict[str, Any]] = {
    "stream_record": {
        "name": "ORDERS", "incarnation": 3, "config": '{"name":"ORDERS"}', "created": TIME, "deleting": False,
        "first_seq": 1, "last_seq": 41, "messages": 41, "bytes": 4_100, "last_time": TIME, "last_msg_id": "a-1",
        "log_end": 60, "compacted": True, "crowded": 2,
        "unneeded": [{"start": 1, "end": 5, "patterns": ["orders.>"]}], "copied_below": 9, "own_keys_from": 21, "values_from": 1,
        "newest_from": 2,
    },
    "message_block": {
        "subjects": ["orders.a\0orders.b"], "subject_of": b"\x00\x00\x01\x00", "sizes": b"\x64\x00\x00\x00" * 2,
        "times": TIME.to_bytes(8, "little") * 2, "expiries": b"", "offset_floor": 50, "tombstones": b"\x02",
    },
    "message_body": {"headers": [{"name": "kind", "value": b"\x00"}], "payload": b"one", "time": TIME},
    "id_block": {"time": TIME, "ids": ["a-1", "a-2"], "sequences": b""},
    "consumer_record": {
        "name": "C", "config": '{"name":"C"}', "created": TIME, "delivered_consumer": 5, "delivered_stream": 6,
        "floor_consumer": 3, "floor_stream": 4, "next": 7, "given_up": [],
    },
    "pending_block": {
        "starts": [5], "counts": [2], "first_consumer_sequences": [4], "last_consumer_sequences": [4], "deliveries": [1],
        "times": [TIME], "dues": [0],
    },
    "counter_total": {"sequence": 41, "total": -7, "ledger": '{"A":{"a":"5"}}'},
    "origin_record": {
        "name": "ORDERS", "incarnation": 3, "active": True, "session": 2, "position": 41, "acknowledged": 100, "copied": 300,
        "unacknowledged": 2, "window": 64, "waits": False, "retry": TIME, "tries": 1, "lag": 9, "heard": TIME + 1,
        "dropped": 1, "code": 400, "err_code": 10172, "description": "no",
    },
    "adopted_partition": {"topic_id": "Sfjz7w22Swuus4pNsLhmdw", "position": 41, "passed": 2, "lost": 1, "note": "why"},
    "feed_record": {
        "stream": "COPY", "incarnation": 4, "origin": "ORDERS", "session": 2, "sent": 300, "copied": 100, "reached": 44,
    },
    "reservation": {
        "name": "ORDERS", "incarnation": 3, "partition": 2, "config": "{}", "pending_config": "", "pending": "update",
        "waiting": [b"\x01"],
    },
    "shard_cursor": {
        "commands": 100, "forwards": 20, "clock": TIME, "time": TIME + 1, "ahead": [2, 1], "commands_topic": "id-1",
        "forwards_topic": "id-2", "commands_received": TIME, "forwards_received": 0,
    },
}  # fmt: skip


class RecordingProducer:
    """A producer that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[list[Any]] = []

    def produce(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, _c: object, _a: object, millis: int, headers: Any
    ) -> None:  # fmt: skip
        named = [[name, text.decode("latin-1")] for name, text in headers or ()]
        self.records.append([topic, partition, _text(key), _text(value), millis, named])

    def begin_transaction(self) -> None: ...
    def commit_transaction(self, _seconds: float) -> None: ...


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")


def _written_log() -> list[list[Any]]:
    """Two messages and a tombstone as a worker writes them."""
    producer, topic = RecordingProducer(), Names().log("ORDERS")
    append = LogAppend(
        "ORDERS", topic, 3, [41, 42], [b"orders.a", b"orders.b\x0042"], [b"one", b""], [HEADERS, []], [TIME, TIME + 1],
        [(1, b"orders.a")],
    )  # fmt: skip
    writer = DrainWriter(cast("Producer", producer), Names(), 0)
    writer.write(Prepared(Drain(appends={topic: append}), []))
    return producer.records


OTHERS: dict[str, Callable[[], bytes]] = {
    "log key": lambda: log_record.record_key("orders.a", 41, slotted=False),
    "log key, slotted": lambda: log_record.record_key("orders.a", 41, slotted=True),
    "registry_stream": lambda: registry.stream_record(
        "ORDERS", incarnation=3, partition=2, deleting=False, config='{"name":"ORDERS","subjects":["orders.>"]}', created=TIME
    ),
    "registry key of a stream": lambda: registry.stream_key("ORDÉRS"),
    "registry key of an owner": lambda: registry.epoch_key(11),
    "registry owner": lambda: registry.epoch_record(1_700_000_000_123, "node-1", TIME),
    "registry key of an end": lambda: registry.unfinished_key(11),
    "advisory": lambda: advisory_record.encode(
        "nak", "0123456789abcdef012345", TIME, {"stream": "ORDERS", "consumer": "Ü", "stream_seq": 41}
    ),
    "metadata of an offset": lambda: Reading(100, "id-1", TIME).metadata().encode(),
}  # fmt: skip


@pytest.mark.parametrize("name", CODED)
def test_a_record_is_written_and_read_as_ever(name: str) -> None:
    sample = CODED[name]
    assert sample.encode().hex() == GOLDEN[name]
    assert sample.decode(bytes.fromhex(GOLDEN[name])) == sample.value


@pytest.mark.parametrize("name", CHANGELOG)
def test_an_entry_of_the_changelog_is_written_and_read_as_ever(name: str) -> None:
    assert avro.encode(name, CHANGELOG[name]).hex() == GOLDEN[name]
    assert avro.decode(name, bytes.fromhex(GOLDEN[name])) == CHANGELOG[name]


def test_commands_of_a_version_before_hand_overs_are_read() -> None:
    sample = CODED["consumer_command"]
    assert sample.decode(bytes.fromhex(GOLDEN["consumer_command"])[:-1]) == sample.value


def test_answers_of_a_version_before_counters_are_read() -> None:
    sample = CODED["reply_batch"]
    assert sample.decode(bytes.fromhex(GOLDEN["reply_batch"])[:-2]) == sample.value


def test_answers_of_a_version_before_reads_are_read() -> None:
    sample = CODED["reply_batch, values"]
    assert sample.decode(bytes.fromhex(GOLDEN["reply_batch, values"])[:-1]) == sample.value


def test_blocks_of_a_version_before_tombstones_are_read() -> None:
    sample = CHANGELOG["message_block"]
    older = bytes.fromhex(GOLDEN["message_block"])[:-2]
    assert avro.decode("message_block", older) == sample | {"tombstones": b""}


def test_totals_of_a_version_before_sources_are_read() -> None:
    sample = CHANGELOG["counter_total"]
    assert avro.decode("counter_total", bytes.fromhex("520d")) == sample | {"ledger": ""}


def test_streams_of_a_version_before_own_keys_are_read() -> None:
    sample = CHANGELOG["stream_record"]
    older = bytes.fromhex(GOLDEN["stream_record"])[:-3]
    lacking = {"own_keys_from": -1, "values_from": -1, "newest_from": -1}
    assert avro.decode("stream_record", older) == sample | lacking


def test_streams_of_a_version_before_newest_values_are_read() -> None:
    sample = CHANGELOG["stream_record"]
    older = bytes.fromhex(GOLDEN["stream_record"])[:-1]
    assert avro.decode("stream_record", older) == sample | {"newest_from": -1}


def test_bodies_of_a_version_before_times_are_read() -> None:
    older = bytes.fromhex("02086b696e64020000066f6e65")
    assert avro.decode("message_body", older) == CHANGELOG["message_body"] | {"time": 0}
    assert BodyReader().read(older) == ([("kind", b"\0")], b"one", 0)


@given(
    st.lists(st.tuples(st.text(max_size=80), st.binary(max_size=200)), max_size=3),
    st.binary(max_size=20) | st.integers(0, 20_000).map(bytes),
    st.integers(0, 2**63 - 1),
)
def test_a_body_that_is_written_by_hand_is_what_its_schema_says(
    headers: list[tuple[str, bytes]], payload: bytes, time: int
) -> None:
    by_hand = avro.encode_headers(headers) + avro.encode_bytes(payload) + avro.encode_time(time)
    fields = {"headers": avro.headers_out(headers), "payload": payload, "time": time}
    assert by_hand == avro.encode("message_body", fields)
    reader = BodyReader()
    for _ in range(2):  # the second time it knows the headers
        read = reader.read(b"before" + by_hand, len("before"))
        assert (list(read.headers), read.payload, read.time) == (headers, payload, time)


@given(
    st.lists(st.sampled_from([[], [("a", b"1")], [("a", b"1"), ("b", b"")]]), min_size=1, max_size=4),
    st.binary(max_size=20),
    st.integers(0, 40),
    st.binary(max_size=1),
)
def test_a_body_that_is_read_by_hand_is_refused_as_by_its_schema(
    before: list[list[tuple[str, bytes]]], payload: bytes, cut: int, more: bytes
) -> None:
    reader = BodyReader()
    for headers in before:
        whole = avro.encode_headers(headers) + avro.encode_bytes(payload) + avro.encode_time(TIME)
        for data in (whole, whole[:cut] + more, whole + more):
            try:
                expected = avro.decode("message_body", data)
            except avro.WireError:
                with pytest.raises(avro.WireError):
                    reader.read(data)
            else:
                found = reader.read(data)
                assert found._asdict() | {"headers": avro.headers_out(found.headers)} == expected


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_avro_is_written_as_ever(name: str) -> None:
    assert OTHERS[name]().hex() == GOLDEN[name]


def test_the_records_of_a_log_are_written_and_read_as_ever() -> None:
    assert _written_log() == LOG
    read = []
    for _, _, key, _, _, headers in LOG:
        pairs = [(name, text.encode("latin-1")) for name, text in headers]
        read.append(
            (log_record.subject_of(key.encode()), *log_record.identity(pairs), *log_record.extras(pairs))
        )
    assert read == [
        ("orders.a", 3, 41, HEADERS, TIME),
        ("orders.a", *log_record.NO_MESSAGE, (), 0),  # a tombstone
        ("orders.b", 3, 42, (), TIME + 1),
    ]


def test_the_registry_is_read_as_it_was_written() -> None:
    stream = registry.parse(registry.stream_key("ORDERS"), bytes.fromhex(GOLDEN["registry_stream"]))
    assert isinstance(stream, registry.RegisteredStream)
    assert stream[:4] == ("ORDERS", 3, 2, ("orders.>",))
    owner = registry.parse(registry.epoch_key(11), bytes.fromhex(GOLDEN["registry owner"]))
    assert owner == registry.ShardOwner(11, 1_700_000_000_123, "node-1")


def test_every_schema_has_a_sample() -> None:
    schemas = {path.stem for path in avro.schema_folder().glob("*.avsc")}
    assert schemas <= GOLDEN.keys()
    assert GOLDEN.keys() == CODED.keys() | CHANGELOG.keys() | OTHERS.keys()
