"""An audit: what the log of a stream says, compared with what its owner answers. To run and to copy.

::

    railgun pipeline audit ORDERS          # exit code 1 and a line for each difference

The state of the stream is recomputed from the records of its log, and compared with the answers of the facade: messages and bytes, gaps,
counts by subject, the newest value of each subject, totals of counters. Records that do not belong there, sequences that occur twice, tombstones
for messages that live and ids that were stored twice within the duplicate window are named as well.

A stream may be used meanwhile. The owner's answer comes first; what is stored later is not judged by it, and a message that is removed later is not
missed: before it is named, the owner is asked once more whether it still claims to have it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pyspark.sql import SparkSession

from railgun import Railgun
from railgun.errors import RailgunError

from .parts import log_facts
from .parts.comparing import compare
from .parts.differences import Difference
from .parts.frames import persisted
from .parts.holdings import Holdings, holdings
from .parts.place import Place
from .parts.words import in_words

#: What the removal of a message during the audit looks like, too.
_BY_REMOVAL: Final = frozenset({"missing", "newest", "tombstone"})


@dataclass(frozen=True)
class Audit:
    """The outcome: what was compared, what differs, and in ``notes`` what could not be compared."""

    stream: str
    messages: int
    subjects: int
    last_seq: int
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_object(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        found = f"{len(self.differences)} differences" if self.differences else "no differences"
        return f"{self.stream}: {self.messages} messages on {self.subjects} subjects: {found}"


@in_words()
def audit(
    spark: SparkSession, at: Place, stream: str, *, progress: Callable[[str], None] | None = None
) -> Audit:
    """Compare the log with the owner's answers. ``progress`` is told what is looked at.

    Raises StreamNotFound, and RailgunError if the stream is made anew meanwhile.
    """
    tell = progress or (lambda _: None)
    with at.connect() as rg:
        tell("asking the owner")
        known = holdings(rg, stream)
        config, state = known.info.config, known.info.state
        tell("reading the log")
        rows = log_facts.log_rows(
            spark,
            at,
            stream,
            known.incarnation,
            in_memory=config.storage == "memory",
            counts=bool(config.allow_msg_counter),
        )
        with persisted(rows) as rows:
            log = log_facts.summary(rows)
            given = rg.stream(stream).info().state.last_seq  # asked behind the log: no message of it is later
            found = list(compare(rg, known, given, rows, log, tell))
        after = rg.stream(stream).info()
        if after.created != known.info.created:
            raise RailgunError(f"the stream {stream} was made anew during its audit: run it again")
        differences = _confirmed(rg, stream, found)
    return Audit(stream, state.messages, state.num_subjects, state.last_seq, differences, _notes(known))


def _confirmed(rg: Railgun, stream: str, found: list[Difference]) -> list[Difference]:
    """The findings without those on messages that were removed during the audit."""
    if not any(one.kind in _BY_REMOVAL for one in found):
        return found
    now = holdings(rg, stream)
    return [one for one in found if one.kind not in _BY_REMOVAL or now.holds(one.sequence or 0)]


def _notes(known: Holdings) -> list[str]:
    if not known.whole:
        return [
            "the owner could not tell its gaps and counts of one moment: messages and bytes were not compared"
        ]
    if not known.counted:
        return ["the owner could not tell the counts of its subjects of one moment: they were not compared"]
    return []
