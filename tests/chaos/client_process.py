"""The harness' side of a client process: start it, hurt it, read its journal afterwards."""

from __future__ import annotations

import dataclasses
import random
import signal
import sys
import time
from pathlib import Path

from railgun.kafka.embedded.guarded import GuardedProcess
from tests.chaos import client
from tests.support.checkout import TOP, environment
from tests.support.waiting import wait_until

_START_SECONDS = 60.0
_STOP_SECONDS = 40.0
_LAST_LINES = 15


class ClientProcess:
    """One client. All its lives append to the same journal."""

    def __init__(self, folder: Path, settings: client.Settings) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.journal = folder / "journal"
        self.ends = 0  # how often it was ended: each time the answer to one double ack may have been missed
        self._log = folder / "client.log"
        self._settings = dataclasses.replace(settings, journal=str(self.journal))
        self._lives = 0
        self._process: GuardedProcess | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive()

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.exit_code

    def start(self) -> None:
        """Another life, with other dice."""
        assert not self.alive, "the client runs already"
        self._lives += 1
        settings = dataclasses.replace(self._settings, seed=f"{self._settings.seed}.{self._lives}")
        self._process = GuardedProcess(
            [sys.executable, "-m", client.__name__, settings.text()],
            log_file=self._log,
            patience=_STOP_SECONDS,
            folder=TOP,
            environment=environment(),
        )

    def stop(self) -> int | None:
        """It may finish what it has begun. The exit code."""
        if self._process is not None:
            self._process.stop(_STOP_SECONDS)
        return self.exit_code

    def await_end(self, seconds: float) -> int:
        """Until it has ended by itself; the exit code (128 + n after signal n)."""
        assert self._process is not None, "the client was never started"
        assert self._process.wait(seconds), f"it did not end within {seconds:.0f} s:\n{self.last_lines()}"
        code = self._process.exit_code
        assert code is not None
        return code

    def last_lines(self) -> str:
        return "\n".join(self._text().splitlines()[-_LAST_LINES:])

    def _text(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    @property
    def _running(self) -> GuardedProcess:
        assert self._process is not None, "the client was never started"
        wait_until(self._began, "the client has begun", _START_SECONDS)
        return self._process

    def _began(self) -> bool:
        """Before that a signal would end it, whatever it is meant to do."""
        assert self.alive, f"a client ended with {self.exit_code}:\n{self.last_lines()}"
        return self._text().splitlines().count(client.BEGUN) == self._lives

    # ------------------------------------------------------------ torments

    def kill(self, dice: random.Random) -> None:
        self._running.kill()
        self.ends += 1
        self.start()

    def leave(self, dice: random.Random) -> None:
        self._running.stop(_STOP_SECONDS)
        self.ends += 1
        assert self.exit_code == 0, (
            f"a client ended with {self.exit_code} after SIGTERM:\n{self.last_lines()}"
        )
        self.start()

    def freeze(self, dice: random.Random) -> None:
        """Often shorter than an ack wait, now and then longer than its presence lasts."""
        process, seconds = self._running, dice.choices([0.5, 1.0, 2.5, 7.0], [4, 4, 4, 1])[0]
        process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)  # the torment itself
        finally:
            process.send_signal(signal.SIGCONT)

    def cut(self, dice: random.Random) -> None:
        """Its TCP connections break."""
        self._running.send_signal(signal.SIGUSR1)
