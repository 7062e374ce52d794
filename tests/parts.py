"""``python -m tests.parts [pytest arguments]``: all tests, in the two parts that they come in.

Most tests wait more than they compute, so several processes share them, each with a Kafka and a worker of its own; a file
stays in one process (:mod:`tests.support.sharing`). Tests under chaos want the machine for themselves and follow alone.

``RAILGUN_TEST_PROCESSES`` says how many processes there are (3).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Final

import pytest

from tests.support.checkout import TOP

PROCESSES: Final = os.environ.get("RAILGUN_TEST_PROCESSES", "3")
TOGETHER: Final = (
    "--chaos=without",
    f"--numprocesses={PROCESSES}",
    "--dist=loadfile",
    "--no-loadscope-reorder",
)
ALONE: Final = ("--chaos=only", "--numprocesses=0", "--add-rules")


def run(arguments: list[str]) -> int:
    """The exit code of the first part that failed. A part may be empty, both may not; an interrupt ends the run."""
    codes = []
    for part in (TOGETHER, ALONE):
        codes.append(_pytest(*part, *arguments))
        if codes[-1] < 0 or codes[-1] == pytest.ExitCode.INTERRUPTED:
            return codes[-1]
    empty = pytest.ExitCode.NO_TESTS_COLLECTED
    return next((code for code in codes if code not in (0, empty)), min(codes))


def _pytest(*arguments: str) -> int:
    with subprocess.Popen([sys.executable, "-m", "pytest", *arguments], cwd=TOP) as process:
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # pytest heard it too, and takes down what it has set up
                continue


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
