"""Acknowledgement (ACK): what an answer of a client does to the deliveries that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railgun.protocol.commands import AckRun
from railgun.semantics.consumers import retention
from railgun.semantics.consumers.pending.pending_runs import READY, PendingRun

if TYPE_CHECKING:
    from railgun.semantics.consumers.consumer_state import ConsumerState


def acknowledge(consumer: ConsumerState, ack: AckRun, now: int) -> bool:
    """Apply the answer to what of it is pending. False: it names what was never delivered (ACK-17).

    What was resolved before stays as it is, and the answer still counts as given: below the floor of policy ``all`` (ACK-03),
    a second time, or for a message that is gone (ACK-14).
    """
    if ack.sequence + ack.length - 1 > consumer.delivered.stream:
        return False
    if consumer.terms.acks:  # ACK-04
        _KINDS[ack.kind](consumer, ack, now)
    return True


def _ack(consumer: ConsumerState, ack: AckRun, now: int) -> None:
    runs = _resolve(consumer, ack)
    if consumer.terms.sampled and not consumer.terms.acks_all:
        for run in runs:
            _sample(consumer, run, now)
    retention.acknowledged(consumer, ack, runs)


def _term(consumer: ConsumerState, ack: AckRun, now: int) -> None:
    """Resolved like an ack, without being a success (ACK-11)."""
    runs = _resolve(consumer, ack)
    for run in runs:
        if run.end > ack.sequence:
            named = run.part(ack.sequence, run.end)
            consumer.tell("terminated", named, reason=ack.reason)
            consumer.bury(named, ack.reason)
    retention.acknowledged(consumer, ack, runs)


def _nak(consumer: ConsumerState, ack: AckRun, now: int) -> None:
    """Deliver again, at once or after the delay (ACK-06, ACK-07); what was delivered often enough is spent."""
    spent = []
    for run in consumer.pending.remove(ack.sequence, ack.sequence + ack.length):
        if not run.deliveries or not _speaks_of(ack, run) or (ack.deliveries and run.due > READY):
            consumer.pending.add(run)  # ACK-16: never delivered; or said before, and sent once more
            continue
        consumer.tell("nak", run)
        consumer.touch()
        if consumer.redelivery.is_spent(run):
            spent.append(run)
        elif run.due == READY and not ack.delay:
            consumer.pending.add(run)  # it is in the queue already
        else:
            consumer.redelivery.put_off(run, now + ack.delay if ack.delay else READY)
    consumer.spend(spent)


def _progress(consumer: ConsumerState, ack: AckRun, now: int) -> None:
    """The ack wait begins anew, if it was not over (ACK-08)."""
    for run in consumer.pending.remove(ack.sequence, ack.sequence + ack.length):
        if run.due or not _speaks_of(ack, run):
            consumer.pending.add(run)
        else:
            consumer.redelivery.expect([run._replace(time=now)])
            consumer.touch()


def _back(consumer: ConsumerState, ack: AckRun, now: int) -> None:
    """Nobody was handed these deliveries: they come again, and do not count (RDL-05)."""
    for run in consumer.pending.remove(ack.sequence, ack.sequence + ack.length):
        if run.due or not _is_newest(ack, run):
            consumer.pending.add(run)  # it is no longer, or not yet, this delivery that is waited for
            continue
        consumer.touch()
        if run.deliveries > 1:
            consumer.redelivery.put_off(run._replace(deliveries=run.deliveries - 1), READY)
        else:
            consumer.parked.resolved(run)
            consumer.parked.park(run.sequence, run.end)


def _is_newest(ack: AckRun, run: PendingRun) -> bool:
    """Whether the answer names the newest delivery of these messages."""
    return run.last - run.sequence == ack.consumer_sequence - ack.sequence


def _speaks_of(ack: AckRun, run: PendingRun) -> bool:
    """Whether a nak or a sign of progress counts: an answer that comes late, or is sent again, must not touch a newer delivery.

    A count of 0 names no delivery: it speaks of whichever is the newest.
    """
    return not ack.deliveries or _is_newest(ack, run)


_KINDS = {"ack": _ack, "nak": _nak, "progress": _progress, "term": _term, "back": _back}


def _resolve(consumer: ConsumerState, ack: AckRun) -> list[PendingRun]:
    """What the answer resolves: each message that it names (ACK-01), or with policy ``all`` everything up to the last (ACK-02).

    A late answer resolves as well, whether or not the message waits to be delivered again (ACK-15).
    """
    end = ack.sequence + ack.length
    runs = []
    for run in consumer.pending.remove(0 if consumer.terms.acks_all else ack.sequence, end):
        if run.deliveries:
            runs.append(run)
        else:
            consumer.pending.add(run)
    consumer.resolved(runs)
    if runs and consumer.terms.acks_all:
        consumer.cover(min(ack.consumer_sequence + ack.length - 1, consumer.delivered.consumer), end - 1)
    return runs


def _sample(consumer: ConsumerState, run: PendingRun, now: int) -> None:
    """Tell of exactly N of each 100 acks (ADV-06, ADV-07)."""
    rate = consumer.terms.sampled
    for at in range(run.length):
        before = consumer.acknowledged * rate // 100
        consumer.acknowledged += 1
        if consumer.acknowledged * rate // 100 > before:
            one = run.part(run.sequence + at, run.sequence + at + 1)
            consumer.tell("ack_sample", one, ack_time=now - run.time)
