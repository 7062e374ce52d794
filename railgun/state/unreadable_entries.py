"""Records of a table that cannot be read: how its reader reports one, and whose it is.

A value may be damaged, or written by a version that is not known yet. It is never taken for a bad command, and never for a
reason to stop the shard: what it belongs to is set aside, everything else is served, and nothing is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from railgun.state import keys

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
