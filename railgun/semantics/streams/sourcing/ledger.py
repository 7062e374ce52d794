"""The ledger of a counter that adds up others: the last total that was seen of each of them (CTR-26).

It travels in the header ``Nats-Counter-Sources`` of the counter's newest message and beside its total in the table. What is
applied is the difference to the last total, so messages that were lost upstream lose no counts (CTR-27), and one that comes again
changes nothing (CTR-28).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.counters import LEAST, MOST, body_of, parse_body, parse_number
from railgun.model.headers import HeaderList, Headers
from railgun.model.refusals import Refusal
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing import counters
from railgun.semantics.streams.publishing.outcomes import Stored

_KNOWN = 8  # ledgers that are kept as they were read: one for each sum that a lease adds to


@dataclass(frozen=True, slots=True)
class Ledger:
    """The last totals by stream and original subject, and each of them as it is written.

    A sum of thousands of counters changes one entry at a time: to read and write all of them each time takes milliseconds.
    """

    totals: dict[str, dict[str, int]]
    written: dict[str, dict[str, str]]

    @classmethod
    def of(cls, totals: dict[str, dict[str, int]]) -> Ledger:
        return cls(
            totals,
            {
                stream: {subject: _entry(subject, total) for subject, total in of_stream.items()}
                for stream, of_stream in totals.items()
            },
        )

    def having(self, stream: str, subject: str, total: int) -> Ledger:
        """The ledger with that total."""
        totals = self.totals.get(stream, {}) | {subject: total}
        written = self.written.get(stream, {}) | {subject: _entry(subject, total)}
        return Ledger(self.totals | {stream: totals}, self.written | {stream: written})

    def text(self) -> str:
        """The ledger as JSON, in ASCII."""
        streams = (f"{json.dumps(stream)}:{{{','.join(of.values())}}}" for stream, of in self.written.items())
        return f"{{{','.join(streams)}}}"


def _entry(subject: str, total: int) -> str:
    return f'{json.dumps(subject)}:"{total}"'


class KnownLedgers:
    """The ledgers that were read or written last, by their texts."""

    def __init__(self) -> None:
        self._known: dict[str, Ledger] = {}

    def read(self, text: str) -> Ledger | None:
        """The ledger in a header; None if it is not one."""
        found = self._known.pop(text, None) or parse_ledger(text)
        return None if found is None else self.keep(text, found)

    def keep(self, text: str, ledger: Ledger) -> Ledger:
        """The ledger has this text."""
        if len(self._known) >= _KNOWN:
            del self._known[next(iter(self._known))]
        self._known[text] = ledger
        return ledger


class SourcedIncrement(NamedTuple):
    """A sourced counter message as the target stores it."""

    total: int
    ledger: str
    headers: HeaderList
    payload: bytes


def parse_ledger(text: str) -> Ledger | None:
    """The ledger in a header; None if it is not one."""
    found: dict[str, dict[str, int]] = {}
    try:
        for stream, subjects in json.loads(text or "{}").items():
            for subject, total in subjects.items():
                number = parse_number(total.encode("utf-8", "replace"))
                if number is None:
                    return None
                found.setdefault(stream, {})[subject] = number
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return Ledger.of(found)


def sourced_increment(
    state: OwnedStream,
    upstream: str,
    original: str,
    subject: str,
    headers: Headers,
    payload: bytes,
    log: Stored,
    read: counters.ReadBody | None,
    ledgers: KnownLedgers,
) -> SourcedIncrement | Refusal:
    """What a counter message of ``upstream`` adds to the counter ``subject`` of the target (CTR-23, CTR-24, CTR-26); or why nothing.

    ``ledgers``: those of the messages before.
    """
    theirs = parse_body(payload)
    if theirs is None:
        return refusals.COUNTER_BROKEN
    known = counters.newest(state, subject, log, read) if state.last_of(subject) else counters.NOTHING_YET
    if known is None:
        return refusals.COUNTER_BROKEN  # CTR-11
    if isinstance(known, Refusal):
        return known
    ledger = ledgers.read(known.ledger)
    if ledger is None:
        return refusals.COUNTER_BROKEN
    applied = theirs - ledger.totals.get(upstream, {}).get(original, 0)
    total = known.total + applied
    if not (LEAST <= applied <= MOST and LEAST <= total <= MOST):
        return refusals.INCREMENT_INVALID  # CTR-08
    ledger = ledger.having(upstream, original, theirs)
    text = ledger.text()
    ledgers.keep(text, ledger)
    own = [(name, value) for name, value in headers if name not in (h.INCREMENT, h.COUNTER_SOURCES)]
    stated = [(h.INCREMENT, b"%+d" % applied), (h.COUNTER_SOURCES, text.encode("ascii"))]
    return SourcedIncrement(total, text, [*stated, *own], body_of(total))
