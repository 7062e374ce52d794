"""Freed memory is given back to the machine, so that a worker that caught up with a backlog is small again."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


@cache
def _trim() -> Callable[[int], int] | None:
    """glibc's ``malloc_trim``; other libraries give memory back by themselves, or have no such call."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return found


def give_memory_back() -> None:
    """Return free pages of the heap. Takes about a millisecond, without the interpreter's lock."""
    trim = _trim()
    if trim is not None:
        trim(0)
