"""What an audit compares: the rows of a log with the answers of its owner, as the differences between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import chain, islice
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from railgun import Railgun
from railgun.model.headers import block_size
from railgun.spark.gaps import without

from . import log_facts
from .differences import MOST_FINDINGS, Difference
from .frames import persisted
from .holdings import Holdings
from .log_facts import Summary
from .newest_values import newest_values

_PAGE: Final = 500  # messages that are asked for at once


def compare(
    rg: Railgun, known: Holdings, given: int, rows: DataFrame, log: Summary, tell: Callable[[str], None]
) -> Iterator[Difference]:
    """``given``: the highest sequence that the stream had given when the log was read, of which ``log`` is the summary."""
    state = known.info.state
    tell("looking for records that do not belong")
    yield from _strangers(rows, log)
    every = log_facts.messages_of(rows, log)
    yield from _misplaced(every, log, given)
    if log.ids:
        yield from _repeated_ids(known, every)
    tell("comparing what is held")
    inside = every.where(f.col("sequence").between(state.first_seq, state.last_seq))
    held = without(inside, known.gaps)
    if log.tombstones:
        yield from _struck(held, rows)
    with persisted(log_facts.by_subject(held)) as subjects:
        yield from _holdings(rg, known, every, log, subjects)
        yield from newest_values(rg, known, subjects, tell)


def _strangers(rows: DataFrame, log: Summary) -> Iterator[Difference]:
    for row in log_facts.foreign(rows) if log.foreign else ():
        yield Difference("foreign", f"a record at offset {row['offset']}", "not a message", row["subject"])
    for row in log_facts.twice(rows) if log.messages > log.sequences else ():
        where = ", ".join(map(str, row["offsets"]))
        yield Difference(
            "sequence twice", f"records at offsets {where}", "one message", row["subject"], row["sequence"]
        )


def _misplaced(every: DataFrame, log: Summary, given: int) -> Iterator[Difference]:
    for row in log_facts.beyond(every, given) if (log.last or 0) > given else ():
        said = (f"a record at offset {row['offset']}", f"the last sequence is {given}")
        yield Difference("beyond the end", *said, row["subject"], row["sequence"])
    for row in log_facts.out_of_order(every, given):
        said = (f"behind sequence {row['before']}", "sequences ascend")
        yield Difference("order", *said, row["subject"], row["sequence"])


def _repeated_ids(known: Holdings, every: DataFrame) -> Iterator[Difference]:
    config = known.info.config
    if config.mirror is not None or not config.duplicate_window:  # DUP-14: mirrors never de-duplicate
        return
    window = config.duplicate_window // timedelta(microseconds=1) * 1_000
    there = every.where(f.col("sequence") <= known.info.state.last_seq)
    for row in log_facts.repeated_ids(there, window):
        said = (f"{row['msg_id']!r} is the id of {row['first']} as well", "one message")
        yield Difference("id twice", *said, row["subject"], row["sequence"])


def _struck(held: DataFrame, rows: DataFrame) -> Iterator[Difference]:
    for row in log_facts.struck(held, rows):
        said = (f"a tombstone at offset {row['at']}", "the stream holds it")
        yield Difference("tombstone", *said, row["subject"], row["sequence"])


def _holdings(
    rg: Railgun, known: Holdings, every: DataFrame, log: Summary, subjects: DataFrame
) -> Iterator[Difference]:
    """Gaps, messages, bytes and counts."""
    state = known.info.state
    first, last = _bounds(every, log, state.last_seq)
    kept = list(_stragglers(rg, known, first))
    lost = (one.sequence for one in kept if one.subject is None)
    runs = [] if log.contiguous else log_facts.gaps(every.where(f.col("sequence") <= state.last_seq))
    without_record = chain.from_iterable(_each(known, *run) for run in [*runs, (last + 1, state.last_seq)])
    missing = list(islice(chain(lost, without_record), MOST_FINDINGS))
    for sequence in missing:
        yield Difference("missing", "no record", "the stream holds it", None, sequence)
    if missing or not known.whole:
        return  # they have bytes and subjects that the log does not tell
    counts = {row["subject"]: row for row in subjects.select("subject", "count", "size").toLocalIterator()}
    messages = sum(row["count"] for row in counts.values()) + len(kept)
    if messages != state.messages:
        yield Difference("messages", str(messages), str(state.messages))
    size = sum(row["size"] for row in counts.values()) + sum(one.size for one in kept)
    if size != state.bytes:
        yield Difference("bytes", str(size), str(state.bytes))
    if known.counted:
        counted = Counter({subject: row["count"] for subject, row in counts.items()})
        counted.update(one.subject for one in kept if one.subject is not None)
        yield from _counts(counted, state.subjects or {})


def _bounds(every: DataFrame, log: Summary, last: int) -> tuple[int, int]:
    """The lowest and the highest sequence in the log, up to the last that the owner knew; of an empty log, none."""
    if log.first is None or log.last is None:
        return last + 1, last
    if log.last <= last:
        return log.first, log.last
    found = every.where(f.col("sequence") <= last).agg(f.min("sequence"), f.max("sequence")).first()
    return (last + 1, last) if found is None or found[0] is None else (found[0], found[1])


class Straggler(NamedTuple):
    """A message below the beginning of the log, which the owner keeps in its table; None for a subject: it cannot give it."""

    sequence: int
    subject: str | None
    size: int


def _stragglers(rg: Railgun, known: Holdings, begins: int) -> Iterator[Straggler]:
    """What the stream holds below the first record of its log: the owner is asked for each (docs/design/0012)."""
    stream = rg.stream(known.info.config.name)
    plain, with_headers = (16, 16) if known.info.config.storage == "memory" else (30, 34)
    sequences = _each(known, known.info.state.first_seq, begins - 1)
    while page := list(islice(sequences, _PAGE)):
        given = stream.get_many(page)
        for sequence in page:
            message = given.get(sequence)
            if message is None:
                yield Straggler(sequence, None, 0)
            else:
                size = with_headers + block_size(message.headers) if message.headers else plain
                size += len(message.subject.encode()) + len(message.payload)
                yield Straggler(sequence, message.subject, size)


def _each(known: Holdings, first: int, last: int) -> Iterator[int]:
    for begin, end in known.held_within(first, last):
        yield from range(begin, end + 1)


def _counts(counted: Counter[str], live: dict[str, int]) -> Iterator[Difference]:
    differ = [name for name in counted.keys() | live.keys() if counted[name] != live.get(name, 0)]
    for subject in sorted(differ)[:MOST_FINDINGS]:
        yield Difference("count", str(counted[subject]), str(live.get(subject, 0)), subject)
