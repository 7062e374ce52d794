"""``railgun counter`` on a cluster in memory."""

from __future__ import annotations

import json

import pytest

from railgun.api import responses
from tests.support.commands import Run, done, said


def test_a_counter_is_added_to_read_and_listed(run: Run) -> None:
    report = done(run("stream", "add", "COUNTER", "--subjects", "counter.*", "--allow-counter"))
    assert "Allows Counters: true" in " ".join(report.split())
    assert done(run("counter", "add", "counter.hits", "100")) == "100\n"
    assert done(run("counter", "add", "counter.hits")) == "101\n"
    assert done(run("counter", "add", "counter.hits", "-5", "--id", "a")) == "96\n"
    assert done(run("counter", "add", "counter.hits", "-5", "--id", "a")) == "96\n"
    assert done(run("counter", "get", "counter.hits")) == "96\n"
    assert done(run("counter", "get", "counter.none")) == "0\n"
    assert json.loads(done(run("counter", "add", "counter.b", "--json"))) == {
        "subject": "counter.b",
        "value": 1,
    }
    done(run("pub", "counter.plain", "text"))
    assert done(run("counter", "ls", "COUNTER")) == "counter.b     1\ncounter.hits  96\n"
    listed = json.loads(done(run("counter", "ls", "COUNTER", "--subject", "counter.h*", "--json")))
    assert listed == []  # a wildcard is a whole token
    history = json.loads(done(run("counter", "get", "counter.hits", "--history", "--json")))
    assert [(one["sequence"], one["increment"], one["total"]) for one in history] == [
        (1, 100, 100),
        (2, 1, 101),
        (3, -5, 96),
    ]
    lines = done(run("counter", "get", "counter.hits", "--history")).splitlines()
    assert [line.split()[2:] for line in lines] == [["+100", "100"], ["+1", "101"], ["-5", "96"]]
    assert ", total 97\n" in done(run("pub", "counter.hits", "", "-H", "Nats-Incr:+1"))


def test_counters_on_several_pages_are_all_listed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    done(run("stream", "add", "COUNTER", "--subjects", "counter.*", "--allow-counter"))
    for name in "abcde":
        done(run("counter", "add", f"counter.{name}"))
    monkeypatch.setattr(responses, "SUBJECTS_PAGE", 2)
    listed = json.loads(done(run("counter", "ls", "COUNTER", "--json")))
    assert [one["subject"] for one in listed] == [f"counter.{name}" for name in "abcde"]


def test_what_is_not_a_counter_is_refused_in_one_sentence(run: Run) -> None:
    done(run("stream", "add", "PLAIN", "--subjects", "plain.*"))
    result = run("counter", "add", "plain.a")
    assert (result.exit_code, said(result)) == (1, "error: message counters is disabled (10168/400)\n")
    done(run("stream", "edit", "PLAIN", "--allow-counter"))
    assert done(run("counter", "add", "plain.a")) == "1\n"
    assert run("counter", "add", "plain.a", "many").exit_code == 2
