"""``railgun kv`` on a cluster in memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.commands import Run, complete, done, meanwhile, said


@pytest.fixture
def config(run: Run) -> Run:
    """The commands, with a bucket CONFIG that keeps three values of each key."""
    done(run("kv", "add", "CONFIG", "--history", "3"))
    return run


def asked(run: Run, *arguments: str, text: str | None = None) -> Any:
    """The JSON that a command prints."""
    return json.loads(done(run(*arguments, "--json", text=text)))


@pytest.mark.rule("KV-13", "KV-14", "KV-28")
def test_values_are_put_read_and_listed(config: Run) -> None:
    assert done(config("kv", "put", "CONFIG", "port", "80")) == "Put CONFIG > port: revision 1\n"
    assert asked(config, "kv", "put", "CONFIG", "host", "a") == {
        "bucket": "CONFIG",
        "key": "host",
        "revision": 2,
    }
    done(config("kv", "put", "CONFIG", "port", "8080"))
    shown = done(config("kv", "get", "CONFIG", "port"))
    assert shown.startswith("CONFIG > port revision 3 created ")
    assert shown.endswith("\n\n8080\n")
    assert done(config("kv", "get", "CONFIG", "port", "--raw")) == "8080"
    assert done(config("kv", "get", "CONFIG", "port", "--raw", "--revision", "1")) == "80"
    found = asked(config, "kv", "get", "CONFIG", "port")
    assert (found["revision"], found["text"], found["operation"]) == (3, "8080", "PUT")
    assert [one["text"] for one in asked(config, "kv", "history", "CONFIG", "port")] == ["80", "8080"]
    table = done(config("kv", "history", "CONFIG", "port")).splitlines()
    assert [line.split()[0] for line in table] == ["Revision", "1", "3"]
    assert done(config("kv", "ls", "CONFIG")) == "host\nport\n"
    assert asked(config, "kv", "ls", "CONFIG", "port") == ["port"]


@pytest.mark.rule("KV-46")
def test_a_value_without_an_argument_is_standard_input_byte_for_byte(config: Run) -> None:
    done(config("kv", "put", "CONFIG", "a", text="two\nlines\n"))
    assert done(config("kv", "get", "CONFIG", "a", "--raw")) == "two\nlines\n"
    done(config("kv", "put", "CONFIG", "a", ""))
    assert done(config("kv", "get", "CONFIG", "a", "--raw")) == ""
    done(config("kv", "create", "CONFIG", "b", text="from a file"))
    done(config("kv", "update", "CONFIG", "b", "--revision", "3", text="changed"))
    assert asked(config, "kv", "get", "CONFIG", "b")["text"] == "changed"


@pytest.mark.rule("KV-17", "KV-18", "KV-24")
def test_what_is_refused_ends_with_1_and_a_sentence(config: Run) -> None:
    done(config("kv", "create", "CONFIG", "a", "1"))
    for arguments in (
        ("create", "CONFIG", "a", "2"),
        ("update", "CONFIG", "a", "2", "--revision", "9"),
        ("del", "CONFIG", "a", "--revision", "9"),
        ("purge", "CONFIG", "a", "--revision", "9"),
        ("get", "CONFIG", "nothing"),
        ("get", "CONFIG", "a", "--revision", "9"),
        ("get", "CONFIG", "a key"),
        ("put", "CONFIG", "_kv", "1"),
        ("get", "NOWHERE", "a"),
        ("add", "not valid"),
        ("add", "MANY", "--history", "65"),
        ("compact", "CONFIG", "a", "--keep", "0"),
        ("compact", "CONFIG", "--keep", "1"),
        ("purge", "CONFIG", "--ttl", "1m"),
    ):
        result = config("kv", *arguments)
        assert result.exit_code == 1, arguments
        assert said(result).startswith("error: ")
        assert said(result).count("\n") == 1
    assert config("kv", "update", "CONFIG", "a", "2").exit_code == 2, "the revision is needed"
    refused = config("kv", "create", "CONFIG", "a", "2", "--json")
    assert json.loads(refused.stdout)["error"]["kind"] == "KeyExists"
    assert asked(config, "kv", "update", "CONFIG", "a", "2", "--revision", "1")["revision"] == 2


@pytest.mark.rule("KV-20", "KV-21", "KV-23", "KV-25", "KV-27")
def test_values_are_removed(config: Run) -> None:
    for number in range(3):
        for key in ("kept", "marked", "gone", "purged"):
            done(config("kv", "put", "CONFIG", key, str(number)))
    assert done(config("kv", "compact", "CONFIG", "kept", "--keep", "2")) == (
        "Removed 1 value of bucket CONFIG\n"
    )
    assert [one["text"] for one in asked(config, "kv", "history", "CONFIG", "kept")] == ["1", "2"]
    assert done(config("kv", "del", "CONFIG", "gone")).startswith("Deleted CONFIG > gone: revision ")
    assert asked(config, "kv", "history", "CONFIG", "gone") == []
    done(config("kv", "del", "CONFIG", "marked", "--marker"))
    marked = asked(config, "kv", "history", "CONFIG", "marked")
    assert [one["operation"] for one in marked] == ["PUT", "PUT", "DEL"]
    done(config("kv", "purge", "CONFIG", "purged"))
    assert [one["operation"] for one in asked(config, "kv", "history", "CONFIG", "purged")] == ["PURGE"]
    assert asked(config, "kv", "ls", "CONFIG") == ["kept"]
    assert asked(config, "kv", "compact", "CONFIG", "--older-than", "0") == {"bucket": "CONFIG", "removed": 3}


@pytest.mark.rule("KV-26")
@pytest.mark.parametrize("arguments", [("purge", "CONFIG"), ("rm", "CONFIG")])
def test_what_removes_all_values_wants_to_be_sure(config: Run, arguments: tuple[str, str]) -> None:
    done(config("kv", "put", "CONFIG", "a", "1"))
    result = config("kv", *arguments)
    assert result.exit_code == 1
    assert "give --force" in said(result)
    assert asked(config, "kv", "ls", "CONFIG") == ["a"]
    done(config("kv", *arguments, "--force"))
    left = config("kv", "ls", "CONFIG", "--json")
    assert left.exit_code == (0 if arguments[0] == "purge" else 1)


@pytest.mark.rule("KV-45")
def test_a_bucket_is_described(run: Run) -> None:
    created = done(
        run("kv", "add", "B", "--history", "2", "--ttl", "1h", "--max-value-size", "1KB", "--metadata", "a=b")
    )
    assert created.startswith("Bucket B was created\n")
    assert "Maximum Age: 1h0m0s" in " ".join(created.split())
    done(run("kv", "put", "B", "a", "1"))
    status = asked(run, "kv", "status", "B")
    assert (status["values"], status["history"], status["ttl"], status["stream"]) == (1, 2, 3600, "KV_B")
    assert status["config"]["metadata"] == {"a": "b"}
    assert "Values Stored: 1" in " ".join(done(run("kv", "status", "B")).split())
    assert [one["bucket"] for one in asked(run, "kv", "ls")] == ["B"]
    assert done(run("kv", "ls")).splitlines()[1].split()[:2] == ["B", "1"]


def test_no_bucket_is_no_error(run: Run) -> None:
    result = run("kv", "ls")
    assert done(result) == ""
    assert result.stderr == "No buckets.\n"


@pytest.mark.rule("KV-05")
def test_a_bucket_in_a_stream_of_another_name(run: Run) -> None:
    done(run("kv", "add", "B", "--stream-name", "ELSEWHERE"))
    done(run("kv", "put", "B", "a", "1", "--stream-name", "ELSEWHERE"))
    assert done(run("kv", "get", "B", "a", "--raw", "--stream-name", "ELSEWHERE")) == "1"
    assert run("kv", "get", "B", "a").exit_code == 1


def test_buckets_are_completed(config: Run, server: str) -> None:
    assert complete(f"railgun kv get --server {server} CON") == ["CONFIG"]
    assert complete("railgun kv get --server http://nowhere CON") == []


@pytest.mark.rule("KV-22", "KV-31")
def test_a_watch_shows_what_is_there_and_what_comes(config: Run, server: str) -> None:
    done(config("kv", "put", "CONFIG", "a", "1"))
    done(config("kv", "put", "CONFIG", "b", "2"))
    lines = done(config("kv", "watch", "CONFIG", "--count", "2", "--json")).splitlines()
    assert [(json.loads(line)["key"], json.loads(line)["text"]) for line in lines] == [("a", "1"), ("b", "2")]
    result = config("kv", "watch", "CONFIG", "b", "--count", "1")
    assert done(result).endswith("] PUT CONFIG > b revision 2: 2\n")
    assert result.stderr == "Watching bucket CONFIG\n"
    with meanwhile(server, lambda rg, number: rg.bucket("CONFIG").delete("a")):
        shown = done(config("kv", "watch", "CONFIG", "--updates-only", "--count", "1"))
    assert "] DEL CONFIG > a revision " in shown


@pytest.mark.rule("KV-47", "KV-48", "KV-49")
def test_a_replica_is_made_and_described(config: Run) -> None:
    made = done(config("kv", "add", "COPY", "--replica-of", "CONFIG"))
    assert "which may be stale" in made
    status = asked(config, "kv", "status", "COPY")
    assert (status["may_be_stale"], status["lag"], status["history"]) == (True, 0, 3)
    assert config("kv", "put", "COPY", "a", "1").exit_code == 1
