"""The newest messages of subjects, read whole from the table: body, sequence and time are one entry where a subject has one message.

So a get of a key costs the same in a bucket of any size: one read, and no block of the index is decoded.
"""

from __future__ import annotations

from collections.abc import Sequence

from railgun.model.cluster_limits import LARGE_MESSAGE
from railgun.semantics.messages.body_lookup import Value
from railgun.semantics.streams.owned_stream import OwnedStream


def is_in_memory(stream: OwnedStream, subject: str) -> bool:
    """Whether the newest message on the literal subject is found without the table: its place, its block and its body."""
    sequence = stream.held_last_of(subject)
    return sequence > 0 and stream.bodies.is_recent(sequence) and stream.index.is_in_memory(sequence)


def read_newest(stream: OwnedStream, subjects: Sequence[str]) -> list[Value | None]:
    """The newest message on each of the literal subjects; None where only the index can tell what and where it is."""
    return [
        value if value is not None and _serves(stream, subject, value) else None
        for subject, value in zip(subjects, stream.bodies.values_of(subjects), strict=True)
    ]


def _serves(stream: OwnedStream, subject: str, value: Value) -> bool:
    if value.time <= 0 or value.size > LARGE_MESSAGE:  # an older version wrote it, or it is read from the log
        return False
    return stream.log_keys.is_newest(value.sequence) or stream.last_of(subject) == value.sequence
