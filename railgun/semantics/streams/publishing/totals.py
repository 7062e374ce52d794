"""The totals of a stream's counters, as a table: one entry for each subject that has one.

An entry names the newest increment that was ever stored on its subject, and the total with it. It stays true whatever
happens to the stream, because sequences are never given twice; it is the subject's total while that message is the newest. So
a subject without an entry has no increment: entries leave the table with the last message of their subject, and not before.

Nothing is held in memory, so an aborted drain takes its totals back with the overlay. A purge of everything leaves the entries
as strays, which are removed over several drains.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import NamedTuple

from railgun.protocol import avro as wire
from railgun.state import keys
from railgun.state.table import Overlay
from railgun.state.unreadable_entries import decoded

_BOUND = struct.Struct(">Q")


class CounterTotal(NamedTuple):
    """The total of a subject with the increment of that sequence, and the ledger of the counters that it adds up (CTR-26)."""

    sequence: int
    total: int
    ledger: str = ""


class CounterTotals:
    """The entries of one stream."""

    def __init__(self, overlay: Overlay, incarnation: int) -> None:
        self._overlay = overlay
        self._prefix = keys.all_of(keys.TOTAL, incarnation)
        self._bound_key = keys.stray_totals(incarnation)

    def __bool__(self) -> bool:
        """Whether there is an entry."""
        return next(self._overlay.scan(self._prefix), None) is not None

    def get(self, subject: str) -> CounterTotal | None:
        key = self._key(subject)
        data = self._overlay.get(key)
        return None if data is None else decoded(key, _decode, data)

    def put(self, subject: str, sequence: int, total: int, ledger: str = "") -> None:
        entry = CounterTotal(sequence, total, ledger)
        self._overlay.put(self._key(subject), wire.encode("counter_total", entry._asdict()))

    def drop(self, subject: str) -> None:
        """The last message of the subject is gone, or what is left of it is not a counter."""
        self._overlay.discard(self._key(subject))

    # -- strays: entries of subjects that went all at once

    def leave_below(self, sequence: int) -> bool:
        """Every message below is gone, with its subject: what has an entry is a stray. Whether there are any."""
        if not self:
            return False
        self._overlay.put(self._bound_key, _BOUND.pack(sequence))
        return True

    @property
    def has_strays(self) -> bool:
        return self._overlay.get(self._bound_key) is not None

    def drop_strays(self, most: int) -> int:
        """Look at some entries, at most ``most``, and remove the strays among them; how many were looked at."""
        left = self._overlay.get(self._bound_key)
        if left is None or not most:
            return 0
        bound, reached = left[: _BOUND.size], left[_BOUND.size :]
        below = _BOUND.unpack(bound)[0]
        found = list(islice(self._overlay.scan(self._prefix, self._prefix + reached), most))
        for key, data in found:
            if decoded(key, _decode, data).sequence < below:
                self._overlay.delete(key)
        if len(found) < most:
            self._overlay.delete(self._bound_key)
        else:
            self._overlay.put(self._bound_key, bound + found[-1][0][len(self._prefix) :] + b"\0")
        return len(found)

    def _key(self, subject: str) -> bytes:
        return self._prefix + subject.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> CounterTotal:
    value = wire.decode("counter_total", data)
    return CounterTotal(**value)
