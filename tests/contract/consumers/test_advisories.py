"""Advisories and metrics: what is told when, once, and that telling never disturbs what it tells about (ADV)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import pytest

from railgun import Railgun, Stream
from railgun.testing import Clock
from tests.support.consumers import SECOND, about, add, add_refused, delivery, exists, settle, take
from tests.support.streams import Make, Unique, put
from tests.support.waiting import wait_until

Event = dict[str, Any]
ADVISORY: Final = "$JS.EVENT.ADVISORY"
TYPE: Final = "io.nats.jetstream.advisory.v1"


class Events:
    """What a reader of the advisories has heard so far."""

    def __init__(self) -> None:
        self._heard: list[tuple[str, Event]] = []

    def listen(self, advisories: Any) -> None:
        for advisory in advisories:
            self._heard.append((advisory.subject, advisory.json()))

    def of(self, subject: str) -> list[Event]:
        return [event for told, event in self._heard if told == subject]

    def about(self, stream: str) -> list[tuple[str, Event]]:
        return [(told, event) for told, event in self._heard if stream in told.split(".")]

    def wait(self, subject: str, count: int = 1) -> list[Event]:
        """The events of a subject once there are so many; more are an error."""
        wait_until(lambda: len(self.of(subject)) >= count, f"{count} of {subject}")
        found = self.of(subject)
        assert len(found) == count, found
        return found


@pytest.fixture
def events(rg: Railgun) -> Iterator[Events]:
    """Everything that is told from now on."""
    heard = Events()
    with rg.advisories() as advisories:
        thread = threading.Thread(target=heard.listen, args=(advisories,), daemon=True)
        thread.start()
        yield heard
    thread.join(10.0)
    assert not thread.is_alive()


def told(kind: str, stream: Stream, name: str = "C") -> str:
    """The subject of an advisory about a consumer."""
    return f"{ADVISORY}.CONSUMER.{kind}.{stream.name}.{name}"


def sampled(stream: Stream, name: str = "C") -> str:
    return f"$JS.EVENT.METRIC.CONSUMER.ACK.{stream.name}.{name}"


def marker(rg: Railgun, events: Events, stream: Stream) -> None:
    """Wait for an event that follows everything that was decided before: what has not been told by then never is."""
    add(rg, stream.name, "MARK")
    events.wait(told("CREATED", stream, "MARK"))


@pytest.fixture
def stream(rg: Railgun, make: Make) -> Stream:
    """A stream with ten messages."""
    made = make()
    put(rg, made, 10)
    return made


# ------------------------------------------------------------ every event


@pytest.mark.rule("ADV-01")
def test_the_shape_of_every_event(rg: Railgun, stream: Stream, events: Events, clock: Clock) -> None:
    add(rg, stream.name, sample_freq="100", max_deliver=1)
    one, two, three, _ = take(rg, stream.name, batch=4)
    settle(rg, one)
    settle(rg, two, b"+TERM")
    settle(rg, three, b"-NAK")
    clock.advance(31)
    stream.delete_consumer("C")
    events.wait(told("DELETED", stream))
    events.wait(told("MAX_DELIVERIES", stream), 2)
    found = events.about(stream.name)
    assert len(found) >= 7
    assert len({event["id"] for _, event in found}) == len(found)
    for _, event in found:
        assert event["type"].startswith("io.nats.jetstream.")
        assert event["id"]
        assert event["timestamp"].endswith("Z")
        assert datetime.fromisoformat(event["timestamp"]).year > 2000
        assert event["stream"] == stream.name


@pytest.mark.rule("ADV-01")
def test_a_stream_may_capture_them(rg: Railgun, stream: Stream, unique: Unique, events: Events) -> None:
    add(rg, stream.name)
    subject = told("MSG_TERMINATED", stream)
    kept = rg.create_stream(unique("KEPT"), subjects=[f"{ADVISORY}.CONSUMER.*.{stream.name}.>"])
    for message in take(rg, stream.name, batch=3):
        settle(rg, message, b"+TERM because")
    heard = events.wait(subject, 3)
    wait_until(lambda: kept.info().state.messages == 3, "all are stored")
    stored = [kept.get(number) for number in (1, 2, 3)]
    assert {message.subject for message in stored} == {subject}
    assert [json.loads(message.payload) for message in stored] == heard
    reader = kept.create_consumer("READER")
    assert [json.loads(message.payload) for message in reader.fetch(3, wait=5.0)] == heard


# ------------------------------------------------------------ consumers


@pytest.mark.rule("ADV-02", "RDL-08")
@pytest.mark.parametrize("nak", [False, True])
def test_max_deliveries(rg: Railgun, stream: Stream, events: Events, clock: Clock, nak: bool) -> None:
    add(rg, stream.name, max_deliver=2, ack_wait=10 * SECOND)
    spent = None
    for deliveries in (1, 2):
        assert events.of(told("MAX_DELIVERIES", stream)) == []
        (message,) = take(rg, stream.name)
        spent = message
        assert (delivery(message).sequence, delivery(message).deliveries) == (1, deliveries)
        if nak:
            settle(rg, message, b"-NAK")
        else:
            clock.advance(11)
    (event,) = events.wait(told("MAX_DELIVERIES", stream))
    wanted = {
        "type": f"{TYPE}.max_deliver",
        "stream": stream.name,
        "consumer": "C",
        "stream_seq": 1,
        "deliveries": 2,
    }
    assert event | wanted == event
    for _ in range(3):
        clock.advance(11)
        for message in take(rg, stream.name):
            settle(rg, message)
    assert spent is not None
    rg.request(spent.reply, b"-NAK")
    marker(rg, events, stream)
    assert len(events.of(told("MAX_DELIVERIES", stream))) == 1


@pytest.mark.rule("ADV-03", "ADV-04")
def test_terminated(rg: Railgun, make: Make, events: Events) -> None:
    stream = make(retention="workqueue")
    put(rg, stream, 1)
    add(rg, stream.name)
    (message,) = take(rg, stream.name)
    settle(rg, message, b"-NAK")
    (message,) = take(rg, stream.name)
    settle(rg, message, b"+TERM with reason")
    (event,) = events.wait(told("MSG_TERMINATED", stream))
    wanted = {
        "type": f"{TYPE}.terminated",
        "stream": stream.name,
        "consumer": "C",
        "consumer_seq": 2,
        "stream_seq": 1,
        "deliveries": 2,
        "reason": "with reason",
    }
    assert event | wanted == event


@pytest.mark.rule("ADV-03", "ACK-11")
def test_a_repeated_term_is_told_once(rg: Railgun, stream: Stream, events: Events) -> None:
    add(rg, stream.name)
    one, two = take(rg, stream.name, batch=2)
    settle(rg, one, b"+TERM")
    settle(rg, one, b"+TERM again")
    settle(rg, two)
    settle(rg, two, b"+TERM too late")
    marker(rg, events, stream)
    (event,) = events.of(told("MSG_TERMINATED", stream))
    assert (event["stream_seq"], event.get("reason", "")) == (1, "")


@pytest.mark.rule("ADV-03", "DEL-15")
def test_deleting_a_pending_message_is_told(rg: Railgun, stream: Stream, events: Events) -> None:
    add(rg, stream.name)
    take(rg, stream.name, batch=2)
    stream.delete_message(2)
    stream.delete_message(9)
    (event,) = events.wait(told("MSG_TERMINATED", stream))
    assert (event["stream_seq"], event["consumer_seq"], event["deliveries"]) == (2, 2, 1)
    assert event["reason"] == "Unacknowledged message was deleted"
    marker(rg, events, stream)
    assert len(events.of(told("MSG_TERMINATED", stream))) == 1


@pytest.mark.rule("ADV-05")
def test_nak(rg: Railgun, stream: Stream, events: Events) -> None:
    add(rg, stream.name)
    one, two, three = take(rg, stream.name, batch=3)
    settle(rg, two)
    settle(rg, two, b"-NAK")  # resolved: ignored
    settle(rg, one, b"-NAK")
    settle(rg, three, b'-NAK {"delay": 60000000000}')
    found = events.wait(told("MSG_NAKED", stream), 2)
    wanted = {"type": f"{TYPE}.nak", "stream": stream.name, "consumer": "C", "deliveries": 1}
    for event, sequence in zip(found, (1, 3), strict=True):
        numbers = {"stream_seq": sequence, "consumer_seq": sequence}
        assert event | wanted | numbers == event
        assert "reason" not in event
    marker(rg, events, stream)
    assert len(events.of(told("MSG_NAKED", stream))) == 2


# ------------------------------------------------------------ samples


@pytest.mark.rule("ADV-06")
def test_an_ack_sample(rg: Railgun, stream: Stream, events: Events, clock: Clock) -> None:
    add(rg, stream.name, sample_freq="100", ack_wait=600 * SECOND)
    (first,) = take(rg, stream.name)
    clock.advance(100)
    settle(rg, first, b"-NAK")
    (first,) = take(rg, stream.name)
    clock.advance(50)
    settle(rg, first)
    (event,) = events.wait(sampled(stream))
    wanted = {
        "type": "io.nats.jetstream.metric.v1.consumer_ack",
        "stream": stream.name,
        "consumer": "C",
        "consumer_seq": 2,
        "stream_seq": 1,
        "deliveries": 2,
    }
    assert event | wanted == event
    assert 50 * SECOND <= event["ack_time"] < 90 * SECOND  # from the last delivery
    (second,) = take(rg, stream.name)
    clock.advance(100)
    settle(rg, second, b"+WPI")
    clock.advance(50)
    settle(rg, second)
    _, event = events.wait(sampled(stream), 2)
    assert 50 * SECOND <= event["ack_time"] < 90 * SECOND  # from the last sign of work
    assert (event["stream_seq"], event["deliveries"]) == (2, 1)


@pytest.mark.rule("ADV-07")
@pytest.mark.parametrize("freq", ["100", "100%", "250"])
def test_every_ack_is_sampled(rg: Railgun, stream: Stream, events: Events, freq: str) -> None:
    add(rg, stream.name, sample_freq=freq)
    found = take(rg, stream.name, batch=10)
    settle(rg, found[0], b"+TERM")
    settle(rg, found[1], b"-NAK")
    for message in found[2:]:
        settle(rg, message)
        settle(rg, message)  # a duplicate is no sample
    marker(rg, events, stream)
    assert [event["stream_seq"] for event in events.of(sampled(stream))] == list(range(3, 11))


@pytest.mark.rule("ADV-07")
@pytest.mark.parametrize("fields", [{}, {"sample_freq": "0"}, {"sample_freq": "0%"}])
def test_no_ack_is_sampled(rg: Railgun, stream: Stream, events: Events, fields: dict[str, str]) -> None:
    add(rg, stream.name, **fields)
    for message in take(rg, stream.name, batch=10):
        settle(rg, message)
    marker(rg, events, stream)
    assert events.of(sampled(stream)) == []


@pytest.mark.rule("ADV-07")
def test_only_explicit_acks_are_sampled(rg: Railgun, stream: Stream, events: Events) -> None:
    add(rg, stream.name, "ALL", ack_policy="all", sample_freq="100")
    settle(rg, take(rg, stream.name, "ALL", batch=5)[4])
    add(rg, stream.name, "NONE", ack_policy="none", sample_freq="100")
    take(rg, stream.name, "NONE", batch=5)
    marker(rg, events, stream)
    assert events.of(sampled(stream, "ALL")) == []
    assert events.of(sampled(stream, "NONE")) == []


@pytest.mark.rule("ADV-07")
@pytest.mark.parametrize("freq, low, high", [("50", 60, 140), ("10%", 8, 45)])
def test_some_acks_are_sampled(
    rg: Railgun, stream: Stream, events: Events, freq: str, low: int, high: int
) -> None:
    put(rg, stream, 190)
    worker = stream.create_consumer("C", sample_freq=freq)
    left = 200
    while left:
        found = worker.fetch(left, wait=5.0)
        assert found
        for message in found:
            message.ack()
        left -= len(found)
    wait_until(lambda: about(rg, stream.name)["num_ack_pending"] == 0, "all are acknowledged")
    marker(rg, events, stream)
    assert low <= len(events.of(sampled(stream))) <= high


@pytest.mark.rule("ADV-08")
@pytest.mark.parametrize("freq", ["many", "-1", "-5%", "%", "10%%", "ten%"])
def test_a_bad_sample_frequency(rg: Railgun, stream: Stream, freq: str) -> None:
    for name in ("C", "EXISTING"):
        if name == "EXISTING":
            add(rg, stream.name, name)
        err_code, code, text = add_refused(rg, stream.name, name, sample_freq=freq)
        assert (err_code, code) == (10095, 400)
        begin = "failed to parse consumer sampling configuration: "
        assert text.startswith(begin)
        assert len(text) > len(begin)
    assert not exists(rg, stream.name)


@pytest.mark.rule("ADV-09", "ADV-10")
def test_the_frequency_can_be_changed_and_is_shown(rg: Railgun, stream: Stream, events: Events) -> None:
    assert "sample_freq" not in add(rg, stream.name)["config"]
    found = take(rg, stream.name, batch=10)
    settle(rg, found[0])
    assert add(rg, stream.name, sample_freq="100%")["config"]["sample_freq"] == "100%"
    settle(rg, found[1])
    settle(rg, found[2])
    add(rg, stream.name, sample_freq="0")
    assert about(rg, stream.name)["config"]["sample_freq"] == "0"
    settle(rg, found[3])
    marker(rg, events, stream)
    assert [event["stream_seq"] for event in events.of(sampled(stream))] == [2, 3]
    assert stream.consumer("C").info().config.sample_freq == "0"


# ------------------------------------------------------------ actions


@pytest.mark.rule("ADV-12")
def test_changes_of_streams_are_told(rg: Railgun, unique: Unique, events: Events) -> None:
    name = unique("TOLD")
    rg.create_stream(name, subjects=[f"{name}.>"])
    rg.update_stream(name, max_msgs=7)
    rg.delete_stream(name)
    for kind, action in (("CREATED", "create"), ("UPDATED", "modify"), ("DELETED", "delete")):
        (event,) = events.wait(f"{ADVISORY}.STREAM.{kind}.{name}")
        wanted = {"type": f"{TYPE}.stream_action", "stream": name, "action": action}
        assert event | wanted == event


@pytest.mark.rule("ADV-12")
def test_changes_of_consumers_are_told(rg: Railgun, stream: Stream, events: Events, clock: Clock) -> None:
    add(rg, stream.name)
    add(rg, stream.name, action="create")  # nothing is created
    stream.delete_consumer("C")
    add(rg, stream.name, "IDLE", inactive_threshold=10 * SECOND)
    clock.advance(12)
    for name in ("C", "IDLE"):
        for kind, action in (("CREATED", "create"), ("DELETED", "delete")):
            (event,) = events.wait(told(kind, stream, name))
            wanted = {"type": f"{TYPE}.consumer_action", "stream": stream.name, "consumer": name}
            assert event | wanted | {"action": action} == event


@pytest.mark.rule("ADV-12")
def test_refused_changes_are_not_told(rg: Railgun, stream: Stream, events: Events) -> None:
    add_refused(rg, stream.name, "BAD", ack_policy="bad")
    add_refused(rg, stream.name, "BAD", action="update")
    rg.create_stream(stream.name, subjects=[f"{stream.name}.>"])  # as it is already
    marker(rg, events, stream)
    assert [subject for subject, _ in events.about(stream.name)] == [told("CREATED", stream, "MARK")]


@pytest.mark.rule("ADV-13")
@pytest.mark.parametrize(
    "limits",
    [
        {"max_msgs": 1, "discard": "new"},
        {"max_msg_size": 10},
        {"max_bytes": 1, "discard": "new"},
        {"no_ack": True},
    ],
)
def test_an_advisory_that_cannot_be_stored_disturbs_nothing(
    rg: Railgun, stream: Stream, unique: Unique, events: Events, limits: dict[str, Any]
) -> None:
    kept = rg.create_stream(unique("KEPT"), subjects=[f"{ADVISORY}.CONSUMER.*.{stream.name}.>"], **limits)
    add(rg, stream.name, max_deliver=1)
    found = take(rg, stream.name, batch=10)
    for message in found[:4]:
        settle(rg, message, b"+TERM")
    for message in found[4:8]:
        settle(rg, message, b"-NAK")
    info = about(rg, stream.name)
    assert info["num_ack_pending"] == 2
    assert info["ack_floor"]["stream_seq"] == 8
    stream.delete_consumer("C")
    assert not exists(rg, stream.name)
    marker(rg, events, stream)
    assert len(events.of(told("MSG_TERMINATED", stream))) == 4
    assert kept.info().state.messages <= (1 if "no_ack" not in limits else 100)


@pytest.mark.rule("ADV-13")
def test_a_sealed_or_deleted_keeper_disturbs_nothing(
    rg: Railgun, stream: Stream, unique: Unique, events: Events
) -> None:
    kept = rg.create_stream(unique("KEPT"), subjects=[f"{ADVISORY}.CONSUMER.*.{stream.name}.>"])
    add(rg, stream.name)
    found = take(rg, stream.name, batch=10)
    rg.update_stream(kept.name, sealed=True)
    settle(rg, found[0], b"+TERM")
    rg.delete_stream(kept.name)
    settle(rg, found[1], b"+TERM")
    assert about(rg, stream.name)["num_ack_pending"] == 8
    events.wait(told("MSG_TERMINATED", stream), 2)
