"""Whatever stands in a topic, the parsers at the edge return a value or say why there is none; they never raise."""

from __future__ import annotations

import contextlib
import json
import logging
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from railgun.cli.commands.dead_letters import DeadLetter
from railgun.cli.commands.events import describe
from railgun.client.connection.registry import RegistryView
from railgun.client.operations import consumers, shards, streams
from railgun.client.operations.streams import changed_config
from railgun.client.transports.kafka.cursors import Cursor
from railgun.errors import ConfigError, RailgunError
from railgun.kafka.record_headers import headers_of
from railgun.kafka.skipped import Skipped
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.messages import Reply, StoredMessage, StreamInfo
from railgun.model.stream_config import StreamConfig
from railgun.protocol import advisory_record, log_record, registry, replies
from railgun.protocol import avro as wire
from railgun.protocol.columnar.read_records import ReadReply
from railgun.protocol.leases import Lease
from railgun.protocol.replies import ReplyBatch
from railgun.protocol.unreadable import Unreadable
from tests.support.transports import registered
from tests.unit.client.test_log_cursors import Stored, parcel_of

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
epochs = st.builds(
    lambda value: json.dumps(value).encode(), json_values | st.fixed_dictionaries({"epoch": json_values})
)
names = st.sampled_from(
    [
        b"cluster",
        b"stream/",
        b"stream/A",
        b"stream/\xff",
        b"epoch/",
        b"epoch/0",
        b"epoch/-1",
        b"epoch/x",
        b"later/1",
    ]
)
own = st.sampled_from(["Railgun-Sequence", "Railgun-Time", "Railgun-Incarnation", "a", ""])
headers = st.lists(
    st.tuples(own, st.none() | st.binary(max_size=25) | st.integers().map(lambda n: b"%d" % n)), max_size=5
)


def stream_record(config: str, state: str = "active", partition: int = 1) -> bytes:
    fields = {
        "name": "A",
        "incarnation": 3,
        "partition": partition,
        "state": state,
        "config": config,
        "created": 1,
    }
    return wire.encode("registry_stream", fields)


# ------------------------------------------------------------ the registry


@given(names | st.binary(max_size=20), st.none() | st.binary(max_size=60) | epochs)
@example(b"epoch/0", b"[]")
@example(b"epoch/0", b'{"epoch": null}')
@example(b"epoch/0", b"[" * 100_000)
def test_any_registry_record_is_read_or_skipped(key: bytes, value: bytes | None) -> None:
    registry.parse(key, value)
    view = RegistryView(lambda: None)
    view.apply([(key, value), registered("S", "s.*", partition=1)])
    assert view.stream("S") is not None


@given(json_values)
@example({"subjects": "a"})
@example({"subjects": ["a..b"]})
@example({"subjects": [1]})
def test_any_configuration_of_a_stream_is_read_or_skipped(config: Any) -> None:
    found = registry.parse(b"stream/A", stream_record(json.dumps(config)))
    assert isinstance(found, registry.RegisteredStream | Unreadable)


def test_what_a_later_version_adds_is_ignored() -> None:
    config = json.dumps(
        {"subjects": ["a.*"], "no_ack": True, "invented_later": {"x": 1}, "retention": "new kind"}
    )
    found = registry.parse(b"stream/A", stream_record(config) + b"\x02more")
    assert isinstance(found, registry.RegisteredStream)
    assert (found.name, found.incarnation, found.patterns, found.no_ack) == ("A", 3, ("a.*",), True)
    cluster = registry.Protected("c", "railgun", 4, 2)
    assert registry.parse(b"cluster", cluster.encode() + b"\x00") == cluster
    assert registry.parse(b"epoch/3", b'{"epoch": 7, "more": [], "node": "n"}') == registry.ShardOwner(
        3, 7, "n"
    )
    assert registry.parse(b"another/kind", b"\xff") is None


@pytest.mark.parametrize("changed", [{"partitions": 0}, {"partitions": -3}, {"reply_factor": 0}])
def test_a_cluster_that_cannot_be_is_skipped(changed: dict[str, int]) -> None:
    wrong = registry.Protected("c", "railgun", 4, 2)._replace(**changed)
    assert isinstance(registry.parse(b"cluster", wrong.encode()), Unreadable)


def test_a_record_that_cannot_be_read_leaves_what_was_known(caplog: pytest.LogCaptureFixture) -> None:
    moved: list[int] = []
    view = RegistryView(lambda: None, moved.append)
    view.apply([registered("S", "s.*", partition=1), (b"epoch/1", b'{"epoch": 5}')])
    for _ in range(3):
        view.apply([(b"stream/S", b"\xff"), (b"epoch/1", b"[]"), (b"epoch/0", b"{}"), (b"cluster", b"")])
    assert view.stream("S") is not None
    assert moved == []
    assert len(caplog.records) == 3  # one for each kind: a stream, an owner, a cluster
    view.apply([(b"epoch/1", b'{"epoch": 6}')])
    assert moved == [1]


# ------------------------------------------------------------ answers

answers = ReplyBatch(
    1, 5, [], [], [Lease("S", 1, "C", 7, "log", sequences=[1], counts=[2], offsets=[0], consumer_sequences=[1], deliveries=[1])]
).encode()  # fmt: skip


@given(st.none() | st.binary(max_size=80))
def test_any_answer_is_read_or_skipped(data: bytes | None) -> None:
    assert isinstance(replies.parse(data), ReplyBatch | Unreadable)


@given(st.integers(0, len(answers) - 1), st.integers(0, 255))
def test_an_answer_with_a_damaged_byte_is_read_or_skipped(at: int, byte: int) -> None:
    found = replies.parse(answers[:at] + bytes([byte]) + answers[at + 1 :])
    assert isinstance(found, ReplyBatch | Unreadable)


@pytest.mark.parametrize(
    "fields",
    [
        {"sequences": [1, 2]},
        {"counts": [0]},
        {"counts": [-4]},
        {"deliveries": []},
        {"offsets": []},
        {"subjects": ["a"], "payloads": [b""], "times": [1]},
        {"subjects": ["a", "b"], "payloads": [b""], "times": [1, 2]},
        {"subjects": ["a", "b"], "payloads": [b"", b""], "times": [1, 2], "headers": [[]]},
    ],
)
def test_a_lease_whose_columns_do_not_fit_is_skipped(fields: dict[str, Any]) -> None:
    lease = ReplyBatch.decode(answers).leases[0]._replace(**fields)
    assert isinstance(replies.parse(ReplyBatch(1, 5, [], [], [lease]).encode()), Unreadable)


@pytest.mark.parametrize(
    "fields",
    [
        {"times": []},
        {"subjects": ["a"]},
        {"payloads": [b""]},
        {"headers": [[("a", b"b")]]},
        {"offsets": [1]},
        {"indexes": [1]},
        {"sequences": [1, 2, 3]},
    ],
)
def test_a_read_whose_columns_do_not_fit_is_skipped(fields: dict[str, Any]) -> None:
    page = ReadReply(1, "log", 1, [], [1, 2], [1, 2], ["a", "b"], [], [b"x", b"y"])
    assert isinstance(replies.parse(ReplyBatch(1, 5, [], [], [], [page]).encode()), ReplyBatch)
    broken = page._replace(**fields)
    assert isinstance(replies.parse(ReplyBatch(1, 5, [], [], [], [broken]).encode()), Unreadable)


CALLS = [
    streams.stream_info("A"),
    streams.list_streams(),
    streams.purge("A", subject=None, sequence=None, keep=None),
    shards.ping(0),
    streams.delete_stream("A"),
    consumers.consumer_info("A", "C"),
    consumers.list_consumers("A", 0),
]
bodies = st.binary(max_size=30) | st.builds(
    lambda value: json.dumps(value).encode(),
    json_values
    | st.dictionaries(
        st.sampled_from(["error", "config", "state", "streams", "consumers", "message", "purged", "created"]),
        json_values,
    ),
)


@given(st.sampled_from(CALLS), st.lists(bodies, max_size=2))
def test_any_answer_of_the_api_is_a_value_or_an_error_of_ours(call: Any, found: list[bytes]) -> None:
    with contextlib.suppress(RailgunError):
        call.value([Reply(body) for body in found])


# ------------------------------------------------------------ logs


@given(st.none() | headers, st.none() | st.binary(max_size=10), st.none() | st.binary(max_size=10))
@example(
    [("Railgun-Sequence", b"1"), ("Railgun-Time", None), ("Railgun-Incarnation", b"9" * 5_000)], b"k", b"v"
)
def test_any_log_record_is_read_or_skipped(
    given_headers: Any, key: bytes | None, value: bytes | None
) -> None:
    found = log_record.identity(given_headers)
    assert found == log_record.NO_MESSAGE or found[1] > 0
    log_record.extras(given_headers)
    log_record.fault(given_headers, value)
    log_record.subject_of(key)


@given(st.lists(st.tuples(headers, st.none() | st.binary(max_size=4)), max_size=6), st.integers(0, 6))
def test_foreign_records_between_messages_hide_none_of_them(
    foreign: list[tuple[Any, bytes | None]], place: int
) -> None:
    """Three messages with anything between them: those that come are right, and the cursor comes to its end."""
    parcel, owner = parcel_of([(1, 3, 0)])
    records: list[Stored] = [Stored(number, number) for number in (1, 2, 3)]
    odd: list[Stored] = [Odd(2, given_headers, value) for given_headers, value in foreign]
    odd = [one for one in odd if log_record.identity(one.headers()) == log_record.NO_MESSAGE]
    cut = min(place, 3)
    cursor = Cursor(parcel)
    cursor.read([*records[:cut], *odd, *records[cut:]])
    cursor.hand_over()
    assert cursor.done
    assert owner.sequences == [1, 2, 3]


class Odd(Stored):
    """A record with any headers, value and key."""

    def __init__(self, offset: int, given: Any, value: bytes | None, key: bytes = b"k") -> None:
        super().__init__(offset, 0)
        self._headers, self._value, self._key = given, value, key

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes | None:
        return self._value


def test_a_message_whose_key_is_no_subject_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    parcel, owner = parcel_of([(1, 40, 0)])
    parcel.lease = parcel.lease._replace(topic="log of bad keys")
    records = [Stored(number, number) for number in range(1, 41)]
    for number in (20, 21):
        records[number - 1] = Odd(number, records[number - 1].headers(), b"", b"\xff")
    cursor = Cursor(parcel)
    left: list[Stored] = records
    while not cursor.done:
        left = left[cursor.read(left) :]
    cursor.hand_over()
    assert owner.sequences == [number for number in range(1, 41) if number not in (20, 21)]
    assert parcel.done
    assert len(caplog.records) == 1
    assert "log of bad keys: the record at 20 cannot be read" in caplog.text


def test_header_names_that_are_not_utf_8_are_taken_out() -> None:
    class AsConfluentKafkaDoes:
        given: Any = None

        def headers(self) -> Any:
            if self.given is None:
                raise SystemError("returned a result with an exception set")
            return self.given

        def set_headers(self, given: Any) -> None:
            self.given = given

    message = AsConfluentKafkaDoes()
    assert headers_of(message) == []
    assert message.headers() == []


# ------------------------------------------------------------ advisories, and what the commands show


@given(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=40) | epochs)
def test_any_advisory_is_read_or_skipped(key: bytes | None, value: bytes | None) -> None:
    found = advisory_record.parse(key, value)
    assert isinstance(found, Unreadable) or json.loads(found[1])["type"]


kinds = st.sampled_from(
    ["max_deliver", "terminated", "nak", "consumer_ack", "stream_action", "invented_later"]
)
fields = st.sampled_from(
    ["stream", "consumer", "stream_seq", "deliveries", "ack_time", "reason", "action", "timestamp"]
)


@given(kinds, st.dictionaries(fields, json_values, max_size=6))
def test_any_event_is_described(kind: str, event: dict[str, Any]) -> None:
    assert describe({"type": f"io.nats.jetstream.advisory.v1.{kind}", **event})


@given(st.binary(max_size=30), st.binary(max_size=30))
def test_any_dead_letter_is_shown(sequence: bytes, reason: bytes) -> None:
    noted = [
        (f"Railgun-Origin-{name}", value) for name, value in (("Sequence", sequence), ("Reason", reason))
    ]
    json.dumps(DeadLetter(StoredMessage("a", 1, b"", noted, 0)).as_object())


def test_an_answer_with_fields_of_a_later_version_is_read() -> None:
    config = {
        **StreamConfig(name="A", subjects=["a"]).to_api(),
        "invented": 1,
        "republish": {"dest": "b", "invented": 2},
    }
    state = dict.fromkeys(("messages", "bytes", "first_seq", "last_seq", "consumer_count"), 0)
    info = StreamInfo.from_api(
        {"config": config, "state": {**state, "invented": 3}, "created": "", "invented": 4}
    )
    assert info.config.republish is not None
    assert info.config.max_age == StreamConfig(name="A").max_age
    assert (
        ConsumerConfig.from_answer({"durable_name": "C", "invented": [], "ack_wait": 10**9}).durable_name
        == "C"
    )


def test_an_update_does_not_drop_what_a_later_version_set() -> None:
    config = StreamConfig(name="A", subjects=["a"]).to_api()
    state = dict.fromkeys(("messages", "bytes", "first_seq", "last_seq", "consumer_count"), 0)
    known = StreamInfo.from_api({"config": config, "state": state, "created": ""})
    assert changed_config(known, {"max_msgs": 5}).max_msgs == 5
    later = StreamInfo.from_api({"config": {**config, "invented": 1}, "state": state, "created": ""})
    with pytest.raises(ConfigError, match="invented was set by a later version"):
        changed_config(later, {"max_msgs": 5})


def test_each_topic_and_kind_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    skipped = Skipped(logging.getLogger("railgun.test"))
    for offset in range(100):
        for topic in ("one", "two"):
            skipped.add(topic, offset, Unreadable("a", f"reason {offset}"))
    skipped.add("one", 7, Unreadable("b", "another"))
    assert skipped.count == 201
    assert [record.args[:2] for record in caplog.records] == [("one", 0), ("two", 0), ("one", 7)]  # type: ignore[index]
