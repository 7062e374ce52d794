"""Durations: what callers write, what the API carries (nanoseconds), what the TTL header holds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Self

NANOS = 1_000_000_000
LONGEST = 100 * 365 * 86_400 * NANOS  # 100 years: with the time of today it still fits into 64 bits
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": NANOS,
    "m": 60 * NANOS,
    "h": 3600 * NANOS,
    "d": 86_400 * NANOS,
}
_BELOW_A_SECOND = (("ms", 1_000_000), ("µs", 1_000), ("ns", 1))
_SHOWN = 64  # characters of a text that is refused
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d)")


class Nanoseconds(timedelta):
    """A ``timedelta`` with a part below its microsecond, which comparisons and :func:`to_nanos` respect.

    Made by :func:`from_nanos`, and only there: equal durations must be of one type, as their hashes
    differ. Sums and products of it are plain timedeltas, to the microsecond.
    """

    nanos: int

    def __new__(cls, nanos: int) -> Self:
        made = super().__new__(cls, microseconds=nanos // 1_000)
        made.nanos = nanos
        return made

    def __eq__(self, other: object) -> bool:
        return self.nanos == to_nanos(other) if isinstance(other, timedelta) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return self.nanos != to_nanos(other) if isinstance(other, timedelta) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self.nanos < to_nanos(other) if isinstance(other, timedelta) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.nanos <= to_nanos(other) if isinstance(other, timedelta) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.nanos > to_nanos(other) if isinstance(other, timedelta) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.nanos >= to_nanos(other) if isinstance(other, timedelta) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __reduce__(self) -> tuple[type[Self], tuple[int]]:
        return type(self), (self.nanos,)

    def __repr__(self) -> str:
        return f"Nanoseconds({self.nanos})"


def to_nanos(value: timedelta | float | int) -> int:
    """A ``timedelta``, or a number of seconds, in nanoseconds."""
    if isinstance(value, Nanoseconds):
        return value.nanos
    if isinstance(value, timedelta):
        return (value.days * 86_400 + value.seconds) * NANOS + value.microseconds * 1_000
    return round(value * NANOS)


def from_nanos(nanos: int) -> timedelta:
    """The duration, exactly: :class:`Nanoseconds` where a plain ``timedelta`` would round."""
    micros, rest = divmod(nanos, 1_000)
    return Nanoseconds(nanos) if rest else timedelta(microseconds=micros)


def parse_duration(text: str) -> int:
    """Nanoseconds of ``1h``, ``1m30s``, ``100ms``. Raises ValueError for anything else."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text)
    total, at = 0, 0
    # Each part is looked for where it must begin: a search for one would try every digit of a long text anew, and the
    # text may be a header that any client sends.
    while part := _PART.match(rest, at):
        total, at = total + round(float(part[1]) * _UNITS[part[2]]), part.end()
    if not rest or at != len(rest):
        raise ValueError(f"{text[:_SHOWN]!r} is not a duration such as 1m30s or 100ms")
    return sign * total


def duration_text(nanos: int) -> str:
    """The duration as nats-server prints it: ``1ns``, ``500µs``, ``1.5s``, ``1h30m0s``."""
    if nanos < 0:
        return "-" + duration_text(-nanos)
    if 0 < nanos < NANOS:
        unit, size = next(pair for pair in _BELOW_A_SECOND if nanos >= pair[1])
        return _decimal(nanos, size) + unit
    minutes, rest = divmod(nanos, 60 * NANOS)
    hours, minutes = divmod(minutes, 60)
    seconds = _decimal(rest, NANOS) + "s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _decimal(nanos: int, size: int) -> str:
    """The quotient, exactly: ``size`` is a power of ten."""
    whole, rest = divmod(nanos, size)
    return f"{whole}.{rest:0{len(str(size)) - 1}d}".rstrip("0").rstrip(".") if rest else str(whole)


def rfc3339(nanos: int) -> str:
    """The time as the API writes it: UTC, nanoseconds, ``Z``; year 1 stands for no time."""
    if nanos == 0:
        return "0001-01-01T00:00:00Z"
    seconds, rest = divmod(nanos, NANOS)
    stamp = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{stamp}{fraction}Z"


def parse_rfc3339(text: str) -> int:
    """Nanoseconds of a time as the API writes it. Raises ValueError."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", text)
    if not found:
        raise ValueError(f"{text!r} is not a time such as 2026-01-31T12:00:00Z")
    moment = datetime.fromisoformat(found[1] + found[3].replace("Z", "+00:00"))
    return int(moment.timestamp()) * NANOS + int((found[2] or "0").ljust(9, "0"))
