"""Reading messages from their log while a drain is decided: rare, for what the owner does not have at hand."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from railgun.model.messages import StoredMessage
from railgun.protocol.replies import Located
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.counters import Body, ReadBody
from railgun.semantics.streams.publishing.outcomes import Stored
from railgun.semantics.streams.reading.gets import place_of

ReadLog = Callable[[Sequence[Located]], list[StoredMessage | None]]


class LogUnreadable(Exception):
    """The log cannot be read just now. The drain must be tried again: nothing is decided without what it needs."""


def find_messages(
    stream: OwnedStream, sequences: Sequence[int], stored: Stored | None, read_log: ReadLog | None
) -> list[StoredMessage | None]:
    """The messages of these sequences: those that are at hand, and the others from the log; None for one that is gone.

    ``stored``: what the drain that runs has stored in the stream, which no log has yet.
    """
    found = {sequence: _at_hand(stream, sequence, stored) for sequence in sequences}
    missing = [sequence for sequence, message in found.items() if message is None]
    if missing and read_log is not None:
        places = [place_of(stream, sequence, "direct") for sequence in missing]
        found |= dict(zip(missing, read_log(places), strict=True))
    return [found[sequence] for sequence in sequences]


def _at_hand(stream: OwnedStream, sequence: int, stored: Stored | None) -> StoredMessage | None:
    """The message, if it need not be read from the log; also one that was removed in this drain."""
    at = 0 if stored is None else bisect_left(stored.sequences, sequence)
    if stored is not None and stored.sequences[at : at + 1] == [sequence]:
        return StoredMessage(
            stored.subjects[at], sequence, stored.payloads[at], stored.headers[at], stored.times[at]
        )
    body, entry = stream.body(sequence), stream.index.trace(sequence)
    if body is None or entry is None:
        return None
    return StoredMessage(entry.subject, sequence, body[1], body[0], entry.time)


def body_reader(state: OwnedStream, read_log: ReadLog | None) -> ReadBody:
    """How to read headers and payload of a message of this stream; it gives None where the log does not have it."""

    def read(sequence: int) -> Body | None:
        found = None if read_log is None else read_log([place_of(state, sequence, "direct")])[0]
        return None if found is None else (found.headers, found.payload)

    return read
