"""The parts of the local broker that need no broker: fetching jars, finding Java, guarding a process."""

from __future__ import annotations

import gc
import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
import warnings
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from railgun.kafka.embedded import JarsUnavailable, NoJava, free_port
from railgun.kafka.embedded import java as java_room
from railgun.kafka.embedded.guarded import GuardedProcess
from railgun.kafka.embedded.jars import JarSet, fetched_jars, is_cached, jars_cached, kafka_jars
from railgun.kafka.embedded.java import find_java, java_version
from railgun.kafka.embedded.pinned import KAFKA_VERSION, PINNED_JARS
from tests.support.waiting import process_gone, wait_until

# ---------------------------------------------------------------- jars


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A Maven repository on this machine: its folder and its address."""
    folder = tmp_path / "repository"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join(timeout=10)
    server.server_close()
    with warnings.catch_warnings():
        # jgo leaves the answer to a missing file unclosed until it is collected: collect it here and now.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def offer(folder: Path, name: str, content: bytes) -> dict[str, str]:
    jar = folder / "org" / "example" / name / "1.0" / f"{name}-1.0.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(content)
    return {f"org.example:{name}:1.0": hashlib.sha256(content).hexdigest()}


def leftovers(cache: Path) -> list[str]:
    return sorted(entry.name for entry in cache.iterdir() if entry.name != "jars.lock")


def test_jars_are_fetched_once_and_then_need_no_network(tmp_path: Path, repository: tuple[Path, str]) -> None:
    folder, address = repository
    pinned = offer(folder, "one", b"1") | offer(folder, "two", b"2")
    first = kafka_jars(tmp_path / "cache", pinned, address)
    assert [jar.read_bytes() for jar in first] == [b"1", b"2"]
    assert kafka_jars(tmp_path / "cache", pinned, f"http://127.0.0.1:{free_port()}") == first


def test_services_that_jars_do_not_declare_are_in_a_jar_beside_them(
    tmp_path: Path, repository: tuple[Path, str]
) -> None:
    folder, address = repository
    plain = JarSet("converter", offer(folder, "converter", b"classes"), "a converter", "a test")
    declared = plain._replace(services=(("org.example.Api", "org.example.Here"),))
    fetched_jars(plain, tmp_path / "cache", address)
    assert not is_cached(declared, tmp_path / "cache"), "a folder without them is another folder"
    jar, services = fetched_jars(declared, tmp_path / "cache", address)
    assert jar.read_bytes() == b"classes"
    with zipfile.ZipFile(services) as read:
        assert read.namelist() == ["META-INF/services/org.example.Api"]
        assert read.read("META-INF/services/org.example.Api") == b"org.example.Here\n"


def test_of_an_archive_the_jars_are_kept(tmp_path: Path, repository: tuple[Path, str]) -> None:
    folder, address = repository
    archive = folder / "org" / "example" / "three" / "1.0" / "three-1.0-plugin.tar.gz"
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:gz") as made:
        for name, content in (
            ("three/a.jar", b"a"),
            ("three/inner/b.jar", b"b"),
            ("three/README.md", b"text"),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    pinned = {"org.example:three:1.0:plugin:tar.gz": hashlib.sha256(archive.read_bytes()).hexdigest()}
    found = kafka_jars(tmp_path / "cache", pinned, address)
    assert {jar.name: jar.read_bytes() for jar in found} == {"a.jar": b"a", "b.jar": b"b"}
    assert len(leftovers(tmp_path / "cache")) == 1

    archive.write_bytes(b"changed")
    with pytest.raises(JarsUnavailable, match="does not match its checksum"):
        kafka_jars(tmp_path / "other", pinned, address)
    assert leftovers(tmp_path / "other") == []


def test_starts_at_the_same_time_share_one_download(tmp_path: Path, repository: tuple[Path, str]) -> None:
    folder, address = repository
    pinned = offer(folder, "one", b"1" * 100_000)
    results: list[list[Path]] = []
    threads = [
        threading.Thread(target=lambda: results.append(kafka_jars(tmp_path / "cache", pinned, address)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(results) == 6
    assert all(jars == results[0] and len(jars) == 1 for jars in results)
    assert len(leftovers(tmp_path / "cache")) == 1


def test_no_network_is_said_in_one_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("RAILGUN_MAVEN_REPOSITORY", f"http://127.0.0.1:{free_port()}")
    assert not jars_cached()
    with pytest.raises(JarsUnavailable, match="no connection to the repository") as refused:
        kafka_jars()
    assert "\n" not in str(refused.value)
    assert leftovers(tmp_path / "railgun") == []


def test_a_changed_jar_is_refused(tmp_path: Path, repository: tuple[Path, str]) -> None:
    folder, address = repository
    (coordinate,) = offer(folder, "one", b"not what was pinned")
    with pytest.raises(JarsUnavailable, match="does not match its checksum"):
        kafka_jars(tmp_path / "cache", {coordinate: "0" * 64}, address)
    assert leftovers(tmp_path / "cache") == []


def test_a_jar_that_the_repository_lacks_is_named(tmp_path: Path, repository: tuple[Path, str]) -> None:
    with pytest.raises(JarsUnavailable, match=r"org\.example:none:1\.0.*does not have it"):
        kafka_jars(tmp_path / "cache", {"org.example:none:1.0": "0" * 64}, repository[1])


def test_kafka_and_its_clients_are_of_one_version() -> None:
    kafka = {
        name: version for group, name, version in map(_parts, PINNED_JARS) if group == "org.apache.kafka"
    }
    assert kafka["kafka-clients"] == KAFKA_VERSION
    assert set(kafka.values()) == {KAFKA_VERSION}


def _parts(coordinate: str) -> list[str]:
    return coordinate.split(":")


# ---------------------------------------------------------------- Java


def fake_java(home: Path, says: str, exit_code: int = 0) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {exit_code}\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    "says,version",
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_401"', 8),
        ("The operation couldn’t be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_versions_are_read(tmp_path: Path, says: str, version: int | None) -> None:
    assert java_version(fake_java(tmp_path, says)) == version


def test_an_old_java_home_gives_way_to_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "old", 'openjdk version "11.0.2"')
    good = fake_java(tmp_path / "good", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", f"{good.parent}:{os.environ['PATH']}")
    assert find_java() == good


def test_a_carried_java_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried = fake_java(tmp_path / "carried", 'openjdk version "21.0.8"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    monkeypatch.setattr(java_room.shutil, "which", lambda _: None)
    monkeypatch.setattr(java_room, "_carried_java", lambda: carried)
    assert find_java() == carried
    monkeypatch.setattr(java_room, "_carried_java", lambda: None)
    with pytest.raises(NoJava, match=r"needs Java 17 or newer .* is not a working Java") as refused:
        find_java()
    assert "\n" not in str(refused.value)


# ---------------------------------------------------------------- the guard

OWNER = """
import os, sys, time
from pathlib import Path
from railgun.kafka.embedded.guarded import GuardedProcess
process = GuardedProcess(["sleep", "100"], log_file=Path(sys.argv[1]), patience=5.0)
held = os.fork() if sys.argv[2] == "fork" else None
if held == 0:
    time.sleep(8)   # holds a copy of the pipe beyond its parent's death
    os._exit(0)
print(process.pid, flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("way", ["alone", "fork"])
def test_a_guarded_process_ends_with_a_killed_owner(tmp_path: Path, way: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "log"), way], stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert not process_gone(pid)
        owner.kill()
        owner.wait(timeout=10)
        wait_until(lambda: process_gone(pid), "the guarded process ended", timeout=5)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_a_guarded_process_ends_with_a_killed_guard(tmp_path: Path) -> None:
    process = GuardedProcess(["sleep", "100"], log_file=tmp_path / "log", patience=5.0)
    os.kill(process._guard.pid, signal.SIGKILL)
    wait_until(lambda: process_gone(process.pid), "the guarded process ended", timeout=5)
    process.kill()


def test_a_stubborn_process_is_killed_when_patience_ends(tmp_path: Path) -> None:
    process = GuardedProcess(
        ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"],
        log_file=tmp_path / "log",
        patience=0.3,
    )
    wait_until(lambda: (tmp_path / "log").read_text() == "deaf\n", "it ignores SIGTERM")
    assert process.stop(0.3)
    assert process.exit_code == 128 + signal.SIGKILL
    assert process_gone(process.pid)


def test_the_exit_code_of_a_process_that_ends_is_known(tmp_path: Path) -> None:
    process = GuardedProcess(["sh", "-c", "exit 7"], log_file=tmp_path / "log", patience=1.0)
    wait_until(lambda: not process.alive(), "it ended")
    assert process.exit_code == 7
    assert process.stop(1.0)


def test_a_guarded_process_has_the_folder_and_the_environment_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    command = ["sh", "-c", 'echo "$(basename "$PWD") $WORD"']
    surroundings = {"folder": tmp_path / "here", "environment": {**os.environ, "WORD": "said"}}
    process = GuardedProcess(command, log_file=tmp_path / "log", patience=1.0, **surroundings)
    assert process.wait(10)
    assert (tmp_path / "log").read_text() == "here said\n"


def test_a_signal_reaches_the_process_and_not_its_guard(tmp_path: Path) -> None:
    process = GuardedProcess(["sleep", "100"], log_file=tmp_path / "log", patience=5.0)
    process.send_signal(signal.SIGSTOP)
    assert not process.wait(0.5)
    process.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGINT)
    assert process.wait(10)
    assert process.exit_code == 128 + signal.SIGINT
    process.send_signal(signal.SIGINT)  # nobody is there


def test_a_command_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    from railgun.errors import EmbeddedBrokerError

    with pytest.raises(EmbeddedBrokerError, match="cannot start /no/such/java"):
        GuardedProcess(["/no/such/java"], log_file=tmp_path / "log", patience=1.0)
