"""The ledger of a counter that adds up others: the last total that was seen of each of them (CTR-26).

It travels in the header ``Nats-Counter-Sources`` of the counter's newest message and beside its total in the table. What is
applied is the difference to the last total, so messages that were lost upstream lose no counts (CTR-27), and one that comes again
changes nothing (CTR-28).
"""

from __future__ import annotations

import json
from typing import NamedTuple

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.counters import LEAST, MOST, body_of, parse_body, parse_number
from railgun.model.headers import HeaderList, Headers
from railgun.model.refusals import Refusal
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing import counters
from railgun.semantics.streams.publishing.outcomes import Stored

Ledger = dict[str, dict[str, int]]  # stream, original subject: last total


class SourcedIncrement(NamedTuple):
    """A sourced counter message as the target stores it."""

    total: int
    ledger: str
    headers: HeaderList
    payload: bytes


def parse_ledger(text: str) -> Ledger | None:
    """The ledger in a header; None if it is not one."""
    if not text:
        return {}
    try:
        given = json.loads(text)
        found: Ledger = {}
        for stream, subjects in given.items():
            for subject, total in subjects.items():
                number = parse_number(total.encode("utf-8", "replace"))
                if number is None:
                    return None
                found.setdefault(stream, {})[subject] = number
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return found


def ledger_text(ledger: Ledger) -> str:
    written = {
        stream: {subject: str(total) for subject, total in of_stream.items()}
        for stream, of_stream in ledger.items()
    }
    return json.dumps(written, separators=(",", ":"))


def sourced_increment(
    state: OwnedStream,
    upstream: str,
    original: str,
    subject: str,
    headers: Headers,
    payload: bytes,
    log: Stored,
    read: counters.ReadBody | None,
) -> SourcedIncrement | Refusal:
    """What a counter message of ``upstream`` adds to the counter ``subject`` of the target (CTR-23, CTR-24, CTR-26); or why nothing."""
    theirs = parse_body(payload)
    if theirs is None:
        return refusals.COUNTER_BROKEN
    known = counters.newest(state, subject, log, read) if state.last_of(subject) else counters.NOTHING_YET
    if known is None:
        return refusals.COUNTER_BROKEN  # CTR-11
    if isinstance(known, Refusal):
        return known
    ledger = parse_ledger(known.ledger)
    if ledger is None:
        return refusals.COUNTER_BROKEN
    of_stream = ledger.setdefault(upstream, {})
    applied = theirs - of_stream.get(original, 0)
    total = known.total + applied
    if not (LEAST <= applied <= MOST and LEAST <= total <= MOST):
        return refusals.INCREMENT_INVALID  # CTR-08
    of_stream[original] = theirs
    text = ledger_text(ledger)
    own = [(name, value) for name, value in headers if name not in (h.INCREMENT, h.COUNTER_SOURCES)]
    stated = [(h.INCREMENT, b"%+d" % applied), (h.COUNTER_SOURCES, text.encode("ascii"))]
    return SourcedIncrement(total, text, [*stated, *own], body_of(total))
