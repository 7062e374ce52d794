"""An entry of a key-value bucket: one stored value of a key, or the notice that the key has none any more."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from railgun.model import headers as h

Operation = Literal["PUT", "DEL", "PURGE"]
_TOMBSTONES: Final[dict[bytes, Operation]] = {b"DEL": "DEL", b"PURGE": "PURGE"}


def operation_of(headers: h.Headers) -> Operation:
    """What a stored message is in its bucket: a value, a delete, or a purge. Markers by age are purges (KV-36)."""
    if not headers:
        return "PUT"
    found = _TOMBSTONES.get(h.first(headers, h.KV_OPERATION) or b"")
    if found is None:
        reason = h.first(headers, h.MARKER_REASON)
        found = "PUT" if reason is None else "DEL" if reason == b"Remove" else "PURGE"
    return found


@dataclass(frozen=True, slots=True)
class Entry:
    """A value of a key, or a delete of it (``operation``); ``revision`` is its place in the whole bucket.

    ``value`` is what was put: bytes, or what the bucket's codec makes of them; None for a delete, and where only keys were
    asked for. ``error`` says why a key or value could not be decoded: then they are shown as they are stored. ``delta`` is
    the number of newer entries that were there.
    """

    bucket: str
    key: str
    value: Any
    raw: bytes
    revision: int
    time_ns: int
    operation: Operation = "PUT"
    delta: int = 0
    headers: h.Headers = field(default=(), repr=False)
    error: Exception | None = None

    @property
    def created(self) -> datetime:
        """When the owner received it (to the microsecond; ``time_ns`` is exact)."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.time_ns // 1_000)

    @property
    def text(self) -> str:
        return self.raw.decode("utf-8")

    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def is_value(self) -> bool:
        """Whether the key has a value here; a delete or a purge is none."""
        return self.operation == "PUT"
