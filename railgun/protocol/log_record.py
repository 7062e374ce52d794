"""The record of a message in the log of a stream (docs/record-format.md), for its writer and all of its readers.

Railgun's own three headers come last: sequence, time and incarnation, as decimal numbers. A record without them is a tombstone or
a foreign one; with others in their place it is damaged. Neither is a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from railgun.model import headers as h
from railgun.protocol.unreadable import Unreadable

Given = Sequence[tuple[str, bytes | None]]

NO_MESSAGE: Final = (0, 0)  # the identity of a record that is not a message: below that of all messages
# The key of a tombstone that brings the end of a transaction into a log: no subject begins with a zero byte.
MARKER_KEY: Final = b"\0railgun"
_SLOT: Final = b"\0"  # between the subject and the sequence of a key
_OWN: Final = frozenset({h.LOG_SEQUENCE, h.LOG_TIME, h.LOG_INCARNATION})
_END: Final = 2**63


class Extras(NamedTuple):
    """Parts of a message that few readers ask for: they stay in its record until then."""

    headers: h.Headers
    time_ns: int


# ------------------------------------------------------------ writing


def record_key(subject: str, sequence: int, *, slotted: bool) -> bytes:
    """The key of a message, of which compaction keeps the newest: the subject, or where several are kept of one, each its own."""
    key = subject.encode("utf-8")
    return key + _SLOT + b"%d" % sequence if slotted else key


def record_headers(
    incarnation: int, sequences: Sequence[int], times: Sequence[int], headers: Sequence[h.Headers]
) -> list[h.HeaderList]:
    """The headers of consecutive records: those that were published, and railgun's own behind them."""
    stamps = {
        time: (h.LOG_TIME, b"%d" % time) for time in set(times)
    }  # messages of one pack share their time
    end = (h.LOG_INCARNATION, b"%d" % incarnation)
    return [
        [*published, (h.LOG_SEQUENCE, b"%d" % sequence), stamps[time], end]
        for sequence, time, published in zip(sequences, times, headers, strict=True)
    ]


# ------------------------------------------------------------ reading


def identity(given: Given | None) -> tuple[int, int]:
    """Incarnation and sequence of a record with these headers."""
    if given is None or len(given) < 3 or given[-3][0] != h.LOG_SEQUENCE or given[-1][0] != h.LOG_INCARNATION:
        return NO_MESSAGE
    incarnation, sequence = _number(given[-1][1]), _number(given[-3][1])
    return NO_MESSAGE if incarnation is None or not sequence else (incarnation, sequence)


def extras(given: Given | None) -> Extras:
    """The headers that were published, and the time of receipt; 0 if the record has none."""
    if given is None or identity(given) == NO_MESSAGE:
        return Extras((), 0)
    headers: h.Headers = () if len(given) == 3 else [(name, value or b"") for name, value in given[:-3]]
    return Extras(headers, _number(given[-2][1]) or 0)


def subject_of(key: bytes | None) -> str | None:
    """The subject of a message, whose key may have a slot behind it; None if the key is not one of a message."""
    try:
        return (key or b"").partition(_SLOT)[0].decode("utf-8") or None
    except UnicodeDecodeError:
        return None


def fault(given: Given | None, value: bytes | None) -> Unreadable | None:
    """The defect of a record that is not a message; None for a tombstone."""
    if any(name in _OWN for name, _ in given or ()):
        return Unreadable("log record", "its headers Railgun-Sequence, -Time and -Incarnation are malformed")
    return None if value is None else Unreadable("foreign record", "railgun did not write it")


def _number(text: bytes | None) -> int | None:
    """A decimal number of at most 63 bits."""
    if text is None or not text.isdigit() or len(text) > 19:
        return None
    number = int(text)
    return number if number < _END else None
