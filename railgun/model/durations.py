"""Durations: what callers write, what the API carries (nanoseconds), what the TTL header holds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

NANOS = 1_000_000_000
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
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d)")


def to_nanos(value: timedelta | float | int) -> int:
    """A ``timedelta``, or a number of seconds, in nanoseconds."""
    if isinstance(value, timedelta):
        return (value.days * 86_400 + value.seconds) * NANOS + value.microseconds * 1_000
    return round(value * NANOS)


def from_nanos(nanos: int) -> timedelta:
    return timedelta(microseconds=nanos / 1_000)


def parse_duration(text: str) -> int:
    """Nanoseconds of ``1h``, ``1m30s``, ``100ms``. Raises ValueError for anything else."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text)
    total, at = 0, 0
    for part in _PART.finditer(rest):
        if part.start() != at:
            break
        total, at = total + round(float(part[1]) * _UNITS[part[2]]), part.end()
    if not rest or at != len(rest):
        raise ValueError(f"{text!r} is not a duration such as 1m30s or 100ms")
    return sign * total


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
