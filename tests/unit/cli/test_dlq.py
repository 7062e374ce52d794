"""``railgun dlq …`` on a cluster in memory: what is shown of dead letters, and that a redrive is exactly once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from railgun.cli.commands.dead_letters import Choice, DeadLetters
from railgun.client.facade.railgun import Railgun, connect
from railgun.errors import RequestTimeout
from tests.support.commands import Run, done, said


@pytest.fixture
def letters(orders: Run, server: str) -> Run:
    """Three orders that BILLING gave up; the second has headers, an id and a condition."""
    with connect(server) as rg:
        billing = rg.stream("ORDERS").create_consumer("BILLING", dead_letter="DEAD")
        rg.publish("ORDERS.a", "one")
        rg.publish("ORDERS.b", "two", headers={"Trace": "7"}, msg_id="two", expected_last_sequence=1)
        rg.publish("ORDERS.a", "three")
        for message, why in zip(billing.fetch(3), ("broken", "unknown customer", "broken"), strict=True):
            message.term(why)
    return orders


def messages(run: Run, stream: str) -> int:
    return int(json.loads(done(run("stream", "info", stream, "--json")))["state"]["messages"])


def redriven(run: Run, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done(run("dlq", "redrive", "DEAD", *arguments, "--json")))
    return found


def test_the_streams_of_dead_letters_are_listed(letters: Run) -> None:
    assert json.loads(done(letters("dlq", "ls", "--json"))) == [
        {"stream": "DEAD", "messages": 3, "of": ["ORDERS > BILLING"]}
    ]
    table = done(letters("dlq", "ls")).splitlines()
    assert table[1].split() == ["DEAD", "3", "ORDERS", ">", "BILLING"]


def test_nobody_has_dead_letters(orders: Run) -> None:
    assert orders("dlq", "ls").stderr == "No consumer has a stream for its dead letters.\n"
    assert json.loads(done(orders("dlq", "ls", "--json"))) == []
    assert orders("dlq", "ls", "ORDERS").stderr == "Stream ORDERS has no such dead letters.\n"
    assert orders("dlq", "ls", "NOPE").stderr == "error: stream not found (10059/404)\n"


def test_letters_are_listed_with_their_origin(letters: Run) -> None:
    done(letters("pub", "DEAD", "somebody's message, and no dead letter"))
    table = done(letters("dlq", "ls", "DEAD")).splitlines()
    assert table[0].split() == ["Sequence", "Subject", "Origin", "Consumer", "Deliveries", "Reason"]
    assert table[2].split() == ["2", "ORDERS.b", "ORDERS#2", "BILLING", "1", "unknown", "customer"]
    assert len(table) == 4
    listed = json.loads(done(letters("dlq", "ls", "DEAD", "--json", "--subject", "ORDERS.a")))
    assert [one["seq"] for one in listed] == [1, 3]
    origin = listed[1]["origin"]
    assert origin.pop("time")
    assert origin == {
        "stream": "ORDERS",
        "seq": 3,
        "consumer": "BILLING",
        "deliveries": 1,
        "reason": "broken",
    }
    limited = letters("dlq", "ls", "DEAD", "--limit", "2")
    assert len(limited.stdout.splitlines()) == 3
    assert limited.stderr == "The first 2; --limit 0 lists all.\n"
    assert json.loads(done(letters("dlq", "ls", "DEAD", "--json", "--consumer", "OTHER"))) == []


def test_a_letter_is_shown(letters: Run) -> None:
    shown = done(letters("dlq", "show", "DEAD", "2"))
    assert shown.startswith(
        "Dead letter DEAD#2 on Subject ORDERS.b\n\n    Origin: ORDERS#2\n  Consumer: BILLING\n"
    )
    assert "    Reason: unknown customer\n" in shown
    assert shown.endswith("\n\nHeaders:\n  Trace: 7\n\ntwo\n")
    whole = json.loads(done(letters("dlq", "show", "DEAD", "2", "--json")))
    assert (whole["text"], whole["headers"], whole["origin"]["consumer"]) == (
        "two",
        {"Trace": ["7"]},
        "BILLING",
    )
    assert done(letters("dlq", "show", "DEAD", "2", "--raw")) == "two"
    assert letters("dlq", "show", "DEAD", "9").stderr == "error: stream DEAD has no dead letter 9\n"


def test_letters_go_back_as_new_messages(letters: Run) -> None:
    assert done(letters("dlq", "redrive", "DEAD")) == "Redrove 3 dead letters of stream DEAD\n"
    assert (messages(letters, "ORDERS"), messages(letters, "DEAD")) == (6, 0)
    back = json.loads(done(letters("stream", "get", "ORDERS", "5", "--json")))
    assert (back["subject"], back["text"]) == ("ORDERS.b", "two")
    assert back["headers"]["Trace"] == ["7"]
    assert set(back["headers"]) == {"Trace", "Nats-Msg-Id"}
    again = json.loads(done(letters("consumer", "next", "ORDERS", "BILLING", "--json")))
    assert (again["text"], again["deliveries"]) == ("one", 1)
    assert redriven(letters) == {"stream": "DEAD", "redriven": 0, "already": 0, "failed": {}}


def test_only_those_that_are_chosen(letters: Run) -> None:
    assert redriven(letters, "3", "3", "77")["redriven"] == 1
    assert redriven(letters, "--subject", "ORDERS.b")["redriven"] == 1
    assert redriven(letters, "--origin", "OTHER")["redriven"] == 0
    assert [one["seq"] for one in json.loads(done(letters("dlq", "ls", "DEAD", "--json")))] == [1]
    assert messages(letters, "ORDERS") == 5


class Interrupted(BaseException):
    """As Ctrl-C."""


@pytest.mark.parametrize(
    "error", [Interrupted(), RequestTimeout("no answer")], ids=["interrupted", "unknown outcome"]
)
def test_a_redrive_that_was_interrupted_is_run_again(
    letters: Run, server: str, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Everything is published, and nothing removed, when it ends: the second run must see that."""

    def ends(*_: object) -> None:
        raise error

    with connect(server) as rg:
        found = DeadLetters(rg, "DEAD")
        with monkeypatch.context() as patched:
            patched.setattr(found, "_remove", ends)
            with pytest.raises(type(error)):
                found.redrive(found.find(Choice()), lambda _: None)
    assert (messages(letters, "ORDERS"), messages(letters, "DEAD")) == (6, 3)
    assert redriven(letters) == {"stream": "DEAD", "redriven": 3, "already": 3, "failed": {}}
    assert (messages(letters, "ORDERS"), messages(letters, "DEAD")) == (6, 0)


def test_many_letters(orders: Run, server: str) -> None:
    done(orders("consumer", "add", "ORDERS", "BILLING", "--dead-letter", "DEAD", "--max-pending", "-1"))
    with connect(server) as rg:
        give_up(rg, 250)
    assert redriven(orders)["redriven"] == 250
    assert (messages(orders, "ORDERS"), messages(orders, "DEAD")) == (500, 0)


def give_up(rg: Railgun, count: int) -> None:
    for number in range(count):
        rg.publish_soon("ORDERS.a", f"order {number}")
    rg.flush()
    consumer = rg.stream("ORDERS").consumer("BILLING")
    left = count
    while left:
        for message in consumer.fetch(100, wait=5.0):
            message.term("no reason")
            left -= 1


def test_a_letter_that_cannot_go_back_stays(letters: Run) -> None:
    done(letters("stream", "edit", "ORDERS", "--subjects", "ORDERS.b"))
    result = letters("dlq", "redrive", "DEAD", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert (told["redriven"], sorted(told["failed"])) == (1, ["1", "3"])
    assert "error: letter 1 stays: no stream captures the subject 'ORDERS.a'\n" in result.stderr
    assert messages(letters, "DEAD") == 2


def test_a_stream_that_answers_no_publisher_gets_nothing_back(letters: Run) -> None:
    done(letters("stream", "edit", "ORDERS", "--no-ack"))
    result = letters("dlq", "redrive", "DEAD", "1")
    assert result.exit_code == 1
    assert said(result) == (
        "error: letter 1 stays: stream ORDERS does not answer publishers (no_ack), "
        "so it cannot be known whether the letter went back\n"
    )
    assert (messages(letters, "ORDERS"), messages(letters, "DEAD")) == (3, 3)


def test_a_letter_of_a_transaction_goes_to_the_stream_that_refused_it(orders: Run, server: str) -> None:
    with connect(server) as rg:
        rg.create_stream("FULL", subjects=["full.*"], max_msgs=1, discard="new")
        billing = rg.stream("ORDERS").create_consumer("BILLING", dead_letter="DEAD")
        rg.update_stream("ORDERS", no_ack=True)  # no matter: nothing goes back there
        rg.publish("ORDERS.a", "one", ack=False)
        message = billing.next(wait=5)
        assert message is not None
        with message.transaction() as t:
            t.publish("full.a", "taken")
            t.publish("full.a", "refused")
    (letter,) = json.loads(done(orders("dlq", "ls", "DEAD", "--json")))
    assert letter["origin"]["reason"] == "not taken by FULL: maximum messages exceeded"
    assert (letter["subject"], letter["origin"]["stream"]) == ("full.a", "ORDERS")
    done(orders("stream", "purge", "FULL", "--force"))
    assert redriven(orders)["redriven"] == 1
    assert (messages(orders, "FULL"), messages(orders, "DEAD")) == (1, 0)


def test_letters_are_dropped(letters: Run) -> None:
    refused = letters("dlq", "drop", "DEAD", "1")
    assert (refused.exit_code, said(refused)) == (
        1,
        "error: there is no terminal to ask on: give --yes to remove 1 dead letter of stream DEAD\n",
    )
    unsaid = letters("dlq", "drop", "DEAD", "--yes")
    assert (
        said(unsaid)
        == "error: say which letters: their SEQUENCEs, --origin, --consumer, --subject, or --all\n"
    )
    assert messages(letters, "DEAD") == 3
    assert done(letters("dlq", "drop", "DEAD", "1", "--yes")) == "Dropped 1 dead letter of stream DEAD\n"
    assert json.loads(done(letters("dlq", "drop", "DEAD", "--all", "--yes", "--json"))) == {
        "stream": "DEAD",
        "dropped": 2,
    }
    assert (messages(letters, "DEAD"), messages(letters, "ORDERS")) == (0, 3)
