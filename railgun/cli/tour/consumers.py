"""The tour's second part: how a consumer keeps count, work queues, exactly once.

The five states of the walk-through are those of its story, number for number. There is one exception: the story leaves the
floor behind when the last message is acknowledged, although nothing is pending; it moves on (SEQ-07).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from railgun.cli.commands.events import describe
from railgun.cli.options.units import show_duration
from railgun.cli.reports.consumer_report import state_lines
from railgun.cli.tour.walk import MARK, SLACK, TourFailed, Walk
from railgun.errors import ApiError

if TYPE_CHECKING:
    from railgun.client.facade.sync.closing import Closes
    from railgun.client.facade.sync.consumer import Consumer
    from railgun.client.facade.sync.message import Message

ACK_WAIT: Final = timedelta(seconds=30)
SHORT_ACK_WAIT: Final = timedelta(seconds=0.5)
SHORT_BILLING_WAIT: Final = timedelta(seconds=0.3)

Pair = tuple[int, int]


class Snapshot(NamedTuple):
    """The numbers that ``consumer info`` must show."""

    following: Pair  # the next consumer and stream sequence
    delivered: Pair
    floor: Pair
    pending: int
    redelivered: int


FRESH: Final = Snapshot((1, 1), (0, 0), (0, 0), 0, 0)  # SEQ-03
ACKED: Final = Snapshot((2, 2), (1, 1), (1, 1), 0, 0)  # SEQ-04
UNACKED: Final = Snapshot((3, 3), (2, 2), (1, 1), 1, 0)  # SEQ-05
AGAIN: Final = Snapshot((4, 3), (3, 2), (1, 1), 1, 1)  # SEQ-06
RESOLVED: Final = Snapshot((5, 3), (4, 2), (4, 2), 0, 0)  # SEQ-07


def counting(walk: Walk) -> None:
    walk.title("A consumer counts: delivered, acknowledged, delivered again")
    wait = walk.scaled(ACK_WAIT, SHORT_ACK_WAIT)
    orders = walk.anew()
    walk.say(
        f"railgun consumer add {walk.stream} DISPATCH --pull --ack explicit --wait {show_duration(wait)}"
    )
    dispatch = orders.create_consumer("DISPATCH", ack_policy="explicit", ack_wait=wait)
    _stream_state(walk, messages=0, size=0, first=0, last=0)
    _look(walk, dispatch, FRESH)

    _publish(walk, "order 4")
    _stream_state(walk, messages=1, size=53, first=1, last=1)
    _next(walk, dispatch, "order 4", ack=True)
    _look(walk, dispatch, ACKED)

    _publish(walk, "order 5")
    _next(walk, dispatch, "order 5", ack=False)
    _look(walk, dispatch, UNACKED)
    _next(walk, dispatch, "order 5", ack=False, after=wait)
    _look(walk, dispatch, AGAIN)
    _next(walk, dispatch, "order 5", ack=True, after=wait)
    _look(walk, dispatch, RESOLVED)


def work_queue(walk: Walk) -> None:
    walk.title("A work queue: what is acknowledged is gone")
    name = walk.side("QUEUE")
    walk.say(f"railgun stream add {name} --subjects '{name}.*' --retention workqueue")
    queue = walk.rg.create_stream(name, subjects=[f"{name}.*"], retention="workqueue", metadata=MARK)
    walk.say(f"railgun pub {name}.a 'job {{{{Count}}}}' --count 3")
    for number in range(1, 4):
        walk.rg.publish(f"{name}.a", f"job {number}")
    walk.say(f"railgun consumer add {name} WORKER")
    worker = queue.create_consumer("WORKER")
    walk.say(f"railgun consumer add {name} SECOND")
    try:
        queue.create_consumer("SECOND")
    except ApiError as refusal:
        walk.expect(refusal.err_code == 10099, "a work queue has one consumer for each subject")
        walk.shown(f"refused: {refusal}")
    else:
        raise TourFailed("a work queue took two consumers of the same subjects")
    walk.say(f"railgun consumer next {name} WORKER --count 2")
    for message in _taken(worker, 2):
        message.ack_sync()
        walk.shown(f"acknowledged {message.text}")
    state = queue.info().state
    walk.expect((state.messages, state.first_seq) == (1, 3), "two of three jobs are gone")
    walk.shown(f"Messages: {state.messages}, FirstSeq: {state.first_seq}")


def exactly_once(walk: Walk) -> None:
    walk.title("Exactly once: an id for the publisher, a confirmed acknowledgement for the consumer")
    wait = walk.scaled(ACK_WAIT, SHORT_BILLING_WAIT)
    subject = f"{walk.stream}.paid"
    walk.say(
        f"railgun consumer add {walk.stream} BILLING --filter {subject} --wait {show_duration(wait)} --sample 100"
    )
    billing = walk.rg.stream(walk.stream).create_consumer(
        "BILLING", filter_subject=subject, ack_wait=wait, sample_freq="100"
    )
    for number in range(1, 4):
        walk.say(f"railgun pub {subject} 'order 6' --id order-6")
        ack = walk.rg.publish(subject, "order 6", msg_id="order-6")
        walk.expect(ack.duplicate == (number > 1), "an id is stored once")
        walk.shown(f"{'duplicate of' if ack.duplicate else 'stored as'} {ack.stream}#{ack.sequence}")
    (message,) = _taken(billing, 1)
    with walk.rg.advisories() as told, patience(told):
        message.ack_sync()
        walk.shown(f"received {message.text!r}; the acknowledgement is confirmed")
        walk.say("railgun events --kind consumer_ack")
        sample = next((one.json() for one in told if one.type.endswith(".consumer_ack")), {})
    walk.expect(sample.get("stream_seq") == message.sequence, "the acknowledgement is reported as an event")
    walk.shown(describe(sample))
    walk.shown(f"… nothing comes again when the ack wait of {show_duration(wait)} is over")
    again = billing.fetch(1, wait=wait.total_seconds() + 0.1)
    info = billing.info()
    walk.expect(
        not again and (info.delivered.consumer_seq, info.num_ack_pending, info.num_pending) == (1, 0, 0),
        "a message whose acknowledgement was confirmed does not come again",
    )
    walk.shown("one publish stored, one delivery, nothing pending")


@contextmanager
def patience(told: Closes) -> Iterator[None]:
    """An event or a change that does not come ends the wait for it."""
    timer = threading.Timer(SLACK, told.close)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


# -- the pieces of the walk-through


def _publish(walk: Walk, text: str) -> None:
    subject = f"{walk.stream}.processed"
    walk.say(f'railgun pub {subject} "{text}"')
    ack = walk.rg.publish(subject, text)
    walk.shown(f"Published {len(text)} bytes to {subject}: stored as {ack.stream}#{ack.sequence}")


def _next(walk: Walk, consumer: Consumer, text: str, *, ack: bool, after: timedelta = timedelta(0)) -> None:
    walk.say(f"railgun consumer next {walk.stream} DISPATCH{'' if ack else ' --no-ack'}")
    if after:
        walk.shown(f"… it comes again when {show_duration(after)} are over")
    message = walk.receive(consumer, "DISPATCH", text, after.total_seconds() + SLACK)
    walk.shown(f"--- received on {message.subject}", message.text)
    if ack:
        message.ack_sync()
        walk.shown("Acknowledged message")


def _look(walk: Walk, consumer: Consumer, wanted: Snapshot) -> None:
    """Show the consumer's state as the story does, and compare every number."""
    walk.say(f"railgun consumer info {walk.stream} DISPATCH")
    info = consumer.info()
    lines = state_lines(info)
    walk.shown("State:", *(f"{label:>24}: {value}" for label, value in lines[:5]))
    delivered = (info.delivered.consumer_seq, info.delivered.stream_seq)
    seen = Snapshot(
        (delivered[0] + 1, delivered[1] + 1),
        delivered,
        (info.ack_floor.consumer_seq, info.ack_floor.stream_seq),
        info.num_ack_pending,
        info.num_redelivered,
    )
    walk.expect(seen == wanted, f"the consumer is at {wanted}: it is at {seen}")


def _stream_state(walk: Walk, *, messages: int, size: int, first: int, last: int) -> None:
    walk.say(f"railgun stream info {walk.stream}")
    state = walk.rg.stream(walk.stream).info().state
    walk.shown(
        f"        Messages: {state.messages}",
        f"           Bytes: {state.bytes} B",
        f"        FirstSeq: {state.first_seq}",
        f"         LastSeq: {state.last_seq}",
        f"Active Consumers: {state.consumer_count}",
    )
    seen = (state.messages, state.bytes, state.first_seq, state.last_seq, state.consumer_count)
    wanted = (messages, size, first, last, 1)
    walk.expect(seen == wanted, f"the stream is at {wanted}: it is at {seen}")


def _taken(consumer: Consumer, count: int) -> list[Message]:
    found = consumer.fetch(count, wait=SLACK)
    if len(found) != count:
        raise TourFailed(f"the tour did not show that {count} messages are delivered: {len(found)} came")
    return found
