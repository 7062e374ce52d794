"""Records of the changelog that cannot be read: what they belong to is set aside and refused, everything else is served."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from railgun.cli.doctor.checks import check_unreadable
from railgun.client.operations.shards import Pong
from railgun.protocol import avro as wire
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.streams import stream_timers as timers
from railgun.state import keys
from tests.support.driven_shard import NAMES, Broker, Driven
from tests.support.waiting import wait_until

STREAMS: dict[str, dict[str, Any]] = {
    "PLAIN": {},
    "DIRECT": {"allow_direct": True, "max_msgs": 20},
    "KEYED": {"max_msgs_per_subject": 2},
    "QUEUE": {"retention": "workqueue"},
    "INTEREST": {"retention": "interest"},
    "AGED": {"max_age": 3600 * 10**9},
}
CONSUMED = ("PLAIN", "QUEUE", "INTEREST", "AGED")
OF_PLAIN = ("c", "d")  # a second consumer, where one may be set aside alone


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Broker:
    """What a broker holds after some life of several streams and consumers."""
    with pytest.MonkeyPatch.context() as patch:
        driven = Driven(tmp_path_factory.mktemp("recorded"), patch)
        for name, config in STREAMS.items():
            driven.create(name, duplicate_window=3600 * 10**9, **config)
        for stream in CONSUMED:
            for consumer in OF_PLAIN if stream == "PLAIN" else ("c",):
                config = {"durable_name": consumer, "ack_policy": "explicit", "ack_wait": 10**9}
                driven.ask(f"CONSUMER.CREATE.{stream}.{consumer}", {"stream_name": stream, "config": config})
        for round_ in range(3):
            for name in STREAMS:
                last = driven.publish(name, [f"{name}-{round_}-{number}" for number in range(12)])
            driven.await_answers(last)
            for stream in CONSUMED:
                driven.pull(stream, "c", 3)
        for name in STREAMS:
            driven.await_answers(driven.delete(name, 30))
        assert not driven.crashed
        driven.close()
        return driven.broker


class Damaged:
    """A copy of the broker with one record of the changelog damaged, and whose it was."""

    def __init__(self, recorded: Broker, key: bytes, damage: Callable[[bytes], bytes]) -> None:
        self.broker = copy.deepcopy(recorded)
        self.key = key
        changelog = self.broker.topics[NAMES.changelog]
        at = max(number for number, record in enumerate(changelog) if record.key == key)
        changelog[at] = changelog[at]._replace(value=damage(changelog[at].value or b""))
        self.stream = names_of(recorded).get(keys.incarnation_in(key) or 0, "")
        if key.startswith(keys.RESERVATION):
            self.stream = key[1:].decode()


def live(broker: Broker) -> dict[bytes, bytes]:
    """The last value of each key of the changelog."""
    values = {record.key: record.value for record in broker.topics[NAMES.changelog]}
    return {key: value for key, value in values.items() if value is not None}


def names_of(broker: Broker) -> dict[int, str]:
    return {
        keys.sequence_in(key): wire.decode("stream_record", value)["name"]
        for key, value in live(broker).items()
        if key.startswith(keys.STREAM)
    }


@pytest.fixture
def take_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Broker], Driven]]:
    made: list[Driven] = []

    def take(broker: Broker) -> Driven:
        made.append(Driven(tmp_path, monkeypatch, broker))
        return made[-1]

    yield take
    for one in made:
        one.close()


def assert_serves(driven: Driven, stream: str) -> None:
    before = driven.stored_ids(stream)
    driven.await_answers(driven.publish(stream, [before[-1], f"{stream}-new"]))
    assert not driven.crashed, driven.crashed
    assert driven.stored_ids(stream) == [*before, f"{stream}-new"], stream
    info = driven.ask(f"STREAM.INFO.{stream}")
    assert info["state"]["last_seq"] == len(before) + 1
    if stream in CONSUMED:
        assert driven.pull(stream, "c").sequences, f"the consumer of {stream} gets its messages"


def of_kind(kind: bytes, stream: str, recorded: Broker, nth: int = 0) -> bytes:
    (incarnation,) = [number for number, name in names_of(recorded).items() if name == stream]
    return sorted(key for key in live(recorded) if key.startswith(keys.all_of(kind, incarnation)))[nth]


def garbage(_: bytes) -> bytes:
    return b"\xff" * 7


@pytest.mark.parametrize("kind", [keys.STREAM, keys.BLOCK, keys.REMOVED, keys.IDS], ids=str)
def test_a_stream_that_cannot_be_read_is_refused_and_the_others_are_served(
    recorded: Broker, kind: bytes, take_over: Callable[[Broker], Driven], caplog: pytest.LogCaptureFixture
) -> None:
    damaged = Damaged(recorded, of_kind(kind, "PLAIN", recorded), garbage)
    driven = take_over(damaged.broker)
    for stream in STREAMS:
        if stream != "PLAIN":
            assert_serves(driven, stream)
    before = len(driven.broker.topics[NAMES.changelog])
    last = driven.publish("PLAIN", ["new"])
    driven.await_answers(last)
    refusal = driven.refused(last)
    assert refusal is not None
    assert refusal.code == 503
    assert "set aside" in refusal.description
    for asked in ("STREAM.INFO.PLAIN", "CONSUMER.INFO.PLAIN.c", "STREAM.DELETE.PLAIN"):
        assert driven.ask(asked)["error"]["code"] == 503, asked
    assert driven.pull("PLAIN", "c").status == 503
    assert not driven.crashed
    assert caplog.text.count("is set aside, the others are served") == 1
    victim = keys.incarnation_in(damaged.key)
    written = driven.broker.topics[NAMES.changelog][before:]
    assert not [record for record in written if keys.incarnation_in(record.key) == victim], (
        "nothing is removed"
    )


@pytest.mark.parametrize("kind", [keys.CONSUMER, keys.PENDING], ids=str)
def test_a_consumer_that_cannot_be_read_is_refused_alone(
    recorded: Broker, kind: bytes, take_over: Callable[[Broker], Driven]
) -> None:
    damaged = Damaged(recorded, of_kind(kind, "PLAIN", recorded), garbage)  # the first of them: c
    driven = take_over(damaged.broker)
    for stream in STREAMS:
        if stream != "PLAIN":
            assert_serves(driven, stream)
    driven.await_answers(driven.publish("PLAIN", ["new"]))
    assert driven.stored_ids("PLAIN")[-1] == "new"
    assert driven.pull("PLAIN", "d").sequences
    config = {"durable_name": "c", "ack_policy": "explicit"}
    for asked, body in (
        ("CONSUMER.INFO.PLAIN.c", None),
        ("CONSUMER.DELETE.PLAIN.c", None),
        ("CONSUMER.CREATE.PLAIN.c", {"stream_name": "PLAIN", "config": config}),
    ):
        assert driven.ask(asked, body)["error"]["code"] == 503, asked
    assert driven.pull("PLAIN", "c").status == 503
    assert_no_crash_and_doctor_names(driven, "PLAIN")


def test_a_consumer_that_messages_wait_for_takes_its_stream_with_it(
    recorded: Broker, take_over: Callable[[Broker], Driven]
) -> None:
    """What it has not acknowledged must not go because the others are through with it."""
    damaged = Damaged(recorded, of_kind(keys.PENDING, "INTEREST", recorded), garbage)
    driven = take_over(damaged.broker)
    assert driven.ask("STREAM.INFO.INTEREST")["error"]["code"] == 503
    assert_serves(driven, "QUEUE")


def test_a_reservation_that_cannot_be_read_keeps_its_name(
    recorded: Broker, take_over: Callable[[Broker], Driven]
) -> None:
    driven = take_over(Damaged(recorded, keys.reservation("PLAIN"), garbage).broker)
    for stream in STREAMS:
        assert_serves(driven, stream)
    assert driven.ask("STREAM.CREATE.PLAIN", {"name": "PLAIN", "subjects": ["x"]})["error"]["code"] == 503
    driven.create("ANOTHER")
    assert_no_crash_and_doctor_names(driven, "the reservation of the stream PLAIN")


def assert_no_crash_and_doctor_names(driven: Driven, what: str) -> None:
    pong = driven.ask("PING")
    (finding,) = check_unreadable([(0, Pong(0, 0, pong["unreadable"]), 0.1)])
    assert what in finding.text
    assert not driven.crashed


def impossible(schema: str, field: str) -> Callable[[bytes], bytes]:
    """The damage of a record that can be read and has a number from which nothing can be counted on."""
    return lambda value: wire.encode(schema, wire.decode(schema, value) | {field: 2**63 - 1})


@pytest.mark.parametrize("field", ["last_seq", "last_time", "log_end", "bytes"])
def test_a_stream_with_a_number_that_is_none_is_refused_and_the_others_are_served(
    recorded: Broker, take_over: Callable[[Broker], Driven], caplog: pytest.LogCaptureFixture, field: str
) -> None:
    key = of_kind(keys.STREAM, "PLAIN", recorded)
    driven = take_over(Damaged(recorded, key, impossible("stream_record", field)).broker)
    refused = driven.ask("STREAM.INFO.PLAIN")["error"]
    assert refused["code"] == 503
    assert "set aside" in refused["description"]
    assert f"there is no {field} {2**63 - 1}" in caplog.text
    for stream in STREAMS.keys() - {"PLAIN"}:
        assert_serves(driven, stream)


@pytest.mark.parametrize("damage", [garbage, impossible("shard_cursor", "clock")], ids=["garbage", "clock"])
def test_a_shard_without_its_cursor_is_not_served_and_ends_no_worker(
    recorded: Broker,
    take_over: Callable[[Broker], Driven],
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[bytes], bytes],
) -> None:
    driven = take_over(Damaged(recorded, keys.CURSOR, damage).broker)
    wait_until(lambda: "its cursor must be mended" in caplog.text, "that it says so")
    stored = driven.stored_ids("PLAIN")
    driven.publish("PLAIN", ["new"])
    driven.feed()
    assert driven.shard.stop(10), "and it can be stopped"
    assert (driven.crashed, driven.stored_ids("PLAIN")) == ([], stored)


def test_keys_that_are_none_are_skipped(recorded: Broker, take_over: Callable[[Broker], Driven]) -> None:
    broker = copy.deepcopy(recorded)
    for key in (
        b"",
        b"s\x00",
        keys.stream(1) + b"x",
        b"b123",
        b"q" + b"\x00" * 8,
        b"\xfe of a later version",
    ):
        broker.append(NAMES.changelog, key, b"what?")
    driven = take_over(broker)
    for stream in STREAMS:
        assert_serves(driven, stream)


def test_a_stream_whose_timers_fail_is_set_aside(
    recorded: Broker, take_over: Callable[[Broker], Driven], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a record that can be read and says nonsense: no command is to blame, and time does not stop."""
    driven = take_over(copy.deepcopy(recorded))
    honest = timers._expire_messages

    def fails(state: OwnedStream, *args: Any) -> None:
        if state.name == "SHORT":
            raise ZeroDivisionError("nonsense")
        honest(state, *args)

    monkeypatch.setattr(timers, "_expire_messages", fails)
    driven.create("SHORT", max_age=10**8)
    driven.await_answers(driven.publish("SHORT", ["1"]))
    wait_until(
        lambda: driven.ask("STREAM.INFO.SHORT").get("error", {}).get("code") == 503, "that it is set aside"
    )
    for stream in STREAMS:
        assert_serves(driven, stream)


_DAMAGES: list[Callable[[random.Random, bytes], bytes]] = [
    lambda dice, value: dice.randbytes(dice.randrange(1, 40)),
    lambda dice, value: value[: dice.randrange(len(value))] if value else b"x",
    lambda dice, value: value + dice.randbytes(3),
    lambda dice, value: _flipped(dice, value),
]


def _flipped(dice: random.Random, value: bytes) -> bytes:
    if not value:
        return b"x"
    changed = bytearray(value)
    changed[dice.randrange(len(value))] ^= 1 << dice.randrange(8)
    return bytes(changed)


@pytest.mark.parametrize("seed", range(32))
def test_whatever_one_record_holds_the_other_streams_are_served(
    recorded: Broker, seed: int, take_over: Callable[[Broker], Driven]
) -> None:
    dice = random.Random(seed)
    key = dice.choice(sorted(key for key in live(recorded) if key not in (keys.CURSOR, keys.CLOCK_SHIFT)))
    damage = dice.choice(_DAMAGES)
    damaged = Damaged(recorded, key, lambda value: damage(dice, value))
    driven = take_over(damaged.broker)
    for stream in STREAMS:
        if stream != damaged.stream:
            assert_serves(driven, stream)
        else:  # it may be refused, or served as what it now says; it must not stop the others
            driven.publish(stream, ["new"])
    assert not driven.crashed
