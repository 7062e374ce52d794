"""``max_ack_pending_per_subject=1``: messages of one subject strictly in turn, subjects beside each other."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from typing import Any

import pytest

import railgun
from railgun.client.facade.railgun import Railgun
from railgun.model.messages import Reply
from railgun.testing import Clock
from tests.support.consumers import SECOND, delivery, sequences, waiters
from tests.support.raw_consumer import RawConsumer
from tests.support.streams import filled, held
from tests.support.waiting import wait_until

HOUR = 3600 * SECOND


def in_turn(rg: Railgun, stream: railgun.Stream, **config: Any) -> RawConsumer:
    return RawConsumer(rg, stream.name, **{"max_ack_pending_per_subject": 1, **config})


def attempts(replies: list[Reply]) -> list[tuple[int, int]]:
    """(stream sequence, delivery count) of each message."""
    return [(delivery(one).sequence, delivery(one).deliveries) for one in replies]


def test_one_of_each_subject_at_a_time(rg: Railgun) -> None:
    stream = filled(rg, *"aabbac")
    worker = in_turn(rg, stream)
    assert worker.info()["config"]["max_ack_pending_per_subject"] == 1
    a1, b3, c6 = worker.fetch(9)
    assert sequences([a1, b3, c6]) == [1, 3, 6]
    assert worker.fetch(9) == []
    assert worker.numbers().ack_pending == 3
    assert worker.info()["num_pending"] == 3
    worker.ack(b3)
    (b4,) = worker.fetch(9)
    assert sequences([b4]) == [4]
    worker.ack(b4, c6)
    assert worker.fetch(9) == []
    worker.ack(a1)
    (a2,) = worker.fetch(9)
    assert sequences([a2]) == [2]
    worker.ack(a2)
    (a5,) = worker.fetch(9)
    assert sequences([a5]) == [5]
    worker.ack(a5)
    numbers, info = worker.numbers(), worker.info()
    assert numbers.floor == numbers.delivered
    assert (numbers.delivered[0], numbers.ack_pending, info["num_pending"]) == (6, 0, 0)


def test_another_number_lets_that_many_out(rg: Railgun) -> None:
    stream = filled(rg, *"aaaabb")
    worker = in_turn(rg, stream, max_ack_pending_per_subject=2)
    found = worker.fetch(9)
    assert sequences(found) == [1, 2, 5, 6]
    worker.ack(found[1])
    assert sequences(worker.fetch(9)) == [3]
    assert worker.fetch(9) == []


def test_without_it_subjects_do_not_wait(rg: Railgun) -> None:
    stream = filled(rg, *"aab")
    assert sequences(RawConsumer(rg, stream.name).take(9)) == [1, 2, 3]


def test_a_refused_message_comes_again_before_its_successors(rg: Railgun) -> None:
    stream = filled(rg, *"abab")
    worker = in_turn(rg, stream)
    a1, b2 = worker.fetch(9)
    worker.nak(a1)
    (a1,) = worker.fetch(9)
    assert attempts([a1]) == [(1, 2)]
    worker.ack(b2)
    assert attempts(worker.fetch(9)) == [(4, 1)]
    worker.nak(a1)
    (a1,) = worker.fetch(9)
    worker.ack(a1)
    assert attempts(worker.fetch(9)) == [(3, 1)]


def test_a_delayed_refusal_holds_its_subject_and_no_other(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, *"abab")
    worker = in_turn(rg, stream, ack_wait=HOUR)
    a1, b2 = worker.fetch(9)
    worker.nak(a1, delay="600s")
    worker.ack(b2)
    assert attempts(worker.fetch(9)) == [(4, 1)]
    assert worker.fetch(9) == []
    clock.advance(601)
    (a1,) = worker.fetch(9)
    assert attempts([a1]) == [(1, 2)]
    worker.ack(a1)
    assert attempts(worker.fetch(9)) == [(3, 1)]


def test_after_the_ack_wait_the_turn_is_kept(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, *"aabb")
    worker = in_turn(rg, stream)
    worker.fetch(9)
    clock.advance(31)
    a1, b3 = worker.fetch(9)
    assert attempts([a1, b3]) == [(1, 2), (3, 2)]
    worker.ack(a1)
    assert attempts(worker.fetch(9)) == [(2, 1)]
    clock.advance(31)
    assert attempts(worker.fetch(9)) == [(2, 2), (3, 3)]


@pytest.mark.parametrize("resolved", ["term", "deliveries", "wait", "delete", "late ack"])
def test_every_way_to_resolve_a_message_gives_its_subject_the_turn(
    rg: Railgun, clock: Clock, resolved: str
) -> None:
    stream = filled(rg, *"aab")
    worker = in_turn(rg, stream, max_deliver=2)
    early, b3 = worker.fetch(9)
    worker.ack(b3)
    worker.nak(early)
    (a1,) = worker.fetch(9)
    assert attempts([a1]) == [(1, 2)]
    if resolved == "term":
        worker.term(a1)
    elif resolved == "deliveries":
        worker.nak(a1)
    elif resolved == "wait":
        clock.advance(31)
    elif resolved == "delete":
        stream.delete_message(1)
    else:
        worker.ack(early)
    assert attempts(worker.fetch(9)) == [(2, 1)]
    assert worker.numbers().ack_pending == 1


def test_dead_letters_leave_in_turn(rg: Railgun) -> None:
    stream = filled(rg, *"aaba")
    dead = filled(rg)
    worker = in_turn(rg, stream, max_deliver=2, dead_letter=dead.name)
    a1, b3 = worker.fetch(9)
    worker.ack(b3)
    for sequence in (1, 2):
        worker.nak(a1)
        (a1,) = worker.fetch(9)
        assert attempts([a1]) == [(sequence, 2)]
        worker.nak(a1)
        wait_until(lambda least=sequence: dead.info().state.messages >= least, "the dead letter")
        (a1,) = worker.fetch(9)
    assert attempts([a1]) == [(4, 1)]
    worker.ack(a1)
    copies = [dead.get(1), dead.get(2)]
    assert [(one.subject, one.payload) for one in copies] == [
        (f"{stream.name}.a", b"1"),
        (f"{stream.name}.a", b"2"),
    ]


def test_the_turn_goes_over_a_deleted_successor(rg: Railgun) -> None:
    stream = filled(rg, *"aaa")
    worker = in_turn(rg, stream)
    (a1,) = worker.fetch(9)
    stream.delete_message(2)
    worker.ack(a1)
    assert sequences(worker.fetch(9)) == [3]


def test_a_work_queue_in_turn_loses_nothing(rg: Railgun) -> None:
    stream = filled(rg, *"aabbab", retention="workqueue")
    worker = in_turn(rg, stream)
    seen = []
    while found := worker.fetch(9):
        seen += sequences(found)
        worker.ack(*found)
    assert seen == [1, 3, 2, 4, 5, 6]
    assert held(stream) == []
    assert worker.numbers().floor == (6, 6)


def test_a_purge_forgets_who_waits_for_a_turn(rg: Railgun) -> None:
    stream = filled(rg, *"aaab")
    worker = in_turn(rg, stream)
    worker.fetch(9)
    stream.purge()
    info = worker.info()
    assert (info["num_ack_pending"], info["num_pending"]) == (0, 0)
    rg.publish(f"{stream.name}.a", b"new")
    assert sequences(worker.fetch(9)) == [5]


def test_a_waiting_pull_gets_the_turn_that_an_ack_gives(rg: Railgun) -> None:
    stream = filled(rg, *"aa")
    worker = in_turn(rg, stream)
    (a1,) = worker.take(1)
    with waiters() as waiting:
        future = waiting.pull(rg, stream.name, body={"batch": 1, "expires": HOUR}, waiting=1)
        worker.ack(a1)
        assert sequences(future.result(20)) == [2]


def test_any_order_of_answers_keeps_every_subject_in_turn(rg: Railgun) -> None:
    """200 messages over five subjects; whoever works answers in any order, and refuses now and then."""
    choice = random.Random(11)
    tokens = [choice.choice("abcde") for _ in range(200)]
    stream = filled(rg, *tokens)
    worker = in_turn(rg, stream)
    expected: dict[str, list[int]] = defaultdict(list)
    for sequence, token in enumerate(tokens, 1):
        expected[f"{stream.name}.{token}"].append(sequence)
    done: dict[str, list[int]] = defaultdict(list)
    out: list[Reply] = []
    while sum(map(len, done.values())) < len(tokens):
        left = sum(1 for subject in expected if len(done[subject]) < len(expected[subject]))
        out += worker.take(left - len(out)) if left > len(out) else []
        assert len({one.subject for one in out}) == len(out) == left
        message = out.pop(choice.randrange(len(out)))
        subject, sequence = message.subject, delivery(message).sequence
        assert sequence == expected[subject][len(done[subject])]
        if choice.random() < 0.2:
            worker.nak(message)
        else:
            worker.ack(message)
            done[subject].append(sequence)
    assert done == expected
    assert worker.numbers().ack_pending == 0


def test_handlers_work_on_many_subjects_and_on_one_message_of_each(rg: Railgun) -> None:
    stream = filled(rg, *[token for _ in range(20) for token in "abcde"])
    worker = stream.create_consumer("C", max_ack_pending_per_subject=1)
    lock = threading.Lock()
    active: dict[str, int] = defaultdict(int)
    busiest: dict[str, int] = defaultdict(int)
    together = 0
    seen: dict[str, list[int]] = defaultdict(list)
    meeting = threading.Barrier(2)  # two subjects are handled at the same time

    def handle(message: railgun.Message) -> None:
        nonlocal together
        with lock:
            active[message.subject] += 1
            busiest[message.subject] = max(busiest[message.subject], active[message.subject])
            together = max(together, sum(active.values()))
            first = message.subject[-1] in "ab" and not seen[message.subject] and message.deliveries == 1
        if first:
            meeting.wait(20)
        with lock:
            active[message.subject] -= 1
            if message.sequence % 7 == 0 and message.deliveries == 1:
                refuse = True
            else:
                refuse = False
                seen[message.subject].append(message.sequence)
        if refuse:
            message.nak()
        else:
            message.ack()

    with worker.subscribe(handle, concurrency=8):
        wait_until(lambda: sum(map(len, seen.values())) >= 100, "all messages handled", 60.0)
    assert dict(seen) == {
        f"{stream.name}.{token}": list(range(start, 101, 5)) for start, token in enumerate("abcde", 1)
    }
    assert set(busiest.values()) == {1}
    assert together >= 2
