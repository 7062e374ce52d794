"""Deleting one message and purging many (DEL-*).

Both change the given state, or refuse and leave it as it was. Sequences are never given again: what a purge empties goes
on after the last sequence (PUB-04).
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from railgun.model.refusals import (
    BAD_REQUEST,
    SEALED,
    Refusal,
    delete_refused,
    purge_refused,
    sequence_not_found,
)
from railgun.model.subjects import Filter
from railgun.semantics.stream import StreamState

MAX_SEQUENCE = 2**62  # a purge may move the next sequence, but never out of 64 bits


class PurgeRequest(NamedTuple):
    """What goes: everything of the filter, or what is below ``seq``, or all but the newest ``keep``."""

    filter: str = ""
    seq: int = 0
    keep: int = 0


def delete_message(stream: StreamState, sequence: int) -> Refusal | None:
    """Remove one message (DEL-01, DEL-02). The log still holds its bytes until it is trimmed or compacted (C-30)."""
    if stream.config.sealed:
        return SEALED  # DEL-05
    if stream.config.deny_delete:
        return delete_refused("message delete not permitted")
    if not stream.remove(sequence, why="delete"):
        return sequence_not_found(sequence)  # DEL-03
    return None


def purge(stream: StreamState, request: PurgeRequest) -> int | Refusal:
    """Remove what the request names; how many messages that were (DEL-06 … DEL-11)."""
    if (request.seq and request.keep) or request.seq > MAX_SEQUENCE:
        return BAD_REQUEST  # DEL-10
    if stream.config.sealed:
        return SEALED  # DEL-11
    if stream.config.deny_purge:
        return purge_refused("stream purge not permitted")
    chosen = Filter(request.filter)
    return _purge_all(stream, request) if chosen.everything else _purge_some(stream, request, chosen)


def _purge_all(stream: StreamState, request: PurgeRequest) -> int:
    if request.keep:  # DEL-08
        oldest_kept = next(islice(stream.iterate(reverse=True), request.keep - 1, None), None)
        return 0 if oldest_kept is None else stream.purge_below(oldest_kept.sequence)
    if request.seq:  # DEL-07
        return stream.purge_below(request.seq) if request.seq > 1 else 0
    return stream.purge_below(stream.last_seq + 1)  # DEL-06


def _purge_some(stream: StreamState, request: PurgeRequest, chosen: Filter) -> int:  # DEL-09
    doomed = []
    for entry in stream.iterate(subjects=chosen):
        if request.seq and entry.sequence >= request.seq:
            break
        doomed.append(entry.sequence)
    if request.keep:
        doomed = doomed[: -request.keep]
    for sequence in doomed:
        stream.remove(sequence)
    if doomed:
        left = next(stream.iterate(subjects=chosen), None)
        stream.consumers.purged(stream.last_seq + 1 if left is None else left.sequence, chosen)  # DEL-14
    return len(doomed)
