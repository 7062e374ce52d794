"""Delivery: what a consumer gives next. Redeliveries come first (RDL-02), then what is owed, then what is new."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from railgun.semantics.blocks import Block, Entry
from railgun.semantics.consumers.basket import Basket, Taken
from railgun.semantics.consumers.owed import InTurn
from railgun.semantics.consumers.selection import runs_in

if TYPE_CHECKING:
    from railgun.semantics.consumers.state import ConsumerState

SCANNED_AT_ONCE = 20_000  # messages that a narrow filter passes over in one take


def take(consumer: ConsumerState, batch: int, max_bytes: int, now: int) -> Taken:
    """Deliver at most so many messages and bytes (0: no limit); they are pending from now on, or done if nobody acks."""
    consumer.expire(now)
    basket = Basket(batch, max_bytes, consumer.delivery_overhead())
    for source in (_take_again, _take_owed, _take_new):
        if basket.stopped is None:
            source(consumer, basket, now)
    taken = basket.taken
    if taken.count:
        consumer.handed_out(taken.runs)
    return taken


def find(consumer: ConsumerState) -> Entry | None:
    """The next message that would be delivered for the first time, if so many may be unanswered; moves up to it."""
    owed = consumer.owed.next(1)
    if owed is not None:
        return consumer.stream.entry(owed[0])
    for block, index, count in _wanted(consumer):
        busy = _park_busy(consumer, block, index, count)
        consumer.ahead.pass_by(block.base + index + busy, busy)
        if busy < count:
            found = block.entry(index + busy)
            return found if _admits(consumer, found.subject) else None
    return None


def looks_further(consumer: ConsumerState) -> bool:
    """Whether a take would go on looking where the last one stopped."""
    full = isinstance(consumer.owed, InTurn) and consumer.owed.full
    return consumer.ahead.next <= consumer.stream.last_seq and not full


def _take_again(consumer: ConsumerState, basket: Basket, now: int) -> None:
    while basket.stopped is None:
        run = consumer.redelivery.next(basket.room)
        if run is None:
            return
        count = basket.fit(consumer.stream.sizes(run.sequence, run.end))
        if count:
            basket.add(consumer.deliver_again(run.part(run.sequence, run.sequence + count), now))


def _take_owed(consumer: ConsumerState, basket: Basket, now: int) -> None:
    while basket.stopped is None:
        slots = consumer.slots
        owed = consumer.owed.next(min(basket.room, max(slots, 1)))
        if owed is None:
            return
        if not slots:
            basket.stopped = "wall"
            return
        start, count = owed
        count = basket.fit(consumer.stream.sizes(start, start + count))
        if count:
            consumer.pending.remove(start, start + count)
            basket.add(consumer.deliver(start, count, now))


def _take_new(consumer: ConsumerState, basket: Basket, now: int) -> None:
    for block, index, count in _wanted(consumer):
        if isinstance(consumer.owed, InTurn):
            done = _deliver_in_turn(consumer, basket, block, index, count, now)
        else:
            done = _deliver_run(consumer, basket, block, index, count, now)
        consumer.ahead.pass_by(block.base + index + done, done)
        if basket.stopped is not None:
            return
    if consumer.ahead.next <= consumer.stream.last_seq:
        basket.stopped = "scan"


def _wanted(consumer: ConsumerState) -> Iterator[tuple[Block, int, int]]:
    """Runs of new messages that the consumer wants, as far as one take looks; moves past everything else."""
    ahead, last, scanned = consumer.ahead, consumer.stream.last_seq, 0
    if ahead.next > last:
        return
    for block in consumer.stream.blocks(ahead.next):
        first = max(0, ahead.next - block.base)
        for index, count in runs_in(block, first, consumer.terms.filter):
            yield block, index, count
        ahead.pass_by(block.end, 0)
        scanned += block.count - first
        if scanned >= SCANNED_AT_ONCE:
            return
    ahead.pass_by(last + 1, 0)


def _deliver_run(
    consumer: ConsumerState, basket: Basket, block: Block, index: int, count: int, now: int
) -> int:
    allowed = min(count, basket.room, consumer.slots)
    done = basket.fit(block.sizes[index : index + allowed]) if allowed else 0
    if done:
        basket.add(consumer.deliver(block.base + index, done, now))
    if done < count and basket.stopped is None:
        basket.stopped = "wall"  # RDL-11
    return done


def _deliver_in_turn(
    consumer: ConsumerState, basket: Basket, block: Block, index: int, count: int, now: int
) -> int:
    done = 0
    while done < count and basket.stopped is None:
        done += _park_busy(consumer, block, index + done, count - done)
        if done < count:
            if not _admits(consumer, block.subject(index + done)):
                basket.stopped = "wall"  # no more may be parked
                break
            done += _deliver_run(consumer, basket, block, index + done, 1, now)
    return done


def _admits(consumer: ConsumerState, subject: str) -> bool:
    return not isinstance(consumer.owed, InTurn) or consumer.owed.admits(subject)


def _park_busy(consumer: ConsumerState, block: Block, index: int, count: int) -> int:
    """Put aside the messages, from the index on, whose subject is busy; how many these were."""
    owed = consumer.owed
    if not isinstance(owed, InTurn):
        return 0
    done = 0
    while done < count and not owed.full and not owed.admits(block.subject(index + done)):
        owed.park(block.base + index + done, block.base + index + done + 1)
        done += 1
    if done:
        consumer.hold()
    return done
