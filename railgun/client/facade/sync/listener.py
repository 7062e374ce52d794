# Generated from ../aio/listener.py by `python -m tests.twins`. Change that file, then run `make twins`.
"""A plain listener on a subject, made by ``rg.listen``."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

from railgun.client import steps
from railgun.client.consuming.push_buffer import PushBuffer
from railgun.client.facade.sync.closing import Closes
from railgun.client.facade.sync.message import Message

_CHUNK = 32  # messages between two looks at what is left


class Listener(Closes):
    """A plain listener; iterate over it, or take what is there. A context manager. Made by ``rg.listen``.

    Messages of a push consumer are acknowledged as any other. Iterating ends when it is closed, from whichever thread.
    """

    def __init__(self, buffer: PushBuffer) -> None:
        self._buffer = buffer
        weakref.finalize(self, buffer.orphaned)

    @property
    def subject(self) -> str:
        """The subject that is listened on."""
        return self._buffer.subject

    def __iter__(self) -> Iterator[Message]:
        ready = self._buffer.ready
        while steps.run(self._buffer.some()):
            for _ in range(_CHUNK):
                try:
                    message = ready.popleft()
                except IndexError:
                    break
                yield message

    def fetch(self, count: int, wait: float = 1.0) -> list[Message]:
        """Up to ``count`` messages; fewer, or none, when ``wait`` seconds are over."""
        return steps.run(self._buffer.take(count, wait))

    def next(self, wait: float = 1.0) -> Message | None:
        """The next message, None when none came in time."""
        found = self.fetch(1, wait)
        return found[0] if found else None

    def close(self) -> None:
        """Listen no more; what was not taken goes back to its consumer."""
        self._buffer.close()
