"""Copies of stragglers, made at the end of a drain: from memory or the table if possible, else from the log."""

from __future__ import annotations

import logging

from railgun.semantics.streams import stragglers
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.reading.gets import place_of
from railgun.shard.log_bodies import LogUnreadable, ReadLog

log = logging.getLogger("railgun.shard")
_REST = 1_000  # drains until a log that could not be read is tried again


class StragglerCopies:
    """Copies the oldest messages of streams whose logs are long for what is live in them."""

    def __init__(self, read_log: ReadLog | None) -> None:
        self._read_log = read_log
        self._resting: dict[int, int] = {}  # by incarnation: drains to wait

    def make(self, stream: OwnedStream) -> None:
        """Copy some stragglers, if there are any. One that cannot be read stays in the log, which is not trimmed past it."""
        found = stragglers.to_copy(stream)
        if not found or self._rests(stream.incarnation):
            return
        bodies = {entry.sequence: stream.body(entry.sequence) for entry in found}
        missing = [entry for entry in found if bodies[entry.sequence] is None]
        if missing and self._read_log is not None:
            places = [place_of(stream, entry.sequence, "direct") for entry in missing]
            try:
                read = self._read_log(places)
            except LogUnreadable as error:
                log.info(
                    "stragglers of %s are copied later, their log cannot be read: %s", stream.name, error
                )
                read = [None for _ in places]
            for entry, message in zip(missing, read, strict=True):
                bodies[entry.sequence] = None if message is None else (message.headers, message.payload)
        for entry in found:
            body = bodies[entry.sequence]
            if body is None:
                self._resting[stream.incarnation] = _REST
                return
            stream.copy(entry.sequence, *body)

    def _rests(self, incarnation: int) -> bool:
        left = self._resting.pop(incarnation, 0)
        if left > 1:
            self._resting[incarnation] = left - 1
        return left > 0
