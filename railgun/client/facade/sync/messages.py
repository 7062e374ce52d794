# Generated from ../aio/messages.py by `python -m tests.twins`. Change that file, then run `make twins`.
"""Endless iteration over a consumer: ``for message in worker.messages()``.

Nothing is asked for before the iteration begins. Messages are leased ahead; leaving the loop, or ``close``, gives back what
was not handed out. It survives restarts of workers and brokers; it ends with an error when the consumer is gone.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator

from railgun.client import steps
from railgun.client.connection.connection import Connection
from railgun.client.consuming.buffer import Buffer
from railgun.client.facade.sync.closing import Closes
from railgun.client.facade.sync.message import Message
from railgun.client.operations.open_buffer import open_buffer

_CHUNK = 32  # messages between two looks at what is left


class Messages(Closes):
    """An endless iteration, made by ``Consumer.messages``. A context manager; leaving the loop ends it too."""

    def __init__(self, connection: Connection, stream: str, consumer: str) -> None:
        self._connection = connection
        self._of = (stream, consumer)
        self._buffer: Buffer | None = None
        self._closed = False

    def _opened(self) -> Buffer:
        if self._buffer is None:
            self._buffer = steps.run(open_buffer(self._connection, *self._of, Message))
            weakref.finalize(self, self._buffer.orphaned)
            if self._closed:  # meanwhile, by another caller
                self._buffer.close()
        return self._buffer

    def __iter__(self) -> Iterator[Message]:
        try:
            if self._closed:
                return
            buffer = self._opened()
            ready = buffer.ready
            while steps.run(buffer.some()):
                for _ in range(_CHUNK):
                    try:
                        message = ready.popleft()
                    except IndexError:
                        break
                    yield message
        finally:
            self.close()

    def __next__(self) -> Message:
        if not self._closed:
            buffer = self._opened()
            while steps.run(buffer.some()):
                try:
                    message: Message = buffer.ready.popleft()
                except IndexError:
                    continue
                return message
        raise StopIteration

    def close(self) -> None:
        """End the iteration, from whichever thread, and give back what was not handed out."""
        self._closed = True
        if self._buffer is not None:
            self._buffer.close()
