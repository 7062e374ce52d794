"""Leases: what a consumer gave to a client, with where to read it, or with the messages themselves; and answers to pulls.

A small lease whose messages are all at hand carries them, which saves its reader a look into the log. A lease over messages
of this very drain carries them up to :data:`MOST_BYTES`, because where they will be in the log is not known yet; and so does
one with many gaps, whose reader would have to read what lies between. Stragglers, which were copied so that the log can be
trimmed past them, are always carried.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from railgun.model.headers import HeaderList, Headers
from railgun.protocol.leases import Lease
from railgun.protocol.statuses import Status
from railgun.semantics.consumers.consumer_state import ConsumerState, Run, Taken
from railgun.semantics.consumers.delivery.waiting_pulls import Waiting
from railgun.semantics.messages.blocks import Block
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.outcomes import Stored
from railgun.shard.open_drain import OpenDrain

FEW_MESSAGES = 64
FEW_BYTES = 64 * 1024
MOST_BYTES = 1024 * 1024
_SPARSE = 8  # fewer messages to a run than this, on average, are many gaps


class Columns(NamedTuple):
    """Messages themselves."""

    subjects: list[str]
    headers: list[Headers]
    payloads: list[bytes]
    times: list[int]


def leases(
    stream: OwnedStream, consumer: ConsumerState, taken: Taken, runs: Sequence[Run], stored: Stored | None
) -> list[Lease]:
    """Runs of what was taken, as at least one lease. ``stored``: what this drain stored in the stream.

    A message that was copied into the table has a lease to itself, which carries it: the log may not have it any more.
    """
    if not any(run.sequence < stream.copied_below for run in runs):
        return [_lease(stream, consumer, taken, runs, stored)]
    made: list[Lease] = []
    others: list[Run] = []
    for run in runs:
        end = run.sequence + run.length
        for sequence in range(run.sequence, min(end, stream.copied_below)):
            if others:
                made.append(_lease(stream, consumer, taken, others, stored))
                others = []
            made.append(
                _lease(stream, consumer, taken, [_part(run, sequence, sequence + 1)], stored, carries=True)
            )
        if end > stream.copied_below:
            others.append(_part(run, max(run.sequence, stream.copied_below), end))
    return [*made, _lease(stream, consumer, taken, others, stored)] if others else made


def _part(run: Run, start: int, end: int) -> Run:
    number = run.consumer_sequence + start - run.sequence
    return run._replace(sequence=start, length=end - start, consumer_sequence=number)


def _lease(
    stream: OwnedStream,
    consumer: ConsumerState,
    taken: Taken,
    runs: Sequence[Run],
    stored: Stored | None,
    *,
    carries: bool = False,
) -> Lease:
    made = Lease(
        stream.name,
        stream.incarnation,
        consumer.name,
        consumer.number,
        stream.topic,
        sequences=[run.sequence for run in runs],
        counts=[run.length for run in runs],
        consumer_sequences=[run.consumer_sequence for run in runs],
        deliveries=[run.deliveries for run in runs],
        pending=consumer.num_pending,
        headers_only=consumer.config.headers_only,
    )
    columns = _at_hand(stream, taken, runs, stored, any_size=carries)
    if columns is None:
        return made._replace(offsets=[stream.index.offset(run.sequence, stream.log_end) for run in runs])
    return made._replace(
        subjects=columns.subjects,
        headers=_header_columns(columns.headers),
        payloads=columns.payloads,
        times=columns.times,
    )


def answer_pull(
    drain: OpenDrain,
    stream: OwnedStream,
    consumer: ConsumerState,
    pull: Waiting,
    status: Status,
    *,
    done: bool = True,
) -> None:
    """A pull is answered with a status and no messages; ``done``: it waits no longer."""
    answer = status_lease(stream, consumer, status)._replace(pull=pull.id, done=done)
    drain.replies(pull.client).leases.append(answer)


def status_lease(stream: OwnedStream, consumer: ConsumerState, status: Status) -> Lease:
    """A lease without messages: only a status."""
    return Lease(
        stream.name,
        stream.incarnation,
        consumer.name,
        consumer.number,
        stream.topic,
        status=status.code,
        description=status.description,
        status_headers=status.headers,
    )


def columns_at_hand(stream: OwnedStream, taken: Taken, stored: Stored | None) -> Columns | None:
    """All messages that were taken, whatever their size; None where one of them is not here."""
    return _at_hand(stream, taken, taken.runs, stored, any_size=True)


def _at_hand(
    stream: OwnedStream, taken: Taken, runs: Sequence[Run], stored: Stored | None, *, any_size: bool
) -> Columns | None:
    """The messages, where the lease may carry them and all of them are here."""
    if not runs:
        return None
    count = sum(run.length for run in runs)
    newest = max(run.sequence + run.length for run in runs) - 1
    fresh = stored is not None and bool(stored.sequences) and newest >= stored.sequences[0]
    sparse = count < len(runs) * _SPARSE
    few = taken.size <= (MOST_BYTES if fresh or sparse else FEW_BYTES)
    if not any_size and not (few and (fresh or sparse or count <= FEW_MESSAGES)):
        return None
    found = Columns([], [], [], [])
    kept = _Kept(stream, taken.blocks)
    for run in runs:
        if not (fresh and _copy_stored(run, stored, found)) and not kept.copy(run, stored, found):
            return None
    return found


def _copy_stored(run: Run, stored: Stored | None, found: Columns) -> bool:
    """The whole run, as columns, where this drain stored all of it."""
    if stored is None or not stored.sequences or run.sequence < stored.sequences[0]:
        return False
    start = bisect_left(stored.sequences, run.sequence)
    end = start + run.length
    if end > len(stored.sequences) or stored.sequences[end - 1] != run.sequence + run.length - 1:
        return False
    found.subjects.extend(stored.subjects[start:end])
    found.headers.extend(stored.headers[start:end])
    found.payloads.extend(stored.payloads[start:end])
    found.times.extend(stored.times[start:end])
    return True


class _Kept:
    """Copies messages one after the other: from the newest of the shard, from kept bodies, from this drain."""

    def __init__(self, stream: OwnedStream, blocks: Sequence[Block]) -> None:
        """``blocks``: some that messages lie in, ascending; others are looked for."""
        self._stream = stream
        self._find = stream.bodies.find_of
        self._blocks = blocks
        self._at = 0

    def copy(self, run: Run, stored: Stored | None, found: Columns) -> bool:
        """The messages of the run; False if one of them is not here."""
        for sequence in range(run.sequence, run.sequence + run.length):
            if stored is not None and _copy_stored(run._replace(sequence=sequence, length=1), stored, found):
                continue
            block = self._block_of(sequence)
            body = None if block is None else self._find(block, sequence)
            if block is None or body is None:
                return False
            index = sequence - block.base
            found.subjects.append(block.subject(index))
            found.headers.append(body[0])
            found.payloads.append(body[1])
            found.times.append(block.times[index])
        return True

    def _block_of(self, sequence: int) -> Block | None:
        blocks = self._blocks
        while self._at < len(blocks) and blocks[self._at].end <= sequence:
            self._at += 1
        if self._at < len(blocks) and blocks[self._at].base <= sequence:
            return blocks[self._at]
        return self._stream.index.block_of(sequence)


def _header_columns(headers: Sequence[Headers]) -> list[HeaderList]:
    """Empty if no message has any."""
    return [list(one) for one in headers] if any(headers) else []
