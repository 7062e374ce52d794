"""Sealing: the end of a drain for one stream that it touched, whose changes go to the table and whose records to the log."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

from railgun.protocol.columnar.columns import pack_bodies
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.outcomes import Stored
from railgun.semantics.streams.stragglers import log_start
from railgun.shard.drain import Drain, LogAppend, Trim
from railgun.shard.log_bodies import ReadLog
from railgun.shard.streams.straggler_copies import StragglerCopies
from railgun.state import keys


class Sealing:
    """Turns what a drain did to the streams of a shard into records of their logs."""

    def __init__(self, read_log: ReadLog | None) -> None:
        self._straggler_copies = StragglerCopies(read_log)

    def seal(self, state: OwnedStream, stored: Stored | None, drain: Drain) -> None:
        """Write the stream to the overlay, and its new records, bodies and trim to the drain."""
        stored = stored or Stored()
        tombstones = state.log_keys.tombstones()
        if stored.sequences or tombstones:
            drain.appends[state.topic] = _log_append(state, stored, tombstones)
        self._straggler_copies.make(state)
        bases = state.seal()
        append = drain.appends.get(state.topic)
        if append is not None:
            append.blocks = [(base, bisect_left(append.sequences, base)) for base in bases]
            if not state.bodies.keeps:
                drain.bodies |= _bodies(append)
        drain.trims.append(Trim(state.topic, log_start(state)))


def _bodies(append: LogAppend) -> dict[bytes, bytes]:
    """The messages of each new block, by the block's key: gets find them beside it."""
    found = {}
    ends = [*append.blocks, (0, len(append.sequences))]
    for (base, start), (_, stop) in pairwise(ends):
        indexes = [sequence - base for sequence in append.sequences[start:stop]]
        packed = (
            pack_bodies(indexes, append.headers[start:stop], append.payloads[start:stop]) if indexes else None
        )
        if packed is not None:
            found[keys.of(keys.BLOCK, append.incarnation, base)] = packed
    return found


def _log_append(state: OwnedStream, log: Stored, tombstones: list[bytes]) -> LogAppend:
    return LogAppend(
        state.name,
        state.topic,
        state.incarnation,
        log.sequences,
        state.log_keys.all_of(log.subjects, log.sequences),
        log.payloads,
        log.headers,
        log.times,
        [(len(log.sequences), key) for key in tombstones],
    )
