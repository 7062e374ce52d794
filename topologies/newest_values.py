"""The newest value of each subject: as the log has it, and as the owner gives it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from pyspark.sql import DataFrame, Row

from railgun import Railgun, StreamInfo

from . import log_facts

_PAGE: Final = 1_000  # subjects that are asked for at once


@dataclass(frozen=True)
class Difference:
    """One thing that the log says otherwise than the owner, or that does not belong in a log."""

    kind: str
    log: str
    live: str
    subject: str | None = None
    sequence: int | None = None


def newest_values(
    rg: Railgun, info: StreamInfo, held: DataFrame, tell: Callable[[str], None], *, only_present: bool = False
) -> Iterator[Difference]:
    """The newest value of each subject, and of counters the sum of what was added."""
    stream, state = rg.stream(info.config.name), info.state
    whole = not state.num_deleted and state.first_seq <= max(info.config.first_seq or 1, 1)
    done = 0
    for page in _pages(log_facts.by_subject(held).toLocalIterator()):
        done += len(page)
        tell(f"comparing newest values: {done} subjects")
        live = stream.get_last_many([row["subject"] for row in page])
        moved = [
            row["newest"]["sequence"]
            for row in page
            if row["subject"] not in live or live[row["subject"]].sequence != row["newest"]["sequence"]
        ]
        there = stream.get_many(moved) if moved else {}
        for row in page:
            subject, newest = row["subject"], row["newest"]
            sequence = newest["sequence"]
            last = live.get(subject)
            if last is None or last.sequence != sequence:
                message = there.get(sequence)
                newer = last is not None and last.sequence > state.last_seq
                if message is None:
                    if not only_present and not newer:  # else it was replaced
                        shown = "no message" if last is None else f"sequence {last.sequence}"
                        yield Difference("newest", f"sequence {sequence}", shown, subject, sequence)
                    continue
                if not newer:
                    yield Difference(
                        "newest",
                        f"sequence {sequence}",
                        f"sequence {0 if last is None else last.sequence}",
                        subject,
                        sequence,
                    )
                last = message
            digest = hashlib.sha256(last.payload).hexdigest()
            if last.subject != subject or digest != newest["digest"]:
                yield Difference(
                    "value",
                    f"sha256 {newest['digest']}",
                    f"sha256 {digest} on {last.subject}",
                    subject,
                    sequence,
                )
            if (
                whole
                and info.config.allow_msg_counter
                and newest["increment"] is not None
                and row["increments"] != newest["total"]
            ):
                yield Difference(
                    "counter",
                    f"{row['increments']} is the sum",
                    f"{newest['total']} is the total",
                    subject,
                    sequence,
                )


def _pages(rows: Iterable[Row]) -> Iterator[list[Row]]:
    ahead = iter(rows)
    while page := list(islice(ahead, _PAGE)):
        yield page
