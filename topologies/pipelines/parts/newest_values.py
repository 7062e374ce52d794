"""The newest value of each subject: as the log has it, and as the owner gives it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from pyspark.sql import DataFrame, Row

from railgun import Railgun, StoredMessage

from .differences import Difference
from .holdings import Holdings

_PAGE: Final = 1_000  # subjects that are asked for at once


def newest_values(
    rg: Railgun, known: Holdings, subjects: DataFrame, tell: Callable[[str], None]
) -> Iterator[Difference]:
    """The newest value of each subject, and of counters the sum of what was added. ``subjects``: :func:`log_facts.by_subject`."""
    info = known.info
    stream, state = rg.stream(info.config.name), info.state
    # Of a stream that has lost increments, the totals cannot be recomputed.
    adds_up = bool(
        info.config.allow_msg_counter
        and not known.gaps
        and state.first_seq <= max(info.config.first_seq or 1, 1)
    )
    done = 0
    for page in _pages(subjects.toLocalIterator()):
        live = stream.get_last_many([row["subject"] for row in page])
        moved = [row["newest"]["sequence"] for row in page if not _is_newest(row, live.get(row["subject"]))]
        there = stream.get_many(moved) if moved else {}
        for row in page:
            yield from _value(row, live.get(row["subject"]), there, state.last_seq)
            if adds_up:
                yield from _sum(row)
        done += len(page)
        tell(f"comparing newest values: {done} of {state.num_subjects} subjects")


def _is_newest(row: Row, live: StoredMessage | None) -> bool:
    return live is not None and live.sequence == row["newest"]["sequence"]


def _value(
    row: Row, live: StoredMessage | None, there: dict[int, StoredMessage], last: int
) -> Iterator[Difference]:
    """``there``: messages that are not the newest any more, by sequence; ``last``: where the stream ended when it was asked first."""
    subject, newest = row["subject"], row["newest"]
    sequence = newest["sequence"]
    message = live if _is_newest(row, live) else there.get(sequence)
    later = live is not None and live.sequence > last
    if message is None or (not _is_newest(row, live) and not later):
        if not later:  # else it may have been replaced
            shown = "no message" if live is None else f"sequence {live.sequence}"
            yield Difference("newest", f"sequence {sequence}", shown, subject, sequence)
        if message is None:
            return
    digest = hashlib.sha256(message.payload).hexdigest()
    if message.subject != subject or digest != newest["digest"]:
        said = (f"sha256 {newest['digest']}", f"sha256 {digest} on {message.subject}")
        yield Difference("value", *said, subject, sequence)


def _sum(row: Row) -> Iterator[Difference]:
    newest = row["newest"]
    if newest["increment"] is not None and row["increments"] != newest["total"]:
        said = (f"{row['increments']} is the sum", f"{newest['total']} is the total")
        yield Difference("counter", *said, row["subject"], newest["sequence"])


def _pages(rows: Iterable[Row]) -> Iterator[list[Row]]:
    ahead = iter(rows)
    while page := list(islice(ahead, _PAGE)):
        yield page
