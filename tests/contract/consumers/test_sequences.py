"""The numbers of a consumer: attempts, messages, and the floor below which all is resolved."""

from __future__ import annotations

import pytest

from railgun.client.facade.railgun import Railgun
from railgun.model.messages import Reply
from railgun.testing import Clock
from tests.support.consumers import SECOND, about, delivery, sequences
from tests.support.raw_consumer import Numbers, RawConsumer
from tests.support.streams import Unique, filled, held


def pairs(replies: list[Reply]) -> list[tuple[int, int]]:
    """(consumer sequence, stream sequence) of each delivery."""
    return [(delivery(one).consumer_sequence, delivery(one).sequence) for one in replies]


# ------------------------------------------------------------ the walk-through, by number


@pytest.mark.rule("SEQ-02", "SEQ-03", "SEQ-04", "SEQ-05", "SEQ-06")
def test_the_walk_through_up_to_the_redelivery(rg: Railgun, clock: Clock, unique: Unique) -> None:
    name = unique("O")
    subject = f"{name}.ready"
    assert len(subject) == len("ORDERS.processed")
    orders = rg.create_stream(name, subjects=[f"{name}.*"])
    dispatch = RawConsumer(rg, name, "DISPATCH")

    def stored() -> tuple[int, int, int, int]:
        state = orders.info().state
        return state.messages, state.bytes, state.first_seq, state.last_seq

    # step 0: nothing was ever delivered
    assert dispatch.numbers() == Numbers(delivered=(0, 0), floor=(0, 0), ack_pending=0, redelivered=0)
    assert stored() == (0, 0, 0, 0)
    assert orders.info().state.consumer_count == 1

    # step 1: delivered and acked
    rg.publish(subject, "order 4")
    (message,) = dispatch.take()
    assert (message.subject, message.body) == (subject, b"order 4")
    dispatch.ack(message)
    assert dispatch.numbers() == Numbers((1, 1), (1, 1), 0, 0)
    assert stored() == (1, 53, 1, 1)

    # step 2: delivered, not acked
    rg.publish(subject, "order 5")
    (message,) = dispatch.take()
    assert message.body == b"order 5"
    assert dispatch.numbers() == Numbers((2, 2), (1, 1), 1, 0)

    # step 3: delivered again, not acked
    clock.advance(31)
    (message,) = dispatch.take()
    assert message.body == b"order 5"
    assert dispatch.numbers() == Numbers((3, 2), (1, 1), 1, 1)


@pytest.mark.rule("SEQ-06", "SEQ-07", "SEQ-08", "SEQ-10")
def test_the_walk_through_to_its_end(rg: Railgun, clock: Clock) -> None:
    orders = filled(rg, "processed", "processed")
    dispatch = RawConsumer(rg, orders.name, "DISPATCH")
    dispatch.ack(*dispatch.take())
    assert pairs(dispatch.take()) == [(2, 2)]
    clock.advance(31)
    assert pairs(dispatch.take()) == [(3, 2)]
    assert dispatch.numbers() == Numbers((3, 2), (1, 1), 1, 1)
    clock.advance(31)
    (message,) = dispatch.take()
    assert pairs([message]) == [(4, 2)]
    assert dispatch.numbers() == Numbers((4, 2), (1, 1), 1, 1)
    dispatch.ack(message)
    assert dispatch.numbers() == Numbers(delivered=(4, 2), floor=(4, 2), ack_pending=0, redelivered=0)
    rg.publish(f"{orders.name}.processed", b"3")
    assert pairs(dispatch.take()) == [(5, 3)]


@pytest.mark.rule("SEQ-03", "SEQ-04", "SEQ-05", "SEQ-06", "SEQ-07")
def test_the_walk_through_by_the_facade(rg: Railgun, clock: Clock) -> None:
    orders = filled(rg)
    subject = f"{orders.name}.processed"
    dispatch = orders.create_consumer("DISPATCH")

    def numbers() -> Numbers:
        info = dispatch.info()
        return Numbers(
            (info.delivered.consumer_seq, info.delivered.stream_seq),
            (info.ack_floor.consumer_seq, info.ack_floor.stream_seq),
            info.num_ack_pending,
            info.num_redelivered,
        )

    assert numbers() == Numbers((0, 0), (0, 0), 0, 0)
    rg.publish(subject, "order 4")
    (message,) = dispatch.fetch(1, wait=5.0)
    message.ack_sync()
    assert numbers() == Numbers((1, 1), (1, 1), 0, 0)
    rg.publish(subject, "order 5")
    (message,) = dispatch.fetch(1, wait=5.0)
    assert (message.sequence, message.consumer_sequence, message.deliveries) == (2, 2, 1)
    assert numbers() == Numbers((2, 2), (1, 1), 1, 0)
    clock.advance(31)
    (message,) = dispatch.fetch(1, wait=5.0)
    assert (message.sequence, message.consumer_sequence, message.deliveries) == (2, 3, 2)
    assert numbers() == Numbers((3, 2), (1, 1), 1, 1)
    clock.advance(31)
    (message,) = dispatch.fetch(1, wait=5.0)
    assert (message.sequence, message.consumer_sequence, message.deliveries) == (2, 4, 3)
    message.ack_sync()
    assert numbers() == Numbers((4, 2), (4, 2), 0, 0)


# ------------------------------------------------------------ two kinds of sequence


@pytest.mark.rule("SEQ-01")
def test_a_message_keeps_its_sequence_and_every_attempt_has_a_new_one(rg: Railgun) -> None:
    stream = filled(rg, "a", "b", "c")
    worker = RawConsumer(rg, stream.name)
    first, second = worker.take(2)
    assert pairs([first, second]) == [(1, 1), (2, 2)]
    worker.nak(second)
    (second,) = worker.take()
    assert pairs([second]) == [(3, 2)]
    worker.nak(first, second)
    found = worker.take(3)
    attempts, messages = zip(*pairs(found), strict=True)
    assert (attempts, sorted(messages)) == ((4, 5, 6), [1, 2, 3])
    assert [one.body for one in found] == [b"%d" % sequence for sequence in messages]
    other = RawConsumer(rg, stream.name, "OTHER")
    assert pairs(other.take(3)) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.rule("SEQ-02")
def test_delivered_is_what_was_delivered_last(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, *"aaaaa")
    worker = RawConsumer(rg, stream.name)
    assert worker.numbers().delivered == (0, 0)
    worker.take(3)
    assert worker.numbers().delivered == (3, 3)
    clock.advance(31)
    assert pairs(worker.take(2)) == [(4, 1), (5, 2)]
    assert worker.numbers().delivered == (5, 3)
    assert about(rg, stream.name)["num_pending"] == 2


@pytest.mark.rule("SEQ-08")
def test_a_redelivery_moves_the_consumer_sequence_alone(rg: Railgun) -> None:
    stream = filled(rg, "a", "a")
    worker = RawConsumer(rg, stream.name)
    (message,) = worker.take()
    for attempt in range(2, 6):
        worker.nak(message)
        (message,) = worker.take()
        assert worker.numbers().delivered == (attempt, 1)
    assert pairs(worker.take()) == [(6, 2)]


# ------------------------------------------------------------ the floor


@pytest.mark.rule("SEQ-09")
def test_the_floor_waits_for_the_lowest(rg: Railgun) -> None:
    stream = filled(rg, "a", "a", "a")
    worker = RawConsumer(rg, stream.name)
    first, second, third = worker.take(3)
    worker.ack(second)
    worker.ack(third)
    assert worker.numbers() == Numbers((3, 3), (0, 0), 1, 0)
    worker.ack(first)
    assert worker.numbers() == Numbers((3, 3), (3, 3), 0, 0)


@pytest.mark.rule("SEQ-09")
def test_the_floor_stops_at_each_hole(rg: Railgun) -> None:
    stream = filled(rg, *"aaaaaaaa")
    worker = RawConsumer(rg, stream.name)
    found = worker.take(8)
    for sequence, expected in ((2, 0), (1, 2), (5, 2), (4, 2), (3, 5), (8, 5), (6, 6), (7, 8)):
        worker.ack(found[sequence - 1])
        assert worker.numbers().floor == (expected, expected), sequence


@pytest.mark.rule("SEQ-10")
def test_with_nothing_pending_the_floor_is_what_was_delivered(rg: Railgun) -> None:
    stream = filled(rg, "a", "a", "a", "a")
    worker = RawConsumer(rg, stream.name)
    first, second, third = worker.take(3)
    worker.nak(second)
    (again,) = worker.take()
    worker.ack(first, third)
    assert worker.numbers() == Numbers((4, 3), (1, 1), 1, 1)
    worker.ack(again)
    assert worker.numbers() == Numbers((4, 3), (4, 3), 0, 0)


@pytest.mark.rule("SEQ-10")
def test_a_terminated_message_moves_the_floor_as_an_acked_one(rg: Railgun) -> None:
    stream = filled(rg, "a", "a", "a")
    worker = RawConsumer(rg, stream.name)
    first, second, third = worker.take(3)
    worker.term(second)
    assert worker.numbers().floor == (0, 0)
    worker.term(first)
    assert worker.numbers() == Numbers((3, 3), (2, 2), 1, 0)
    worker.term(third)
    assert worker.numbers() == Numbers((3, 3), (3, 3), 0, 0)


@pytest.mark.rule("SEQ-11")
def test_a_pending_message_counts_with_its_first_delivery(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, *"aaaa")
    worker = RawConsumer(rg, stream.name)
    first, *_ = worker.take(4)
    worker.ack(first)
    clock.advance(31)
    assert pairs(worker.take(3)) == [(5, 2), (6, 3), (7, 4)]
    clock.advance(31)
    second, third, fourth = worker.take(3)
    assert pairs([second, third, fourth]) == [(8, 2), (9, 3), (10, 4)]
    assert worker.numbers() == Numbers((10, 4), (1, 1), 3, 3)
    worker.ack(third)
    assert worker.numbers().floor == (1, 1)
    worker.ack(second)
    assert worker.numbers() == Numbers((10, 4), (3, 3), 1, 1)


@pytest.mark.rule("SEQ-12")
def test_retention_uses_the_floor_that_is_reported(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    worker = RawConsumer(rg, stream.name)
    for _ in range(5):
        rg.publish(f"{stream.name}.a", b"x")
    found = worker.take(5)
    worker.nak(found[1])
    (found[1],) = worker.take()
    for sequence in (3, 1, 4, 2):
        worker.ack(found[sequence - 1])
        assert stream.info().state.first_seq == worker.numbers().floor[1] + 1
    assert (held(stream), worker.numbers().floor) == ([5], (4, 4))
    worker.ack(found[4])
    assert (stream.info().state.first_seq, worker.numbers().floor) == (6, (6, 5))


@pytest.mark.rule("SEQ-12")
def test_ack_all_uses_the_floor_that_is_reported(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, *"aaaaaa")
    worker = RawConsumer(rg, stream.name, ack_policy="all")
    found = worker.take(6)
    worker.ack(found[3])
    assert worker.numbers() == Numbers((6, 6), (4, 4), 2, 0)
    worker.ack(found[1])  # below the floor: nothing changes
    assert worker.numbers() == Numbers((6, 6), (4, 4), 2, 0)
    clock.advance(31)
    assert sequences(worker.take(6)) == [5, 6]


@pytest.mark.rule("SEQ-13")
def test_the_floor_after_a_nak_and_a_late_ack(rg: Railgun) -> None:
    stream = filled(rg, *"a" * 11)
    worker = RawConsumer(rg, stream.name)
    found = worker.take(11)
    worker.nak(found[0])
    worker.ack(*found[1:10])
    numbers = worker.numbers()
    assert (numbers.floor, numbers.ack_pending) == ((0, 0), 2)
    (first,) = worker.take()
    worker.ack(first)
    numbers = worker.numbers()
    assert (numbers.delivered, numbers.floor, numbers.ack_pending) == ((12, 11), (10, 10), 1)
    worker.ack(found[10])
    assert worker.numbers() == Numbers((12, 11), (12, 11), 0, 0)


@pytest.mark.rule("SEQ-13")
def test_a_late_ack_of_the_first_delivery_moves_the_floor_too(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a", "a")
    worker = RawConsumer(rg, stream.name)
    early, _ = worker.take(2)
    clock.advance(31)
    assert pairs(worker.take(2)) == [(3, 1), (4, 2)]
    worker.ack(early)
    assert worker.numbers() == Numbers((4, 2), (1, 1), 1, 1)


@pytest.mark.rule("SEQ-14")
def test_ack_all_sets_the_floor_to_the_pair_of_that_delivery(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, *"a" * 10)
    worker = RawConsumer(rg, stream.name, ack_policy="all")
    found = worker.take(10)
    worker.ack(found[3])
    assert worker.numbers() == Numbers((10, 10), (4, 4), 6, 0)
    clock.advance(31)
    again = worker.take(10)
    assert pairs(again) == [(number, number - 6) for number in range(11, 17)]
    worker.ack(again[2])
    assert worker.numbers() == Numbers((16, 10), (13, 7), 3, 3)
    worker.ack(again[5])
    assert worker.numbers() == Numbers((16, 10), (16, 10), 0, 0)


@pytest.mark.rule("SEQ-14", "SEQ-15")
def test_ack_all_with_a_filter(rg: Railgun) -> None:
    stream = filled(rg, *"abababab")
    worker = RawConsumer(rg, stream.name, ack_policy="all", filter_subject=f"{stream.name}.a")
    found = worker.take(4)
    assert pairs(found) == [(1, 1), (2, 3), (3, 5), (4, 7)]
    worker.ack(found[1])
    assert worker.numbers() == Numbers((4, 7), (2, 3), 2, 0)


@pytest.mark.rule("SEQ-15")
def test_with_a_filter_stream_numbers_skip_and_consumer_numbers_do_not(rg: Railgun) -> None:
    stream = filled(rg, *"bababab")
    worker = RawConsumer(rg, stream.name, filter_subject=f"{stream.name}.a")
    assert worker.numbers() == Numbers((0, 0), (0, 0), 0, 0)
    found = worker.take(9)
    assert pairs(found) == [(1, 2), (2, 4), (3, 6)]
    assert worker.numbers() == Numbers((3, 6), (0, 1), 3, 0)
    worker.ack(found[0])
    assert worker.numbers() == Numbers((3, 6), (1, 3), 2, 0)  # 3: the message before the lowest pending one
    worker.ack(found[2])
    assert worker.numbers().floor == (1, 3)
    worker.ack(found[1])
    assert worker.numbers() == Numbers((3, 6), (3, 6), 0, 0)


@pytest.mark.rule("SEQ-15")
def test_a_changed_filter_goes_on_with_the_consumer_numbers(rg: Railgun) -> None:
    stream = filled(rg, *"aaaaaaaabb")
    worker = RawConsumer(rg, stream.name, filter_subject=f"{stream.name}.a", ack_wait=3600 * SECOND)
    assert pairs(worker.take(5)) == [(number, number) for number in range(1, 6)]
    worker.update(filter_subject=f"{stream.name}.b", ack_wait=3600 * SECOND)
    assert pairs(worker.take(9)) == [(6, 9), (7, 10)]
