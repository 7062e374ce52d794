"""The findings of an audit: what a log says otherwise than the owner of the stream, or what does not belong in a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: How many findings of one kind are named: whoever has more has one cause.
MOST_FINDINGS: Final = 1_000


@dataclass(frozen=True)
class Difference:
    """One finding. ``kind`` names it, ``log`` and ``live`` are what the two sides say."""

    kind: str
    log: str
    live: str
    subject: str | None = None
    sequence: int | None = None

    def __str__(self) -> str:
        where = [] if self.subject is None else [self.subject]
        where += [] if self.sequence is None else [f"sequence {self.sequence}"]
        place = f"{', '.join(where)}: " if where else ""
        return f"{self.kind}: {place}log: {self.log}; live: {self.live}"
