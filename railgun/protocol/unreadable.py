"""Records that cannot be read.

Every program that may write to a topic can put anything there, and a later version writes records that this one does not know. A parser
at the edge of railgun therefore never raises: it returns a value, or an :class:`Unreadable` that says why there is none.
"""

from __future__ import annotations

from typing import NamedTuple


class Unreadable(NamedTuple):
    """The reason why a record, of a kind such as ``registry stream``, cannot be read."""

    kind: str
    reason: str
