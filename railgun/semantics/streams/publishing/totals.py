"""The totals of a stream's counters, as a table: one entry for each subject that has one.

An entry names the newest increment that was ever stored on its subject, and the total with it. It stays true whatever
happens to the stream, because sequences are never given twice; it is the subject's total while that message is the newest. So
a subject without an entry has no increment: entries leave the table with the last message of their subject, and not before.

Nothing is held in memory, so an aborted drain takes its totals back with the overlay. A purge of everything leaves the entries
as strays, which are removed over several drains.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from railgun.protocol import avro as wire
from railgun.protocol.varints import varint
from railgun.state import keys
from railgun.state.table import Overlay
from railgun.state.unreadable_entries import decoded

_BOUND = struct.Struct(">Q")
_NO_LEDGER: Final = b"\0"  # the length of an empty text


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

    def keys_of(self, subjects: Iterable[str]) -> list[bytes]:
        """The keys of the entries of these subjects, for the next two."""
        prefix = self._prefix
        return [prefix + subject.encode("utf-8", "surrogatepass") for subject in subjects]

    def plain_totals(self, entries: Sequence[bytes], newest: Sequence[int]) -> list[int | None]:
        """The totals of subjects whose newest messages are these, in one look at the table; None where an entry says anything else.

        A subject without a message has a total of 0. An entry is compared with the bytes that it would have, which costs a third of reading it.
        """
        stored = iter(
            self._overlay.get_many([key for key, sequence in zip(entries, newest, strict=True) if sequence])
        )
        known = _known_totals
        found: list[int | None] = []
        for sequence in newest:
            if not sequence:
                found.append(0)
                continue
            data, begin = next(stored), varint(sequence << 1)
            if data is None or not data.startswith(begin):
                found.append(None)
            else:
                rest = data[len(begin) :]
                total = known.get(rest)
                found.append(_plain_total(rest) if total is None else total)
        return found

    def put(self, subject: str, sequence: int, total: int, ledger: str = "") -> None:
        entry = CounterTotal(sequence, total, ledger)
        self._overlay.put(self._key(subject), wire.encode("counter_total", entry._asdict()))

    def put_all(self, entries: Iterable[bytes], sequences: Iterable[int], totals: Iterable[int]) -> None:
        """As :meth:`put`, of many subjects without a ledger."""
        self._overlay.change(dict(zip(entries, map(_plain, sequences, totals), strict=True)))

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


def _plain(sequence: int, total: int) -> bytes:
    """The bytes of an entry without a ledger, as the general encoder writes them: it costs ten times as much."""
    return varint(sequence << 1) + varint(total << 1 if total >= 0 else ~(total << 1)) + _NO_LEDGER


_known_totals: dict[bytes, int] = {}  # by their bytes: most counters are small
_MOST_TOTALS: Final = 20_000


def _plain_total(data: bytes) -> int | None:
    """The total that an entry without a ledger ends with; None if it does not."""
    total, at = _number(data, 0)
    if data[at:] != _NO_LEDGER:
        return None
    if len(_known_totals) < _MOST_TOTALS:
        _known_totals[data] = total
    return total


def _decode(data: bytes) -> CounterTotal:
    """The entry in these bytes; what is not an entry without a ledger is left to the general decoder, which also says what is wrong."""
    sequence, at = _number(data, 0)
    total, at = _number(data, at)
    if data[at:] == _NO_LEDGER:
        return CounterTotal(sequence, total)
    return CounterTotal(**wire.decode("counter_total", data))


def _number(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins there, of 62 bits at most, and where it ends; elsewhere than in ``data`` if there is none."""
    value = shift = 0
    for byte in data[at : at + 9]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at + shift // 7
    return 0, len(data)
