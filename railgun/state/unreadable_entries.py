"""Records of a table that cannot be read: how its reader reports one, and whose it is.

A value may be damaged, or written by a version that is not known yet. It is never taken for a bad command, and never for a
reason to stop the shard: what it belongs to is set aside, everything else is served, and nothing is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from railgun.state import keys

LARGEST: Final = 1 << 62  # no sequence, no time and no number of bytes is above it: there is room to count on
Value = TypeVar("Value")


class UnreadableEntry(Exception):
    """The value of a key is not what the key says. ``incarnation`` is that of its stream, None where it has none."""

    def __init__(self, key: bytes, error: BaseException) -> None:
        self.key = key
        self.incarnation = keys.incarnation_in(key)
        super().__init__(f"the record {key.hex()} cannot be read ({type(error).__name__}: {error})")


def decoded(key: bytes, decode: Callable[..., Value], *given: object) -> Value:
    """What ``decode`` makes of the value of this key. Raises Unreadable, whatever is wrong with it."""
    try:
        return decode(*given)
    except Exception as error:
        raise UnreadableEntry(key, error) from error


def possible(record: dict[str, Any]) -> dict[str, Any]:
    """The record, if its numbers can be counted on from: one at the end of 64 bits would fail the drain that does, and all others.

    Raises ValueError.
    """
    for name, value in record.items():
        if isinstance(value, int) and abs(value) > LARGEST:
            raise ValueError(f"there is no {name} {value}")
    return record
