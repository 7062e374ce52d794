"""Which cluster a command acts on: the ``railgun up`` of its own folder, never that of another; and it says which."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from railgun.cli.options.context import (
    FALLBACK_CONNECT,
    FALLBACK_SERVER,
    find_connect,
    find_server,
    forget_up,
    remember_up,
)
from tests.support.commands import Run, done


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, in which nothing is left of the user's."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("RAILGUN_SERVER", raising=False)
    return folder


def serving(folder: Path, bootstrap: str, pid: int | None = None) -> None:
    """The note of a ``railgun up`` that runs in the folder."""
    note = folder / ".railgun" / "up.json"
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"pid": os.getpid() if pid is None else pid, "bootstrap": bootstrap}))


def found(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(folder)
    return find_server().address


def test_the_server_is_chosen_in_order(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = home / "work"
    assert found(monkeypatch, work) == FALLBACK_SERVER
    serving(work, "127.0.0.1:4001")
    assert str(find_server()) == f"127.0.0.1:4001 (local up of {work})"
    monkeypatch.setenv("RAILGUN_SERVER", "from-environment:4002")
    assert str(find_server()) == "from-environment:4002 ($RAILGUN_SERVER)"
    assert str(find_server("given:4003")) == "given:4003 (--server)"


def test_the_connect_is_chosen_in_the_same_order(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAILGUN_CONNECT", raising=False)
    assert found(monkeypatch, home / "work") == FALLBACK_SERVER
    remember_up("127.0.0.1:4001")
    assert find_connect().address == FALLBACK_CONNECT, "an up without Connect"
    remember_up("127.0.0.1:4001", "http://127.0.0.1:4002")
    assert str(find_connect()) == f"http://127.0.0.1:4002 (local up of {home / 'work'})"
    monkeypatch.setenv("RAILGUN_CONNECT", "http://named:4003")
    assert str(find_connect()) == "http://named:4003 ($RAILGUN_CONNECT)"
    assert str(find_connect("http://given:4004")) == "http://given:4004 (--connect)"


def test_the_up_of_another_folder_is_not_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving(home / "one", "127.0.0.1:4001")
    assert found(monkeypatch, home / "one" / "deep" / "inside") == "127.0.0.1:4001"
    assert found(monkeypatch, home / "two") == FALLBACK_SERVER
    assert found(monkeypatch, home) == FALLBACK_SERVER


def test_a_checkout_ends_the_search(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving(home / "projects", "127.0.0.1:4001")
    (home / "projects" / "shop" / ".git").mkdir(parents=True)
    assert found(monkeypatch, home / "projects" / "shop" / "src") == FALLBACK_SERVER
    serving(home / "projects" / "shop", "127.0.0.1:4002")
    assert found(monkeypatch, home / "projects" / "shop" / "src") == "127.0.0.1:4002"


def test_an_up_at_home_is_for_the_home_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving(home, "127.0.0.1:4001")
    assert found(monkeypatch, home) == "127.0.0.1:4001"
    assert found(monkeypatch, home / "work") == FALLBACK_SERVER


def test_outside_of_home_and_checkouts_only_the_folder_itself_counts(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(tmp_path / "shared", "127.0.0.1:4001")
    assert found(monkeypatch, tmp_path / "shared") == "127.0.0.1:4001"
    assert found(monkeypatch, tmp_path / "shared" / "mine") == FALLBACK_SERVER


def test_a_home_that_is_a_link_is_a_home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    serving(home / "work", "127.0.0.1:4001")
    assert found(monkeypatch, home / "work" / "inside") == "127.0.0.1:4001"


@pytest.mark.parametrize("note", ["not json", "[]", "{}", '{"pid": "x", "bootstrap": "a:1"}', "\ufeff"])
def test_a_note_that_cannot_be_read_counts_as_none(
    home: Path, monkeypatch: pytest.MonkeyPatch, note: str
) -> None:
    serving(home / "work", "127.0.0.1:4001")
    (home / "work" / ".railgun" / "up.json").write_text(note)
    assert found(monkeypatch, home / "work") == FALLBACK_SERVER


def test_an_up_that_is_gone_counts_as_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving(home / "work", "127.0.0.1:4001", pid=2**22 + 1)  # above the largest id that Linux gives
    assert found(monkeypatch, home / "work") == FALLBACK_SERVER


def test_an_up_forgets_its_own_note_only(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    folder = remember_up("127.0.0.1:4001")
    assert find_server().address == "127.0.0.1:4001"
    note = folder / ".railgun" / "up.json"
    own = note.read_text()
    note.write_text(json.dumps({"pid": 1, "bootstrap": "127.0.0.1:4002"}))
    forget_up(folder)
    assert note.exists()
    note.write_text(own)
    forget_up(folder)
    assert find_server().address == FALLBACK_SERVER


# ---------------------------------------------------------------- where it acts

CHANGES = [
    "stream add NEW --subjects q",
    "stream edit ORDERS --max-age 1h",
    "stream rmm ORDERS 1 --force",
    "stream purge ORDERS --force",
    "stream rm ORDERS --force",
    "consumer add ORDERS NEW",
    "consumer edit ORDERS C --wait 1m",
    "consumer next ORDERS C",
    "consumer rm ORDERS C --force",
    "pub ORDERS.new x",
    "req STREAM.PURGE.ORDERS",
    "dlq redrive ORDERS",
    "dlq drop ORDERS --all --yes",
    "sub --stream ORDERS --deliver all --ack --count 1",
]
READS = [
    "stream info ORDERS",
    "stream ls",
    "stream get ORDERS 1",
    "consumer info ORDERS C",
    "consumer ls ORDERS",
    "consumer report ORDERS",
    "dlq ls",
    "dlq ls ORDERS",
    "sub --stream ORDERS --deliver all --count 1",
]


@pytest.fixture
def used(orders: Run) -> Run:
    done(orders("pub", "ORDERS.new", "x"))
    done(orders("consumer", "add", "ORDERS", "C"))
    return orders


@pytest.mark.parametrize("line", CHANGES)
@pytest.mark.parametrize("as_json", [False, True], ids=["words", "json"])
def test_a_command_that_changes_something_says_where(
    used: Run, server: str, line: str, as_json: bool
) -> None:
    answer = used(*line.split(), *(["--json"] if as_json else []))
    assert answer.exit_code == 0
    assert answer.stderr.splitlines()[0] == f"acting on {server} (--server)"
    assert "acting on" not in answer.stdout


@pytest.mark.parametrize("line", READS)
def test_a_command_that_only_looks_does_not(used: Run, line: str) -> None:
    answer = used(*line.split())
    assert answer.exit_code == 0
    assert "acting on" not in answer.stderr


def test_another_prefix_is_part_of_where(run: Run, server: str) -> None:
    answer = run("stream", "add", "A", "--subjects", "a", "--prefix", "shop")
    assert answer.stderr == f"acting on {server} (--server), prefix shop\n"
