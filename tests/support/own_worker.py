"""A worker of the test's own, as a process: with its own prefix and settings, to be killed and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path

from railgun.client.liveness import wait_for_workers

_ROOT = Path(__file__).parents[2]


def toml_value(value: object) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f'"{value}"'
        if isinstance(value, str)
        else str(value)
    )


class OwnWorker:
    """``railgun worker`` on a given Kafka. A context manager: started on entry, gone on exit."""

    def __init__(self, folder: Path, bootstrap: str, *, prefix: str = "", **cluster: object) -> None:
        self.bootstrap = bootstrap
        self.prefix = prefix or f"own-{uuid.uuid4().hex[:8]}"
        self.folder = folder
        self.state = folder / "state"
        self.log = folder / "worker.log"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"prefix": self.prefix, "partitions": 1, **cluster}
        lines = ["[cluster]", *(f"{name} = {toml_value(value)}" for name, value in settings.items())]
        lines += [
            "[node]",
            f'bootstrap = "{bootstrap}"',
            f'data_dir = "{self.state}"',
            "test_clock = true",
            "",
        ]
        (folder / "railgun.toml").write_text("\n".join(lines), encoding="utf-8")

    def __enter__(self) -> OwnWorker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the process; it is not yet ready to answer."""
        command = [
            sys.executable,
            "-m",
            "railgun.cli.main",
            "worker",
            "--config",
            str(self.folder / "railgun.toml"),
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def await_ready(self, timeout: float = 60.0) -> None:
        """Wait until a publish would be answered. Raises what the client would, with the end of the worker's log."""
        try:
            wait_for_workers(self.bootstrap, self.prefix, timeout)
        except Exception as error:
            error.add_note(self.last_lines())
            raise

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """``kill -9``, and wait for the end."""
        self.signal(signal.SIGKILL)
        self.await_end()

    def await_end(self, timeout: float = 30.0) -> int:
        assert self._process is not None
        return self._process.wait(timeout)

    def stop(self) -> None:
        """In order; after a bounded time by force."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self.await_end(20.0)
        except subprocess.TimeoutExpired:
            self.kill()

    def wipe(self) -> None:
        """Remove its local state, as a lost disk would."""
        shutil.rmtree(self.state, ignore_errors=True)

    def last_lines(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-4_000:]
