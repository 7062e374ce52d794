"""Durations and sizes as people write and read them on the command line: ``2m``, ``1h30m``, ``7d``, ``64MB``, ``67 B``."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

from railgun.model.durations import from_nanos, parse_duration

_LONG_UNITS: Final = {"w": 7, "y": 365}  # in days; the API's own durations know neither
_SIZE = re.compile(r"(?ai)\s*(-?\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*")
_LONGEST: Final = 64  # characters: nobody means a number of more digits
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_NONE: Final = ("0", "-1", "none", "unlimited")


def duration(text: str) -> timedelta:
    """``100ms``, ``2m``, ``1h30m``, ``7d``, ``2w``, ``1y``; ``0`` and ``none`` mean no time. Raises ValueError."""
    if text.strip().lower() in _NONE:
        return timedelta(0)
    if len(text) > _LONGEST:
        raise ValueError(f"{text[:_LONGEST]!r} is not a valid duration: use 100ms, 2m, 1h30m or 7d")
    in_days = re.sub(
        r"(\d+(?:\.\d+)?)([wy])", lambda part: f"{float(part[1]) * _LONG_UNITS[part[2]]}d", text.strip()
    )
    try:
        return from_nanos(parse_duration(in_days))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a valid duration: use 100ms, 2m, 1h30m or 7d") from None


def size(text: str) -> int:
    """``1024``, ``64KB``, ``1.5GiB``: units are powers of 1024; ``none`` means no limit. Raises ValueError."""
    if text.strip().lower() in ("none", "unlimited"):
        return -1
    found = _SIZE.fullmatch(text) if len(text) <= _LONGEST else None
    if not found:
        raise ValueError(f"{text[:_LONGEST]!r} is not a valid size: use 1024, 64KB or 1GB")
    # A Decimal is exact: a float would make another number of one with 16 digits.
    return int(Decimal(found[1]) * 1024 ** _POWERS[found[2].lower()])


def show_duration(value: timedelta | None) -> str:
    """``2m0s``, ``1h0m0s``, ``100ms``; no time is ``none``."""
    if not value:
        return "none"
    if value < timedelta(seconds=1):
        return f"{value / timedelta(milliseconds=1):g}ms"
    minutes, seconds = divmod(value.total_seconds(), 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{parts}{seconds:g}s"


def show_size(count: int) -> str:
    """``67 B``, ``1.5 KiB``."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 4)
    return f"{count / 1024**power:.1f} {'KMGT'[power - 1]}iB"


def show_limit(value: int) -> str:
    return "unlimited" if value < 0 else f"{value:,}"


def show_size_limit(value: int) -> str:
    return "unlimited" if value < 0 else show_size(value)


def counted(count: int, noun: str) -> str:
    """``1 message``, ``2,000 messages``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
