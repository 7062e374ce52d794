"""Per-message TTL and delete markers (TTL): how long a message lives, and what its end leaves behind."""

from __future__ import annotations

from typing import NamedTuple

from railgun.model import headers as h
from railgun.model import refusals
from railgun.model.durations import LONGEST, NANOS, parse_duration, to_nanos
from railgun.model.headers import Headers
from railgun.model.refusals import Refusal
from railgun.model.stream_config import StreamConfig
from railgun.semantics.messages.blocks import NEVER
from railgun.semantics.streams import limits
from railgun.semantics.streams.owned_stream import OwnedStream


class Lifetime(NamedTuple):
    """How long a message lives: 0 for no TTL, NEVER, or nanoseconds; and the header if it must be stored changed."""

    nanos: int = 0
    rewritten: bytes | None = None

    def ends(self, stored: int) -> int:
        """The expiry that the index keeps."""
        return stored + self.nanos if self.nanos > 0 else self.nanos


UNLIMITED = Lifetime()


def lifetime(config: StreamConfig, header: bytes | None) -> Lifetime | Refusal:
    """What the ``Nats-TTL`` header asks for."""
    if header is None:
        return UNLIMITED
    nanos = _parse(header)
    if nanos is None:
        return refusals.INVALID_TTL  # TTL-03
    if not config.allow_msg_ttl:
        return refusals.TTL_DISABLED  # TTL-02
    if nanos == NEVER:
        return Lifetime(NEVER)  # TTL-05
    marker = marker_lifetime(config)
    if marker > nanos and config.max_msgs_per_subject != 1:
        return Lifetime(marker, str(marker // NANOS).encode("ascii"))  # TTL-09
    return Lifetime(nanos)


def _parse(header: bytes) -> int | None:
    """The life time in nanoseconds, or NEVER (TTL-01); None if the text is not a valid one."""
    text = header.decode("utf-8", "replace")
    if text == "never":
        return NEVER
    try:
        nanos = int(header) * NANOS if header.isdigit() else parse_duration(text)
    except (ValueError, OverflowError):
        return None
    return nanos if NANOS <= nanos <= LONGEST else None


def marker_lifetime(config: StreamConfig) -> int:
    """How long a delete marker lives, ns; 0: the stream leaves none."""
    return 0 if config.subject_delete_marker_ttl is None else to_nanos(config.subject_delete_marker_ttl)


class Marker(NamedTuple):
    """A delete marker that was stored (TTL-08)."""

    sequence: int
    subject: str
    headers: Headers


def expire(state: OwnedStream, now: int, stored: int) -> list[Marker]:
    """Remove what age and TTL end by ``now``, which leaves the last sequence as it is (LIM-16); the markers that this leaves.

    They are stored at ``stored``: times of a stream never go back.
    """
    lifetime_of_markers = marker_lifetime(state.config)
    markers = []
    for entry in state.expiry.over(now):
        if not state.remove(entry.sequence):
            continue  # a marker that was stored just now pushed it out
        if (
            lifetime_of_markers
            and not entry.is_marker
            and state.count_of(entry.subject) == 0
            and state.is_wanted(entry.subject)
        ):
            markers.append(_leave_marker(state, entry.subject, lifetime_of_markers, stored))
    return markers


def _marker_headers(lifetime_of_markers: int) -> Headers:
    seconds = str(lifetime_of_markers // NANOS).encode("ascii")
    return [(h.MARKER_REASON, b"MaxAge"), (h.TTL, seconds), (h.ROLLUP, b"sub")]


def _leave_marker(state: OwnedStream, subject: str, lifetime_of_markers: int, now: int) -> Marker:
    headers = _marker_headers(lifetime_of_markers)
    size = state.measure.of(subject, h.block_size(headers), b"")
    sequence = state.store(subject, size, now, expiry=-(now + lifetime_of_markers), headers=headers)
    state.last_msg_id = ""
    limits.enforce(state, subject, 0)
    return Marker(sequence, subject, headers)
