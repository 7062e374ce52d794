"""Reading messages from their log while a drain is decided: rare, for what the owner does not have at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from railgun.model.messages import StoredMessage
from railgun.protocol.replies import Located
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.counters import Body, ReadBody
from railgun.semantics.streams.reading import place_of

ReadLog = Callable[[Sequence[Located]], list[StoredMessage | None]]


class LogUnreadable(Exception):
    """The log cannot be read just now. The drain must be tried again: nothing is decided without what it needs."""


def body_reader(state: OwnedStream, read_log: ReadLog | None) -> ReadBody:
    """How to read headers and payload of a message of this stream; it gives None where the log does not have it."""

    def read(sequence: int) -> Body | None:
        found = None if read_log is None else read_log([place_of(state, sequence, "direct")])[0]
        return None if found is None else (found.headers, found.payload)

    return read
