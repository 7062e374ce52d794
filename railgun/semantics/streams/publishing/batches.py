"""Atomic batches (BAT): what the headers of a message say, and the commit of a whole batch.

A commit examines all messages against the stream as it is before the batch (BAT-29), and stores either all of them, one behind
the other (BAT-14), or none (BAT-13).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.cluster_limits import API_LEVEL, ClusterLimits
from railgun.model.headers import HeaderList, Headers
from railgun.model.refusals import Refusal
from railgun.semantics.streams import limits
from railgun.semantics.streams.ahead import Ahead
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.counters import ReadBody
from railgun.semantics.streams.publishing.expectations import number_in
from railgun.semantics.streams.publishing.outcomes import NewMessage, Stored
from railgun.semantics.streams.publishing.publish import Examined, examine, keep, largest_message, quick_way

LONGEST_ID = 64
COMMIT = b"1"  # the message that carries it is the last of its batch
END_OF_BATCH = b"eob"  # the message before it was
_MORE_TO_SAY = frozenset({h.BATCH_COMMIT, h.REQUIRED_API_LEVEL})
_LARGEST_SEQUENCE = (1 << 63) - 1
# Memory that a message and a header take beside four times their bytes, at most: what is near a limit is staged, and counted.
_STAGED_MESSAGE = 600
_STAGED_HEADER = 200


class BatchPlace(NamedTuple):
    """Where a message stands in its batch (BAT-01)."""

    batch: str
    sequence: int
    commit: bytes | None


def is_of_batch(headers: Headers) -> bool:
    """Whether the message says that it belongs to a batch."""
    return h.first(headers, h.BATCH_ID) is not None


def goes_on_with_batch(headers: Headers) -> bool:
    """Whether the message says that it belongs to a batch, and is not its first."""
    number = number_in((h.first(headers, h.BATCH_SEQUENCE) or b"").lstrip(b" "))
    return is_of_batch(headers) and number is not None and number > 1


def place_of(given: dict[str, bytes]) -> BatchPlace | Refusal:
    """What the instructions of a message say about its batch."""
    identity = given.get(h.BATCH_ID, b"").decode("utf-8", "backslashreplace")
    if not 0 < len(identity) <= LONGEST_ID:
        return refusals.BATCH_ID_INVALID  # BAT-18
    sequence = number_in(given.get(h.BATCH_SEQUENCE, b""))
    if sequence is None or sequence > _LARGEST_SEQUENCE:
        return refusals.BATCH_SEQUENCE_MISSING  # BAT-17
    return BatchPlace(identity, sequence, given.get(h.BATCH_COMMIT))


def needs_later_server(given: dict[str, bytes]) -> bool:
    """Whether the message asks for a higher level of the API than there is (BAT-28)."""
    asked = given.get(h.REQUIRED_API_LEVEL, b"").strip()
    if not asked:
        return False
    level = number_in(asked)
    return level is None or level > API_LEVEL


def without_level(headers: Headers) -> HeaderList:
    """The headers as they are stored: the level that was asked for is left out (BAT-28); an empty one asked for none."""
    return [one for one in headers if one[0] != h.REQUIRED_API_LEVEL or not one[1].strip()]


def check_arrival(state: OwnedStream, subject: str, headers: Headers, payload: bytes) -> Refusal | None:
    """Why no message of a batch can be taken, whatever its batch is (BAT-26)."""
    if state.captured.overhead(subject) is None:
        return refusals.NO_STREAM
    if state.config.sealed:
        return refusals.SEALED
    header_bytes = h.block_size(headers)
    if header_bytes > h.MAX_HEADER_BYTES:
        return refusals.HEADER_TOO_LARGE
    if header_bytes + len(payload) > largest_message(state.config):
        return refusals.MESSAGE_TOO_LARGE
    return None if state.config.allow_atomic else refusals.BATCHES_DISABLED  # BAT-16


def continuation(
    state: OwnedStream,
    subjects: Sequence[str],
    ids: Sequence[str],
    headers: Sequence[Headers],
    payloads: Sequence[bytes],
    start: int,
    stop: int,
    number: int,
) -> list[NewMessage]:
    """The messages from ``start`` on that continue the batch of the one before them.

    Only what is certain to be taken: the first that is not the next of the batch, from ``number`` on, ends it, as does one that
    commits, asks for anything else of the protocol, or may be refused on arrival.
    """
    identity, largest = h.first(headers[start - 1], h.BATCH_ID), largest_message(state.config)
    found: list[NewMessage] = []
    for index in range(start, stop):
        given, subject, payload = headers[index], subjects[index], payloads[index]
        said = dict(reversed(given))
        if (
            said.get(h.BATCH_ID) != identity
            or said.get(h.BATCH_SEQUENCE) != b"%d" % number
            or not _MORE_TO_SAY.isdisjoint(said)
            or (ids and ids[index])
            or state.captured.overhead(subject) is None
        ):
            break
        header_bytes = h.block_size(given)
        if header_bytes > h.MAX_HEADER_BYTES or header_bytes + len(payload) > largest:
            break
        found.append(NewMessage(subject, given, payload))
        number += 1
    return found


def whole_batches(headers: Sequence[Headers], ids: Sequence[str], stop: int) -> dict[int, int]:
    """The batches among the first ``stop`` messages of a pack that lie whole in it, as far as that is certain: where each begins and ends."""
    found, index = {}, 0
    while index < stop:
        count = _whole(headers, ids, index, stop)
        if count:
            found[index] = index + count
        index += count or 1
    return found


def consecutive(batches: dict[int, int], start: int) -> list[int]:
    """The ends of the batches that lie one behind the other from ``start`` on."""
    ends: list[int] = []
    while start in batches:
        start = batches[start]
        ends.append(start)
    return ends


def _whole(headers: Sequence[Headers], ids: Sequence[str], start: int, stop: int) -> int:
    """How many messages from ``start`` on are one batch, from its first to the one that commits it; 0 if that is not certain.

    Certain is what railgun's own clients write: each header once, an id that is read as it is, and nothing else of the protocol.
    """
    identity = h.first(headers[start], h.BATCH_ID) or b""
    if not 0 < len(identity) <= LONGEST_ID or not identity.isascii() or identity[:1] == b" ":
        return 0
    own = (h.BATCH_ID, identity)
    for index, place in zip(range(start, stop), h.BATCH_PLACES[1:], strict=False):  # a longer batch is staged
        given = headers[index]
        if len(given) == 2 and given[0] == own and given[1] == place:
            continue
        said = dict(given)
        if (
            len(said) != len(given)
            or own not in given
            or place not in given
            or h.REQUIRED_API_LEVEL in said
            or (ids and ids[index])
        ):
            return 0
        if h.BATCH_COMMIT in said:
            return index - start + 1 if said[h.BATCH_COMMIT] == COMMIT and not any(ids[start:index]) else 0
    return 0


def commit_whole(
    state: OwnedStream,
    subjects: list[str],
    headers: list[Headers],
    payloads: list[bytes],
    time: int,
    platform: ClusterLimits,
    room: int,
    memory: int,
    log: Stored,
    read: ReadBody | None,
) -> int | None:
    """As :func:`commit`, of a batch that came at once, or of several without conditions; None, and nothing has changed, if any of it needs a closer look.

    ``memory``: bytes that there is room for to stage it, where it would have to be.
    """
    if not state.config.allow_atomic:
        return None
    quick = quick_way(state, subjects, headers, payloads, log, read, batch=True)
    if quick is None or quick.look(0, limits.space(state, platform, room)) != len(subjects):
        return None
    if len(subjects) * _STAGED_MESSAGE + sum(map(len, headers)) * _STAGED_HEADER + 4 * quick.size > memory:
        return None
    return quick.store(time) + len(subjects) - 1


def commit(
    state: OwnedStream,
    messages: Sequence[NewMessage],
    time: int,
    platform: ClusterLimits,
    room: int,
    log: Stored,
    read: ReadBody | None,
) -> Refusal | int:
    """Store all messages, received at ``time``: the sequence of the last; or why none of them is stored."""
    subjects, headers, payloads = map(list, zip(*messages, strict=True))
    quick = quick_way(state, subjects, headers, payloads, log, read, batch=True)
    if quick is not None and quick.look(0, limits.space(state, platform, room)) == len(messages):
        return quick.store(time) + len(messages) - 1
    ahead = Ahead(state)
    examined: list[Examined] = []
    for message in messages:
        if state.captured.overhead(message.subject) is None:
            return refusals.NO_STREAM  # the stream gave the subject up meanwhile
        transformed = state.transform.apply(message.subject) if state.transform is not None else None
        one = message._replace(subject=transformed or message.subject)
        found = examine(state, one, platform, room - (ahead.bytes - state.bytes), log, read, ahead)
        if isinstance(found, Refusal):
            return found
        assert isinstance(found, Examined), "a message of a batch has no id"
        # BAT-48: one that no consumer is interested in takes its sequence
        ahead.add(one.subject, found.size, found.rollup, found.total, wanted=found.wanted)
        examined.append(found)
    return [keep(state, one, time, log) for one in examined][-1]
