"""A process that ends with its owner: the owner's side of :mod:`railgun.kafka.embedded.guard`."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from railgun.errors import EmbeddedBrokerError
from railgun.kafka.embedded import guard

_GUARD_SECONDS: Final = 20


class GuardedProcess:
    """A command under guard. It ends when :meth:`stop` or :meth:`kill` says so, or when this process is gone."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log_file: Path,
        lock: int | None = None,
        patience: float,
        remove_if_orphaned: Path | None = None,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``folder`` is where the command runs and ``environment`` all it sees; else those of this process."""
        options = ["--log", str(log_file.absolute()), "--patience", str(patience)]
        if lock is not None:
            options += ["--lock-fd", str(lock)]
        if remove_if_orphaned is not None:
            options += ["--remove", str(remove_if_orphaned.absolute())]
        # -I and -S: the guard needs the standard library alone, and starts in 20 ms that way.
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(guard.__file__), *options, "--", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[lock] if lock is not None else [],
            cwd=folder,
            env=environment,
            bufsize=0,
            start_new_session=True,  # Ctrl-C in the terminal is the owner's to handle
        )
        self._name, self._log_file = command[0], log_file
        self.pid = self._read_pid()

    def alive(self) -> bool:
        """Whether the command still runs."""
        return self._guard.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The command's exit code (128 + n after signal n), or None while it runs."""
        return self._guard.poll()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the command itself, not to its guard. One that has ended gets none."""
        if self.alive():
            _signal(self.pid, number)

    def wait(self, seconds: float) -> bool:
        """Wait for the end; False if it did not come in time."""
        try:
            self._guard.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        for pipe in (self._guard.stdin, self._guard.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        return True

    def ask_to_stop(self) -> None:
        """Ask the guard to end the command politely; returns at once. Asking twice is the same as once."""
        if self._guard.stdin is not None and not self._guard.stdin.closed:
            with suppress(BrokenPipeError):  # it has ended by itself
                self._guard.stdin.write(b"s")

    def stop(self, patience: float) -> bool:
        """End the command politely, hard after ``patience`` seconds; False if even the guard did not end."""
        self.ask_to_stop()
        ended = self.wait(patience + _GUARD_SECONDS)
        if not ended:
            self.kill()
        return ended

    def kill(self) -> None:
        """End the command at once and wait until it is gone."""
        self.send_signal(signal.SIGKILL)
        if not self.wait(_GUARD_SECONDS):
            _signal(self._guard.pid, signal.SIGKILL)
            self.wait(_GUARD_SECONDS)

    def _read_pid(self) -> int:
        output = self._guard.stdout
        if output is None:
            raise EmbeddedBrokerError("a guard process has no output")
        ready, _, _ = select.select([output], [], [], _GUARD_SECONDS)
        line = os.read(output.fileno(), 32) if ready else b""
        if not line.strip().isdigit():
            self._guard.kill()
            self.wait(_GUARD_SECONDS)
            raise EmbeddedBrokerError(f"cannot start {self._name}: see {self._log_file}")
        return int(line)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # gone by itself
        os.kill(pid, number)
