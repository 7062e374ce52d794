"""Long work in steps, so that its caller may stop in between and go on later.

A step yields what it cost: about how many messages it looked at or removed. Between two steps the stream may change, so
work that is under way remembers sequences and subjects, never blocks or iterators.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[int, None, T]
Memo = dict[str, int]  # what work that is under way notes, in case that it must start again


def finish(steps: Steps[T]) -> T:
    """All steps at once: what they come to."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            value: T = done.value
            return value
