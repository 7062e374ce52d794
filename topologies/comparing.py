"""What an audit compares: the rows of a log with the answers of its owner, as the differences between them."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from datetime import timedelta

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from railgun import Railgun, StreamInfo
from railgun.spark.gaps import runs_of, without

from . import log_facts
from .newest_values import Difference, newest_values


def compare(
    rg: Railgun,
    info: StreamInfo,
    given: int,
    rows: DataFrame,
    tell: Callable[[str], None],
) -> Iterator[Difference]:
    """``given``: the highest sequence that the stream has given when the log was read."""
    state = info.state
    tell("looking for records that do not belong")
    for row in log_facts.foreign(rows):
        yield Difference("foreign", f"a record at offset {row['offset']}", "not a message", row["subject"])
    for row in log_facts.twice(rows):
        where = ", ".join(map(str, row["offsets"]))
        yield Difference(
            "sequence twice", f"records at offsets {where}", "one message", row["subject"], row["sequence"]
        )
    every = log_facts.messages_of(rows).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        for row in log_facts.beyond(every, given):
            yield Difference(
                "beyond the end",
                f"a record at offset {row['offset']}",
                f"the last sequence is {given}",
                row["subject"],
                row["sequence"],
            )
        for row in log_facts.out_of_order(every, given):
            yield Difference(
                "order",
                f"behind sequence {row['before']}",
                "sequences ascend",
                row["subject"],
                row["sequence"],
            )
        tell("comparing what is held")
        listed = len(state.deleted or ()) == state.num_deleted
        inside = every.where(f.col("sequence").between(state.first_seq, state.last_seq))
        held = without(inside, runs_of(state.deleted or []))
        if listed and state.messages:
            yield from _holdings(rg, info, every, held, rows)
        if listed:
            yield from _ids(info, every)
            yield from newest_values(rg, info, held, tell)
        else:
            yield from newest_values(rg, info, inside, tell, only_present=True)
    finally:
        every.unpersist()


def _holdings(
    rg: Railgun, info: StreamInfo, every: DataFrame, held: DataFrame, rows: DataFrame
) -> Iterator[Difference]:
    """Gaps, tombstones, messages, bytes and counts."""
    state = info.state
    facts = held.agg(f.count("*"), f.sum("size"), f.min("sequence"), f.max("sequence")).first() or (
        0,
        0,
        None,
        None,
    )
    missing = list(_missing(rg, info, every, facts[3]))
    for sequence in missing[: log_facts.MOST_FINDINGS]:
        yield Difference("missing", "no record", "the stream holds it", None, sequence)
    lives = held.where(f.col("sequence") <= state.last_seq)
    for row in log_facts.struck(lives, rows):
        yield Difference(
            "tombstone",
            f"a tombstone at offset {row['at']}",
            "the stream holds it",
            row["subject"],
            row["sequence"],
        )
    stragglers = state.messages - facts[0] - len(missing)
    lowest = facts[2]
    if stragglers and (lowest is None or lowest <= state.first_seq):
        yield Difference("messages", str(facts[0]), str(state.messages))
    if stragglers or missing:
        return  # they have bytes and subjects that the log does not tell
    if facts[1] != state.bytes:
        yield Difference("bytes", str(facts[1]), str(state.bytes))
    if sum((state.subjects or {}).values()) == state.messages:
        yield from _counts(state.subjects or {}, log_facts.by_subject(held))


def _missing(rg: Railgun, info: StreamInfo, every: DataFrame, highest: int | None) -> Iterator[int]:
    """Sequences that are held and have no record. What lies before the log begins was trimmed by its owner, who keeps it."""
    state = info.state
    deleted = state.deleted or []
    runs = log_facts.gaps(every.where(f.col("sequence") <= state.last_seq))
    if highest is not None or not runs:
        top = every.where(f.col("sequence") <= state.last_seq).agg(f.max("sequence")).first()
        last = top[0] if top is not None and top[0] is not None else state.first_seq - 1
        runs.append((max(last + 1, state.first_seq), state.last_seq))
    for first, last in runs:
        for sequence in range(max(first, state.first_seq), last + 1):
            at = bisect.bisect_left(deleted, sequence)
            if at == len(deleted) or deleted[at] != sequence:
                yield sequence


def _counts(live: dict[str, int], log: DataFrame) -> Iterator[Difference]:
    counted = {row["subject"]: row["count"] for row in log.select("subject", "count").toLocalIterator()}
    for subject in sorted(counted.keys() | live.keys()):
        mine, theirs = counted.get(subject, 0), live.get(subject, 0)
        if mine != theirs:
            yield Difference("count", str(mine), str(theirs), subject)


def _ids(info: StreamInfo, every: DataFrame) -> Iterator[Difference]:
    window = info.config.duplicate_window
    if info.config.mirror is None and window:
        for row in log_facts.repeated_ids(
            every.where(f.col("sequence") <= info.state.last_seq), window // timedelta(microseconds=1) * 1_000
        ):
            yield Difference(
                "id twice",
                f"{row['msg_id']!r} is the id of {row['first']} as well",
                "one message",
                row["subject"],
                row["sequence"],
            )
