"""Rules of streams that only consumers and listeners show: republishing, limits for consumers, deletes and purges."""

from __future__ import annotations

import json
from typing import Any

import pytest

import railgun
from railgun.client.facade.railgun import Railgun
from railgun.model.durations import parse_rfc3339
from railgun.testing import Clock
from tests.support.consumers import NOT_FOUND, SECOND, about, add, add_refused, delivery, sequences
from tests.support.raw import ask, create_refused, refused, update_refused
from tests.support.raw_consumer import Numbers, RawConsumer
from tests.support.streams import Unique, filled, held
from tests.support.waiting import wait_until

NO_STREAM = (10059, 404, "stream not found")
TOO_MANY = (10026, 400, "maximum consumers limit reached")
CYCLE = (10052, 500, "stream configuration for republish destination forms a cycle")


def collector(rg: Railgun, unique: Unique, subject: str) -> railgun.Stream:
    """A stream that stores what is said on the subject."""
    return rg.create_stream(unique("KEPT"), subjects=[subject])


def kept(stream: railgun.Stream, count: int) -> list[railgun.StoredMessage]:
    """What a collector has, once there are so many."""
    wait_until(lambda: stream.info().state.messages >= count, f"{count} messages in {stream.name}")
    found = [stream.get(sequence) for sequence in held(stream)]
    assert len(found) == count
    return found


# ------------------------------------------------------------ republish


@pytest.mark.rule("CFG-25")
def test_stored_messages_are_said_again_with_where_they_are(rg: Railgun, unique: Unique) -> None:
    out = unique("out")
    other = collector(rg, unique, f"{out}.>")
    name = unique("ORDERS")
    stream = rg.create_stream(
        name, subjects=[f"{name}.>"], republish={"src": f"{name}.>", "dest": f"{out}.>"}
    )
    for token, body in (("a", b"one"), ("b", b"two"), ("a", b"three")):
        rg.publish(f"{name}.{token}", body, headers={"Trace": token})
    found = kept(other, 3)
    assert [(one.subject, one.payload) for one in found] == [
        (f"{out}.a", b"one"),
        (f"{out}.b", b"two"),
        (f"{out}.a", b"three"),
    ]
    said = [
        [
            one.header(header)
            for header in ("Trace", "Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Last-Sequence")
        ]
        for one in found
    ]
    assert said == [
        ["a", name, f"{name}.a", "1", "0"],
        ["b", name, f"{name}.b", "2", "0"],
        ["a", name, f"{name}.a", "3", "1"],
    ]
    times = [parse_rfc3339(one.header("Nats-Time-Stamp") or "") for one in found]
    assert times == [stream.get(sequence).time_ns for sequence in (1, 2, 3)]
    assert [one.header("Nats-Msg-Size") for one in found] == [None, None, None]


@pytest.mark.rule("CFG-25")
def test_only_what_matches_and_was_stored_is_said_again(rg: Railgun, unique: Unique) -> None:
    out = unique("out")
    other = collector(rg, unique, out)
    name = unique("ORDERS")
    rg.create_stream(
        name, subjects=[f"{name}.*"], max_msg_size=50, republish={"src": f"{name}.one", "dest": out}
    )
    rg.publish(f"{name}.two", b"no")
    rg.publish(f"{name}.one", b"yes", msg_id="1")
    assert rg.publish(f"{name}.one", b"dup", msg_id="1").duplicate
    with pytest.raises(railgun.MessageRefused):
        rg.publish(f"{name}.one", b"x" * 51)
    rg.publish(f"{name}.one", b"last")
    assert [(one.subject, one.payload) for one in kept(other, 2)] == [(out, b"yes"), (out, b"last")]
    assert [one.header("Nats-Last-Sequence") for one in kept(other, 2)] == ["0", "2"]


@pytest.mark.rule("CFG-25")
def test_without_a_source_everything_is_said_again(rg: Railgun, unique: Unique) -> None:
    out = unique("out")
    other = collector(rg, unique, f"{out}.>")
    name = unique("ORDERS")
    rg.create_stream(name, subjects=[f"{name}.>"], republish={"dest": f"{out}.>"})
    rg.publish(f"{name}.a.b", b"x")
    assert [one.subject for one in kept(other, 1)] == [f"{out}.{name}.a.b"]


@pytest.mark.rule("CFG-25")
def test_a_pipeline_is_said_again_whole_and_in_order(rg: Railgun, unique: Unique) -> None:
    out = unique("out")
    other = collector(rg, unique, f"{out}.>")
    name = unique("ORDERS")
    rg.create_stream(name, subjects=[f"{name}.*"], republish={"src": f"{name}.*", "dest": f"{out}.$1.x"})
    for number in range(500):
        rg.publish_soon(f"{name}.{number % 3}", str(number))
    rg.flush()
    wait_until(lambda: other.info().state.messages >= 500, "all are said again")
    reader = RawConsumer(rg, other.name, ack_policy="none")
    found = reader.take(600)
    assert [int(one.body) for one in found] == list(range(500))
    assert [one.header("Nats-Sequence") for one in found] == [str(number + 1) for number in range(500)]
    assert [one.header("Nats-Last-Sequence") for one in found] == [
        str(max(number - 2, 0)) for number in range(500)
    ]
    assert [one.subject for one in found[:3]] == [f"{out}.{token}.x" for token in "012"]


@pytest.mark.rule("CFG-25")
def test_headers_alone_come_with_the_size_of_the_body(rg: Railgun, unique: Unique) -> None:
    out = unique("out")
    other = collector(rg, unique, out)
    name = unique("ORDERS")
    rg.create_stream(name, subjects=[name], republish={"src": name, "dest": out, "headers_only": True})
    rg.publish(name, b"12345", headers={"Trace": "1"})
    (found,) = kept(other, 1)
    assert found.payload == b""
    assert (found.header("Nats-Msg-Size"), found.header("Trace")) == ("5", "1")
    assert (found.header("Nats-Sequence"), found.header("Nats-Stream")) == ("1", name)


@pytest.mark.rule("CFG-25")
def test_a_listener_hears_what_is_said_again(rg: Railgun, unique: Unique) -> None:
    out = unique("out")
    name = unique("ORDERS")
    rg.create_stream(name, subjects=[name], republish={"src": name, "dest": out})
    heard: list[tuple[str, bytes, str | None]] = []
    with rg.listen(out) as listener:
        wait_until(
            lambda: bool(rg.publish(name, b"anybody?")) and listener.next(wait=0.2) is not None,
            "the listener is known",
        )
        while listener.next(wait=0.5) is not None:
            pass
        first = rg.publish(name, b"one").sequence
        rg.publish(name, b"two")
        for _ in range(2):
            message = listener.next(wait=10.0)
            assert message is not None
            heard.append((message.subject, message.payload, message.header("Nats-Sequence")))
    assert heard == [(out, b"one", str(first)), (out, b"two", str(first + 1))]


@pytest.mark.rule("CFG-25")
def test_a_republished_subject_may_not_lead_back(rg: Railgun, unique: Unique) -> None:
    name = unique("ORDERS")
    for source, destination in ((f"{name}.a", f"{name}.b"), (f"{name}.>", f"{name}.again.>")):
        republish: dict[str, str] = {"src": source, "dest": destination}
        assert create_refused(rg, name, subjects=[f"{name}.>"], republish=republish) == CYCLE
    rg.create_stream(name, subjects=[f"{name}.>"])
    republish = {"dest": f"{name}.b"}
    assert update_refused(rg, name, subjects=[f"{name}.>"], republish=republish) == CYCLE


# ------------------------------------------------------------ limits for consumers


@pytest.mark.rule("CFG-27")
def test_consumer_limits_are_defaults(rg: Railgun) -> None:
    limits = {"inactive_threshold": 300, "max_ack_pending": 7}
    stream = filled(rg, *"a" * 9, consumer_limits=limits)
    config = add(rg, stream.name)["config"]
    assert (config["inactive_threshold"], config["max_ack_pending"]) == (300 * SECOND, 7)
    lower = add(rg, stream.name, "LOWER", inactive_threshold=10 * SECOND, max_ack_pending=3)["config"]
    assert (lower["inactive_threshold"], lower["max_ack_pending"]) == (10 * SECOND, 3)
    equal = add(rg, stream.name, "EQUAL", inactive_threshold=300 * SECOND, max_ack_pending=7)["config"]
    assert (equal["inactive_threshold"], equal["max_ack_pending"]) == (300 * SECOND, 7)


@pytest.mark.rule("CFG-27")
def test_consumer_limits_are_ceilings(rg: Railgun) -> None:
    limits = {"inactive_threshold": 300, "max_ack_pending": 7}
    stream = filled(rg, consumer_limits=limits)
    expected = (10121, 400, "consumer max ack pending exceeds system limit of 7")
    assert add_refused(rg, stream.name, max_ack_pending=8) == expected
    number, code, text = add_refused(rg, stream.name, inactive_threshold=301 * SECOND)
    assert (number, code) == (10153, 400)
    assert text.startswith("consumer inactive threshold exceeds system limit of ")
    add(rg, stream.name)
    assert add_refused(rg, stream.name, action="update", max_ack_pending=8) == expected
    assert about(rg, stream.name)["config"]["max_ack_pending"] == 7


@pytest.mark.rule("CFG-27")
def test_a_consumer_obeys_the_default_of_its_stream(rg: Railgun, clock: Clock) -> None:
    limits = {"inactive_threshold": 300, "max_ack_pending": 2}
    stream = filled(rg, *"aaaa", consumer_limits=limits)
    worker = RawConsumer(rg, stream.name)
    assert sequences(worker.fetch(4)) == [1, 2]
    clock.advance(302)
    wait_until(
        lambda: ask(rg, f"CONSUMER.INFO.{stream.name}.C").get("error", {}).get("err_code") == 10014,
        "the idle consumer is gone",
    )


@pytest.mark.rule("CFG-28")
def test_one_consumer_too_many_is_refused(rg: Railgun) -> None:
    stream = filled(rg, max_consumers=2)
    add(rg, stream.name, "ONE")
    two = RawConsumer(rg, stream.name, "TWO")
    assert add_refused(rg, stream.name, "THREE") == TOO_MANY
    with pytest.raises(railgun.ApiError) as raised:
        stream.create_consumer("THREE")
    assert (raised.value.err_code, raised.value.code, raised.value.description) == TOO_MANY
    with pytest.raises(railgun.ApiError):
        stream.create_consumer()
    add(rg, stream.name, "ONE")  # exists already
    add(rg, stream.name, "ONE", action="update", description="changed")
    assert stream.info().state.consumer_count == 2
    two.delete()
    add(rg, stream.name, "THREE")
    assert stream.info().state.consumer_count == 2


@pytest.mark.rule("CFG-34")
def test_a_deleted_stream_takes_its_consumers_along(rg: Railgun, unique: Unique) -> None:
    name = unique("ORDERS")
    rg.create_stream(name, subjects=[name])
    rg.publish(name, b"old")
    worker = RawConsumer(rg, name)
    RawConsumer(rg, name, "OTHER")
    (message,) = worker.take()
    rg.delete_stream(name)
    for call in ("INFO", "DELETE"):
        assert refused(rg, f"CONSUMER.{call}.{name}.C") == NO_STREAM
    assert refused(rg, f"CONSUMER.NAMES.{name}") == NO_STREAM
    stream = rg.create_stream(name, subjects=[name])
    assert refused(rg, f"CONSUMER.INFO.{name}.C") == NOT_FOUND
    assert ask(rg, f"CONSUMER.NAMES.{name}")["consumers"] in ([], None)
    assert stream.info().state.consumer_count == 0
    rg.publish(name, b"new")
    again = RawConsumer(rg, name)
    assert again.numbers() == Numbers((0, 0), (0, 0), 0, 0)
    (fresh,) = again.take()
    assert (fresh.body, delivery(fresh).deliveries) == (b"new", 1)
    assert message.body == b"old"


@pytest.mark.rule("UPD-17", "UPD-18")
@pytest.mark.parametrize(
    "limits",
    [{"max_ack_pending": 50}, {"inactive_threshold": 60}],
    ids=["max_ack_pending", "inactive_threshold"],
)
def test_limits_below_an_existing_consumer_are_refused(rg: Railgun, limits: dict[str, Any]) -> None:
    wide = {"max_ack_pending": 100, "inactive_threshold": 3600}
    stream = filled(rg, consumer_limits=wide)
    add(rg, stream.name, "TALL", max_ack_pending=51, inactive_threshold=61 * SECOND)
    add(rg, stream.name, "GREAT", max_ack_pending=100, inactive_threshold=100 * SECOND)
    add(rg, stream.name, "SMALL", max_ack_pending=50, inactive_threshold=60 * SECOND)
    with pytest.raises(railgun.ApiError) as raised:
        rg.update_stream(stream.name, consumer_limits={**wide, **limits})
    error = raised.value
    assert (error.err_code, error.code) == (10069, 500)
    assert error.description.startswith("change to limits violates consumers: ")
    named = error.description.removeprefix("change to limits violates consumers: ")
    assert {"TALL", "GREAT"} <= set(named.replace(",", " ").split())
    assert "SMALL" not in named
    config = stream.info().config
    assert config.consumer_limits is not None
    assert config.consumer_limits.max_ack_pending == 100
    assert about(rg, stream.name, "GREAT")["config"]["max_ack_pending"] == 100


@pytest.mark.rule("UPD-17")
def test_limits_that_every_consumer_keeps_are_accepted(rg: Railgun) -> None:
    stream = filled(rg)
    worker = RawConsumer(rg, stream.name, max_ack_pending=50, inactive_threshold=60 * SECOND)
    rg.update_stream(stream.name, consumer_limits={"max_ack_pending": 50, "inactive_threshold": 60})
    assert add_refused(rg, stream.name, "NEW", max_ack_pending=51)[0] == 10121
    worker.delete()
    rg.update_stream(stream.name, consumer_limits={"max_ack_pending": 5, "inactive_threshold": 60})
    assert add(rg, stream.name, "NEW")["config"]["max_ack_pending"] == 5


# ------------------------------------------------------------ purges and deletes under consumers


@pytest.mark.rule("DEL-12")
def test_a_purge_takes_a_consumer_to_the_end(rg: Railgun) -> None:
    stream = filled(rg)
    for _ in range(100):
        rg.publish_soon(f"{stream.name}.a", b"x")
    rg.flush()
    worker = RawConsumer(rg, stream.name)
    found = worker.take(75)
    worker.ack(*found[:50])
    assert worker.numbers() == Numbers((75, 75), (50, 50), 25, 0)
    assert worker.info()["num_pending"] == 25
    stream.purge()
    assert worker.numbers() == Numbers(delivered=(75, 100), floor=(75, 100), ack_pending=0, redelivered=0)
    assert worker.info()["num_pending"] == 0
    rg.publish(f"{stream.name}.a", b"new")
    assert worker.info()["num_pending"] == 1
    (message,) = worker.take(9)
    assert (delivery(message).consumer_sequence, delivery(message).sequence) == (76, 101)
    worker.ack(message)
    assert worker.numbers() == Numbers((76, 101), (76, 101), 0, 0)


@pytest.mark.rule("DEL-12")
def test_a_purge_below_a_sequence_takes_along_what_it_removes(rg: Railgun) -> None:
    stream = filled(rg, *"a" * 10)
    worker = RawConsumer(rg, stream.name)
    worker.take(5)
    stream.purge(sequence=4)
    numbers = worker.numbers()
    assert (numbers.delivered, numbers.floor, numbers.ack_pending) == ((5, 5), (3, 3), 2)
    stream.purge(sequence=8)
    numbers = worker.numbers()
    assert numbers.ack_pending == 0
    assert (numbers.floor[0], numbers.floor[1]) == (5, 7)
    assert worker.info()["num_pending"] == 3
    assert sequences(worker.take(9)) == [8, 9, 10]


@pytest.mark.rule("DEL-13")
@pytest.mark.parametrize("way", ["all", "below", "subject"])
def test_what_was_purged_never_comes_again(rg: Railgun, clock: Clock, way: str) -> None:
    stream = filled(rg, *"aaa")
    worker = RawConsumer(rg, stream.name)
    first, *_ = worker.take(3)
    worker.nak(first)
    if way == "all":
        stream.purge()
    elif way == "below":
        stream.purge(sequence=4)
    else:
        stream.purge(subject=f"{stream.name}.a")
    assert worker.take(9) == []
    clock.advance(31)
    assert worker.take(9) == []
    assert worker.numbers().ack_pending == 0
    rg.publish(f"{stream.name}.a", b"new")
    (message,) = worker.take(9)
    assert (delivery(message).sequence, delivery(message).deliveries) == (4, 1)


@pytest.mark.rule("DEL-13")
def test_a_purge_between_two_deliveries(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, *"aaaa")
    worker = RawConsumer(rg, stream.name)
    worker.take(2)
    clock.advance(31)
    assert sequences(worker.take(2)) == [1, 2]
    stream.purge(sequence=2)
    clock.advance(31)
    assert sequences(worker.take(9)) == [2, 3, 4]


@pytest.mark.rule("DEL-14")
def test_a_filtered_purge_touches_only_whom_it_concerns(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a.x", "b", "a.x", "b", "a.y", "b")
    name = stream.name
    equal = RawConsumer(rg, name, "EQUAL", filter_subject=f"{name}.a.>")
    inside = RawConsumer(rg, name, "INSIDE", filter_subject=f"{name}.a.x")
    wide = RawConsumer(rg, name, "WIDE", filter_subject=f"{name}.>")
    several = RawConsumer(rg, name, "SEVERAL", filter_subjects=[f"{name}.a.y", f"{name}.b"])
    other = RawConsumer(rg, name, "OTHER", filter_subject=f"{name}.b")
    idle = RawConsumer(rg, name, "IDLE")
    for worker, expected in (
        (equal, [1, 3, 5]),
        (inside, [1, 3]),
        (wide, [1, 2, 3, 4, 5, 6]),
        (several, [2, 4, 5, 6]),
        (other, [2, 4, 6]),
    ):
        assert sequences(worker.take(9)) == expected
    before = other.info() | {"ts": None}
    assert stream.purge(subject=f"{name}.a.>") == 3
    assert other.info() | {"ts": None} == before
    assert equal.numbers().ack_pending == inside.numbers().ack_pending == 0
    numbers = wide.numbers()
    assert (numbers.delivered, numbers.floor, numbers.ack_pending) == ((6, 6), (1, 1), 3)
    assert several.numbers().ack_pending == 3
    assert [worker.info()["num_pending"] for worker in (equal, inside, wide, several, idle)] == [
        0,
        0,
        0,
        0,
        3,
    ]
    clock.advance(31)
    left = {worker.name: sequences(worker.take(9)) for worker in (equal, inside, wide, several, other, idle)}
    assert left == {
        "EQUAL": [],
        "INSIDE": [],
        "WIDE": [2, 4, 6],
        "SEVERAL": [2, 4, 6],
        "OTHER": [2, 4, 6],
        "IDLE": [2, 4, 6],
    }
    rg.publish(f"{name}.a.x", b"new")
    assert [sequences(worker.take(9)) for worker in (equal, inside, other)] == [[7], [7], []]


@pytest.mark.rule("DEL-14")
def test_a_filtered_purge_counts_down_what_was_not_delivered(rg: Railgun) -> None:
    stream = filled(rg, *"abababab")
    worker = RawConsumer(rg, stream.name)
    narrow = RawConsumer(rg, stream.name, "NARROW", filter_subject=f"{stream.name}.b")
    worker.take(3)
    assert (worker.info()["num_pending"], narrow.info()["num_pending"]) == (5, 4)
    stream.purge(subject=f"{stream.name}.a", keep=1)
    info = worker.info()
    assert (info["num_ack_pending"], info["num_pending"]) == (1, 4)
    assert narrow.info()["num_pending"] == 4
    assert sequences(worker.take(9)) == [4, 6, 7, 8]


@pytest.mark.rule("DEL-15")
def test_a_deleted_message_that_was_pending_is_terminated(rg: Railgun, clock: Clock, unique: Unique) -> None:
    stream = filled(rg, *"aaa")
    events = rg.create_stream(
        unique("EVENTS"), subjects=[f"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.{stream.name}.*"]
    )
    worker = RawConsumer(rg, stream.name)
    silent = RawConsumer(rg, stream.name, "SILENT", ack_policy="none")
    acked, pending = worker.take(2)
    silent.take(2)
    worker.ack(acked)
    worker.nak(pending)
    worker.take()
    stream.delete_message(1)  # resolved
    stream.delete_message(3)  # never delivered
    stream.delete_message(2)
    assert worker.numbers().ack_pending == 0
    wait_until(lambda: events.info().state.messages >= 1, "the advisory")
    said = events.get(1)
    assert said.subject == f"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.{stream.name}.C"
    fields = json.loads(said.payload)
    assert fields["type"] == "io.nats.jetstream.advisory.v1.terminated"
    assert (fields["stream"], fields["consumer"], fields["stream_seq"]) == (stream.name, "C", 2)
    assert (fields["consumer_seq"], fields["deliveries"]) == (3, 2)
    assert fields["reason"] == "Unacknowledged message was deleted"
    clock.advance(31)
    assert worker.take(9) == []
    assert events.info().state.messages == 1


@pytest.mark.rule("DEL-15")
def test_a_message_deleted_while_it_comes_again_is_gone(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, *"aaa")
    worker = RawConsumer(rg, stream.name)
    worker.take(3)
    clock.advance(31)
    (first,) = worker.take(1)
    stream.delete_message(2)  # due, and not yet given out again
    stream.delete_message(1)
    numbers = worker.numbers()
    assert (numbers.floor, numbers.ack_pending) == ((2, 2), 1)
    assert sequences(worker.take(9)) == [3]
    worker.ack(first)
    assert worker.numbers().ack_pending == 1
