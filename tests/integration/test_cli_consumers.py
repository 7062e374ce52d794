"""The commands on consumers against a real broker and a real worker: the walk-through, dead letters, listening."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from typer.testing import Result

import railgun
from tests.support import checkout
from tests.support.cell import Cell
from tests.support.commands import Run, done, invoke
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

LETTERS = 300


@pytest.fixture
def run(shared_cell: Cell) -> Iterator[Run]:
    def on_cell(*arguments: str) -> Result:
        return invoke(*arguments, *where(shared_cell))

    yield on_cell
    with shared_cell.connect() as rg:
        for stream in rg.streams():
            rg.delete_stream(stream.config.name)


def where(cell: Cell) -> list[str]:
    return ["--server", cell.bootstrap, "--prefix", cell.prefix, "--timeout", "15"]


def messages(rg: railgun.Railgun, stream: str) -> int:
    return rg.stream(stream).info().state.messages


def test_consumers_from_their_making_to_their_end(run: Run) -> None:
    done(run("stream", "add", "ORDERS", "--subjects", "ORDERS.*"))
    done(
        run(
            "consumer",
            "add",
            "ORDERS",
            "DISPATCH",
            "--wait",
            "500ms",
            "--max-deliver",
            "2",
            "--dead-letter",
            "DEAD",
        )
    )
    done(run("pub", "ORDERS.processed", "order 5"))
    for _ in range(2):
        taken = done(run("consumer", "next", "ORDERS", "DISPATCH", "--no-ack"))
        assert taken.endswith("\norder 5\n")
    report = done(run("consumer", "info", "ORDERS", "DISPATCH"))
    assert "            Next Message: Consumer sequence: 3 Stream sequence: 2\n" in report
    wait_until(
        lambda: bool(json.loads(done(run("dlq", "ls", "DEAD", "--json")))),
        "the message has run out of deliveries",
    )
    assert done(run("dlq", "redrive", "DEAD")) == "Redrove 1 dead letter of stream DEAD\n"
    assert done(run("consumer", "next", "ORDERS", "DISPATCH", "--raw")) == "order 5"
    done(run("consumer", "add", "ORDERS", "PUSH", "--target", "out.orders", "--ack", "none"))
    assert done(run("sub", "out.orders", "--count", "2", "--raw")) == "order 5\norder 5\n"
    assert done(run("sub", "ORDERS.*", "--deliver", "last", "--count", "1", "--raw")) == "order 5\n"
    assert [one["consumer"] for one in json.loads(done(run("consumer", "report", "ORDERS", "--json")))] == [
        "DISPATCH",
        "PUSH",
    ]
    done(run("consumer", "rm", "ORDERS", "PUSH", "-f"))
    assert done(run("consumer", "ls", "ORDERS", "--names")) == "DISPATCH\n"


def started(cell: Cell, *arguments: str) -> subprocess.Popen[str]:
    """A command in its own process, once it says that it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "railgun.cli.main", *arguments, *where(cell)],
        env=checkout.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("Listening ")
    return process


def test_events_and_messages_are_shown_as_they_come_until_ctrl_c(shared_cell: Cell, run: Run) -> None:
    done(run("stream", "add", "ORDERS", "--subjects", "ORDERS.*"))
    done(run("consumer", "add", "ORDERS", "D", "--sample", "100"))
    listening = [
        started(shared_cell, "events", "--json"),
        started(shared_cell, "sub", "ORDERS.*", "--json"),
        started(shared_cell, "sub", "my.monitor"),
    ]
    try:
        done(run("consumer", "add", "ORDERS", "--target", "my.monitor", "--ack", "none", "--ephemeral"))
        done(run("pub", "ORDERS.a", "hello"))
        done(run("consumer", "next", "ORDERS", "D"))
        events, messages, monitor = ([process.stdout.readline()] for process in listening)  # type: ignore[union-attr]
        while "consumer_ack" not in events[-1]:
            events.append(listening[0].stdout.readline())  # type: ignore[union-attr]
    finally:
        for process in listening:
            process.send_signal(signal.SIGINT)
        ends = [(process.communicate(timeout=30)[1], process.returncode) for process in listening]
    assert ends == [("", 130)] * 3
    assert json.loads(messages[0])["text"] == "hello"
    assert monitor == ["[#1] Received on [ORDERS.a]: 'hello'\n"]
    sample = json.loads(events[-1])
    assert (sample["stream"], sample["consumer"], sample["stream_seq"], sample["deliveries"]) == (
        "ORDERS",
        "D",
        1,
        1,
    )


def test_a_redrive_that_is_killed_and_run_again_is_exactly_once(shared_cell: Cell, run: Run) -> None:
    done(run("stream", "add", "ORDERS", "--subjects", "ORDERS.*"))
    done(run("consumer", "add", "ORDERS", "BILLING", "--dead-letter", "DEAD"))
    with shared_cell.connect() as rg:
        for number in range(LETTERS):
            rg.publish_soon("ORDERS.a", f"order {number}")
        rg.flush()
        consumer, left = rg.stream("ORDERS").consumer("BILLING"), LETTERS
        while left:
            for message in consumer.fetch(100, wait=10):
                message.term("broken")
                left -= 1
        wait_until(lambda: messages(rg, "DEAD") == LETTERS, "all letters are there")
        process = subprocess.Popen(
            [sys.executable, "-m", "railgun.cli.main", "dlq", "redrive", "DEAD", *where(shared_cell)],
            env=checkout.environment(),
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_until(
                lambda: messages(rg, "ORDERS") > LETTERS, "some letters went back", timeout=60, pause=0.001
            )
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(30)
        again = json.loads(done(run("dlq", "redrive", "DEAD", "--json")))
        assert again["redriven"] > 0
        assert (messages(rg, "ORDERS"), messages(rg, "DEAD")) == (2 * LETTERS, 0)
        back = [message.text for message in consumer.fetch(LETTERS + 1, wait=3)]
        assert sorted(back) == sorted(f"order {number}" for number in range(LETTERS))
