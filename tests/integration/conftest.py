"""Workers as processes of their own, against a real broker; every test has its own prefix."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.raw_client import RawClient

PARTITIONS = 4
_ROOT = Path(__file__).parents[2]


class WorkerProcess:
    """One worker, its folder and its log."""

    def __init__(self, number: int, folder: Path, config: str) -> None:
        self.folder = folder / f"worker-{number}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state = self.folder / "state"
        self.log = self.folder / "worker.log"
        self.config = self.folder / "railgun.toml"
        self.config.write_text(config + f"data_dir = {json.dumps(str(self.state))}\n", encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> WorkerProcess:
        command = [
            sys.executable,
            "-m",
            "railgun.cli.main",
            "worker",
            "--config",
            str(self.config),
            *arguments,
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(_ROOT)}
            )
        return self

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, timeout: float = 30.0) -> int:
        assert self._process is not None
        return self._process.wait(timeout)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """An orderly end; the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def wait_for(self, text: str, *, times: int = 1, timeout: float = 90.0) -> None:
        """Wait until the log holds the text; fail at once when the worker has ended."""
        deadline = time.monotonic() + timeout
        while self.text().count(text) < times:
            if not self.running:
                raise AssertionError(f"the worker ended before {text!r}:\n{self.text()[-3000:]}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {text!r} within {timeout:.0f} s:\n{self.text()[-3000:]}")
            time.sleep(0.05)


class Cell:
    """A prefix of its own, its workers and a client."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.prefix = f"test-{uuid.uuid4().hex[:10]}"
        self.folder = folder
        self.workers: list[WorkerProcess] = []
        self._client: RawClient | None = None

    def config(self, cluster: str = "", node: str = "") -> str:
        return (
            f'[cluster]\nprefix = "{self.prefix}"\npartitions = {PARTITIONS}\n{cluster}\n'
            f'[node]\nbootstrap = "{self.bootstrap}"\ntest_clock = true\n{node}\n'
        )

    def worker(self, *, start: bool = True, cluster: str = "", node: str = "") -> WorkerProcess:
        worker = WorkerProcess(len(self.workers), self.folder, self.config(cluster, node))
        self.workers.append(worker)
        return worker.start() if start else worker

    def ready_worker(self) -> WorkerProcess:
        worker = self.worker()
        worker.wait_for(": ready after", times=PARTITIONS)
        return worker

    @property
    def client(self) -> RawClient:
        """Once a worker has created the topics."""
        if self._client is None:
            self._client = RawClient(self.bootstrap, self.prefix, PARTITIONS)
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        for worker in self.workers:
            if worker.running:
                worker.signal(signal.SIGCONT)
                worker.kill()


@pytest.fixture
def cell(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Cell]:
    made = Cell(kafka_bootstrap, tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def new_cell(kafka_bootstrap: str, tmp_path: Path) -> Iterator[Callable[[], Cell]]:
    """For tests that need several."""
    made: list[Cell] = []

    def make() -> Cell:
        made.append(Cell(kafka_bootstrap, tmp_path / str(len(made))))
        return made[-1]

    yield make
    for one in made:
        one.close()
