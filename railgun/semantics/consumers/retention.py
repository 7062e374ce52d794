"""Retention by work queue and interest (RET): which messages go because nobody needs them any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from railgun.model.subjects import Filter
from railgun.protocol.commands import AckRun
from railgun.semantics.consumers.pending.pending_runs import PendingRun
from railgun.semantics.messages.blocks import Block
from railgun.semantics.messages.searching import stretch

if TYPE_CHECKING:
    from railgun.semantics.consumers.consumer_state import ConsumerState
    from railgun.semantics.streams.owned_stream import OwnedStream

LATE_AT_MOST = 1_000  # sequences of one late acknowledgement that are looked at
DROPPED_AT_ONCE = 25_000  # messages that are looked at when a consumer goes; the rest is left to later drains
BLOCKS_AT_ONCE = 4

Range = tuple[int, int]


class Unneeded(NamedTuple):
    """Messages of [start, end) on these subjects that no consumer needs: they are still to be removed."""

    start: int
    end: int
    patterns: list[str]


def acknowledged(consumer: ConsumerState, ack: AckRun, runs: list[PendingRun]) -> None:
    """The runs were resolved by an acknowledgement, which may name more than was still pending."""
    first = 0 if consumer.terms.acks_all else ack.sequence
    if consumer.given_up and consumer.given_up.remove(first, ack.sequence + ack.length):
        consumer.touch()  # a late answer is one, too
    if consumer.stream.config.retention == "limits":
        return
    resolved(consumer, [(run.sequence, run.end) for run in runs])
    if not consumer.terms.acks_all and sum(run.length for run in runs) < min(ack.length, LATE_AT_MOST):
        # A late answer, for what ran out of deliveries and stayed: now it is done.
        end = min(ack.sequence + min(ack.length, LATE_AT_MOST), consumer.position.next)
        concerned = (
            [consumer] if consumer.stream.config.retention == "workqueue" else consumer.stream.consumers
        )
        drop_unneeded(consumer.stream, ack.sequence, end, consumer.terms.filter, concerned)


def resolved(consumer: ConsumerState, ranges: Iterable[Range]) -> None:
    """The consumer is done with messages, which all exist (RET-01, RET-02, RET-14).

    Nothing else goes: of a work queue, messages that no consumer has a filter for stay (RET-10).
    """
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
    stream: OwnedStream, start: int, end: int, wanted: Filter, consumers: Iterable[ConsumerState]
) -> None:
    """Remove those messages of [start, end) that the filter selects and none of the consumers needs."""
    concerned = list(consumers)
    while start < end:
        start, _ = _drop_stretch(stream, start, end, wanted, concerned)


def drop_all_unneeded(stream: OwnedStream, start: int, end: int, wanted: Filter) -> None:
    """As :func:`drop_unneeded`, for all consumers of the stream. Of very many messages a part goes now, the rest later."""
    stream.unneeded.append(Unneeded(start, end, list(wanted.patterns)))
    left = DROPPED_AT_ONCE
    while stream.unneeded and left > 0:
        left -= drop_some(stream)
    if stream.unneeded:
        stream.fall_behind()


def drop_everything(stream: OwnedStream) -> None:
    """No consumer is left: all messages go."""
    if stream.compacted and stream.messages > DROPPED_AT_ONCE:  # each of them needs a word in the log
        drop_all_unneeded(stream, 0, stream.last_seq + 1, Filter())
    else:
        stream.unneeded.clear()
        stream.purge_below(stream.last_seq + 1)


def drop_some(stream: OwnedStream) -> int:
    """Go on with what is left of :func:`drop_all_unneeded`; what it cost."""
    start, end, patterns = stream.unneeded[0]
    further, cost = _drop_stretch(stream, start, end, Filter(patterns), list(stream.consumers))
    stream.unneeded[:1] = [Unneeded(further, end, patterns)] if further < end else []
    return cost


def _drop_stretch(
    stream: OwnedStream, start: int, end: int, wanted: Filter, concerned: list[ConsumerState]
) -> tuple[int, int]:
    """Look at some blocks from ``start`` on: where to go on, and the cost."""
    runs, reached, cost = stretch(stream, start, end, wanted, BLOCKS_AT_ONCE)
    before = stream.messages
    for one in [doomed for run in runs for doomed in _unneeded(*run, concerned)]:
        stream.remove_run(*one)
    return reached, max(cost, 1) + (before - stream.messages) * stream.removal_cost


def _unneeded(block: Block, start: int, end: int, consumers: list[ConsumerState]) -> Iterator[Range]:
    concerned = [consumer for consumer in consumers if _may_need(consumer, start, end)]
    if not concerned:
        yield start, end
        return
    if any(consumer.position.next <= start and consumer.terms.filter.everything for consumer in concerned):
        return
    for sequence in range(start, end):
        subject = block.subject(sequence - block.base)
        if not any(_needs(consumer, sequence, subject) for consumer in concerned):
            yield sequence, sequence + 1


def _needs(consumer: ConsumerState, sequence: int, subject: str) -> bool:
    """Whether the message must stay for the consumer's sake (RET-13), whether or not a client is there (RET-16)."""
    if not consumer.terms.filter.matches(subject):
        return False
    return sequence >= consumer.position.next or sequence in consumer.pending or sequence in consumer.given_up


def _may_need(consumer: ConsumerState, start: int, end: int) -> bool:
    """Whether the consumer may need any message of [start, end)."""
    return (
        consumer.position.next < end
        or consumer.pending.first_in(start, end) is not None
        or consumer.given_up.meets(start, end)
    )


def first_needed(consumer: ConsumerState) -> int:
    """The consumer needs no message below this sequence."""
    lowest = (consumer.pending.lowest(), consumer.given_up.lowest(), consumer.position.next)
    return min(sequence for sequence in lowest if sequence is not None)
