"""Stragglers: the few oldest messages of a stream, behind which nearly everything in its log is gone.

A log is trimmed from its beginning only, so one message that nobody acknowledges would hold up all that came after it. Where
the log is long for what is live in it, the owner copies the bodies of the oldest messages into its table, some in each drain,
and lets the log be trimmed past them. From then on they are read from the table and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railgun.model.cluster_limits import LARGE_MESSAGE
from railgun.semantics.messages.blocks import Entry

if TYPE_CHECKING:
    from railgun.semantics.streams.owned_stream import OwnedStream

SPAN = 10_000  # offsets: a log that is not longer is left alone
OF_THE_LIVE = 8  # and so is one with fewer offsets than 8 times the messages of the stream
AT_ONCE = 32  # messages copied in one drain, each of which may have to be read from the log


def log_start(stream: OwnedStream) -> int:
    """Where the log begins to be needed: at the first message that is not copied."""
    return stream.index.offset(max(stream.first_seq, stream.copied_below), stream.log_end)


def to_copy(stream: OwnedStream) -> list[Entry]:
    """The messages to copy in this drain, the oldest ones; mostly none."""
    if stream.compacted or not stream.messages:
        return []  # compaction drops what is gone, wherever it lies
    bound = stream.log_end - SPAN - OF_THE_LIVE * stream.messages
    if log_start(stream) >= bound:
        return []
    found: list[Entry] = []
    for entry in stream.iterate(stream.copied_below):
        if (
            len(found) == AT_ONCE
            or entry.size > LARGE_MESSAGE  # it is always read from the log
            or entry.sequence >= stream.index.tail_base
            or stream.index.offset(entry.sequence, stream.log_end) >= bound
        ):
            break
        found.append(entry)
    return found
