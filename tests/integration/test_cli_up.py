"""``railgun up`` as a user runs it: a process in a folder, its lines, its exit codes, and nothing left behind."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from railgun.cli.options.context import FALLBACK_CONNECT, FALLBACK_SERVER, find_connect, find_server
from tests.support import checkout
from tests.support.commands import done, invoke
from tests.support.waiting import process_gone, wait_until

pytestmark = pytest.mark.kafka

READY_SECONDS = 60.0


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in; its notes are its own."""
    monkeypatch.delenv("RAILGUN_SERVER", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Up:
    """A running ``railgun up`` in its own working directory."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "railgun.cli.main", "up", *arguments],
            cwd=folder,
            env=checkout.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )

    def ready(self) -> str:
        assert self.process.stdout is not None
        answered, _, _ = select.select([self.process.stdout], [], [], READY_SECONDS)
        assert answered, "no line on standard output"
        line = self.process.stdout.readline().decode()
        assert line.startswith("ready: "), f"{line!r}, then {self.end()}"
        return line.removeprefix("ready: ").rstrip("\n")

    def broker_pid(self) -> int:
        note = json.loads((self.folder / ".railgun" / "broker" / "broker.json").read_text())
        return int(note["broker"])

    def end(self, number: signal.Signals | None = None) -> tuple[int, str]:
        if number is not None:
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors.decode()


@pytest.fixture
def up(environment: Path) -> Iterator[type[Up]]:
    started: list[Up] = []

    class Started(Up):
        def __init__(self, *arguments: str) -> None:
            started.append(self)
            super().__init__(environment, *arguments)

    yield Started
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate(timeout=60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_ready_serves_and_stops_in_order(
    up: type[Up], number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = up("--broker-only", "--port", "0")
    bootstrap = running.ready()
    assert AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).brokers
    assert find_server().address == bootstrap
    monkeypatch.chdir("/")
    assert find_server().address == FALLBACK_SERVER  # it is the server of its own folder alone
    monkeypatch.chdir(running.folder)
    pid = running.broker_pid()

    code, errors = running.end(number)

    assert code == 0
    assert "Traceback" not in errors
    assert process_gone(pid)
    assert find_server().address == FALLBACK_SERVER


def test_connect_is_started_beside_the_broker_and_found_from_its_folder(
    up: type[Up], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAILGUN_CONNECT", raising=False)
    running = up("--broker-only", "--port", "0", "--connect", "--connect-port", "0")
    running.ready()
    assert find_connect().address != FALLBACK_CONNECT
    assert done(invoke("sink", "ls", "--json")).strip() == "[]"
    code, errors = running.end(signal.SIGTERM)
    assert (code, "Traceback" in errors) == (0, False)
    assert find_connect().address == FALLBACK_CONNECT
    gone = invoke("sink", "ls", "--connect", errors.split("connect: ")[1].split()[0])
    assert gone.exit_code == 3


def test_kill_9_leaves_no_process_and_no_address_behind(up: type[Up]) -> None:
    running = up("--broker-only", "--port", "0")
    bootstrap, pid = running.ready(), running.broker_pid()
    assert find_server().address == bootstrap
    running.end(signal.SIGKILL)
    wait_until(lambda: process_gone(pid), "the broker ended with its owner")
    assert find_server().address == FALLBACK_SERVER


def test_a_broker_that_dies_ends_it_loudly(up: type[Up]) -> None:
    running = up("--broker-only", "--port", "0")
    running.ready()
    os.kill(running.broker_pid(), signal.SIGKILL)
    code, errors = running.end()
    assert code == 1
    assert "error: the local Kafka broker ended" in errors


def test_a_second_one_in_the_same_folder_is_told_where_the_first_is(up: type[Up]) -> None:
    first = up("--broker-only", "--port", "0")
    bootstrap = first.ready()
    code, errors = up("--broker-only", "--port", "0").end()
    assert code == 1
    assert errors.splitlines()[-1].startswith("error: the data folder")
    assert bootstrap in errors
    assert AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).brokers


def test_a_busy_port_is_one_line_and_exit_code_1(up: type[Up]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, errors = up("--broker-only", "--port", str(port)).end()
    assert code == 1
    assert errors.splitlines()[-1].startswith(f"error: port {port} is in use")
    assert "Traceback" not in errors


def test_no_network_for_the_jars_is_one_line_and_exit_code_1(
    up: type[Up], environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(environment / "empty"))
    monkeypatch.setenv("RAILGUN_MAVEN_REPOSITORY", "http://127.0.0.1:1")
    code, errors = up("--broker-only").end()
    assert code == 1
    assert errors.splitlines()[-1].startswith("error: cannot fetch ")
    assert "Traceback" not in errors


def test_an_unusable_data_dir_is_one_line_and_exit_code_1(up: type[Up], environment: Path) -> None:
    (environment / "file").write_text("")
    code, errors = up("--broker-only", "--data-dir", "file").end()
    assert code == 1
    assert errors.splitlines()[-1].startswith("error: the data folder")


def test_ctrl_c_while_it_starts_stops_it_too(up: type[Up], environment: Path) -> None:
    running = up("--broker-only", "--port", "0")
    note = environment / ".railgun" / "broker" / "broker.json"
    wait_until(note.exists, "the broker's process has started", timeout=30)
    pid = running.broker_pid()
    code, errors = running.end(signal.SIGINT)
    assert code == 0
    assert "Traceback" not in errors
    assert process_gone(pid)
