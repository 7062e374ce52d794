"""An audit: what the log of a stream says, compared with what its owner answers. To run and to copy.

::

    railgun pipeline audit ORDERS          # exit code 1 and a line for each difference

The state of the stream is recomputed from the records of its log, and compared with the answers of the facade: messages and bytes, gaps,
counts by subject, the newest value of each subject, totals of counters. Records that do not belong there, sequences that occur twice, tombstones
for messages that live and ids that were stored twice within the duplicate window are named as well.

A stream may be written to meanwhile. The owner's answer comes first; what is stored later is not judged by it. What is removed
later cannot be told from what is lost: an audit that finds something while messages are removed begins again, and says so if it cannot end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import SparkSession

from railgun import Railgun, StreamInfo
from railgun.spark.snapshot import snapshot

from . import log_facts
from .comparing import Difference, compare
from .place import Place

_PASSES: Final = 3
_SNAPSHOTS: Final = 5
#: What the removal of messages during the audit looks like, too.
_BY_REMOVAL: Final = frozenset({"missing", "messages", "bytes", "count", "newest", "tombstone"})


@dataclass
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


def audit(
    spark: SparkSession, at: Place, stream: str, *, progress: Callable[[str], None] | None = None
) -> Audit:
    """Compare the log with the owner's answers. ``progress`` is told what is looked at. Raises StreamNotFound."""
    tell = progress or (lambda _: None)
    with at.connect() as rg:
        for left in reversed(range(_PASSES)):
            done, removing = _one_pass(spark, at, rg, stream, tell)
            doubtful = removing and any(one.kind in _BY_REMOVAL for one in done.differences)
            if not doubtful or not left:
                break
    if doubtful:
        done.differences = [one for one in done.differences if one.kind not in _BY_REMOVAL]
        done.notes.append("messages are removed faster than they can be compared: run the audit again later")
    return done


def _one_pass(
    spark: SparkSession, at: Place, rg: Railgun, stream: str, tell: Callable[[str], None]
) -> tuple[Audit, bool]:
    """One comparison, and whether messages were removed while it ran."""
    tell("asking the owner")
    notes: list[str] = []
    info = _snapshot(rg, stream, notes)
    state = info.state
    measure = log_facts.Measure(16, 0) if info.config.storage == "memory" else log_facts.Measure()
    tell("reading the log")
    rows = log_facts.log_rows(spark, at, stream, snapshot(rg, stream, gaps=False).incarnation, measure)
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        rows.count()
        later = rg.stream(stream).info().state
        found = Audit(stream, state.messages, state.num_subjects, state.last_seq, notes=notes)
        found.differences = list(compare(rg, info, later.last_seq, rows, tell))
        after = rg.stream(stream).info()
    finally:
        rows.unpersist()
    if after.created != info.created:
        raise RuntimeError(f"the stream {stream} was made anew during its audit: run it again")
    return found, after.state.messages - state.messages != after.state.last_seq - state.last_seq


def _snapshot(rg: Railgun, stream: str, notes: list[str]) -> StreamInfo:
    """State, gaps and counts of one moment: a long answer is put together while the stream goes on."""
    for _ in range(_SNAPSHOTS):
        info = rg.stream(stream).info(subjects=">", deleted=True)
        state = info.state
        of_one_moment = len(state.deleted or ()) == state.num_deleted
        if of_one_moment and sum((state.subjects or {}).values()) == state.messages:
            return info
    if not of_one_moment:
        notes.append(
            f"{state.num_deleted} gaps were not listed by the owner at one moment: only newest values are compared"
        )
    else:
        notes.append("the counts of the subjects were not listed at one moment: they are not compared")
    return info
