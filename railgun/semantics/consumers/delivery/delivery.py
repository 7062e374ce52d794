"""Delivery: what a consumer gives next. Redeliveries come first (RDL-02), then what is parked, then what is new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from railgun.model.headers import MSG_SIZE, block_size
from railgun.semantics.consumers.delivery.basket import Basket, Taken
from railgun.semantics.consumers.delivery.selection import cut, runs_in, sizes_of
from railgun.semantics.consumers.pending.parked import InTurn
from railgun.semantics.messages.blocks import Block, Entry

if TYPE_CHECKING:
    from railgun.semantics.consumers.consumer_state import ConsumerState

SCANNED_AT_ONCE = 100_000  # messages that a narrow filter passes over in one take: some milliseconds
_LEAST_SCANNED = 25  # messages that a smaller block counts as: it costs no less


def take(consumer: ConsumerState, batch: int, max_bytes: int, now: int) -> Taken:
    """Deliver at most ``batch`` messages and ``max_bytes`` (0: no limit). They are pending from now on, or done without acks."""
    consumer.expire(now)
    basket = Basket(batch, max_bytes, consumer.delivery_overhead())
    for source in (_take_again, _take_parked, _take_new):
        if basket.stopped is None:
            source(consumer, basket, now)
    taken = basket.taken
    if taken.count:
        consumer.handed_out(taken.runs)
    return taken


def find(consumer: ConsumerState) -> Entry | None:
    """The next message that would be delivered for the first time, if the limit of unanswered ones allows it; moves up to it."""
    parked = consumer.parked.next(1)
    if parked is not None:
        return consumer.stream.entry(parked[0])
    for block, runs in _wanted(consumer):
        for index, count in runs:
            busy = _park_busy(consumer, block, index, count)
            consumer.position.pass_by(block.base + index + busy, busy)
            if busy < count:
                found = block.entry(index + busy)
                return found if _admits(consumer, found.subject) else None
    return None


def _take_again(consumer: ConsumerState, basket: Basket, now: int) -> None:
    while basket.stopped is None:
        run = consumer.redelivery.next(basket.room)
        if run is None:
            return
        count = _fit(consumer, basket, run.sequence, run.end)
        if count:
            consumer.deliver_again(run.part(run.sequence, run.sequence + count), basket, now)


def _take_parked(consumer: ConsumerState, basket: Basket, now: int) -> None:
    while basket.stopped is None:
        slots = consumer.slots
        parked = consumer.parked.next(min(basket.room, max(slots, 1)))
        if parked is None:
            return
        if not slots:
            basket.stopped = "wall"
            return
        start, count = parked
        count = _fit(consumer, basket, start, start + count)
        if count:
            consumer.pending.remove(start, start + count)
            consumer.deliver([(start, count)], basket, now)


def _take_new(consumer: ConsumerState, basket: Basket, now: int) -> None:
    for block, runs in _wanted(consumer):
        if isinstance(consumer.parked, InTurn):
            _deliver_in_turn(consumer, basket, block, runs, now)
        else:
            _deliver_runs(consumer, basket, block, runs, now)
        if basket.stopped is not None:
            return
    if consumer.position.next <= consumer.stream.last_seq:
        basket.stopped = "scan"


def _wanted(consumer: ConsumerState) -> Iterator[tuple[Block, list[tuple[int, int]]]]:
    """New messages that the consumer wants, as far as one take looks: runs of each block, in stream order
    over all filters (CON-18). Moves past everything else.
    """
    position, last, scanned = consumer.position, consumer.stream.last_seq, 0
    if position.next > last:
        return
    for block in consumer.stream.blocks(position.next):
        first = max(0, position.next - block.base)
        runs = runs_in(block, first, consumer.terms.filter)
        if runs:
            yield block, runs
        position.pass_by(block.end, 0)
        looked_at = max(block.count - first, _LEAST_SCANNED)
        consumer.look_at(looked_at)
        scanned += looked_at
        if scanned >= SCANNED_AT_ONCE:
            return
    position.pass_by(last + 1, 0)


def _deliver_runs(
    consumer: ConsumerState, basket: Basket, block: Block, runs: list[tuple[int, int]], now: int
) -> None:
    """Deliver what of the runs of a block may be delivered, and move up to the rest."""
    allowed = cut(runs, min(basket.room, consumer.slots))
    sizes = stored = sizes_of(block, allowed)
    if consumer.config.headers_only:
        subjects = (block.subject(at) for index, count in allowed for at in range(index, index + count))
        sizes = _bare_sizes(consumer, sizes, subjects)
    below = consumer.stream.copied_below - block.base
    copied = sum(min(max(below - index, 0), count) for index, count in allowed) if below > 0 else 0
    delivered = cut(allowed, basket.fit_copied(sizes, stored[:copied]) if copied else basket.fit(sizes))
    if delivered:
        basket.blocks.append(block)
        consumer.deliver([(block.base + index, count) for index, count in delivered], basket, now)
        index, count = delivered[-1]
        consumer.position.pass_by(block.base + index + count, sum(count for _, count in delivered))
    if basket.stopped is None and delivered != runs:
        basket.stopped = "wall"


def _deliver_in_turn(
    consumer: ConsumerState, basket: Basket, block: Block, runs: list[tuple[int, int]], now: int
) -> None:
    for index, count in runs:
        end = index + count
        while index < end and basket.stopped is None:
            busy = _park_busy(consumer, block, index, end - index)
            consumer.position.pass_by(block.base + index + busy, busy)
            index += busy
            if index == end:
                break
            if _admits(consumer, block.subject(index)):
                _deliver_runs(consumer, basket, block, [(index, 1)], now)
                index += 1
            else:
                basket.stopped = "wall"  # no more may be parked


def _fit(consumer: ConsumerState, basket: Basket, start: int, end: int) -> int:
    """How many of the messages of [start, end), which all exist, the basket takes."""
    sizes = _sizes(consumer, start, end)
    copied = min(end, consumer.stream.copied_below)
    return (
        basket.fit(sizes)
        if copied <= start
        else basket.fit_copied(sizes, consumer.stream.sizes(start, copied))
    )


def _sizes(consumer: ConsumerState, start: int, end: int) -> Sequence[int]:
    """What the messages of [start, end), which all exist, count when they are delivered."""
    sizes = consumer.stream.sizes(start, end)
    if not consumer.config.headers_only:
        return sizes
    found = (consumer.stream.entry(sequence) for sequence in range(start, end))
    return _bare_sizes(consumer, sizes, (entry.subject for entry in found if entry is not None))


def _bare_sizes(consumer: ConsumerState, sizes: Sequence[int], subjects: Iterable[str]) -> list[int]:
    """The same without payloads, which are not delivered (CON-26): subjects, and the header that tells their size.

    The index does not know how much of a message its own headers are: they do not count here.
    """
    fixed = consumer.stream.measure.record
    bare = [fixed + len(subject.encode("utf-8")) for subject in subjects]
    return [
        known + block_size([(MSG_SIZE, b"%d" % (size - known))])
        for size, known in zip(sizes, bare, strict=True)
    ]


def _admits(consumer: ConsumerState, subject: str) -> bool:
    return not isinstance(consumer.parked, InTurn) or consumer.parked.admits(subject)


def _park_busy(consumer: ConsumerState, block: Block, index: int, count: int) -> int:
    """Put aside the messages, from the index on, whose subject is busy; how many these were."""
    parked = consumer.parked
    if not isinstance(parked, InTurn):
        return 0
    done = 0
    while done < count and not parked.full and not parked.admits(block.subject(index + done)):
        parked.park(block.base + index + done, block.base + index + done + 1)
        done += 1
    if done:
        consumer.hold()
    return done
