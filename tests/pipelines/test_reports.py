"""Reports on dead letters and acknowledgements, and the commands: what they print and how they end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from typer.testing import Result

import railgun
from railgun.cli.tour import command
from railgun.errors import ConfigError, RailgunError
from tests.support.commands import done, invoke, said
from tests.support.naming import unique
from tests.support.waiting import wait_until
from topologies.pipelines import dead_letters
from topologies.pipelines.parts.place import Place
from topologies.pipelines.parts.words import in_words

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
Run = Callable[..., Result]


@pytest.fixture
def run(spark: SparkSession, at: Place) -> Run:
    """Runs a command of ``railgun pipeline`` in this process, with its session."""
    where = ("--server", at.server, "--prefix", at.prefix)
    return lambda *words: invoke("pipeline", *words, *where)


def test_dead_letters_and_samples_are_reported(
    run: Run, rg: railgun.Railgun, at: Place, tmp_path: Path
) -> None:
    name = unique("WORK")
    work = rg.create_stream(name, subjects=[f"{name}.*"])
    consumer = work.create_consumer("HANDS", sample_freq="100", dead_letter=f"{name}_DLQ")
    for n in range(12):
        rg.publish(f"{name}.{n % 2}", b"%d" % n)
    with rg.advisories() as advisories:
        for message in consumer.fetch(12, wait=20):
            if message.sequence in (3, 5, 6):
                message.term("broken [/]" if message.sequence != 6 else "late")
            else:
                message.ack_sync()
        seen = 0
        while seen < 9:
            event = next(advisories).json()
            seen += event.get("stream") == name and event["type"].endswith("consumer_ack")
    wait_until(lambda: rg.stream(f"{name}_DLQ").info().state.messages == 3, "the letters are there")

    rows = json.loads(done(run("dead-letters", f"{name}_DLQ", "--json")))
    assert [(row["subject"], row["consumer"], row["reason"], row["letters"]) for row in rows] == [
        (f"{name}.0", "HANDS", "broken [/]", 2),
        (f"{name}.1", "HANDS", "late", 1),
    ]
    assert "broken [/]" in done(run("dead-letters", f"{name}_DLQ"))
    assert "broken [/]" in done(
        invoke("dlq", "ls", f"{name}_DLQ", "--server", at.server, "--prefix", at.prefix)
    )

    picture = tmp_path / "latency.png"
    (row,) = json.loads(done(run("ack-latency", "--stream", name, "--plot", str(picture), "--json")))
    assert (row["stream"], row["consumer"], row["samples"], row["redelivered"]) == (name, "HANDS", 9, 0)
    assert 0 < row["min_ms"] <= row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_times_of_letters_are_in_utc(spark: SparkSession, at: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the hour that New York leaves out, too."""
    frame = spark.sql(
        "select timestamp_micros(1772937000000001) as first, timestamp_micros(1772940600000000) as last"
    )
    monkeypatch.setattr(dead_letters, "dead_letters", lambda *_, **__: frame)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert dead_letters.report(spark, at, "ANY") == [
            {"first": "2026-03-08T02:30:00.000001Z", "last": "2026-03-08T03:30:00.000000Z"}
        ]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_the_commands_go_round(run: Run, rg: railgun.Railgun, at: Place, tmp_path: Path) -> None:
    name, copy, folder = unique("ROUND"), unique("COPY"), str(tmp_path / "archive")
    rg.create_stream(name, subjects=[f"{name}.*"])
    rg.create_stream(copy, subjects=[f"{copy}.*"])
    for n in range(10):
        rg.publish(f"{name}.{n % 2}", b"%d" % n)
    assert json.loads(done(run("archive", name, folder, "--json")))["messages"] == 10
    refused = run("backfill", folder, copy, "--replace", f"{name}.=elsewhere.", "--json")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["refused"] == 10
    told = done(run("backfill", folder, copy, "--replace", f"{name}.={copy}."))
    assert told == "10 messages: 10 stored, 0 were there, 0 were there once, 0 refused\n"
    producer = Producer({"bootstrap.servers": at.server})
    producer.produce(f"{at.prefix}.log.{copy}", key=f"{copy}.0", value=b"not a message")
    producer.flush(10)
    found = run("audit", copy)
    assert found.exit_code == 1
    first, last = found.stdout.splitlines()
    assert first.startswith(f"foreign: {copy}.0: log: a record at offset ")
    assert last == f"{copy}: 10 messages on 2 subjects: 1 differences"


def test_faults_are_said_in_a_sentence(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong = run("archive", "NO_SUCH_STREAM", str(tmp_path / "none"))
    assert (wrong.exit_code, "stream not found" in said(wrong)) == (1, True)
    assert "is a cluster inside this process" in said(
        invoke("pipeline", "audit", "ANY", "--server", "memory://x")
    )
    assert "is not KEY=VALUE" in said(run("audit", "ANY", "--conf", "nonsense"))
    assert "Spark could not do it: " in said(run("audit", "ANY", "--conf", "spark.sql.shuffle.partitions=x"))
    assert "is not BEGIN=INSTEAD" in said(run("backfill", str(tmp_path), "ANY", "--replace", "nonsense"))

    monkeypatch.setitem(sys.modules, "pyspark", None)  # as if it was not installed
    for words in (["pipeline", "audit", "ANY"], ["tour", "--spark"]):
        missing = invoke(*words, "--server", "localhost:1")
        assert (missing.exit_code, "pip install 'railgun[spark]'" in said(missing)) == (1, True)
    with pytest.raises(ConfigError, match=r"pip install 'railgun\[spark\]'"):
        invoke("up", "--tour", "--spark")


def test_the_tour_ends_with_an_archive_and_an_audit_when_asked(
    run: Run, at: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "BEFORE_THE_TOPIC", command.BEFORE_THE_TOPIC[:2])
    monkeypatch.setattr(command, "AFTER_IT", ())
    shown = done(invoke("tour", "--spark", "--server", at.server, "--prefix", at.prefix))
    assert "holds 299 messages of ORDERS in 1 batches, up to sequence 300\n" in shown
    assert "ORDERS: 299 messages on 1 subjects: no differences\n" in shown
    assert "That was the tour" in shown


def test_what_a_task_failed_of_is_said_too(spark: SparkSession) -> None:
    """Of a full disk Spark's own sentence says no more than that a task could not write."""
    jvm: Any = spark._jvm
    full = jvm.java.io.IOException("No space left on device")
    failed = jvm.java.lang.RuntimeException("Task failed while writing rows", full)
    with pytest.raises(RailgunError, match=r"Task failed while writing rows \(.*No space left on device\)$"):
        with in_words():
            raise Py4JJavaError("An error occurred", failed)
