"""Processes of this machine: whether one is still alive."""

from __future__ import annotations

import os


def process_alive(pid: int) -> bool:
    """Whether a process of that id exists (a zombie counts)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
