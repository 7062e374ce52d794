"""A message that arrives, and what became of each message of a pack."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from railgun.model.headers import Headers
from railgun.model.refusals import Refusal
from railgun.protocol.replies import STAGED


class NewMessage(NamedTuple):
    """One message that a publisher sent, after the subject transform."""

    subject: str
    headers: Headers
    payload: bytes


@dataclass(slots=True)
class Stored:
    """Messages that were stored, as columns for the log; sequences are ascending."""

    sequences: list[int] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    times: list[int] = field(default_factory=list)

    def add(self, sequence: int, subject: str, headers: Headers, payload: bytes, time: int) -> None:
        self.sequences.append(sequence)
        self.subjects.append(subject)
        self.headers.append(headers)
        self.payloads.append(payload)
        self.times.append(time)


class Counted(NamedTuple):
    """An increment that was stored, and the total with it."""

    sequence: int
    total: int


@dataclass(slots=True)
class PackOutcome:
    """What became of each message of a pack, by its index."""

    runs: list[tuple[int, int, int]] = field(default_factory=list)
    duplicates: list[tuple[int, int]] = field(default_factory=list)
    refused: list[tuple[int, Refusal]] = field(default_factory=list)
    values: list[tuple[int, int]] = field(default_factory=list)  # totals of increments that were stored

    def add(self, index: int, decided: Refusal | Counted | int) -> None:
        """What became of one message: its sequence, minus the original's of a duplicate, or why it was refused."""
        if isinstance(decided, Refusal):
            self.refused.append((index, decided))
        elif isinstance(decided, Counted):
            self.stored(index, decided.sequence)
            self.values.append((index, decided.total))
        elif decided < 0:
            self.duplicates.append((index, -decided))
        else:
            self.stored(index, decided)

    def stored(self, index: int, sequence: int) -> None:
        self.stored_run(index, 1, sequence)

    def stored_run(self, index: int, count: int, sequence: int) -> None:
        """So many messages from ``index`` on, with consecutive sequences."""
        if self.runs:
            start, length, first = self.runs[-1]
            if start + length == index and first + length == sequence and first != STAGED:
                self.runs[-1] = (start, length + count, first)
                return
        self.runs.append((index, count, sequence))

    def staged(self, index: int, count: int = 1) -> None:
        """So many messages from ``index`` on wait for the commit of their batch."""
        if count:
            self.runs.append((index, count, STAGED))

    def join(self, other: PackOutcome, start: int) -> None:
        """Add what became of other messages of the pack, from index ``start`` on."""
        self.runs += [(start + index, length, sequence) for index, length, sequence in other.runs]
        self.duplicates += [(start + index, sequence) for index, sequence in other.duplicates]
        self.refused += [(start + index, refusal) for index, refusal in other.refused]
        self.values += [(start + index, total) for index, total in other.values]
