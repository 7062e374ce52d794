"""Waiting for a condition with a deadline, instead of sleeping for luck."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], bool], what: str, timeout: float = 60.0, *, pause: float = 0.05
) -> None:
    """Return when the condition holds; fail with ``what`` when it does not in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:.0f} s: {what}")
        time.sleep(pause)


def process_gone(pid: int) -> bool:
    """Whether no process of that id runs; a zombie that nobody reaps counts as gone."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False
