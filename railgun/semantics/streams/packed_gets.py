"""Packs of gets: what one client has in flight, answered together (GET-01, GET-02, GET-03).

They are looked up in the order of their sequences: neighbours share a block, and its bodies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from railgun.model.refusals import BAD_REQUEST, NO_MESSAGE_FOUND, Refusal
from railgun.model.subjects import Filter, has_wildcard
from railgun.protocol.columnar.read_records import BY_SEQUENCE, LAST, GetPack, ReadReply
from railgun.semantics.messages import searching
from railgun.semantics.steps import Steps
from railgun.semantics.streams.owned_stream import Entry, OwnedStream
from railgun.semantics.streams.read_columns import ReadColumns


class PackedAnswers(NamedTuple):
    """The answers of a pack, and the gets that need a longer search."""

    replies: list[ReadReply]
    longer: list[int]


def answer_pack(stream: OwnedStream, pack: GetPack) -> PackedAnswers:
    """Everything that can be told at once. The owner answers: what was acked to its publisher is there (GET-06)."""
    found: list[tuple[int, int]] = []  # sequence and index
    refused: list[tuple[int, Refusal]] = []
    longer: list[int] = []
    for index, sequence in enumerate(pack.sequences):
        place = _place(stream, pack, index, sequence)
        if place is None:
            longer.append(index)
        elif isinstance(place, Refusal):
            refused.append((index, place))
        else:
            found.append((place, index))
    found.sort()
    return PackedAnswers(_replies(stream, pack, found, refused), longer)


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
    stream: OwnedStream, pack: GetPack, found: list[tuple[int, int]], refused: list[tuple[int, Refusal]]
) -> list[ReadReply]:
    """As many answers as it takes: each fits into a record."""
    replies: list[ReadReply] = []
    columns, indexes = ReadColumns(stream), list[int]()
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
