"""One Spark session, one worker and one place for all pipelines; every test has streams of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

import railgun
from tests.support.cell import Cell
from tests.support.checkout import TOP, environment
from tests.support.waiting import wait_until
from topologies.pipelines.parts.place import Place

Kill = Callable[..., None]
Start = Callable[..., AbstractContextManager[subprocess.Popen[bytes]]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A busy machine is not a defect, and the first test starts a broker, a worker and Spark."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def cell(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    with Cell(kafka_bootstrap, tmp_path_factory.mktemp("pipelines")) as made:
        made.ready_worker()
        yield made


@pytest.fixture(scope="session")
def at(cell: Cell) -> Place:
    return Place(cell.bootstrap, cell.prefix)


@pytest.fixture
def rg(cell: Cell) -> Iterator[railgun.Railgun]:
    with cell.connect() as made:
        yield made


@pytest.fixture
def killed(cell: Cell, tmp_path: Path) -> Kill:
    """Runs ``railgun pipeline`` as a process, and kills it with its JVM (``kill -9``) once a condition holds."""

    def kill(*arguments: str, once: Callable[[], bool]) -> None:
        with _process(cell, tmp_path / "driver.log", *arguments) as process:
            wait_until(lambda: process.poll() is not None or once(), "the pipeline works", 400, pause=0.005)
            os.killpg(process.pid, signal.SIGKILL)
            assert process.wait(60) in (-signal.SIGKILL, 0), (tmp_path / "driver.log").read_text()

    return kill


@contextmanager
def _process(cell: Cell, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    where = ["--server", cell.bootstrap, "--prefix", cell.prefix]
    # It is over before a better compiler would pay.
    where += ["--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    command = [sys.executable, "-m", "railgun.cli.main", "pipeline", *arguments, *where]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=TOP, env=environment(), stdout=out, stderr=out, start_new_session=True
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def group_is_empty(group: int) -> bool:
    """Whether no process of this group runs; a zombie that nobody reaps counts as gone."""
    listed = subprocess.run(["ps", "-A", "-o", "pgid=,stat="], capture_output=True, text=True, check=True)
    running = [line.split() for line in listed.stdout.splitlines()]
    return not any(number == str(group) and not state.startswith("Z") for number, state in running)


@pytest.fixture
def started(cell: Cell, tmp_path: Path) -> Start:
    """Starts ``railgun pipeline`` as a process: a context manager."""
    return lambda *arguments: _process(cell, tmp_path / "driver.log", *arguments)
