"""The tour's third part: where consumers begin, and how fast they go."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from railgun.cli.options.units import show_duration
from railgun.cli.tour.walk import SLACK, Walk
from railgun.model.durations import NANOS, from_nanos, rfc3339, to_nanos

if TYPE_CHECKING:
    from railgun.client.facade.sync.stream import Stream

MINUTE: Final = timedelta(minutes=1)
SHORT_MINUTE: Final = timedelta(seconds=0.25)
GAP: Final = timedelta(seconds=10)
SHORT_GAP: Final = timedelta(seconds=0.3)
ALMOST: Final = 0.9  # the clock that measures is not the one that waits


def start_positions(walk: Walk) -> None:
    walk.title("Where a consumer begins: all, last, a sequence, a time")
    orders, subject = walk.anew(), f"{walk.stream}.processed"
    walk.say(f"railgun pub {subject} 'order {{{{Count}}}}' --count 100")
    for number in range(1, 101):
        walk.rg.publish_soon(subject, f"order {number}")
    walk.rg.flush()
    _first(walk, orders, "ALL", "all", {"deliver_policy": "all"}, "order 1")
    _first(walk, orders, "LAST", "last", {"deliver_policy": "last"}, "order 100")
    ten = {"deliver_policy": "by_start_sequence", "opt_start_seq": 10}
    _first(walk, orders, "TEN", "10", ten, "order 10")

    minute = walk.scaled(MINUTE, SHORT_MINUTE)
    walk.say(f"railgun stream purge {walk.stream}")
    orders.purge()
    ago = _ago(orders, _spaced(walk, subject, minute), 2 * minute)
    by_time = {"deliver_policy": "by_start_time", "opt_start_time": rfc3339(time.time_ns() - to_nanos(ago))}
    _first(walk, orders, "2MIN", show_duration(ago), by_time, "order 2")


def _ago(orders: Stream, sequences: list[int], wanted: timedelta) -> timedelta:
    """Wait until so long ago is between the first two orders; where publishing took its time, it was longer ago."""
    first, second = (orders.get(sequence).time_ns for sequence in sequences[:2])
    between = (first + second) // 2
    time.sleep(max(between + to_nanos(wanted) - time.time_ns(), 0) / NANOS)
    now = time.time_ns()
    return wanted if now - to_nanos(wanted) < (between + second) // 2 else from_nanos(now - between)


def monitor(walk: Walk) -> None:
    walk.title("An ephemeral consumer: there as long as it has a listener")
    orders, target = walk.rg.stream(walk.stream), "my.monitor"
    walk.say(f"railgun sub {target}")
    walk.say(
        f"railgun consumer add {walk.stream} --filter '' --ack none --target {target} --deliver last "
        "--replay instant --ephemeral"
    )
    with walk.rg.listen(target) as listener:
        consumer = orders.create_consumer(
            deliver_subject=target, ack_policy="none", deliver_policy="last", ephemeral=True
        )
        for text in ("order 3", "order 4"):
            if text == "order 4":
                walk.rg.publish(f"{walk.stream}.processed", text)
            message = walk.receive(listener, target, text)
            walk.shown(f"Received on [{message.subject}]: {message.text!r}")
        info = consumer.info()
        walk.expect(
            info.push_bound and not info.config.durable_name, "the consumer is ephemeral and has a listener"
        )
    walk.shown(f"{consumer.name} is removed by itself, a few seconds after its listener has left")


def replay(walk: Walk) -> None:
    gap = walk.scaled(GAP, SHORT_GAP)
    walk.title(f"Replay with the original gaps ({show_duration(gap)} here)")
    orders, subject, target = walk.rg.stream(walk.stream), f"{walk.stream}.processed", "out.original"
    walk.say(f"railgun stream purge {walk.stream}")
    orders.purge()
    walk.say(
        f"railgun consumer add {walk.stream} REPLAY --target {target} --filter {subject} --ack none "
        "--deliver all --sample 100 --replay original"
    )
    orders.create_consumer(
        "REPLAY",
        deliver_subject=target,
        filter_subject=subject,
        ack_policy="none",
        deliver_policy="all",
        sample_freq="100",
        replay_policy="original",
    )
    _spaced(walk, subject, gap)
    walk.say(f"railgun sub -t {target}")
    began = time.monotonic()
    arrived: list[float] = []
    stored: list[float] = []
    with walk.rg.listen(target) as listener:
        for number in range(1, 4):
            message = walk.receive(listener, target, f"order {number}", gap.total_seconds() + SLACK)
            arrived.append(time.monotonic())
            stored.append(message.time_ns / NANOS)
            walk.shown(
                f"{datetime.now(UTC):%Y/%m/%d %H:%M:%S.%f} [#{number}] Received on "
                f"[{message.subject}]: {message.text!r}"
            )
    for later in (1, 2):
        real, here = stored[later] - stored[0], arrived[later] - began
        walk.expect(
            real * ALMOST <= here <= real + later * SLACK,  # any of them may be late, and none can be early
            f"what was stored {real:.2f} s after the first comes no sooner than that: it came after {here:.2f} s",
        )


def _spaced(walk: Walk, subject: str, gap: timedelta) -> list[int]:
    """Three orders with a gap between them; their sequences."""
    walk.say(f"railgun pub {subject} 'order {{{{Count}}}}' --count 3 --sleep {show_duration(gap)}")
    sequences = []
    for number in range(1, 4):
        if number > 1:
            time.sleep(gap.total_seconds())
        sequences.append(walk.rg.publish(subject, f"order {number}").sequence)
        walk.shown(f"Published [{subject}] : 'order {number}'")
    return sequences


def _first(walk: Walk, orders: Stream, name: str, deliver: str, fields: dict[str, Any], wanted: str) -> None:
    """A consumer, and the first message that it gets."""
    subject = f"{walk.stream}.processed"
    walk.say(
        f"railgun consumer add {walk.stream} {name} --pull --filter {subject} --ack none --replay instant "
        f"--deliver {deliver}"
    )
    consumer = orders.create_consumer(
        name, filter_subject=subject, ack_policy="none", replay_policy="instant", **fields
    )
    walk.say(f"railgun consumer next {walk.stream} {name}")
    message = walk.receive(consumer, name, wanted)
    walk.shown(f"--- received on {message.subject}", message.text)
