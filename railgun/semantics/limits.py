"""Limits (LIM): what discard ``new`` refuses, and what is removed once a message is stored."""

from __future__ import annotations

from railgun.model import refusals
from railgun.model.cluster import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.semantics.stream import StreamState


def needs_trim(state: StreamState, count: int, size: int) -> bool:
    """Storing so much would pass a limit of the stream."""
    config = state.config
    return (0 < config.max_msgs < state.messages + count) or (0 < config.max_bytes < state.bytes + size)


def check(
    state: StreamState, subject: str, size: int, platform: ClusterLimits, room: int, *, rollup: bool
) -> Refusal | None:
    """Why this message may not be stored, or None. ``room``: bytes that the platform has left."""
    if size > room:
        return refusals.OUT_OF_STORAGE  # PUB-19
    if (
        platform.max_stream_bytes
        and state.config.max_bytes <= 0
        and state.bytes + size > platform.max_stream_bytes
    ):
        return refusals.ACCOUNT_LIMIT  # PUB-19: the stream sets no limit, the platform does
    config = state.config
    if config.discard != "new":
        return None
    replaced = 0  # size of the message that this one pushes out of its subject
    makes_room = False
    if 0 < config.max_msgs_per_subject <= state.count_of(subject):
        if config.discard_new_per_subject and not rollup:
            return refusals.store_refused("maximum messages per subject exceeded")  # LIM-08, LIM-09
        makes_room, replaced = True, state.oldest_of(subject).size
    if 0 < config.max_msgs <= state.messages and not makes_room:
        return refusals.store_refused("maximum messages exceeded")  # LIM-05, LIM-10
    if 0 < config.max_bytes < state.bytes + size and not (makes_room and replaced >= size):
        return refusals.store_refused("maximum bytes exceeded")  # LIM-06, LIM-11
    return None


def enforce(state: StreamState, subject: str, previous: int) -> None:
    """Remove the oldest until the stream is within its limits, after one more on ``subject``.

    ``previous`` is the newest message of the subject before that one, 0 if there was none.
    """
    per_subject = state.config.max_msgs_per_subject
    if per_subject == 1 and previous:
        state.remove(previous)
    while 1 < per_subject < state.count_of(subject):
        state.remove(state.oldest_of(subject).sequence)  # LIM-07
    _enforce_totals(state)


def enforce_all(state: StreamState) -> None:
    """The same for every subject: after a configuration became tighter (UPD-06). Nothing leaves a sealed stream (UPD-08)."""
    if state.config.sealed:
        return
    per_subject = state.config.max_msgs_per_subject
    if per_subject > 0:
        excess = {s: count - per_subject for s, count in state.subjects().items() if count > per_subject}
        for entry in list(state.iterate()) if excess else ():
            if excess.get(entry.subject, 0) > 0:
                excess[entry.subject] -= 1
                state.remove(entry.sequence)
    _enforce_totals(state)


def _enforce_totals(state: StreamState) -> None:
    config = state.config
    if config.discard == "new":
        return  # UPD-06: a stream that was full before its limits sank stays so, and refuses
    while 0 < config.max_msgs < state.messages:  # LIM-03
        state.remove(state.first_seq)
    while 0 < config.max_bytes < state.bytes and state.messages:  # LIM-04
        state.remove(state.first_seq)
