"""Counters (CTR): what an increment adds, and which messages a subject takes once it is a counter.

A total is the sum of increments, so their order does not matter (CTR-18); messages are decided one after the other, so none is
lost (CTR-19). Subjects do not touch each other, and limits remove messages but never the newest total (CTR-15).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.counters import LEAST, MOST, parse_body, parse_number
from railgun.model.headers import Headers
from railgun.model.refusals import Refusal
from railgun.semantics.streams.ahead import Ahead
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.expectations import instructions
from railgun.semantics.streams.publishing.outcomes import Stored
from railgun.semantics.streams.publishing.totals import CounterTotal

Body = tuple[Headers, bytes]
NOTHING_YET = CounterTotal(0, 0)
ReadBody = Callable[[int], Body | None]  # of the message of that sequence, where its log has it

_EXCLUDED = frozenset(
    {
        h.ROLLUP,
        h.EXPECTED_STREAM,
        h.EXPECTED_LAST_SEQUENCE,
        h.EXPECTED_LAST_SUBJECT_SEQUENCE,
        h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
        h.EXPECTED_LAST_MSG_ID,
    }
)


def check_increment(state: OwnedStream, given: dict[str, bytes], payload: bytes) -> Refusal | None:
    """Whether a message with the header ``Nats-Incr`` is an increment at all; in the order of nats-server."""
    if parse_number(given[h.INCREMENT]) is None:
        return refusals.INCREMENT_INVALID
    if not state.config.allow_msg_counter:
        return refusals.COUNTERS_DISABLED  # CTR-01, CTR-10, CTR-20
    if payload:
        return refusals.INCREMENT_WITH_PAYLOAD  # CTR-09
    if not _EXCLUDED.isdisjoint(given):
        return refusals.INCREMENT_INVALID  # CTR-17
    return None


def total_after(
    state: OwnedStream,
    subject: str,
    increment: bytes,
    log: Stored,
    read: ReadBody | None,
    ahead: Ahead | None = None,
) -> int | Refusal:
    """The total of the subject, after transforms (CTR-29), with this increment, or why it takes none.

    ``ahead``: of a batch, its messages before this one, which count (CTR-31).
    """
    added = parse_number(increment)
    assert added is not None
    before = 0  # CTR-02, CTR-16: the first one, or the first after a purge
    if _has_messages(state, subject, ahead):
        found = newest_total(state, subject, log, read, ahead)
        if found is None:
            return refusals.COUNTER_BROKEN  # CTR-11
        if isinstance(found, Refusal):
            return found
        before = found
    if not LEAST <= before + added <= MOST:
        return refusals.INCREMENT_INVALID  # CTR-08
    return before + added


def check_plain(
    state: OwnedStream, subject: str, log: Stored, read: ReadBody | None, ahead: Ahead | None = None
) -> Refusal | None:
    """A message that is not an increment, in a stream with the option: a counter takes none (CTR-13, CTR-14)."""
    if not _has_messages(state, subject, ahead):
        return None
    found = newest_total(state, subject, log, read, ahead)
    if isinstance(found, Refusal) and found != refusals.COUNTER_BROKEN:
        return found
    return None if found is None else refusals.INCREMENT_MISSING


def _has_messages(state: OwnedStream, subject: str, ahead: Ahead | None) -> bool:
    return bool(state.last_of(subject)) if ahead is None else ahead.has(subject)


def newest_total(
    state: OwnedStream, subject: str, log: Stored, read: ReadBody | None, ahead: Ahead | None = None
) -> int | Refusal | None:
    """The total in the newest message of a subject that has one; None if that message is not an increment (CTR-20)."""
    if ahead is not None and subject in ahead.totals:
        return ahead.totals[subject]
    found = newest(state, subject, log, read)
    return found.total if isinstance(found, CounterTotal) else found


def newest(
    state: OwnedStream, subject: str, log: Stored, read: ReadBody | None
) -> CounterTotal | Refusal | None:
    """The newest increment of a subject that has messages; None if its newest message is not one.

    The table says it, except where the newest increment was deleted: the message before it is looked at, once (CTR-16).
    What cannot be read is refused.
    """
    entry, last = state.totals.get(subject), state.last_of(subject)
    if entry is None or entry.sequence < last:
        return None
    if entry.sequence == last:
        return entry
    body = _in_drain(log, last) or state.body(last) or (None if read is None else read(last))
    if body is None:
        return refusals.unavailable(f"message {last} of {state.name}, a counter's newest, could not be read")
    if h.INCREMENT not in instructions(body[0]):
        state.totals.drop(subject)
        return None
    total = parse_body(body[1])
    if total is None:
        return refusals.COUNTER_BROKEN  # CTR-12
    ledger = (h.first(body[0], h.COUNTER_SOURCES) or b"").decode("utf-8", "replace")
    state.totals.put(subject, last, total, ledger)
    return CounterTotal(last, total, ledger)


def ledger_of(
    state: OwnedStream, subject: str, log: Stored, read: ReadBody | None, ahead: Ahead | None = None
) -> str:
    """The ledger that the next increment of the subject carries on; empty if the counter adds up no others, or begins anew."""
    if not state.last_of(subject) or (ahead is not None and ahead.begins_anew):
        return ""
    found = newest(state, subject, log, read)
    return found.ledger if isinstance(found, CounterTotal) else ""


def with_ledger(headers: Headers, ledger: str) -> Headers:
    """The headers of an increment with the ledger of its counter (CTR-26). A publisher's own ledger is not stored."""
    if not ledger and h.first(headers, h.COUNTER_SOURCES) is None:
        return headers
    own = [(name, value) for name, value in headers if name != h.COUNTER_SOURCES]
    return [*own, (h.COUNTER_SOURCES, ledger.encode("utf-8"))] if ledger else own


def _in_drain(log: Stored, sequence: int) -> Body | None:
    """The message, if the drain that runs has stored it."""
    at = bisect_left(log.sequences, sequence)
    return (log.headers[at], log.payloads[at]) if log.sequences[at : at + 1] == [sequence] else None
