"""Packs of gets: what one client has in flight, answered together (GET-01, GET-02, GET-03).

They are looked up in the order of their sequences: neighbours share a block, and its bodies. The newest messages of subjects that are kept
under them, and are not in memory, are read from the table together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from railgun.model.refusals import BAD_REQUEST, NO_MESSAGE_FOUND, Refusal
from railgun.model.subjects import Filter, has_wildcard
from railgun.protocol.columnar.read_records import BY_SEQUENCE, LAST, GetPack, ReadReply
from railgun.semantics.messages import searching
from railgun.semantics.messages.body_lookup import Value
from railgun.semantics.steps import Steps
from railgun.semantics.streams.owned_stream import Entry, OwnedStream
from railgun.semantics.streams.reading.newest_values import is_in_memory, read_newest
from railgun.semantics.streams.reading.read_columns import ReadColumns


class PackedAnswers(NamedTuple):
    """The answers of a pack, and the gets that need a longer search."""

    replies: list[ReadReply]
    longer: list[int]


def answer_pack(stream: OwnedStream, pack: GetPack) -> PackedAnswers:
    """Everything that can be told at once. The owner answers: what was acked to its publisher is there (GET-06)."""
    found: list[tuple[int, int]] = []  # sequence and index
    refused: list[tuple[int, Refusal]] = []
    longer: list[int] = []
    values = _values(stream, pack)
    for index, sequence in enumerate(pack.sequences):
        if index in values:
            continue
        place = _place(stream, pack, index, sequence)
        if place is None:
            longer.append(index)
        elif isinstance(place, Refusal):
            refused.append((index, place))
        else:
            found.append((place, index))
    found.sort()
    return PackedAnswers(_replies(stream, pack, found, values, refused), longer)


def answer_one(stream: OwnedStream | None, pack: GetPack, index: int) -> Steps[ReadReply]:
    """The answer to one get of a pack that needs a longer search."""
    entry = None if stream is None else (yield from _search(stream, pack, index))
    if entry is None or stream is None:
        return ReadReply(pack.request, refusals=[(index, NO_MESSAGE_FOUND)])
    columns = ReadColumns(stream)
    columns.add(entry)
    return columns.reply(pack.request, [index])


def refuse_pack(pack: GetPack, refusal: Refusal, indexes: Iterable[int] | None = None) -> ReadReply:
    """The answer to gets that are all refused."""
    chosen = range(len(pack)) if indexes is None else indexes
    return ReadReply(pack.request, refusals=[(index, refusal) for index in chosen])


def _values(stream: OwnedStream, pack: GetPack) -> dict[int, Value]:
    """The messages of those gets that the table answers by one entry each, by index."""
    if not stream.bodies.keeps or not stream.log_keys.is_one_each:
        return {}
    away = [
        index
        for index, form in enumerate(pack.forms)
        if form == LAST and _is_away(stream, pack.subjects[index], pack.sequences[index])
    ]
    found = read_newest(stream, [pack.subjects[index] for index in away])
    return {index: value for index, value in zip(away, found, strict=True) if value is not None}


def _is_away(stream: OwnedStream, subject: str, sequence: int) -> bool:
    """Whether the get is a valid one of a subject whose newest message is not in memory."""
    return bool(subject) and sequence >= 0 and not has_wildcard(subject) and not is_in_memory(stream, subject)


def _place(stream: OwnedStream, pack: GetPack, index: int, sequence: int) -> int | Refusal | None:
    """The sequence that a get asks for, existing or not; None where it must be searched for."""
    form = pack.forms[index] if pack.forms else BY_SEQUENCE
    if form == BY_SEQUENCE:
        return sequence if sequence > 0 else BAD_REQUEST  # GET-05
    subject = pack.subjects[index]
    if not subject or sequence < 0:
        return BAD_REQUEST
    if form == LAST and not has_wildcard(subject):
        return stream.last_of(subject)
    try:
        next(steps := _search(stream, pack, index))
    except StopIteration as done:
        entry: Entry | None = done.value
        return 0 if entry is None else entry.sequence
    steps.close()
    return None


def _search(stream: OwnedStream, pack: GetPack, index: int) -> Steps[Entry | None]:
    wanted = Filter(pack.subjects[index])
    if pack.forms[index] == LAST:  # GET-02
        return stream.entry((yield from searching.newest(stream, wanted)))
    return (yield from searching.following(stream, pack.sequences[index], wanted))  # GET-03


def _replies(
    stream: OwnedStream,
    pack: GetPack,
    found: list[tuple[int, int]],
    values: dict[int, Value],
    refused: list[tuple[int, Refusal]],
) -> list[ReadReply]:
    """As many answers as it takes: each fits into a record."""
    replies: list[ReadReply] = []
    columns, indexes = ReadColumns(stream), list[int]()
    for index, value in values.items():
        if not columns.add_value(pack.subjects[index], value):
            replies.append(columns.reply(pack.request, indexes))
            columns, indexes = ReadColumns(stream), []
            columns.add_value(pack.subjects[index], value)
        indexes.append(index)
    for sequence, index in found:
        entry = stream.entry(sequence)
        if entry is None:
            refused.append((index, NO_MESSAGE_FOUND))
            continue
        if not columns.add(entry):
            replies.append(columns.reply(pack.request, indexes))
            columns, indexes = ReadColumns(stream), []
            columns.add(entry)
        indexes.append(index)
    if indexes:
        replies.append(columns.reply(pack.request, indexes))
    if refused:
        replies.append(ReadReply(pack.request, refusals=refused))
    return replies
