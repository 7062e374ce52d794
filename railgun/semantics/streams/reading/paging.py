"""Reading a stream in order, page by page: by subject, between two places, forwards or backwards, all or the newest of each subject.

A page costs what it gives, wherever the index by subject knows the sequences that are asked for; else the blocks between are looked
at. A read has an end, fixed with its first page. Only the newest messages of each subject are read up to where the stream ends by
then: a subject that gets a message meanwhile must not be missed because its former one is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from railgun.model.refusals import BAD_REQUEST
from railgun.model.subjects import Filter, has_wildcard
from railgun.protocol.columnar.read_records import ReadReply, ReadRequest
from railgun.semantics.messages import searching
from railgun.semantics.messages.searching import MOST_BLOCKS, SUBJECTS
from railgun.semantics.messages.subject_search import BEGINNING, Place
from railgun.semantics.steps import Steps
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.reading.read_columns import ReadColumns

_FEW_SUBJECTS = 10_000  # so many are put in order without a second thought
_STEPS = SUBJECTS * MOST_BLOCKS
_FEW_STEPS = 4
_MOST_KNOWN = 100_000  # sequences that are collected by subject
_MOST_COLLECTED = 4_096  # by looking for them
_FEW_BLOCKS = 4  # looked at in one step where the next one may be the last


class _Span(NamedTuple):
    """The sequences that a page may give, and the end of the whole read."""

    low: int
    high: int
    end: int


def page(stream: OwnedStream, asked: ReadRequest) -> Steps[ReadReply]:
    """One page; its ``next`` says where the following one begins."""
    if min(asked.start, asked.end, asked.position) < 0 or asked.limit < 1 or asked.max_bytes < 1:
        return ReadReply(asked.request, refusals=[(0, BAD_REQUEST)])
    span, wanted = _span(stream, asked), Filter(asked.subjects)
    columns = ReadColumns(stream, asked.form, asked.limit, asked.max_bytes)
    following = 0
    if stream.messages and span.low <= span.high:
        if asked.last_per_subject:
            following = yield from _newest(stream, asked, span, wanted, columns)
        else:
            following = yield from _all(stream, asked, span, wanted, columns)
    return columns.reply(asked.request, end=span.end, following=max(following, 0))


def _span(stream: OwnedStream, asked: ReadRequest) -> _Span:
    start = asked.start if asked.start_time is None else stream.first_at(asked.start_time)
    end = asked.end or stream.last_seq
    if asked.end_time is not None:
        end = stream.first_at(asked.end_time + 1) - 1
    end = min(end, stream.last_seq)
    low, high = max(start, stream.first_seq), end
    if asked.position:
        low, high = (low, min(high, asked.position)) if asked.reverse else (max(low, asked.position), high)
    return _Span(low, high, end)


# -- every message


def _all(
    stream: OwnedStream, asked: ReadRequest, span: _Span, wanted: Filter, columns: ReadColumns
) -> Steps[int]:
    subjects = None if wanted.everything else (yield from _matching(stream, wanted, _FEW_STEPS))
    total = 0  # how many messages there are, wherever; 0: not known
    if subjects is not None:
        known = _by_subject(stream, subjects)
        newest = max(subjects.values(), default=0)
        total = sum(map(stream.count_of, subjects))
        if known is None and total <= _MOST_COLLECTED and not asked.reverse:
            known = yield from _collected(stream, newest, span.low, wanted, total)
        if known is not None:
            return _take(stream, _within(known, span, reverse=asked.reverse), columns)
        total = total if newest <= span.high else 0
        span = span._replace(high=min(span.high, newest))
    if asked.reverse:
        return (yield from _down(stream, span, wanted, columns, total))
    return (yield from _up(stream, span, wanted, columns))


def _by_subject(stream: OwnedStream, subjects: Iterable[str]) -> list[int] | None:
    """The sequences of all these subjects, if the index by subject knows them."""
    known: list[int] = []
    for subject in subjects:
        sequences = stream.all_of(subject)
        if sequences is None or len(known) > _MOST_KNOWN:
            return None
        known += sequences
    return known


def _collected(stream: OwnedStream, at: int, low: int, wanted: Filter, total: int) -> Steps[list[int]]:
    """The sequences of few messages, from the newest one down to the oldest: what lies before that is never looked at."""
    found: list[int] = []
    while at >= low and len(found) < total:
        runs, at, cost = searching.stretch_down(stream, at, low, wanted, _FEW_BLOCKS)
        for _, first, behind in runs:
            found += range(first, behind)
        yield cost
    return found


def _matching(stream: OwnedStream, wanted: Filter, at_most: int) -> Steps[dict[str, int] | None]:
    """Matching subjects with their newest sequences; None where finding them takes more steps than that."""
    if not any(map(has_wildcard, wanted.patterns)):
        return {subject: last for subject in wanted.patterns if (last := stream.last_of(subject))}
    if not _worth_sorting(stream):
        stream.looked_at += _STEPS
        return None
    found: dict[str, int] = {}
    place: Place | None = BEGINNING
    for _ in range(at_most):
        if place is None:
            return found
        subjects, place = stream.search_subjects(wanted, place, _STEPS)
        found |= {one.subject: one.last for one in subjects}
        yield _STEPS
    return found if place is None else None


def _worth_sorting(stream: OwnedStream) -> bool:
    """Whether a search by subject is cheap: they are in order, or few, or have been searched for often."""
    few = stream.num_subjects <= _FEW_SUBJECTS
    return few or stream.subjects_sorted or stream.looked_at >= stream.num_subjects


def _within(known: Iterable[int], span: _Span, *, reverse: bool) -> list[int]:
    return sorted((one for one in known if span.low <= one <= span.high), reverse=reverse)


def _take(stream: OwnedStream, sequences: Sequence[int], columns: ReadColumns) -> int:
    """Messages by their sequences; where the next page begins."""
    for sequence in sequences:
        entry = stream.entry(sequence)
        if entry is not None and not columns.add(entry):
            return sequence
    return 0


def _up(stream: OwnedStream, span: _Span, wanted: Filter, columns: ReadColumns) -> Steps[int]:
    at = span.low
    while at <= span.high:
        runs, further, cost = searching.stretch(stream, at, span.high + 1, wanted, MOST_BLOCKS)
        for block, first, behind in runs:
            at = columns.add_run(block, first, behind)
            if at < behind or columns.is_full:
                return at if at <= span.high else 0
        at = further
        yield cost
    return 0


def _down(stream: OwnedStream, span: _Span, wanted: Filter, columns: ReadColumns, total: int) -> Steps[int]:
    """``total``: with so many that was all; 0: not known."""
    at = span.high
    while at >= span.low:
        runs, further, cost = searching.stretch_down(stream, at, span.low, wanted, MOST_BLOCKS)
        for _, first, behind in runs:
            for at in range(behind - 1, first - 1, -1):
                entry = stream.entry(at)
                if entry is not None and not columns.add(entry):
                    return at
        at = further
        if columns.is_full or (total and len(columns) >= total):
            break
        yield cost
    return at if columns.is_full and at >= span.low and len(columns) != total else 0


# -- the newest of each subject


def _newest(
    stream: OwnedStream, asked: ReadRequest, span: _Span, wanted: Filter, columns: ReadColumns
) -> Steps[int]:
    if span.end < stream.last_seq:  # as it was then, as far as it is still there
        found = yield from searching.newest_of_each(stream, wanted, span.end, stream.messages)
        return _take(stream, _within(found, span, reverse=asked.reverse), columns)
    by_far = stream.num_subjects * 4 < stream.messages  # fewer subjects than messages
    at_most = stream.num_subjects // SUBJECTS + 2 if by_far else _FEW_STEPS
    subjects = yield from _matching(stream, wanted, at_most)
    if subjects is not None:
        return _take(stream, _within(subjects.values(), span, reverse=asked.reverse), columns)
    return (yield from _looked_through(stream, asked, span, wanted, columns))


def _looked_through(
    stream: OwnedStream, asked: ReadRequest, span: _Span, wanted: Filter, columns: ReadColumns
) -> Steps[int]:
    """Every message is asked whether it is the newest of its subject."""
    at = span.high if asked.reverse else span.low
    while span.low <= at <= span.high:
        if asked.reverse:
            runs, further, cost = searching.stretch_down(stream, at, span.low, wanted, MOST_BLOCKS)
        else:
            runs, further, cost = searching.stretch(stream, at, span.high + 1, wanted, MOST_BLOCKS)
        for block, first, behind in runs:
            named = block.all_subjects()
            for at in _each(first, behind, reverse=asked.reverse):
                if stream.last_of(named[at - block.base]) == at and not columns.add(
                    block.entry(at - block.base)
                ):
                    return at
        at = further
        yield cost
    return 0


def _each(first: int, behind: int, *, reverse: bool) -> Iterator[int]:
    return reversed(range(first, behind)) if reverse else iter(range(first, behind))


def count_deleted(stream: OwnedStream) -> Steps[int]:
    """How many subjects have a tombstone as their newest message: the keys of a bucket that were deleted."""
    total, at = 0, stream.first_seq
    while stream.messages and at <= stream.last_seq:
        runs, at, cost = searching.stretch(stream, at, stream.last_seq + 1, Filter(), MOST_BLOCKS)
        for block, first, behind in runs:
            if block.tombstones:
                total += sum(
                    block.is_tombstone(one - block.base)
                    and stream.last_of(block.subject(one - block.base)) == one
                    for one in range(first, behind)
                )
        yield cost
    return total
