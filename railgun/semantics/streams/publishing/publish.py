"""Publishing (PUB): each message of a pack is stored, found to be a duplicate, or refused.

The checks run in the order of PUB-16. A pack that needs none of the slow ones is stored as columns, and runs of messages that
need no closer look go the quick way; all ways give the same outcome, which a property test holds them to.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, repeat
from typing import NamedTuple

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.cluster_limits import LARGEST_MESSAGE, TRANSPORT_LIMIT, ClusterLimits
from railgun.model.counters import body_of
from railgun.model.headers import Headers
from railgun.model.refusals import Refusal
from railgun.model.stream_config import StreamConfig
from railgun.model.subjects import Filter
from railgun.semantics.streams import limits, ttl
from railgun.semantics.streams.ahead import Ahead
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing import counters
from railgun.semantics.streams.publishing.counter_columns import publish_increments
from railgun.semantics.streams.publishing.counters import ReadBody
from railgun.semantics.streams.publishing.expectations import (
    check_batched,
    check_expectations,
    check_headers,
    instructions,
)
from railgun.semantics.streams.publishing.origin import with_origin, without_origin
from railgun.semantics.streams.publishing.outcomes import Counted, NewMessage, PackOutcome, Stored
from railgun.semantics.streams.publishing.quick_way import QuickWay, has_quick_way

_ID_HEADER_BYTES = h.block_size([(h.MSG_ID, b"")])
_NO_HEADERS: Headers = ()


def publish_pack(
    state: OwnedStream,
    subjects: list[str],
    ids: list[str],
    headers: list[list[tuple[str, bytes]]],
    payloads: list[bytes],
    time: int,
    platform: ClusterLimits,
    room: int,
    log: Stored,
    read: ReadBody | None = None,
) -> PackOutcome:
    """Decide a pack received at ``time``; what is stored is appended to ``log``. ``room``: bytes the platform has left.

    ``read``: how to read a message of the stream that its owner does not have at hand; None: not at all.
    """
    state.window.expire(time)
    if not payloads:
        return PackOutcome()
    if not headers or state.config.allow_msg_counter:
        space = limits.space(state, platform, room)
        outcome = _publish_columns(state, subjects, ids, headers, payloads, time, space, log, read)
        if outcome is not None:
            return outcome
    outcome, before, index = PackOutcome(), state.bytes, 0
    given = _with_ids(headers, ids)
    quick = quick_way(state, subjects, given, payloads, log, read)
    while index < len(subjects):
        if quick is not None:
            taken = quick.look(index, limits.space(state, platform, room - (state.bytes - before)))
            if taken:
                outcome.stored_run(index, taken, quick.store(time))
                index += taken
                continue
        subject = subjects[index]
        if state.captured.overhead(subject) is None:
            outcome.refused.append((index, refusals.NO_STREAM))
        else:
            transformed = state.transform.apply(subject) if state.transform is not None else None
            message = NewMessage(
                transformed or subject, given[index] if given else _NO_HEADERS, payloads[index]
            )
            left = room - (state.bytes - before)
            outcome.add(index, _publish_one(state, message, time, platform, left, log, read))
        index += 1
    return outcome


def _with_ids(headers: list[list[tuple[str, bytes]]], ids: list[str]) -> list[Headers]:
    """The headers of each message, with the id of those that have one; empty if none has any."""
    if not ids:
        return list(headers)
    return [
        [*given, (h.MSG_ID, message_id.encode("utf-8"))] if message_id else given
        for given, message_id in zip(headers or repeat(_NO_HEADERS), ids)  # noqa: B905 - the repeat has no end
    ]


def quick_way(
    state: OwnedStream,
    subjects: list[str],
    headers: list[Headers],
    payloads: list[bytes],
    log: Stored,
    read: ReadBody | None,
    *,
    batch: bool = False,
) -> QuickWay | None:
    """The quick way for these messages, None where their stream has none."""
    if not has_quick_way(state):
        return None
    largest = largest_message(state.config)
    if state.origin:
        headers = without_origin(headers)  # KV-40
    return QuickWay(state, subjects, headers, payloads, largest, log, read, batch=batch)


def _publish_columns(
    state: OwnedStream,
    subjects: list[str],
    ids: list[str],
    headers: list[list[tuple[str, bytes]]],
    payloads: list[bytes],
    time: int,
    room: int,
    log: Stored,
    read: ReadBody | None,
) -> PackOutcome | None:
    """Store the whole pack at once, or None if any of its messages needs a closer look."""
    config = state.config
    per_subject = config.max_msgs_per_subject > 0
    if (
        config.sealed
        or state.transform is not None
        or per_subject
        or state.origin
        or state.bodies.keeps
        or config.discard == "new"
    ):
        return None
    largest = largest_message(config)
    if headers:
        return publish_increments(state, subjects, ids, headers, payloads, time, room, largest, log, read)
    if ids and (not state.window.window or " " in "".join(ids) or not state.window.all_new(ids)):
        return None  # an id may begin with a space, which is not part of it
    overheads: dict[str, int] = {}
    for subject in set(subjects):
        overhead = state.captured.overhead(subject)
        if overhead is None or not state.is_wanted(subject):
            return None
        if config.allow_msg_counter and counters.check_plain(state, subject, log, read) is not None:
            return None
        overheads[subject] = overhead
    sizes = [overheads[subject] + len(payload) for subject, payload in zip(subjects, payloads, strict=True)]
    given: Iterable[Headers] = repeat(_NO_HEADERS, len(sizes))
    if ids:
        extra = state.measure.headers + _ID_HEADER_BYTES
        encoded = [message_id.encode("utf-8") for message_id in ids]
        if max(map(len, encoded)) + _ID_HEADER_BYTES > h.MAX_HEADER_BYTES:
            return None
        sizes = [size + extra + len(one) for size, one in zip(sizes, encoded, strict=True)]
        given = [((h.MSG_ID, one),) for one in encoded]
    total = sum(sizes)
    if max(sizes, default=0) > largest or total > room or limits.needs_trim(state, len(sizes), total):
        return None
    first = state.store_run(subjects, sizes, time)
    if ids:
        state.window.accept_run(ids, first, time)
    state.last_msg_id = ids[-1] if ids else ""
    log.sequences += range(first, first + len(sizes))
    log.subjects += subjects
    log.headers += given
    log.payloads += payloads
    log.times += repeat(time, len(sizes))
    return PackOutcome(runs=[(0, len(sizes), first)])


def largest_message(config: StreamConfig) -> int:
    """Bytes of headers and payload that a message of the stream may have, at most (LIM-12, LIM-13)."""
    return min(config.max_msg_size, LARGEST_MESSAGE) if config.max_msg_size > 0 else TRANSPORT_LIMIT


def _publish_one(
    state: OwnedStream,
    message: NewMessage,
    time: int,
    platform: ClusterLimits,
    room: int,
    log: Stored,
    read: ReadBody | None,
) -> Refusal | Counted | int:
    """The sequence; minus the original's sequence for a duplicate; or why not, and then nothing has changed (PUB-15)."""
    found = examine(state, message, platform, room, log, read)
    if not isinstance(found, Examined):
        return found
    sequence = keep(state, found, time, log)
    return sequence if found.total is None else Counted(sequence, found.total)


class Examined(NamedTuple):
    """A message that may be stored, with headers and payload as they are stored, and what is known of it by then."""

    message: NewMessage
    message_id: str
    size: int
    lifetime: ttl.Lifetime
    rollup: str  # sub, all, or empty
    wanted: bool  # else it only takes a sequence
    total: int | None  # of its subject, with this increment
    ledger: str = ""  # of a counter that adds up others


def examine(
    state: OwnedStream,
    message: NewMessage,
    platform: ClusterLimits,
    room: int,
    log: Stored,
    read: ReadBody | None,
    ahead: Ahead | None = None,
    *,
    largest: int | None = None,
) -> Examined | Refusal | int:
    """What would be stored; minus the original's sequence for a duplicate; or why not. Nothing changes.

    ``ahead``: of a batch, its messages before this one. ``largest``: bytes of a message, where it is not the stream that says it.
    """
    config = state.config
    if config.sealed:
        return refusals.SEALED  # PUB-17
    if state.origin:
        message = message._replace(headers=without_origin([message.headers])[0])  # KV-40
    given = instructions(message.headers) if message.headers else {}
    increment = given.get(h.INCREMENT)
    refused = None if ahead is None else check_batched(given)
    if increment is not None:
        refused = refused or counters.check_increment(state, given, message.payload)
    refused = refused or check_headers(state, given)
    if refused is not None:
        return refused
    lifetime = ttl.lifetime(config, given.get(h.TTL))
    if ahead is not None and isinstance(lifetime, Refusal):
        return lifetime if config.allow_msg_ttl else refusals.TTL_DISABLED  # BAT-13: before any is stored
    if lifetime == refusals.TTL_DISABLED:
        return refusals.TTL_DISABLED
    message_id = given.get(h.MSG_ID, b"").decode("utf-8", "backslashreplace")  # never two ids as one
    if message_id and state.window.window:  # DUP-08: without an id there is nothing to look for
        original = state.window.original(message_id)
        if original is not None:
            return -original  # DUP-01, DUP-16, EXO-01, EXO-02; C-26: before the expectations, so that a retry stays idempotent
    refused = check_expectations(state, message.subject, given, ahead)
    if refused is not None:
        return refused
    rollup = _rollup(state, message.subject, given.get(h.ROLLUP), ahead)
    if isinstance(rollup, Refusal):
        return rollup
    counted = _counted(state, message, increment, log, read, ahead)
    if isinstance(counted, Refusal):
        return counted
    message, total, ledger = counted
    wanted = state.is_wanted(message.subject)
    if isinstance(lifetime, Refusal):
        if wanted:
            return lifetime
        lifetime = ttl.UNLIMITED  # of a message that is not stored, it says nothing
    kept = _as_stored(state, message, lifetime, largest or largest_message(config))
    if isinstance(kept, Refusal):
        return kept
    size = state.measure.of(kept.subject, h.block_size(kept.headers), kept.payload)
    if wanted:
        refused = limits.check(state, kept.subject, size, platform, room, rollup=rollup != "", ahead=ahead)
        if refused is not None:
            return refused
    return Examined(kept, message_id, size, lifetime, rollup, wanted, total, ledger)


def _as_stored(
    state: OwnedStream, message: NewMessage, lifetime: ttl.Lifetime, largest: int
) -> NewMessage | Refusal:
    """The message with the headers that it is stored with, which may be ``largest`` bytes with the payload."""
    headers = message.headers
    if lifetime.rewritten is not None:
        headers = [(n, lifetime.rewritten if n == h.TTL else v) for n, v in headers]
    header_bytes = h.block_size(headers)
    if header_bytes > h.MAX_HEADER_BYTES:
        return refusals.HEADER_TOO_LARGE  # LIM-14
    if header_bytes + len(message.payload) > largest:
        return refusals.MESSAGE_TOO_LARGE
    (headers,) = with_origin([headers], state.origin)
    return message._replace(headers=headers)


def _counted(
    state: OwnedStream,
    message: NewMessage,
    increment: bytes | None,
    log: Stored,
    read: ReadBody | None,
    ahead: Ahead | None,
) -> tuple[NewMessage, int | None, str] | Refusal:
    """The message as a counter stores it, the total with it and the ledger; or why its subject does not take it."""
    if increment is None:
        refused = None
        if state.config.allow_msg_counter:
            refused = counters.check_plain(state, message.subject, log, read, ahead)
        return refused or (message, None, "")
    total = counters.total_after(state, message.subject, increment, log, read, ahead)
    if isinstance(total, Refusal):
        return total
    ledger = counters.ledger_of(state, message.subject, log, read, ahead)
    stored = counters.with_ledger(message.headers, ledger)
    return (
        message._replace(payload=body_of(total), headers=stored),
        total,
        ledger,
    )  # CTR-02; CTR-03: the headers stay


def keep(state: OwnedStream, examined: Examined, time: int, log: Stored) -> int:
    """Store the message that was examined, at ``time``; its sequence."""
    message, message_id, size, lifetime, rollup, wanted, total, ledger = examined
    subject, headers, payload = message
    previous = state.last_of(subject)
    if wanted:
        sequence = state.store(
            subject, size, time, expiry=lifetime.ends(time), headers=headers, payload=payload
        )
    else:
        sequence = state.skip(time)
    state.last_msg_id = message_id
    if message_id and state.window.window:
        state.window.accept(
            message_id, sequence, time
        )  # DUP-12: after every refusal; RET-19: also if it is not stored
    if not wanted:
        return sequence
    log.add(sequence, subject, headers, payload, time)
    if total is not None:
        state.totals.put(subject, sequence, total, ledger)
    limits.enforce(state, subject, previous, why="evicted")
    if rollup:  # last: the message first counts like any other
        _roll_up(state, subject, previous, sequence, rollup)
    return sequence


def _rollup(state: OwnedStream, subject: str, value: bytes | None, ahead: Ahead | None) -> str | Refusal:
    """``sub``, ``all``, or empty for an ordinary message (PUB-21, PUB-22)."""
    if value is None:
        return ""
    if not state.config.allow_rollup_hdrs or state.config.deny_purge:
        return refusals.rollup_refused("rollup not permitted")
    text = value.decode("utf-8", "replace")
    if text.lower() not in ("sub", "all"):
        return refusals.rollup_refused(f'rollup value invalid: "{text}"')
    kind = text.lower()
    if ahead is not None and (ahead.begun if kind == "all" else subject in ahead.written):
        return refusals.rollup_refused(f"batch rollup {kind} invalid")  # BAT-35
    return kind


def _roll_up(state: OwnedStream, subject: str, previous: int, sequence: int, rollup: str) -> None:
    """``previous``: the newest message of the subject before; what lies between may be a whole history of others."""
    if rollup == "all":
        state.purge_below(sequence)
        return
    earlier = state.count_of(subject) - 1
    if earlier > 0:
        doomed = islice(state.iterate(previous, subjects=Filter([subject]), reverse=True), earlier)
        for entry in list(doomed):
            state.remove(entry.sequence)
