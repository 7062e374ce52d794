"""Waiting pulls: what each gets, in which order, and the statuses that end it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from railgun.model.consumer_config import ConsumerConfig
from railgun.protocol import statuses
from railgun.protocol.commands import Pull
from railgun.protocol.statuses import NO_MESSAGES, Status
from railgun.semantics.consumers.consumer_state import Run, Taken
from railgun.semantics.consumers.delivery import waiting_pulls as pulls
from railgun.semantics.consumers.delivery.waiting_pulls import Waiting, WaitingPulls
from railgun.semantics.consumers.undo import UndoLog

SECOND = 1_000_000_000


def taken(count: int, stopped: str, size: int = 0) -> Taken:
    return Taken([Run(1, count, 1, 1)] if count else [], count, size, stopped, [])  # type: ignore[arg-type]


def after(pull: Pull, what: Taken, delivered: int = 0) -> tuple[bool, Status | None]:
    """Whether the pull waits on, and what it is told."""
    left, status = pulls.served(pulls.begin(pull, "me", 0)._replace(delivered=delivered), what, 5)
    return left is not None, status


def left_over(code: int, text: str, messages: int, size: int) -> Status:
    headers = [("Nats-Pending-Messages", b"%d" % messages), ("Nats-Pending-Bytes", b"%d" % size)]
    return Status(code, text, headers)


@pytest.mark.rule("PUL-02", "PUL-03", "PUL-05", "RDL-12")
def test_who_waits_on_and_who_is_told() -> None:
    assert after(Pull(1, 5), taken(5, "batch")) == (False, None)
    assert after(Pull(1, 5), taken(2, "empty")) == (True, None)
    assert after(Pull(1, 5, no_wait=True), taken(2, "empty")) == (False, NO_MESSAGES)
    assert after(Pull(1, 5, no_wait=True), taken(0, "empty")) == (False, NO_MESSAGES)
    assert after(Pull(1, 5, no_wait=True), taken(2, "wall")) == (True, None)
    assert after(Pull(1, 5, no_wait=True), taken(2, "scan")) == (True, None)
    once = Pull(1, 5, expires=SECOND, no_wait=True)
    assert after(once, taken(0, "empty")) == (True, None)
    assert after(once, taken(1, "empty")) == (False, NO_MESSAGES)
    assert after(once, taken(0, "empty"), delivered=1) == (False, NO_MESSAGES)


@pytest.mark.rule("PUL-06")
def test_bytes_that_are_left_and_bytes_that_are_not() -> None:
    limited = Pull(1, 3, max_bytes=100)
    assert after(limited, taken(3, "batch", 60)) == (False, left_over(409, "Batch Completed", 0, 40))
    assert after(limited, taken(3, "batch", 100)) == (False, None)
    too_big = left_over(409, "Message Size Exceeds MaxBytes", 1, 40)
    assert after(limited, taken(2, "bytes", 60)) == (False, too_big)
    used_up, status = pulls.served(pulls.begin(limited, "me", 0), taken(2, "empty", 100), 5)
    assert used_up is not None
    assert status is None
    assert used_up.allowed_bytes == 1, "nothing fits any more, which is not the same as no limit"


@pytest.mark.rule("PUL-09", "PUL-10", "PUL-11")
def test_pulls_that_a_consumer_does_not_take() -> None:
    config = ConsumerConfig(max_batch=10, max_expires=timedelta(seconds=90), max_bytes=1000)
    for pull, text in (
        (Pull(1, 11), "Exceeded MaxRequestBatch of 10"),
        (Pull(1, 10, expires=91 * SECOND), "Exceeded MaxRequestExpires of 1m30s"),
        (Pull(1, 10, 1001), "Exceeded MaxRequestMaxBytes of 1000"),
    ):
        assert pulls.refusal(pull, config) == Status(409, text)
    assert pulls.refusal(Pull(1, 10, 1000, 90 * SECOND), config) is None
    beating = Pull(1, expires=SECOND, heartbeat=SECOND // 2 + 1)
    for pull in (beating, beating._replace(expires=0)):
        assert pulls.refusal(pull, config) == Status(400, "Bad Request - heartbeat value too large")
    assert pulls.refusal(beating._replace(heartbeat=SECOND // 2), config) is None
    assert pulls.refusal(Pull(1), ConsumerConfig(deliver_subject="d")) == statuses.PUSH_BASED


@pytest.mark.rule("PUL-07")
def test_who_got_something_goes_to_the_end_of_the_line() -> None:
    line = WaitingPulls(UndoLog())
    for client in "abc":
        line.join(Waiting(client, 1, 2))
    served = []
    for _ in range(6):
        first = line.first()
        assert first is not None
        served.append(first.client)
        if first.left > 1:
            line.join(first._replace(left=first.left - 1))
        else:
            line.leave(first.key)
    assert "".join(served) == "abcabc"
    assert line.first() is None


def test_a_line_that_is_undone_is_as_it_was() -> None:
    undo = UndoLog()
    line = WaitingPulls(undo)
    for number in range(5):
        line.join(Waiting("me", number, 2, no_wait=number == 3))
    undo.clear()
    keys = line.keys()
    before = [line.get(key) for key in keys]
    line.leave(("me", 2))
    line.join(Waiting("me", 9, 1))
    line.join(Waiting("me", 0, 1))
    line.change(Waiting("me", 4, 1, no_wait=True))
    line.leave(("me", 3))
    undo.undo()
    assert sorted(line.keys()) == sorted(keys)
    assert [line.get(key) for key in keys] == before
    assert [one.id for one in line.impatient()] == [3]
    order = []
    while (first := line.first()) is not None:
        order.append(first.id)
        line.leave(first.key)
    assert order == [0, 1, 2, 3, 4]
