"""Copying: messages of an upstream are stored in the stream that mirrors or sources it (MIR, SRC).

A copy is taken as a publish is, with these differences: orders that were for the upstream alone are taken off (SRC-08,
MIR-10), nothing is refused that the upstream's rules allowed, and a stream that is full makes its upstream wait (SRC-09). A copy is a
message as any other (MIR-14), and stays whatever becomes of the original (MIR-08, SRC-11).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.cluster_limits import LARGEST_MESSAGE, ClusterLimits
from railgun.model.counters import parse_body
from railgun.model.headers import Headers
from railgun.model.refusals import Refusal
from railgun.model.stream_config import StreamConfig
from railgun.protocol.sourcing import SourceLease
from railgun.semantics.streams import limits, ttl
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing import counters
from railgun.semantics.streams.publishing.expectations import instructions
from railgun.semantics.streams.publishing.outcomes import NewMessage, Stored
from railgun.semantics.streams.publishing.publish import Examined, keep
from railgun.semantics.streams.sourcing.ledger import KnownLedgers, sourced_increment
from railgun.semantics.streams.sourcing.origins import Origin, SourceMapping

# Orders to the stream that stored the message first.
STRIPPED = frozenset(
    {
        h.EXPECTED_STREAM,
        h.EXPECTED_LAST_SEQUENCE,
        h.EXPECTED_LAST_SUBJECT_SEQUENCE,
        h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
        h.EXPECTED_LAST_MSG_ID,
        h.BATCH_ID,
        h.BATCH_SEQUENCE,
        h.BATCH_COMMIT,
    }
)
WAITED_FOR = frozenset({10077, 10023, 10002, 10109})  # room, and a stream that is not sealed


class Upstream(NamedTuple):
    """One message of the upstream."""

    sequence: int
    subject: str
    headers: Headers
    payload: bytes
    time: int


@dataclass(slots=True)
class Target:
    """The stream that copies, and what storing in it needs."""

    state: OwnedStream
    time: int
    platform: ClusterLimits
    room: int  # bytes that the platform has left
    log: Stored
    read: counters.ReadBody | None
    ledgers: KnownLedgers = field(default_factory=KnownLedgers)
    ledger_bytes: int = 0  # of the copies that were stored


def messages_of(lease: SourceLease, after: int) -> Iterator[Upstream]:
    """The messages of a lease behind that sequence, in their order (SRC-02)."""
    at = 0
    for first, count in zip(lease.sequences, lease.counts, strict=True):
        for sequence in range(first, first + count):
            if sequence > after:
                headers = lease.headers[at] if lease.headers else ()
                yield Upstream(sequence, lease.subjects[at], headers, lease.payloads[at], lease.times[at])
            at += 1


def copy_one(target: Target, origin: Origin, mapping: SourceMapping, message: Upstream) -> Refusal | None:
    """Copy a message; None if it is done with: stored, known already, or passed over with a word in ``origin``.

    Otherwise nothing has changed, and the message must be tried again.
    """
    before = target.state.bytes
    if mapping.mirrors:
        refused = _mirror(target, message._replace(subject=mapping.subject(message.subject)))
    else:
        refused = _source(target, origin, mapping, message)
    target.room -= target.state.bytes - before
    if refused is None:
        origin.position = message.sequence
        return None
    if refused.err_code in WAITED_FOR:
        return refused
    origin.drop(message.sequence, refused)
    origin.position = message.sequence
    return None


def without_orders(headers: Headers) -> Headers:
    """The headers without orders that were for the upstream alone (SRC-08, MIR-10, BAT-46)."""
    if any(name in STRIPPED for name, _ in headers):
        return [(name, value) for name, value in headers if name not in STRIPPED]
    return headers


# -- mirrors


def _mirror(target: Target, message: Upstream) -> Refusal | None:
    """Store a copy with the same sequence and time (MIR-01), counters verbatim (CTR-22); mirrors never de-duplicate (DUP-14)."""
    state = target.state
    if message.sequence <= state.last_seq:
        return (
            None  # MIR-07: the mirror was purged ahead of its upstream, and gives no message another sequence
        )
    headers = without_orders(message.headers)
    size = state.measure.of(message.subject, h.block_size(headers), message.payload)
    refused = _unfit(target, headers, message.payload)
    wanted = state.is_wanted(message.subject)
    if refused is None and wanted:
        refused = limits.check(state, message.subject, size, target.platform, target.room, rollup=False)
    if refused is not None or not wanted:
        return refused
    given = instructions(headers) if headers else {}
    expiry = _lifetime(state, given).ends(message.time)
    previous = state.last_of(message.subject)
    state.jump(message.sequence)
    sequence = state.store(
        message.subject, size, message.time, expiry=expiry, headers=headers, payload=message.payload
    )
    target.log.add(sequence, message.subject, headers, message.payload, message.time)
    if h.INCREMENT in given:
        _note_total(state, sequence, message)
    limits.enforce(state, message.subject, previous, why="evicted")
    return None


def _note_total(state: OwnedStream, sequence: int, message: Upstream) -> None:
    """The totals of a mirror are known, so that it can count when it is promoted."""
    total = parse_body(message.payload)
    if total is not None:
        ledger = (h.first(message.headers, h.COUNTER_SOURCES) or b"").decode("utf-8", "replace")
        state.count(message.subject, sequence, total, ledger)


# -- sources


def _source(target: Target, origin: Origin, mapping: SourceMapping, message: Upstream) -> Refusal | None:
    """Store a copy with a new sequence and the local time (SRC-01), under the subject that the transforms make."""
    state, config = target.state, target.state.config
    subject = placed(state, mapping, message.subject)
    headers = [one for one in without_orders(message.headers) if one[0] != h.STREAM_SOURCE]  # SRC-04
    payload, total, ledger = message.payload, None, ""
    given = instructions(headers) if headers else {}
    message_id = given.get(h.MSG_ID, b"").decode("utf-8", "backslashreplace")
    if message_id and state.window.window and state.window.original(message_id) is not None:
        return None  # DUP-14: it is there already
    if h.INCREMENT in given:
        if not config.allow_msg_counter:
            return None  # CTR-25: dropped, as the seed has it
        made = sourced_increment(
            *(state, origin.name, message.subject, subject, headers, payload),
            *(target.log, target.read, target.ledgers),
        )
        if isinstance(made, Refusal):
            return made
        total, ledger, headers, payload = made
    elif config.allow_msg_counter:
        refused = counters.check_plain(state, subject, target.log, target.read)
        if refused is not None:
            return refused
    headers.append((h.STREAM_SOURCE, mapping.header(message.sequence, message.subject)))
    refused = _unfit(target, headers, payload)
    if refused is not None:
        return refused
    wanted = state.is_wanted(subject)
    size = state.measure.of(subject, h.block_size(headers), payload)
    rollup = _rollup(state, given) if total is None else ""
    if wanted:
        refused = limits.check(state, subject, size, target.platform, target.room, rollup=rollup != "")
        if refused is not None:
            return refused
    lifetime = _lifetime(state, given)
    examined = Examined(
        NewMessage(subject, headers, payload), message_id, size, lifetime, rollup, wanted, total, ledger
    )
    keep(state, examined, target.time, target.log)
    target.ledger_bytes += len(ledger)
    return None


def placed(state: OwnedStream, mapping: SourceMapping, original: str) -> str:
    subject = mapping.subject(original)
    transformed = None if state.transform is None else state.transform.apply(subject)
    return transformed or subject


def _unfit(target: Target, headers: Headers, payload: bytes) -> Refusal | None:
    """Why the message can never be stored here, or only later."""
    config, header_bytes = target.state.config, h.block_size(headers)
    if config.sealed:
        return refusals.SEALED
    if header_bytes > h.MAX_HEADER_BYTES:
        return refusals.HEADER_TOO_LARGE
    if header_bytes + len(payload) > largest_copy(config):
        own = h.block_size([one for one in headers if one[0] != h.STREAM_SOURCE])
        if own + len(payload) > largest_copy(config):
            return refusals.MESSAGE_TOO_LARGE
    return None


def largest_copy(config: StreamConfig) -> int:
    """Bytes of a message, without the header that names its source. Without a limit a copy is as large as the upstream allowed."""
    return min(config.max_msg_size, LARGEST_MESSAGE) if config.max_msg_size > 0 else LARGEST_MESSAGE


def takes(state: OwnedStream, most: int) -> int:
    """As :func:`room_of`; one is always tried."""
    return max(1, room_of(state, most))


def room_of(state: OwnedStream, most: int) -> int:
    """How many messages more a stream takes before it is full, ``most`` at most, by the size of those it has; none if it is not positive."""
    config, found = state.config, most
    if config.discard == "new" and config.max_msgs > 0:
        found = min(found, config.max_msgs - state.messages)
    if config.discard == "new" and config.max_bytes > 0 and state.bytes:
        found = min(found, (config.max_bytes - state.bytes) * state.messages // state.bytes)
    return found


def _lifetime(state: OwnedStream, given: dict[str, bytes]) -> ttl.Lifetime:
    """TTL-06: without the option the header is stored, and nothing follows from it."""
    found = ttl.lifetime(state.config, given.get(h.TTL))
    return ttl.UNLIMITED if isinstance(found, Refusal) else found._replace(rewritten=None)


def _rollup(state: OwnedStream, given: dict[str, bytes]) -> str:
    """A roll-up is obeyed where the stream allows it, and stored as any message elsewhere: the upstream has taken it."""
    asked = given.get(h.ROLLUP, b"").decode("utf-8", "replace").lower()
    allowed = state.config.allow_rollup_hdrs and not state.config.deny_purge
    return asked if allowed and asked in ("sub", "all") else ""
