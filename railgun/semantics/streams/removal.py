"""Deleting one message and purging many (DEL-*).

Both change the given state, or refuse and leave it as it was. Sequences are never given again: what a purge empties goes
on after the last sequence (PUB-04). Neither leaves a delete marker (TTL-10).
"""

from __future__ import annotations

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
from railgun.semantics.messages import searching
from railgun.semantics.steps import Memo, Steps
from railgun.semantics.streams.owned_stream import ONE_BY_ONE, OwnedStream

STRETCH = 2_000  # messages removed in one step
BLOCKS = 4  # looked at in one step
RUN = 8  # from this many on, messages that follow each other are removed as one run
MAX_SEQUENCE = 2**62  # a purge may move the next sequence, but never out of 64 bits


class PurgeRequest(NamedTuple):
    """What goes: everything of the filter, or what is below ``seq``, or all but the newest ``keep``."""

    filter: str = ""
    seq: int = 0
    keep: int = 0


def delete_message(stream: OwnedStream, sequence: int) -> Refusal | None:
    """Remove one message (DEL-01, DEL-02). The log still holds its bytes until it is trimmed or compacted (C-30)."""
    if stream.config.sealed:
        return SEALED  # DEL-05
    if stream.config.deny_delete:
        return delete_refused("message delete not permitted")
    if not stream.remove(sequence, why="delete"):
        return sequence_not_found(sequence)  # DEL-03
    return None


def purge(stream: OwnedStream, request: PurgeRequest, memo: Memo) -> Steps[int | Refusal]:
    """Remove what the request names; how many messages that were.

    What goes is settled when the purge begins: messages that come while it is under way stay.
    """
    if (request.seq and request.keep) or request.seq > MAX_SEQUENCE:
        return BAD_REQUEST  # DEL-10
    if "last" not in memo:
        if stream.config.sealed:
            return SEALED  # DEL-11
        if stream.config.deny_purge:
            return purge_refused("stream purge not permitted")
        memo |= {"last": stream.last_seq, "purged": 0}
    chosen, bound = Filter(request.filter), memo["last"] + 1
    if request.keep:  # DEL-08
        if "kept" not in memo:
            memo["kept"] = yield from _oldest_kept(stream, chosen, memo["last"], request.keep)
        bound = memo["kept"]
    elif request.seq:  # DEL-07
        bound = min(request.seq, bound) if request.seq > 1 else 0
    if chosen.everything:
        yield from _purge_below(stream, bound, request.seq, memo)
    else:
        yield from _purge_some(stream, bound, chosen, memo)
    return memo["purged"]


def _oldest_kept(stream: OwnedStream, chosen: Filter, last: int, keep: int) -> Steps[int]:
    """The sequence below which everything goes if the newest ``keep`` stay; 0 if there are no more than these."""
    at = last
    while stream.messages and at >= stream.first_seq:
        low = max(stream.first_seq, at + 1 - STRETCH)
        for entry in stream.index.descending(at, low, None if chosen.everything else chosen):
            keep -= 1
            if not keep:
                return entry.sequence
        yield at + 1 - low
        at = low - 1
    return 0


def _purge_below(stream: OwnedStream, bound: int, next_sequence: int, memo: Memo) -> Steps[None]:
    whole = bound > stream.last_seq
    if whole and (
        stream.messages <= STRETCH or not stream.compacted
    ):  # DEL-06; a compacted log needs a word on each
        memo["purged"] += stream.purge_below(max(next_sequence, bound))
        return
    while stream.messages and stream.first_seq < bound:
        before = stream.messages
        stream.remove_run(stream.first_seq, min(bound, stream.first_seq + STRETCH))
        memo["purged"] += before - stream.messages
        yield (before - stream.messages) * stream.removal_cost
    if memo["purged"]:
        stream.consumers.purged(stream.first_seq)
    if next_sequence > stream.last_seq + 1 and not stream.messages:
        stream.purge_below(next_sequence)


def _purge_some(stream: OwnedStream, bound: int, chosen: Filter, memo: Memo) -> Steps[None]:  # DEL-09
    if "end" not in memo:
        newest = yield from searching.newest(stream, chosen)
        memo["end"] = min(bound, newest + 1)
    while (at := memo.get("at", stream.first_seq)) < memo["end"]:
        runs, memo["at"], cost = searching.stretch(stream, at, memo["end"], chosen, BLOCKS)
        removed, price = _remove_all(stream, [(start, end) for _, start, end in runs])
        memo["purged"] += removed
        yield cost + price
    if memo["purged"]:
        left = yield from searching.following(stream, stream.first_seq, chosen)
        stream.consumers.purged(stream.last_seq + 1 if left is None else left.sequence, chosen)


def _remove_all(stream: OwnedStream, runs: list[tuple[int, int]]) -> tuple[int, int]:
    """Remove runs of messages; how many it were, and the cost."""
    before, cost = stream.messages, 0
    for start, end in runs:
        if end - start >= RUN:
            stream.remove_run(start, end)
            cost += (end - start) * stream.removal_cost
        else:
            for sequence in range(start, end):
                stream.remove(sequence)
            cost += (end - start) * ONE_BY_ONE
    return before - stream.messages, cost
