"""Packs of increments, stored as columns: the way of busy counters."""

from __future__ import annotations

from itertools import repeat
from operator import add

from railgun.model import headers as h
from railgun.model.counters import LEAST, MOST, body_of, parse_number
from railgun.model.headers import Headers
from railgun.semantics.streams import limits
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing import counters
from railgun.semantics.streams.publishing.outcomes import PackOutcome, Stored
from railgun.semantics.streams.publishing.totals import CounterTotal

_INCREMENT_BYTES = h.block_size([(h.INCREMENT, b"")])
_ID_BYTES = h.block_size([(h.INCREMENT, b""), (h.MSG_ID, b"")]) - _INCREMENT_BYTES


def publish_increments(
    state: OwnedStream,
    subjects: list[str],
    ids: list[str],
    headers: list[list[tuple[str, bytes]]],
    payloads: list[bytes],
    time: int,
    room: int,
    largest: int,
    log: Stored,
    read: counters.ReadBody | None,
) -> PackOutcome | None:
    """Store a pack in which every message is an increment and nothing else, or None if any of them needs a closer look.

    The caller has seen that the stream stores columns at all. ``largest``: bytes that a message may have.
    """
    if set(map(len, headers)) != {1} or {one[0][0] for one in headers} != {h.INCREMENT} or any(payloads):
        return None
    texts = [one[0][1] for one in headers]
    increments = {text: parse_number(text) for text in set(texts)}
    if None in increments.values() or (
        ids and (not state.window.window or " " in "".join(ids) or not state.window.all_new(ids))
    ):
        return None
    before = _before(state, subjects, log, read)
    if before is None:
        return None
    totals, overheads = before
    added: list[int] = [increments[text] for text in texts]  # type: ignore[misc]  # none is None
    if len(totals) == len(subjects):  # in their order
        values = list(map(add, totals.values(), added))
        totals = dict(zip(subjects, values, strict=True))
    else:
        values = []
        for subject, increment in zip(subjects, added, strict=True):
            total = totals[subject] = totals[subject] + increment
            values.append(total)
    if max(values) > MOST or min(values) < LEAST:
        return None
    bodies = list(map(body_of, values))
    each = overheads.values() if len(overheads) == len(subjects) else map(overheads.__getitem__, subjects)
    sizes = list(map(sum, zip(each, map(len, texts), map(len, bodies), strict=True)))
    alike = {text: ((h.INCREMENT, text),) for text in increments}
    stored: list[Headers] = [alike[text] for text in texts]
    if ids:
        encoded = [message_id.encode("utf-8") for message_id in ids]
        sizes = [size + _ID_BYTES + len(one) for size, one in zip(sizes, encoded, strict=True)]
        stored = [(*one, (h.MSG_ID, message_id)) for one, message_id in zip(stored, encoded, strict=True)]
    size = sum(sizes)
    if max(sizes) > min(largest, h.MAX_HEADER_BYTES) or size > room:
        return None  # the size is above that of headers and payload: what is near a limit is looked at one by one
    if limits.needs_trim(state, len(sizes), size):
        return None
    first = state.store_run(subjects, sizes, time)
    last_of = dict(zip(subjects, range(first, first + len(sizes)), strict=True))
    state.totals.put_all(last_of, totals)
    if ids:
        state.window.accept_run(ids, first, time)
    state.last_msg_id = ids[-1] if ids else ""
    log.sequences += range(first, first + len(sizes))
    log.subjects += subjects
    log.headers += stored
    log.payloads += bodies
    log.times += repeat(time, len(sizes))
    return PackOutcome(runs=[(0, len(sizes), first)], values=list(enumerate(values)))


def _before(
    state: OwnedStream, subjects: list[str], log: Stored, read: counters.ReadBody | None
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Total and overhead of each subject, in the order of the pack; None if one needs a closer look."""
    extra = state.measure.headers + _INCREMENT_BYTES
    newest = {subject: state.last_of(subject) for subject in dict.fromkeys(subjects)}
    known = state.totals.plain_totals({subject: last for subject, last in newest.items() if last})
    totals: dict[str, int] = {}
    overheads: dict[str, int] = {}
    for subject, last in newest.items():
        overhead = state.overhead(subject)
        found = known.get(subject) if last else 0
        if found is None:
            found = _looked_at(state, subject, log, read)
        if overhead is None or found is None:
            return None
        totals[subject], overheads[subject] = found, overhead + extra
    return totals, overheads


def _looked_at(state: OwnedStream, subject: str, log: Stored, read: counters.ReadBody | None) -> int | None:
    """The total of a subject that has messages; None: it needs a closer look."""
    found = counters.newest(state, subject, log, read)
    return found.total if isinstance(found, CounterTotal) and not found.ledger else None
