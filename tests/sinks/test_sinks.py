"""Sinks on real parts: a broker, a worker, Kafka Connect with Debezium's JDBC sink, PostgreSQL."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import httpx2
import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic

from railgun.errors import ConfigError, StreamNotFound
from railgun.kafka.embedded import free_port
from railgun.sinks import FileSink, Sink, SinkFailed, SinkNotFound, SinkRefused, dead_letters
from tests.support.checkout import TOP
from tests.support.commands import done, invoke
from tests.support.sink_parts import SinkParts, message_headers
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


def test_each_message_is_a_row_and_applying_again_changes_nothing(parts: SinkParts) -> None:
    stream = parts.stream()
    parts.publish(stream, 200)
    parts.rg.publish(f"{stream.name.lower()}.empty", b"")
    parts.rg.publish(f"{stream.name.lower()}.odd", b"\x00\xff", headers={"Trace": "é"})
    sink = parts.jdbc(stream)
    status = parts.connect.apply(sink, parts.rg)
    assert (status.state, status.stream, status.incarnation) == (
        "RUNNING",
        stream.name,
        parts.incarnation(stream),
    )
    assert parts.connect.apply(sink, parts.rg) == status
    parts.await_rows(sink.table, 202)
    assert parts.rows(sink.table) == parts.stored(stream)
    (time_ns,) = parts.postgres.rows(f"select time_ns from {sink.table} where sequence = 7")[0]  # type: ignore[arg-type]
    assert time_ns == stream.get(7).time_ns
    assert sink.name in [one.name for one in parts.connect.list()]


def test_aborted_and_foreign_records_are_no_rows_and_damaged_ones_are_dead_letters(parts: SinkParts) -> None:
    stream = parts.stream(max_msgs_per_subject=1)  # a compacted log, with tombstones
    parts.publish(stream, 7)
    stream.delete_message(7)
    here = parts.incarnation(stream)
    parts.plant(stream, (b"no headers", {}), (None, {}), (b"other", {"Trace": b"1"}))
    parts.plant(stream, (b"not a number", message_headers("seven", here)))
    parts.plant_aborted(stream, 20)
    parts.plant(stream, (None, message_headers(800_000, here)))
    parts.publish(stream, 1, "last")
    sink = parts.jdbc(stream)
    parts.connect.apply(sink, parts.rg)
    # The log has what the stream had, in its order; the first message is replaced by the last one later on.
    parts.await_rows(sink.table, 9)
    rows = parts.rows(sink.table)
    assert [row[0] for row in rows] == [1, 2, 3, 4, 5, 6, 7, 8, 800_000]
    assert rows[-1] == (800_000, "planted", None)
    assert parts.connect.status(sink.name).state == "RUNNING"

    letters = parts.rg.create_stream("LETTERS", subjects=["letters.>"])
    assert dead_letters(parts.rg, sink.name, "LETTERS") == (1, 0)
    assert dead_letters(parts.rg, sink.name, "LETTERS") == (0, 0), (
        "a second run goes on where the first ended"
    )
    (letter,) = letters.read()
    assert letter.subject == f"letters.{sink.name}"
    assert letter.payload == b"not a number"
    headers = dict(letter.headers)
    assert b"DataException" in headers["Sink-Reason"]
    assert headers["Sink-Sequence"] == b"seven"
    assert headers["__connect.errors.topic"].decode() == parts.names.log(stream.name)
    assert parts.write_letters_again(sink.name) == 1
    assert dead_letters(parts.rg, sink.name, "LETTERS") == (0, 1), (
        "Connect wrote it twice, and it is stored once"
    )


def test_dead_letters_are_as_large_as_messages(parts: SinkParts) -> None:
    """Connect drops a letter for which its topic is too small, and goes on: brokers take a megabyte unless they are told otherwise."""
    stream = parts.stream(max_msg_size=3_000_000)
    settings = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    sink = parts.jdbc(stream, payload="fields", settings=settings)
    small = NewTopic(sink.dead_letter_topic(parts.names), 1, 1, config={"max.message.bytes": "1048588"})
    admin = AdminClient({"bootstrap.servers": parts.cell.bootstrap})
    admin.create_topics([small])[small.topic].result(20)
    parts.connect.apply(sink, parts.rg)
    for payload in (b"x" * 2_000_000, b"small"):
        parts.rg.publish(f"{stream.name.lower()}.a", payload)
    broken = parts.rg.create_stream("LARGE_LETTERS", subjects=["large.>"], max_msg_size=3_000_000)

    def arrived() -> bool:
        dead_letters(parts.rg, sink.name, "LARGE_LETTERS")
        return any(one.payload == b"small" for one in broken.read())

    wait_until(arrived, "the second dead letter", 40)
    assert [len(one.payload) for one in broken.read()] == [2_000_000, 5]


def test_a_stream_that_was_made_anew_replaces_no_row_and_loses_none(parts: SinkParts) -> None:
    stream = parts.stream()
    parts.publish(stream, 30, "old")
    sink = parts.jdbc(stream)
    parts.connect.apply(sink, parts.rg)
    parts.await_rows(sink.table, 30)
    before, old = parts.incarnation(stream), parts.stored(stream)
    parts.rg.delete_stream(stream.name)
    with pytest.raises(StreamNotFound):
        parts.connect.apply(sink, parts.rg)
    parts.rg.create_stream(stream.name, subjects=[f"{stream.name.lower()}.>"])
    parts.publish(stream, 50, "new")  # more than before: offsets of the former log lie within this one
    status = parts.connect.apply(sink, parts.rg)
    after = parts.incarnation(stream)
    assert status.incarnation == after > before
    parts.await_rows(sink.table, 80)
    assert parts.rows(sink.table, before) == old
    assert parts.rows(sink.table, after) == parts.stored(stream)


def test_a_database_that_is_down_is_a_failure_and_a_restart_goes_on(parts: SinkParts) -> None:
    stream = parts.stream()
    parts.publish(stream, 20)
    sink = parts.jdbc(stream)
    parts.connect.apply(sink, parts.rg)
    parts.await_rows(sink.table, 20)
    parts.postgres.stop()
    try:
        parts.publish(stream, 20, "later")
        wait_until(lambda: parts.connect.status(sink.name).state == "FAILED", "the task failed", 60)
        assert "Connection" in parts.connect.status(sink.name).reason
        with pytest.raises(SinkFailed, match="the database does not answer"):
            parts.connect.restart(sink.name)
        with pytest.raises(SinkFailed, match="the database does not answer"):
            parts.connect.apply(parts.jdbc(stream), parts.rg)
    finally:
        parts.postgres.start()
    assert parts.connect.restart(sink.name).state == "RUNNING"
    parts.await_rows(sink.table, 40)
    assert parts.rows(sink.table) == parts.stored(stream)


def test_payloads_become_text_or_columns(parts: SinkParts) -> None:
    stream = parts.stream()
    fields = [{"type": "int64", "field": "id"}, {"type": "string", "field": "who", "optional": True}]
    schema = {"type": "struct", "fields": fields}
    for number in range(3):
        body = {"schema": schema, "payload": {"id": number, "who": f"é{number}"}}
        parts.rg.publish(f"{stream.name.lower()}.new", json.dumps(body))
    settings = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    columns, text = (
        parts.jdbc(stream, payload="fields", settings=settings),
        parts.jdbc(stream, payload="text"),
    )
    for sink in (columns, text):
        parts.connect.apply(sink, parts.rg)
        parts.await_rows(sink.table, 3)
    found = parts.postgres.rows(f"select sequence, id, who, subject from {columns.table} order by 1")  # type: ignore[arg-type]
    assert found == [(number + 1, number, f"é{number}", f"{stream.name.lower()}.new") for number in range(3)]
    assert json.loads(parts.rows(text.table)[2][2]) == json.loads(stream.get(3).payload)


def test_a_file_gets_a_line_for_each_message(parts: SinkParts, tmp_path: Path) -> None:
    stream, file = parts.stream(), tmp_path / "lines.txt"
    parts.publish(stream, 5)
    sink = FileSink(name=f"file-{stream.name}", stream=stream.name, file=str(file))
    parts.connect.apply(sink, parts.rg)
    wait_until(lambda: file.exists() and len(file.read_text().splitlines()) == 5, "five lines")
    assert file.read_text().splitlines() == [f"m{number}" for number in range(5)]

    assert parts.connect.pause(sink.name).state == "PAUSED"
    parts.publish(stream, 1, "while paused")
    assert parts.connect.apply(sink, parts.rg).state == "PAUSED", "applying does not resume"
    assert parts.connect.resume(sink.name).state == "RUNNING"
    wait_until(lambda: "while paused0" in file.read_text(), "the line after the pause")

    parts.connect.delete(sink.name)
    for call in (parts.connect.delete, parts.connect.status, parts.connect.restart, parts.connect.pause):
        with pytest.raises(SinkNotFound):
            call(sink.name)
    parts.publish(stream, 1, "while away")
    parts.connect.apply(sink, parts.rg)  # it goes on where it stopped
    wait_until(lambda: "while away0" in file.read_text(), "the line after the removal")
    assert len(file.read_text().splitlines()) == 7


def test_what_cannot_run_is_refused_and_changes_nothing(parts: SinkParts) -> None:
    stream = parts.stream()
    known = [one.name for one in parts.connect.list()]
    with pytest.raises(SinkRefused, match=r"has no connector no\.such\.Connector: install the plugin"):
        parts.connect.apply(
            Sink(name="odd", stream=stream.name, connector_class="no.such.Connector"), parts.rg
        )
    odd = parts.jdbc(stream, name="odd", settings={"errors.tolerance": "some"})
    with pytest.raises(SinkRefused, match=r"errors\.tolerance: Invalid value some"):
        parts.connect.apply(odd, parts.rg)
    with pytest.raises(StreamNotFound):
        parts.connect.apply(parts.jdbc(parts.rg.stream("NONE")), parts.rg)
    several = parts.stream(max_msgs_per_subject=3)
    with pytest.raises(ConfigError, match="make a mirror of it"):
        parts.connect.apply(parts.jdbc(several), parts.rg)
    assert [one.name for one in parts.connect.list()] == known


@pytest.mark.parametrize(
    "notes, told",
    [
        ({}, "is not a sink of railgun's"),
        ({"railgun.prefix": "other", "railgun.stream": "S"}, "is a sink of the prefix other"),
    ],
)
def test_a_connector_of_somebody_else_is_left_alone(
    parts: SinkParts, tmp_path: Path, notes: dict[str, str], told: str
) -> None:
    stream = parts.stream()
    sink = FileSink(name="theirs", stream=stream.name, file=str(tmp_path / "ours"))
    theirs = {
        "connector.class": sink.CONNECTOR,
        "topics": "theirs",
        "file": str(tmp_path / "theirs"),
        **notes,
    }
    place = f"{parts.local.url}/connectors/theirs"
    httpx2.put(f"{place}/config", json=theirs, timeout=30).raise_for_status()
    with pytest.raises(SinkRefused, match=told):
        parts.connect.apply(sink, parts.rg)
    assert httpx2.get(f"{place}/config", timeout=30).json() == {**theirs, "name": "theirs"}
    httpx2.delete(place, timeout=30).raise_for_status()


def test_the_commands_do_the_same(parts: SinkParts, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = parts.stream()
    parts.publish(stream, 3)
    parts.plant(stream, (b"damaged", message_headers("x", parts.incarnation(stream))))
    monkeypatch.setenv("RAILGUN_CONNECT", parts.local.url)
    cluster = ("--server", parts.cell.bootstrap, "--prefix", parts.cell.prefix, "--timeout", "20")
    what = (
        "--stream",
        stream.name,
        "--jdbc",
        parts.postgres.jdbc_url,
        "--user",
        "postgres",
        "--table",
        "by_command",
    )
    applied = invoke("sink", "apply", "by_command", *what, "--set", "batch.size=10", *cluster, "--json")
    assert json.loads(done(applied))["state"] == "RUNNING"
    assert f"acting on Kafka Connect at {parts.local.url} ($RAILGUN_CONNECT)" in applied.stderr
    parts.await_rows("by_command", 3)
    assert parts.rows("by_command") == parts.stored(stream)

    assert "by_command" in done(invoke("sink", "ls"))
    assert [one["name"] for one in json.loads(done(invoke("sink", "ls", "--json")))] == ["by_command"]
    assert "RUNNING" in done(invoke("sink", "status", "by_command"))
    assert json.loads(done(invoke("sink", "pause", "by_command", "--json")))["state"] == "PAUSED"
    assert json.loads(done(invoke("sink", "resume", "by_command", "--json")))["state"] == "RUNNING"
    assert json.loads(done(invoke("sink", "restart", "by_command", "--json")))["state"] == "RUNNING"

    parts.rg.create_stream("BY_COMMAND_DLQ", subjects=["by_command.dlq"])
    carry = ("sink", "dead-letters", "by_command", "--into", "BY_COMMAND_DLQ", *cluster, "--json")
    assert json.loads(done(invoke(*carry)))["stored"] == 1
    assert json.loads(done(invoke(*carry))) == {
        "sink": "by_command",
        "stream": "BY_COMMAND_DLQ",
        "stored": 0,
        "duplicates": 0,
    }
    assert parts.rg.stream("BY_COMMAND_DLQ").get(1).payload == b"damaged"

    assert "was removed" in done(invoke("sink", "rm", "by_command"))
    gone = invoke("sink", "status", "by_command", "--json")
    assert (gone.exit_code, json.loads(gone.stdout)["error"]["kind"]) == (1, "SinkNotFound")
    nobody = invoke("sink", "ls", "--connect", f"http://127.0.0.1:{free_port()}", "--json")
    assert (nobody.exit_code, json.loads(nobody.stdout)["error"]["kind"]) == (3, "ConnectUnreachable")


def test_the_health_check_of_the_compose_file_asks_it(parts: SinkParts) -> None:
    services = yaml.safe_load((TOP / "compose" / "compose.yaml").read_text(encoding="utf-8"))["services"]
    _, *command = services["connect"]["healthcheck"]["test"]
    for port, healthy in ((parts.local.url.rpartition(":")[2], True), (str(free_port()), False)):
        asked = [word.replace("8083", port) for word in command]
        assert (subprocess.run(asked, capture_output=True, timeout=20).returncode == 0) == healthy
