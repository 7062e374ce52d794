"""Packs of increments, stored as columns: the way of busy counters."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from operator import add
from typing import NamedTuple

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
    given = None if any(payloads) else _increments(headers)
    if given is None or (
        ids and (not state.window.window or " " in "".join(ids) or not state.window.all_new(ids))
    ):
        return None
    texts, added = given
    different = list(dict.fromkeys(subjects))
    known = _known(state, different, log, read)
    if known is None:
        return None
    values, totals, newest = _add_up(subjects, different, known.totals, added)
    if max(values) > MOST or min(values) < LEAST:
        return None
    bodies = list(map(body_of, values))
    each: Iterable[int] = known.overheads
    if len(different) < len(subjects):
        each = map(dict(zip(different, known.overheads, strict=True)).__getitem__, subjects)
    sizes = list(map(sum, zip(each, map(len, texts), map(len, bodies), strict=True)))
    alike = {text: ((h.INCREMENT, text),) for text in set(texts)}
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
    state.totals.put_all(known.entries, map(first.__add__, newest), totals)
    if ids:
        state.window.accept_run(ids, first, time)
    state.last_msg_id = ids[-1] if ids else ""
    log.sequences += range(first, first + len(sizes))
    log.subjects += subjects
    log.headers += stored
    log.payloads += bodies
    log.times += repeat(time, len(sizes))
    return PackOutcome(runs=[(0, len(sizes), first)], values=list(enumerate(values)))


def _increments(headers: list[list[tuple[str, bytes]]]) -> tuple[list[bytes], list[int]] | None:
    """The increments of messages that have no other header, as texts and as numbers; None if one of them is something else."""
    if set(map(len, headers)) != {1} or {one[0][0] for one in headers} != {h.INCREMENT}:
        return None
    texts = [one[0][1] for one in headers]
    numbers = {text: number for text in set(texts) if (number := parse_number(text)) is not None}
    return (texts, [numbers[text] for text in texts]) if numbers.keys() >= set(texts) else None


class _Known(NamedTuple):
    """What is known of the subjects of a pack, in their order."""

    entries: list[bytes]  # the keys of their totals in the table
    totals: list[int]
    overheads: list[int]  # what an increment on them counts beside its value and its body


def _known(
    state: OwnedStream, subjects: list[str], log: Stored, read: counters.ReadBody | None
) -> _Known | None:
    """None if one needs a closer look."""
    extra = state.measure.headers + _INCREMENT_BYTES
    overheads: list[int] = []
    for overhead in state.captured.overheads(subjects):
        if overhead is None:
            return None
        overheads.append(overhead + extra)
    entries = state.totals.keys_of(subjects)
    totals: list[int] = []
    for subject, total in zip(
        subjects, state.totals.plain_totals(entries, state.last_of_each(subjects)), strict=True
    ):
        found = _looked_at(state, subject, log, read) if total is None else total
        if found is None:
            return None
        totals.append(found)
    return _Known(entries, totals, overheads)


def _add_up(
    subjects: list[str], different: list[str], totals: list[int], added: list[int]
) -> tuple[list[int], list[int], Iterable[int]]:
    """The total after each increment, the last one of each subject, and the place of the increment that made it."""
    if len(different) == len(subjects):
        values = list(map(add, totals, added))
        return values, values, range(len(values))
    running = dict(zip(different, totals, strict=True))
    values = []
    for subject, increment in zip(subjects, added, strict=True):
        total = running[subject] = running[subject] + increment
        values.append(total)
    return values, list(running.values()), {subject: at for at, subject in enumerate(subjects)}.values()


def _looked_at(state: OwnedStream, subject: str, log: Stored, read: counters.ReadBody | None) -> int | None:
    """The total of a subject that has messages; None: it needs a closer look."""
    found = counters.newest(state, subject, log, read)
    return found.total if isinstance(found, CounterTotal) and not found.ledger else None
