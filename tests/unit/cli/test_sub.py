"""``railgun sub`` and ``railgun events`` on a cluster in memory."""

from __future__ import annotations

import json
import re

import pytest

from railgun.cli.commands.events import describe
from railgun.client.facade.railgun import Railgun, connect
from tests.support.commands import Run, done, meanwhile, said


def consumers(server: str, stream: str) -> list[str]:
    with connect(server) as rg:
        return [info.name for info in rg.stream(stream).consumers()]


def test_what_a_stream_holds_and_gets(orders: Run, server: str) -> None:
    done(orders("pub", "ORDERS.a", "order {{Count}}", "--count", "3", "-H", "Trace:7"))
    result = orders("sub", "--stream", "ORDERS", "--deliver", "2", "--count", "2", "--headers")
    assert done(result) == (
        "[#1] Received on [ORDERS.a]: 'order 2'\n  Trace: 7\n[#2] Received on [ORDERS.a]: 'order 3'\n  Trace: 7\n"
    )
    assert result.stderr == "Listening on [>] in stream ORDERS\n"
    assert consumers(server, "ORDERS") == []


def test_live_messages_of_every_stream_that_captures_the_subject(orders: Run, server: str) -> None:
    done(orders("stream", "add", "PAID", "--subjects", "paid.*"))
    done(orders("pub", "ORDERS.a", "old"))

    def publish(rg: Railgun, number: int) -> None:
        rg.publish("ORDERS.a" if number % 2 else "paid.a", f"new {number}")

    with meanwhile(server, publish):
        result = orders("sub", "*.a", "--count", "10", "--json")
    seen = [json.loads(line) for line in done(result).splitlines()]
    assert {one["stream"] for one in seen} == {"ORDERS", "PAID"}
    assert all(one["text"].startswith("new ") for one in seen)
    for stream in ("ORDERS", "PAID"):
        own = [one["stream_seq"] for one in seen if one["stream"] == stream]
        assert own == list(range(own[0], own[0] + len(own)))
    assert consumers(server, "ORDERS") == consumers(server, "PAID") == []


def test_a_filter_within_a_stream(orders: Run) -> None:
    for subject in ("ORDERS.a", "ORDERS.b", "ORDERS.a"):
        done(orders("pub", subject, "x"))
    lines = done(orders("sub", "ORDERS.a", "--deliver", "all", "--count", "2", "--json")).splitlines()
    assert [json.loads(line)["stream_seq"] for line in lines] == [1, 3]


def test_what_a_push_consumer_delivers(orders: Run, server: str) -> None:
    done(orders("consumer", "add", "ORDERS", "PUSH", "--target", "out.orders", "--max-pending", "10"))
    done(orders("pub", "ORDERS.a", "order {{Count}}", "--count", "3"))
    result = orders("sub", "-t", "out.orders", "--count", "3", "--ack")
    lines = done(result).splitlines()
    assert all(
        re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[#\d\] Received on \[ORDERS\.a\]: 'order \d'", one)
        for one in lines
    )
    assert said(result) == "Listening on [out.orders]\n"
    with connect(server) as rg:
        info = rg.stream("ORDERS").consumer("PUSH").info()
    assert (info.num_ack_pending, info.ack_floor.stream_seq) == (0, 3)


def test_one_of_a_group(orders: Run) -> None:
    done(
        orders(
            "consumer",
            "add",
            "ORDERS",
            "WORK",
            "--target",
            "out.work",
            "--deliver-group",
            "workers",
            "--ack",
            "none",
        )
    )
    done(orders("pub", "ORDERS.a", "{{Count}}", "--count", "3"))
    assert done(orders("sub", "out.work", "--queue", "workers", "--count", "3", "--raw")) == "1\n2\n3\n"


@pytest.mark.parametrize(
    "arguments, text",
    [
        ([], "say what to listen to: a SUBJECT, or --stream STREAM"),
        (["x", "--listen", "--stream", "ORDERS"], "--listen and --queue are for a subject alone: leave out --stream and --deliver"),
        (["nobody.here", "--deliver", "all"], "no stream captures 'nobody.here': --deliver has no meaning"),
        (["--stream", "NOPE"], "stream not found (10059/404)"),
    ],
)  # fmt: skip
def test_what_cannot_be_listened_to(orders: Run, arguments: list[str], text: str) -> None:
    result = orders("sub", *arguments)
    assert (result.exit_code, result.stdout, said(result)) == (1, "", f"error: {text}\n")


# ---------------------------------------------------------------- events


@pytest.mark.rule("ADV-01", "ADV-03", "ADV-06")
def test_events_as_they_happen(orders: Run, server: str) -> None:
    done(orders("consumer", "add", "ORDERS", "D", "--sample", "100"))

    def process(rg: Railgun, number: int) -> None:
        rg.publish("ORDERS.a", "x")
        message = rg.stream("ORDERS").consumer("D").next()
        if message is not None:
            message.ack_sync() if number % 2 else message.term("broken")

    with meanwhile(server, process):
        human = orders("events", "--stream", "ORDERS", "--consumer", "D", "--count", "4")
        machine = orders("events", "--kind", "terminated", "--count", "2", "--json")
    lines = done(human).splitlines()
    assert human.stderr == "Listening for events\n"
    kinds = [re.sub(r"\[.*?\] |\d+(\.\d+)?(ms|s)?", "#", line) for line in lines]
    assert set(kinds) == {
        "#ORDERS > D: message # was acknowledged at delivery # after #",
        "#ORDERS > D: message # was given up at delivery #: broken",
    }
    for line in done(machine).splitlines():
        event = json.loads(line)
        assert event["type"] == "io.nats.jetstream.advisory.v1.terminated"
        assert event["subject"] == "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.ORDERS.D"
        assert (event["stream"], event["consumer"], event["reason"]) == ("ORDERS", "D", "broken")


@pytest.mark.parametrize(
    "kind, fields, text",
    [
        ("max_deliver", {"deliveries": 3}, "S > C: message 7 was delivered 3 times, and will not be again"),
        ("terminated", {"deliveries": 1}, "S > C: message 7 was given up at delivery 1"),
        ("nak", {"deliveries": 2}, "S > C: message 7 was given back at delivery 2"),
        ("consumer_ack", {"deliveries": 1, "ack_time": 12_500_000}, "S > C: message 7 was acknowledged at delivery 1 after 12.5ms"),
        ("stream_action", {"action": "modify"}, "stream S: changed"),
        ("consumer_action", {"action": "delete"}, "consumer S > C: removed"),
        ("unheard_of", {}, 'unheard_of {"stream": "S", "consumer": "C", "stream_seq": 7}'),
    ],
)  # fmt: skip
def test_an_event_is_a_sentence(kind: str, fields: dict[str, object], text: str) -> None:
    event = {
        "type": f"io.nats.jetstream.advisory.v1.{kind}",
        "stream": "S",
        "consumer": "C",
        "stream_seq": 7,
        **fields,
    }
    assert describe(event) == text
