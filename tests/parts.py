"""``python -m tests.parts [pytest arguments]``: all tests, in the two parts that they come in.

Most tests wait more than they compute, so several processes share them, each with a Kafka and a worker of its own; a file
stays in one process (:mod:`tests.support.sharing`). Most tests under chaos want the machine for themselves and follow alone.

A few tests that failed beside others are run once more by themselves. Those that pass then are named at the end, and do not fail the run: a machine that
stands still for seconds breaks what is right. They are defects all the same.

``RAILGUN_TEST_PROCESSES`` says how many processes there are (3).
"""

from __future__ import annotations

import json
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
    "--cache-clear",
)
AGAIN: Final = ("--chaos=without", "--numprocesses=0", "--add-rules")
MOST_AGAIN: Final = 5
_FAILED: Final = TOP / ".pytest_cache" / "v" / "cache" / "lastfailed"
ALONE: Final = ("--chaos=only", "--numprocesses=0", "--add-rules")


def run(arguments: list[str]) -> int:
    """The exit code of the first part that failed. A part may be empty, both may not; an interrupt ends the run."""
    codes, unsteady = [], []
    for part in (TOGETHER, ALONE):
        codes.append(_pytest(*part, *arguments))
        if codes[-1] < 0 or codes[-1] == pytest.ExitCode.INTERRUPTED:
            return codes[-1]
        failed = _failed() if part is TOGETHER and codes[-1] == pytest.ExitCode.TESTS_FAILED else []
        if 0 < len(failed) <= MOST_AGAIN:
            codes[-1] = _pytest(*AGAIN, *failed)
            unsteady = failed if codes[-1] == pytest.ExitCode.OK else []
    if unsteady:
        print("Failed beside others and passed alone, to be mended:", *unsteady, sep="\n  ", flush=True)
    empty = pytest.ExitCode.NO_TESTS_COLLECTED
    return next((code for code in codes if code not in (0, empty)), min(codes))


def _failed() -> list[str]:
    """The tests that failed in the part that has just ended."""
    return list(json.loads(_FAILED.read_text(encoding="utf-8"))) if _FAILED.exists() else []


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
