"""Bringing a table up to date with its changelog: batches in, progress out, cancellable between batches.

Knows nothing of Kafka: the caller gives the batches. A restore that is cancelled or fails leaves a table that is
consistent up to its position, and the next one goes on from there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from railgun.state import keys
from railgun.state.table import Changes, Reached

log = logging.getLogger("railgun.state")

_REPORT_EVERY: Final = 5.0  # seconds


class ChangelogRecord(Protocol):
    """A record of a changelog; a tombstone removes its key. ``written`` is when, in ms."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def written(self) -> int: ...


class FollowingTable(Protocol):
    """A table that knows its place in a changelog."""

    @property
    def position(self) -> int: ...

    def apply(self, changes: Changes, *, reached: Reached | None = None) -> None: ...


def restore(
    table: FollowingTable,
    batches: Iterable[Sequence[ChangelogRecord]],
    *,
    end: int,
    name: str = "a table",
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Apply the batches to the table; returns how many records there were. Says how far it is every few seconds."""
    count = 0
    skipped: set[bytes] = set()
    reported = clock()
    for batch in batches:
        # Within a batch only the last value of a key matters.
        changes = {record.key: record.value for record in batch}
        for key in [key for key in changes if not keys.is_whole(key)]:
            del changes[key]
            if key not in skipped:
                skipped.add(key)
                log.error(
                    "%s: a record of the changelog is skipped, its key is not valid: %s", name, key.hex()[:80]
                )
        table.apply(changes, reached=Reached(batch[-1].offset + 1, batch[-1].written))
        count += len(batch)
        if clock() - reported >= _REPORT_EVERY:
            reported = clock()
            log.info("%s: %d records restored, at offset %d of %d", name, count, table.position, end)
    return count
