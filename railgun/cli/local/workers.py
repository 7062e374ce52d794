"""The workers that ``railgun up`` runs: started, watched and stopped together, each with its own file, state and log."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Final

import typer

from railgun.errors import ConfigError, RailgunError
from railgun.kafka.embedded.guarded import GuardedProcess

STOP_SECONDS: Final = 20.0
_BROKER_SECONDS: Final = 120.0  # longer than a broker may take to start, which is told in its own words
_TAIL_LINES: Final = 15
_TAIL_BYTES: Final = 64 * 1024


class WorkerDied(RailgunError):
    """A worker of ``railgun up`` ended by itself; its last lines were shown."""

    def __init__(self, *, number: int, exit_code: int, log_file: Path) -> None:
        self.number, self.exit_code, self.log_file = number, exit_code, log_file
        super().__init__(f"worker {number} ended with exit code {exit_code} (log: {log_file})")


class LocalWorker:
    """One worker process, under guard: it ends when this process ends, however that happens.

    It is started while the broker starts, because its imports take as long, and waits for its configuration.
    """

    def __init__(self, number: int, prefix: str, data_dir: Path) -> None:
        self.number = number
        self._prefix = prefix
        folder = data_dir.absolute()
        self.state_dir = folder / f"worker-{number}"
        self.config_file = folder / f"worker-{number}.toml"
        self.log_file = folder / f"worker-{number}.log"
        self._process: GuardedProcess | None = None

    def start(self) -> None:
        """Start the process; it does nothing before :meth:`serve`."""
        try:
            self.state_dir.mkdir(parents=True, exist_ok=True)
            self.config_file.unlink(missing_ok=True)  # of an earlier run, with another address
            self.log_file.write_bytes(b"")  # the log of this run alone
        except OSError as error:
            raise self._unwritable(error) from error
        self._process = GuardedProcess(
            [sys.executable, "-m", "railgun.cli.main", "worker", "--config", str(self.config_file),
             "--await-config", str(_BROKER_SECONDS)],
            log_file=self.log_file,
            patience=STOP_SECONDS,
        )  # fmt: skip

    def serve(self, bootstrap: str) -> None:
        """Give the process its configuration, whole from the first moment; does not wait until it is ready."""
        config = worker_config(
            number=self.number, bootstrap=bootstrap, prefix=self._prefix, data_dir=self.state_dir
        )
        draft = self.config_file.with_suffix(".tmp")
        try:
            draft.write_text(config, encoding="utf-8")
            draft.replace(self.config_file)
        except OSError as error:
            raise self._unwritable(error) from error

    def check(self) -> None:
        """Raise :class:`WorkerDied`, after showing its last log lines, when the process has ended."""
        if self._process is None or self._process.exit_code is None:
            return
        for line in self._last_lines():
            typer.echo(f"worker {self.number} | {line}", err=True)
        raise WorkerDied(number=self.number, exit_code=self._process.exit_code, log_file=self.log_file)

    def ask_to_stop(self) -> None:
        """Ask for an orderly end without waiting for it, so that several workers end at the same time."""
        if self._process is not None:
            self._process.ask_to_stop()

    def stop(self) -> None:
        """Wait for the end that was asked for; after a bounded time it is a hard one."""
        process, self._process = self._process, None
        if process is not None and not process.stop(STOP_SECONDS):
            typer.echo(f"worker {self.number} did not stop and was killed (log: {self.log_file})", err=True)

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(f"cannot write the files of worker {self.number}: {error}")

    def _last_lines(self) -> list[str]:
        with self.log_file.open("rb") as log:
            log.seek(max(0, self.log_file.stat().st_size - _TAIL_BYTES))
            return log.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]


def worker_config(*, number: int, bootstrap: str, prefix: str, data_dir: Path) -> str:
    """The worker's ``railgun.toml`` (CLU-01)."""

    def text(value: str) -> str:
        return json.dumps(value, ensure_ascii=False)  # a JSON string is a TOML string too

    return "\n".join(
        [
            "# Written by `railgun up` at each start.",
            "[cluster]",
            f"prefix = {text(prefix)}",
            "",
            "[node]",
            f"name = {text(f'worker-{number}')}",
            f"bootstrap = {text(bootstrap)}",
            f"data_dir = {text(str(data_dir))}",
            "",
        ]
    )


def await_workers(crew: list[LocalWorker], bootstrap: str, prefix: str, timeout: float) -> None:
    """Wait until the workers would answer a publish. A worker that dies meanwhile is told at once.

    The question is asked in a thread, because it blocks; the thread is a daemon and its wait is bounded.
    """
    from railgun.client.facade.readiness import wait_for_workers

    outcome: list[BaseException | None] = []

    def ask() -> None:
        try:
            wait_for_workers(bootstrap, prefix, timeout)
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            outcome.append(error)
        else:
            outcome.append(None)

    threading.Thread(target=ask, name="await-workers", daemon=True).start()
    deadline = time.monotonic() + timeout + 10
    while not outcome:
        for worker in crew:
            worker.check()
        if time.monotonic() > deadline:
            raise RailgunError(f"no worker was ready within {timeout:.0f} seconds (log: {crew[0].log_file})")
        time.sleep(0.05)
    if outcome[0] is not None:
        raise outcome[0]
