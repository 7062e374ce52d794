"""A worker as a process of its own: with its own folder, to be stopped, killed, frozen and started again."""

from __future__ import annotations

import json
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from railgun.client.facade.readiness import wait_for_workers
from railgun.kafka.embedded.guarded import GuardedProcess
from tests.support.checkout import environment

PARTITIONS: Final = 4
STOP_SECONDS: Final = 30.0
_LAST_LINES: Final = 50


class WorkerProcess:
    """One worker. It ends with this process at the latest, however that ends.

    Its folder holds ``railgun.toml`` (``config``), ``state`` and ``worker.log``, to which every start appends.
    As a context manager it is started on entry and stopped on exit.
    """

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        *,
        prefix: str = "",
        cluster: Mapping[str, Any] | None = None,
        node: Mapping[str, Any] | None = None,
        faust: bool = False,
        program: str = "railgun.cli.main",
    ) -> None:
        """``cluster`` and ``node`` are further settings of these sections.

        ``faust``: run ``faust -A railgun worker`` instead of ``railgun worker``; ``program``: the module that is run.
        """
        self.bootstrap = bootstrap
        self.prefix = prefix or f"test-{secrets.token_hex(4)}"
        self.folder = folder
        self.state = folder / "state"
        self.config = folder / "railgun.toml"
        self.log = folder / "worker.log"
        self.environment: dict[str, str] = {}  # beside this process's own, at its next start
        folder.mkdir(parents=True, exist_ok=True)
        sections = {
            "cluster": {"prefix": self.prefix, "partitions": PARTITIONS, **(cluster or {})},
            "node": {"bootstrap": bootstrap, "data_dir": str(self.state), **(node or {})},
        }
        self.config.write_text(_toml(sections), encoding="utf-8")
        module = ["faust", "-A", "railgun"] if faust else [program]
        options = ["--loglevel", "info"] if faust else ["--config", str(self.config)]
        self._command = [sys.executable, "-m", *module, "worker", *options]
        self._process: GuardedProcess | None = None

    def __enter__(self) -> WorkerProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ------------------------------------------------------------ its life

    def start(self) -> WorkerProcess:
        """Start the process; it is not yet ready to answer."""
        assert not self.alive, "the worker runs already"
        self.stop()  # one that ended by itself leaves its pipes
        self._process = GuardedProcess(
            self._command,
            log_file=self.log,
            patience=STOP_SECONDS,
            folder=self.folder,
            environment=environment() | self.environment,
        )
        return self

    def stop(self) -> int | None:
        """An orderly end (SIGTERM), after a bounded time a hard one. The exit code, None if it never ran."""
        if self._process is None:
            return None
        self._process.stop(STOP_SECONDS)
        return self._process.exit_code

    def kill(self) -> None:
        """``kill -9``, and wait for the end. Nothing happens to one that has ended."""
        if self._process is not None:
            self._process.kill()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the worker itself."""
        self._started.send_signal(number)

    def await_end(self, timeout: float = 30.0) -> int:
        """Wait until it has ended by itself or by a signal; the exit code (128 + n after signal n)."""
        if not self._started.wait(timeout):
            raise AssertionError(f"the worker did not end within {timeout:.0f} s:\n{self.last_lines()}")
        code = self._started.exit_code
        assert code is not None
        return code

    def wipe(self) -> None:
        """Remove its local state, as a lost disk would."""
        assert not self.alive, "the worker still runs"
        shutil.rmtree(self.state, ignore_errors=True)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive()

    @property
    def pid(self) -> int:
        """The worker's own process id."""
        return self._started.pid

    @property
    def _started(self) -> GuardedProcess:
        assert self._process is not None, "the worker was never started"
        return self._process

    # ------------------------------------------------------------ what it says

    def await_ready(self, timeout: float = 120.0) -> None:
        """Wait until a publish would be answered. Raises what the client would, with the end of the worker's log."""
        try:
            wait_for_workers(self.bootstrap, self.prefix, timeout)
        except Exception as error:
            error.add_note(self.last_lines())
            raise

    def wait_for(self, text: str, *, times: int = 1, timeout: float = 180.0) -> None:
        """Wait until the log holds the text so many times; fail at once when the worker has ended."""
        deadline = time.monotonic() + timeout
        while self.text().count(text) < times:
            if not self.alive:
                raise AssertionError(f"the worker ended before {text!r}:\n{self.last_lines()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {text!r} within {timeout:.0f} s:\n{self.last_lines()}")
            time.sleep(0.05)

    def text(self) -> str:
        """The log so far."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def last_lines(self) -> str:
        return "\n".join(self.text().splitlines()[-_LAST_LINES:])


def _toml(sections: Mapping[str, Mapping[str, Any]]) -> str:
    lines: list[str] = []
    for section, settings in sections.items():
        lines += [f"[{section}]", *(f"{name} = {_toml_value(value)}" for name, value in settings.items()), ""]
    return "\n".join(lines)


def _toml_value(value: Any) -> str:
    """A mapping as an inline table; everything else that settings are made of is written as in JSON."""
    if isinstance(value, Mapping):
        entries = (f"{json.dumps(name)} = {_toml_value(inner)}" for name, inner in value.items())
        return f"{{{', '.join(entries)}}}"
    return json.dumps(value, ensure_ascii=False)


def restart(worker: WorkerProcess, *, lost_disk: bool) -> None:
    """Kill the worker, and start it again, with its disk or without."""
    worker.kill()
    if lost_disk:
        worker.wipe()
    worker.log.unlink()
    worker.start()
    worker.wait_for(": ready after", times=PARTITIONS)
