"""Values that no command can use: each is refused in words, at once, with an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from railgun.cli.commands.events import KINDS
from railgun.errors import ConfigError, EmbeddedBrokerError
from railgun.kafka.embedded import EmbeddedBroker
from railgun.shard import advisories
from tests.support.commands import Run, done, invoke

NOT_UTF_8 = "\udcff"  # how Python hands over a byte that is not UTF-8
HUGE = "99999999999999999999999"
LONG = "9" * 100_000  # digits


@pytest.mark.parametrize("port", ["99999", "65536", "-1", "x"])
def test_up_refuses_what_is_not_a_port(port: str) -> None:
    answer = invoke("up", "--broker-only", "--port", port)
    assert answer.exit_code == 2
    assert "Invalid value for '--port'" in answer.stderr


@pytest.mark.parametrize("port", [65_536, 99_999, -1])
def test_a_broker_refuses_what_is_not_a_port(port: int) -> None:
    with pytest.raises(EmbeddedBrokerError, match=f"{port} is not a valid port: use 1 to 65535"):
        EmbeddedBroker(port=port)


def test_an_unknown_kind_of_event_is_refused_with_the_known_ones(run: Run) -> None:
    answer = run("events", "--kind", "nak", "--kind", "foo")
    assert answer.exit_code == 1
    assert answer.stderr == f"error: --kind 'foo' is not a valid kind of event: use {', '.join(KINDS)}\n"


def test_the_known_kinds_are_those_that_shards_tell() -> None:
    types = {kind for _, kind, _ in advisories._KINDS.values()}
    others = {"stream_action", "consumer_action", "batch_abandoned"}
    assert {one.rpartition(".")[2] for one in types} | others == set(KINDS)


@pytest.mark.parametrize(
    "line",
    [
        "stream info {}",
        "stream add {} --subjects q",
        "stream add NEW --subjects {}",
        "stream add NEW --subjects q --metadata a={}",
        "stream ls --prefix {}",
        "consumer add ORDERS {}",
        "consumer next ORDERS {}",
        "pub {} body",
        "pub ORDERS.new {}",
        "pub ORDERS.new x --header A:{}",
        "req {}",
        "dlq ls {}",
        "init --print-acls --prefix {}",
    ],
)
def test_text_that_is_not_utf_8_is_refused(orders: Run, line: str) -> None:
    answer = orders(*line.format(NOT_UTF_8).split(" "))
    assert answer.exit_code == 1
    assert "is not valid UTF-8 text" in answer.stderr


@pytest.mark.parametrize("line", ["stream ls --kafka-config {}", "stream add NEW --config {}"])
def test_a_file_whose_name_is_not_utf_8_is_named_in_json_too(run: Run, line: str) -> None:
    answer = run(*line.format(NOT_UTF_8).split(" "), "--json")
    assert answer.exit_code == 1
    assert f"the file {NOT_UTF_8} cannot be read" in json.loads(answer.stdout)["error"]["description"]


@pytest.mark.parametrize(
    "line",
    [
        "stream info .",
        "stream rm * --force",
        "stream get ORDERS -1",
        "stream get ORDERS {huge}",
        "stream rmm ORDERS {huge} --force",
        "stream rmm ORDERS --force -- -1",
        "stream purge ORDERS --seq {huge} --force",
        "stream purge ORDERS --keep=-1 --force",
        "stream add NEW --subjects q --max-msgs {huge}",
        "stream add NEW --subjects q --max-age 99999999999y",
        "stream add NEW --subjects q --max-bytes 1e400",
        "stream add NEW --subjects q --max-bytes {long}GB",
        "stream add NEW --subjects q --dupe-window {long}",
        "stream add NEW --subjects a..b",
        "stream add NEW --config {deep}",
        "stream add NEW --config {binary}",
        "stream add NEW --config {folder}",
        "consumer add ORDERS NEW --config {deep}",
        "consumer add ORDERS NEW --deliver 999999999d",
        "consumer add ORDERS NEW --deliver {huge}",
        "consumer add ORDERS NEW --deliver 2026-99-99",
        "consumer add ORDERS NEW --wait {huge}s",
        "consumer add ORDERS NEW --backoff 1s,-",
        "consumer add ORDERS NEW --rate-limit {huge}",
        "consumer next ORDERS C --wait=-x",
        "consumer next ORDERS C --count 0",
        "pub ORDERS.new x --ttl {huge}d",
        "pub ORDERS.new x --expect-last-sequence {huge}",
        "stream ls --timeout {huge}",
        "stream ls --timeout nan",
        "stream ls --kafka-config {binary}",
        "stream ls --kafka-config {folder}",
        "dlq show ORDERS {huge}",
    ],
)
def test_values_out_of_range_end_in_words(orders: Run, tmp_path: Path, line: str) -> None:
    deep, binary = tmp_path / "deep.json", tmp_path / "binary.json"
    deep.write_text("[" * 100_000)
    binary.write_bytes(b"\xff\xfe\x00")
    files = {"deep": deep, "binary": binary, "folder": tmp_path}
    arguments = [part.format(huge=HUGE, long=LONG, **files) for part in line.split(" ")]
    answer = orders(*arguments)
    assert answer.exit_code in (1, 2)
    assert answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("arguments", [("--loglevel", "loud"), ("--config", "."), ("--config", "binary")])
def test_a_worker_refuses_what_it_cannot_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError):  # which the console script turns into one line
        invoke("worker", *arguments)


def test_as_many_letters_as_there_are_is_a_limit_like_any_other(orders: Run) -> None:
    assert done(orders("dlq", "ls", "ORDERS", "--limit", HUGE)) == ""


def test_a_wait_longer_than_a_life_is_a_long_wait(orders: Run) -> None:
    done(orders("consumer", "add", "ORDERS", "C"))
    done(orders("pub", "ORDERS.new", "x"))
    assert done(orders("consumer", "next", "ORDERS", "C", "--raw", "--wait", "999999999d")) == "x"
