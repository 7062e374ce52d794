"""Which messages of a block a filter selects, as runs; and how many of a stream, without looking at each."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from railgun.model.subjects import Filter
from railgun.protocol.columnar.columns import pack_column
from railgun.semantics.messages.blocks import Block

if TYPE_CHECKING:
    from railgun.semantics.streams.owned_stream import OwnedStream

_MARKED = re.compile(b"\x01+")


def runs_in(block: Block, start: int, wanted: Filter) -> list[tuple[int, int]]:
    """Runs of existing messages from index ``start`` on that the filter selects: index and count of each."""
    existing = block.existing(start)
    if wanted.everything or not existing:
        return existing
    chosen = block.numbers_of(wanted)
    if not chosen:
        return []
    if block.subject_of is None or len(chosen) == block.num_subjects:
        return existing
    marks = _marks(block.subject_of, chosen)
    return [
        (found.start(), found.end() - found.start())
        for index, count in existing
        for found in _MARKED.finditer(marks, index, index + count)
    ]


def cut(runs: list[tuple[int, int]], limit: int) -> list[tuple[int, int]]:
    """The runs as far as they hold no more messages than the limit."""
    for at, (index, count) in enumerate(runs):
        if count > limit:
            return [*runs[:at], (index, limit)] if limit else runs[:at]
        limit -= count
    return runs


def sizes_of(block: Block, runs: list[tuple[int, int]]) -> Sequence[int]:
    """The sizes of all messages of the runs."""
    if len(runs) == 1:
        index, count = runs[0]
        return block.sizes[index : index + count]
    return [size for index, count in runs for size in block.sizes[index : index + count]]


def count_in(block: Block, start: int, wanted: Filter, stop: int | None = None) -> int:
    """How many existing messages of the indexes [start, stop) the filter selects; without looking at each."""
    stop = block.count if stop is None else min(stop, block.count)
    if wanted.everything:
        return block.count_existing(start, stop)
    chosen = block.numbers_of(wanted)
    if not chosen:
        return 0
    if block.subject_of is None or len(chosen) == block.num_subjects:
        return block.count_existing(start, stop)
    marks = _marks(block.subject_of, chosen)
    if block.removed is None:
        return marks.count(1, start, stop)
    return sum(marks.count(1, index, min(index + count, stop)) for index, count in block.existing(start))


def count_between(stream: OwnedStream, start: int, end: int, wanted: Filter) -> int:
    """How many existing messages of the sequences [start, end) the filter selects."""
    start, end, total = max(start, stream.first_seq), min(end, stream.last_seq + 1), 0
    if start >= end:
        return 0
    for block in stream.blocks(start, end):
        if block.base >= end:
            break
        total += count_in(block, max(0, start - block.base), wanted, end - block.base)
    return total


def distance(stream: OwnedStream, start: int) -> int:
    """How many sequences :func:`count_from` would look at, at most."""
    return max(0, min(start - stream.first_seq, stream.last_seq + 1 - start))


def count_from(stream: OwnedStream, start: int, wanted: Filter) -> int:
    """How many existing messages from the sequence on the filter selects; counts on the shorter side of it."""
    if not stream.messages or start > stream.last_seq:
        return 0
    if wanted.everything and not stream.num_deleted:
        return stream.last_seq + 1 - max(start, stream.first_seq)
    if start - stream.first_seq > stream.last_seq - start:
        return count_between(stream, start, stream.last_seq + 1, wanted)
    total = stream.messages if wanted.everything else sum(stream.subjects(wanted).values())
    return total - count_between(stream, stream.first_seq, start, wanted)


def _marks(numbers: array[int], chosen: list[int]) -> bytes:
    """A byte for each message, 1 for one whose subject is chosen."""
    packed = pack_column("H", numbers)
    if packed[1::2].count(0) < len(numbers):
        return bytes(map(set(chosen).__contains__, numbers))
    table = bytearray(256)
    for number in chosen:
        table[number] = 1
    return packed[::2].translate(table)
