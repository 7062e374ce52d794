"""Limits (LIM): what discard ``new`` refuses, and what is removed once a message is stored.

Under limits retention nothing else removes messages (LIM-01). Under the others, the same limits are upper bounds (LIM-02).
"""

from __future__ import annotations

from railgun.model import refusals
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.model.stream_config import StreamConfig
from railgun.model.subjects import Filter
from railgun.semantics.consumers.delivery.selection import runs_in
from railgun.semantics.messages import searching
from railgun.semantics.streams.ahead import Ahead
from railgun.semantics.streams.owned_stream import ONE_BY_ONE, Entry, OwnedStream

STRETCH = 2_000  # messages that are removed in one go
WHILE_BEHIND = (
    2  # one more than a publish adds: a stream that is being brought within its limits does not grow
)


def needs_trim(state: OwnedStream, count: int, size: int) -> bool:
    """Storing so much would pass a limit of the stream."""
    config = state.config
    return (0 < config.max_msgs < state.messages + count) or (0 < config.max_bytes < state.bytes + size)


def space(state: OwnedStream, platform: ClusterLimits, room: int) -> int:
    """Bytes that the platform has left for the stream. ``room``: for all streams."""
    if not platform.max_stream_bytes or state.config.max_bytes > 0:
        return room
    return min(room, platform.max_stream_bytes - state.bytes)


def check(
    state: OwnedStream,
    subject: str,
    size: int,
    platform: ClusterLimits,
    room: int,
    *,
    rollup: bool,
    ahead: Ahead | None = None,
) -> Refusal | None:
    """Why this message may not be stored, or None. ``room``: bytes that the platform has left.

    ``ahead``: of a batch, its messages before this one, which count as stored (BAT-34).
    """
    if size > room:
        return refusals.OUT_OF_STORAGE  # PUB-19
    held = state if ahead is None else ahead
    if (
        platform.max_stream_bytes
        and state.config.max_bytes <= 0
        and held.bytes + size > platform.max_stream_bytes
    ):
        return refusals.ACCOUNT_LIMIT  # the stream sets no limit, the platform does
    config = state.config
    if config.discard != "new":
        return None
    replaced = 0  # size of the message that this one pushes out of its subject
    makes_room = False
    if 0 < config.max_msgs_per_subject <= held.count_of(subject):
        if config.discard_new_per_subject and not rollup:
            return refusals.store_refused("maximum messages per subject exceeded")  # LIM-08, LIM-09
        makes_room = True
        replaced = _oldest_size(state, subject) if ahead is None else ahead.oldest_size(subject)
    if 0 < config.max_msgs <= held.messages and not makes_room:
        return refusals.store_refused("maximum messages exceeded")  # LIM-05, LIM-10
    if 0 < config.max_bytes < held.bytes + size and not (makes_room and replaced >= size):
        return refusals.store_refused("maximum bytes exceeded")  # LIM-06, LIM-11
    return None


def _oldest_size(state: OwnedStream, subject: str) -> int:
    """Bytes of the message that one more on the subject pushes out."""
    capped = state.config.max_msgs_per_subject > 1
    return (state.oldest_of(subject) if capped else state.newest_of(subject)).size


def is_over(state: OwnedStream) -> bool:
    """Whether the stream holds more than its limits allow, and the oldest are to go. Nothing leaves a sealed one.

    Under discard new, a stream that was full before its limits sank stays so, and refuses.
    """
    config = state.config
    if config.discard == "new" or config.sealed:
        return False
    return 0 < config.max_msgs < state.messages or 0 < config.max_bytes < state.bytes


def enforce(state: OwnedStream, subject: str, previous: int, *, why: str = "limit") -> None:
    """Remove the oldest until the stream is within its limits, after one more on ``subject``.

    ``previous`` is the newest message of the subject before that one, 0 if there was none. Where very many have to go, a
    part of them goes now, and the rest with the next drains.
    """
    per_subject, most = state.config.max_msgs_per_subject, WHILE_BEHIND if state.is_behind else STRETCH
    if per_subject == 1 and previous:
        state.remove(previous, why=why)
    for _ in range(most):
        if not 1 < per_subject < state.count_of(subject):
            break
        state.remove(state.oldest_of(subject).sequence, why=why)  # LIM-07
    for _ in range(most):
        if not is_over(state):
            return
        state.remove(state.first_seq, why=why)  # LIM-03, LIM-04
    if is_over(state):
        state.fall_behind()


def tighten(state: OwnedStream, before: StreamConfig) -> None:
    """The configuration changed: what is beyond the new limits is left to remove (UPD-06); of a sealed stream, nothing."""
    per_subject, former = state.config.max_msgs_per_subject, before.max_msgs_per_subject
    if state.config.sealed:
        state.unneeded.clear()
    if per_subject <= 0 or state.config.sealed:
        state.crowded = 0
    elif former <= 0 or per_subject < former:
        state.crowded = max(state.first_seq, 1)


def thin_out(state: OwnedStream) -> int:
    """Go on removing the oldest of subjects that have too many, from where ``crowded`` is; what it cost."""
    doomed: list[int] = []
    excess: dict[str, int] = {}

    def collect(entry: Entry) -> bool:
        subject = entry.subject
        if subject not in excess:
            excess[subject] = state.count_of(subject) - state.config.max_msgs_per_subject
        if excess[subject] > 0:
            excess[subject] -= 1
            doomed.append(entry.sequence)
        return len(doomed) < STRETCH

    further, cost = searching.some_from(state, state.crowded, Filter(), collect)
    for sequence in doomed:
        state.remove(sequence)
    state.crowded = 0 if further > state.last_seq else further
    return cost + len(doomed) * ONE_BY_ONE


def trim(state: OwnedStream, most: int) -> int:
    """Remove the oldest, about ``most`` at most, until the stream is within its limits; returns how many."""
    before = state.messages
    while before - state.messages < most and is_over(state):
        state.remove_run(state.first_seq, _end_of_trim(state))
    return before - state.messages


def _end_of_trim(state: OwnedStream) -> int:
    """Up to here, the oldest messages must all go: a whole block, or as many of it as are too many."""
    config = state.config
    too_many = state.messages - config.max_msgs if config.max_msgs > 0 else 0
    too_much = state.bytes - config.max_bytes if config.max_bytes > 0 else 0
    block = state.index.block_of(state.first_seq)
    if block is None:
        return state.first_seq + 1
    end = state.first_seq
    for index, count in runs_in(block, state.first_seq - block.base, Filter()):
        sizes = block.sizes[index : index + count]
        if count <= too_many or sum(sizes) <= too_much:
            too_many, too_much, end = too_many - count, too_much - sum(sizes), block.base + index + count
            continue
        for size in sizes:
            if too_many <= 0 and too_much <= 0:
                break
            too_many, too_much, end = too_many - 1, too_much - size, max(end, block.base + index) + 1
        break
    return end
