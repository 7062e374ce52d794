"""Streams that cannot be read from a shard's table: set aside, refused with the reason, never removed.

A stream is set aside as a whole, because its messages, ids and limits only hold together. A consumer alone, where the stream
does not remove messages for its sake (:meth:`~railgun.semantics.consumers.collection.Consumers.load`).
"""

from __future__ import annotations

from typing import NamedTuple

from railgun.model import refusals
from railgun.model.refusals import Refusal


class _Stream(NamedTuple):
    name: str  # empty where not even that can be read
    reason: str


class SetAside:
    """The streams of one shard that are not served, by incarnation."""

    def __init__(self) -> None:
        self._streams: dict[int, _Stream] = {}

    def add(self, incarnation: int, name: str, reason: str) -> None:
        self._streams[incarnation] = _Stream(name, reason)

    def __contains__(self, incarnation: int) -> bool:
        return incarnation in self._streams

    def refusal(self, name: str) -> Refusal | None:
        """The refusal of calls for a stream that is set aside, or that may be; None if it is not."""
        for stream in self._streams.values():
            if stream.name == name:
                return refusals.unavailable(f"the stream {name} is set aside: {stream.reason}")
        if any(not stream.name for stream in self._streams.values()):
            # "No such stream" might be wrong, and clients act on it.
            return refusals.unavailable(f"a stream that cannot be read is set aside, and {name} may be it")
        return None

    @property
    def reasons(self) -> dict[int, str]:
        """The reasons, by incarnation."""
        return {incarnation: stream.reason for incarnation, stream in self._streams.items()}

    def listed(self) -> dict[str, str]:
        """Each with its reason, for the log and for ``doctor``."""
        return {
            f"the stream {one.name}" if one.name else f"the stream of incarnation {incarnation}": one.reason
            for incarnation, one in self._streams.items()
        }
