"""Retention by work queue and interest (RET): which messages go because nobody needs them any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from railgun.model.consumer_wire import AckRun
from railgun.model.subjects import Filter
from railgun.semantics.blocks import Block
from railgun.semantics.consumers.pending import PendingRun
from railgun.semantics.consumers.selection import runs_in

if TYPE_CHECKING:
    from railgun.semantics.consumers.state import ConsumerState
    from railgun.semantics.stream import StreamState

LATE_AT_MOST = 1_000  # sequences of one late acknowledgement that are looked at

Range = tuple[int, int]


def acknowledged(consumer: ConsumerState, ack: AckRun, runs: list[PendingRun]) -> None:
    """The runs were resolved by an acknowledgement, which may name more than was still pending."""
    if consumer.given_up.bounds:  # a late answer is one, too
        consumer.given_up.remove(0 if consumer.terms.acks_all else ack.sequence, ack.sequence + ack.length)
        consumer.touch()
    if consumer.stream.config.retention == "limits":
        return
    resolved(consumer, [(run.sequence, run.end) for run in runs])
    if not consumer.terms.acks_all and sum(run.length for run in runs) < min(ack.length, LATE_AT_MOST):
        # A late answer, for what ran out of deliveries and stayed (RET-11): now it is done.
        end = min(ack.sequence + min(ack.length, LATE_AT_MOST), consumer.ahead.next)
        concerned = (
            [consumer] if consumer.stream.config.retention == "workqueue" else consumer.stream.consumers
        )
        drop_unneeded(consumer.stream, ack.sequence, end, consumer.terms.filter, concerned)


def resolved(consumer: ConsumerState, ranges: Iterable[Range]) -> None:
    """The consumer is done with messages, which all exist (RET-01, RET-02, RET-13, RET-14)."""
    stream = consumer.stream
    if stream.config.retention == "limits":
        return
    others = [other for other in stream.consumers if other is not consumer]
    for start, end in list(ranges):
        if stream.config.retention == "workqueue" or not others:
            stream.remove_run(start, end)
        else:
            drop_unneeded(stream, start, end, Filter(), others)


def drop_unneeded(
    stream: StreamState, start: int, end: int, wanted: Filter, consumers: Iterable[ConsumerState]
) -> None:
    """Remove those messages of [start, end) that the filter selects and none of the consumers needs."""
    if start >= end:
        return
    concerned = list(consumers)
    doomed: list[Range] = []
    for block in stream.blocks(start):
        if block.base >= end:
            break
        for index, count in runs_in(block, max(0, start - block.base), wanted):
            first, last = block.base + index, min(block.base + index + count, end)
            if first < last:
                doomed += _unneeded(block, first, last, concerned)
    for one in doomed:
        stream.remove_run(*one)


def _unneeded(block: Block, start: int, end: int, consumers: list[ConsumerState]) -> Iterator[Range]:
    concerned = [consumer for consumer in consumers if consumer.may_need(start, end)]
    if not concerned:
        yield start, end
        return
    if any(consumer.ahead.next <= start and consumer.terms.filter.everything for consumer in concerned):
        return
    for sequence in range(start, end):
        subject = block.subject(sequence - block.base)
        if not any(consumer.needs(sequence, subject) for consumer in concerned):
            yield sequence, sequence + 1
