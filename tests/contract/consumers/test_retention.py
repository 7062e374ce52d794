"""What acknowledgements do to a stream: work queues, interest, and the limits that stay above both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import railgun
from railgun.client.facade.railgun import Railgun
from railgun.testing import Clock
from tests.support.consumers import SECOND, add, add_refused, sequences
from tests.support.raw import update_refused
from tests.support.raw_consumer import RawConsumer
from tests.support.streams import filled, held

if TYPE_CHECKING:
    from tests.contract.conftest import Cluster


EXPLICIT_ACK = (10098, 400, "workqueue stream requires explicit ack")
PULL_EXPLICIT_ACK = (
    10084,
    400,
    "consumer in pull mode requires explicit ack policy on workqueue stream",
)
DELIVER_ALL = (10101, 400, "consumer must be deliver all on workqueue stream")
ONE_UNFILTERED = (10099, 400, "multiple non-filtered consumers not allowed on workqueue stream")
NOT_UNIQUE = (10100, 400, "filtered consumer not unique on workqueue stream")
NO_WAY = (
    10052,
    500,
    "stream configuration update can not change retention policy to/from workqueue",
)


def publish(rg: Railgun, stream: railgun.Stream, *tokens: str) -> list[int]:
    """One message for each token; their sequences."""
    return [rg.publish(f"{stream.name}.{token}", token).sequence for token in tokens]


# ------------------------------------------------------------ work queue: what removes a message


@pytest.mark.rule("RET-01")
def test_an_acked_message_leaves_a_work_queue(rg: Railgun) -> None:
    queue = filled(rg, "a", "b", "a", retention="workqueue")
    worker = RawConsumer(rg, queue.name)
    first, second, third = worker.take(3)
    assert held(queue) == [1, 2, 3]
    worker.ack(second)
    assert held(queue) == [1, 3]
    with pytest.raises(railgun.MessageNotFound):
        queue.get(2)
    worker.ack(third, first)
    state = queue.info().state
    assert (state.messages, state.bytes, state.first_seq, state.last_seq) == (0, 0, 4, 3)
    assert publish(rg, queue, "c") == [4]
    assert sequences(worker.take(5)) == [4]


@pytest.mark.rule("RET-01")
def test_the_facade_empties_a_work_queue(rg: Railgun) -> None:
    queue = filled(rg, "a", "b", "a", "b", retention="workqueue")
    worker = queue.create_consumer("WORK")
    seen = []
    for message in worker.fetch(4, wait=5.0):
        seen.append((message.sequence, message.payload))
        message.ack_sync()
    assert seen == [(1, b"1"), (2, b"2"), (3, b"3"), (4, b"4")]
    assert queue.info().state.messages == 0


@pytest.mark.rule("RET-02")
def test_a_terminated_message_leaves_a_work_queue_and_an_unfinished_one_stays(
    rg: Railgun, clock: Clock
) -> None:
    queue = filled(rg, "a", "a", "a", "a", retention="workqueue")
    worker = RawConsumer(rg, queue.name)
    refused, late, working, _ = worker.take(4)
    worker.term(refused)
    assert held(queue) == [2, 3, 4]
    worker.nak(late)
    worker.progress(working)
    assert held(queue) == [2, 3, 4]
    clock.advance(31)
    assert held(queue) == [2, 3, 4]
    again = worker.take(4)
    assert sequences(again) == [2, 3, 4]
    worker.term(*again)
    assert held(queue) == []


# ------------------------------------------------------------ work queue: which consumers it has


@pytest.mark.rule("RET-03")
@pytest.mark.parametrize(
    "options, expected",
    [
        ({"ack_policy": "none"}, PULL_EXPLICIT_ACK),
        ({"ack_policy": "all"}, EXPLICIT_ACK),
        ({"ack_policy": "none", "deliver_subject": "somewhere"}, EXPLICIT_ACK),
        ({"ack_policy": "all", "deliver_subject": "somewhere"}, EXPLICIT_ACK),
    ],
    ids=["pull none", "pull all", "push none", "push all"],
)
def test_a_work_queue_wants_explicit_acks(
    rg: Railgun, options: dict[str, Any], expected: tuple[int, int, str]
) -> None:
    queue = filled(rg, retention="workqueue")
    assert add_refused(rg, queue.name, **options) == expected
    assert queue.info().state.consumer_count == 0


@pytest.mark.rule("RET-04")
@pytest.mark.parametrize(
    "options",
    [
        {"deliver_policy": "last"},
        {"deliver_policy": "new"},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 1},
        {"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"},
        {"deliver_policy": "last_per_subject", "filter_subject": "a"},
    ],
    ids=lambda options: options["deliver_policy"],
)
def test_a_work_queue_delivers_all(rg: Railgun, options: dict[str, Any]) -> None:
    queue = filled(rg, retention="workqueue")
    assert add_refused(rg, queue.name, **options) == DELIVER_ALL
    assert queue.info().state.consumer_count == 0


@pytest.mark.rule("RET-05")
def test_a_work_queue_has_one_consumer_without_filter(rg: Railgun) -> None:
    queue = filled(rg, retention="workqueue")
    add(rg, queue.name, "ONE")
    assert add_refused(rg, queue.name, "TWO") == ONE_UNFILTERED
    add(rg, queue.name, "ONE")  # the same again is no second one
    filtered = filled(rg, retention="workqueue")
    add(rg, filtered.name, "A", filter_subject=f"{filtered.name}.a")
    assert add_refused(rg, filtered.name, "ALL") == ONE_UNFILTERED
    assert filtered.info().state.consumer_count == 1


@pytest.mark.rule("RET-05", "RET-06")
def test_the_facade_says_why_a_consumer_may_not_join(rg: Railgun) -> None:
    queue = filled(rg, retention="workqueue")
    queue.create_consumer("ONE")
    for fields, expected in (({}, ONE_UNFILTERED), ({"filter_subject": f"{queue.name}.a"}, NOT_UNIQUE)):
        with pytest.raises(railgun.ApiError) as raised:
            queue.create_consumer("TWO", **fields)
        error = raised.value
        assert (error.err_code, error.code, error.description) == expected


@pytest.mark.rule("RET-06")
def test_no_filter_beside_a_consumer_without_one(rg: Railgun) -> None:
    queue = filled(rg, retention="workqueue")
    add(rg, queue.name, "ALL")
    assert add_refused(rg, queue.name, "A", filter_subject=f"{queue.name}.a") == NOT_UNIQUE


@pytest.mark.rule("RET-06")
@pytest.mark.parametrize(
    "first, second",
    [
        ("foo.bar.*", "foo.*.bar"),
        ("foo.*.bar", "foo.bar.*"),
        ("foo.>", "foo.bar"),
        ("foo.bar", "foo.>"),
        ("foo", "foo"),
        (["a", "foo.bar.*"], ["b", "foo.*.bar"]),
        (["a", "b"], "b"),
        ("*", ["foo.bar", "x"]),
    ],
    ids=str,
)
def test_filters_of_a_work_queue_may_not_collide(
    rg: Railgun, first: str | list[str], second: str | list[str]
) -> None:
    queue = filled(rg, retention="workqueue")

    def fields(given: str | list[str]) -> dict[str, Any]:
        if isinstance(given, str):
            return {"filter_subject": f"{queue.name}.{given}"}
        return {"filter_subjects": [f"{queue.name}.{one}" for one in given]}

    add(rg, queue.name, "FIRST", **fields(first))
    assert add_refused(rg, queue.name, "SECOND", **fields(second)) == NOT_UNIQUE
    add(rg, queue.name, "THIRD", filter_subject=f"{queue.name}.free.of.both")
    assert queue.info().state.consumer_count == 2


@pytest.mark.rule("RET-07")
def test_each_message_of_a_work_queue_goes_to_the_consumer_whose_filter_matches(rg: Railgun) -> None:
    queue = filled(rg, "a.1", "b.1", "c", "a.2", "b.2", retention="workqueue")
    a = RawConsumer(rg, queue.name, "A", filter_subject=f"{queue.name}.a.*")
    b = RawConsumer(rg, queue.name, "B", filter_subjects=[f"{queue.name}.b.>", f"{queue.name}.c"])
    of_a, of_b = a.take(9), b.take(9)
    assert (sequences(of_a), sequences(of_b)) == ([1, 4], [2, 3, 5])
    a.ack(*of_a)
    assert held(queue) == [2, 3, 5]
    b.ack(*of_b)
    assert held(queue) == []


@pytest.mark.rule("RET-08")
def test_a_changed_filter_is_checked_against_the_others(rg: Railgun) -> None:
    queue = filled(rg, "a", "b", "c", retention="workqueue")
    name = queue.name
    a = RawConsumer(rg, name, "A", filter_subject=f"{name}.a")
    RawConsumer(rg, name, "B", filter_subject=f"{name}.b")
    for collides in ("b", "*", ">"):
        refused = add_refused(rg, name, "A", action="update", filter_subject=f"{name}.{collides}")
        assert refused == NOT_UNIQUE
    assert add_refused(rg, name, "A", action="update") == ONE_UNFILTERED
    assert a.info()["config"]["filter_subject"] == f"{name}.a"
    assert sequences(a.take(9)) == [1]
    a.update(filter_subjects=[f"{name}.a", f"{name}.c"])
    publish(rg, queue, "c", "b", "a")
    assert sequences(a.take(9)) == [4, 6]


@pytest.mark.rule("RET-09", "RET-18")
def test_who_follows_a_deleted_consumer_gets_what_was_not_acked(rg: Railgun) -> None:
    queue = filled(rg, "a", "b", "a", "a", retention="workqueue")
    name = queue.name
    old = RawConsumer(rg, name, "OLD", filter_subject=f"{name}.a")
    first, *_ = old.take(2)
    old.ack(first)
    old.delete()
    assert held(queue) == [2, 3, 4]
    new = RawConsumer(rg, name, "NEW", filter_subject=f"{name}.a")
    found = new.take(9)
    assert sequences(found) == [3, 4]
    assert [reply.reply.split(".")[4] for reply in found] == ["1", "1"]  # a new consumer counts anew
    new.ack(*found)
    assert held(queue) == [2]


@pytest.mark.rule("RET-09")
def test_the_ack_of_a_deleted_consumer_means_nothing_to_its_successor(rg: Railgun) -> None:
    queue = filled(rg, "a", "a", retention="workqueue")
    old = queue.create_consumer("C")
    (stale,) = old.fetch(1, wait=5.0)
    queue.delete_consumer("C")
    new = RawConsumer(rg, queue.name)
    (message,) = new.take()
    with pytest.raises(railgun.RailgunError):
        stale.ack_sync()
    assert held(queue) == [1, 2]
    assert new.numbers().ack_pending == 1
    new.ack(message)
    assert held(queue) == [2]


@pytest.mark.rule("RET-10")
def test_what_nobody_filters_on_stays_in_a_work_queue_until_a_limit_takes_it(rg: Railgun) -> None:
    queue = filled(rg, "a", "b", "b", retention="workqueue", max_msgs=3)
    worker = RawConsumer(rg, queue.name, filter_subject=f"{queue.name}.a")
    worker.ack(*worker.take(9))
    assert held(queue) == [2, 3]
    publish(rg, queue, "b", "b")
    assert held(queue) == [3, 4, 5]


@pytest.mark.rule("RET-18")
def test_deleting_the_consumers_of_a_work_queue_removes_no_message(rg: Railgun) -> None:
    queue = filled(rg, "a", "b", "a", retention="workqueue")
    a = RawConsumer(rg, queue.name, "A", filter_subject=f"{queue.name}.a")
    b = RawConsumer(rg, queue.name, "B", filter_subject=f"{queue.name}.b")
    a.take(1)
    a.delete()
    b.delete()
    assert held(queue) == [1, 2, 3]


@pytest.mark.rule("RET-11", "RDL-08", "RDL-09")
@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_what_ran_out_of_deliveries_stays(rg: Railgun, clock: Clock, retention: str) -> None:
    stream = filled(rg, retention=retention)
    worker = RawConsumer(rg, stream.name, max_deliver=2)
    publish(rg, stream, "a", "a", "a", "a")
    _, second, *_ = worker.take(9)
    worker.ack(second)
    clock.advance(31)
    assert sequences(worker.take(9)) == [1, 3, 4]
    assert worker.numbers().floor == (0, 0)
    clock.advance(31)
    assert worker.take(9) == []
    numbers = worker.numbers()
    assert (numbers.delivered, numbers.floor, numbers.ack_pending) == ((7, 4), (7, 4), 0)
    assert held(stream) == [1, 3, 4]
    assert stream.get(1).payload == b"a"
    publish(rg, stream, "b")
    assert sequences(worker.take(9)) == [5]


# ------------------------------------------------------------ interest


@pytest.mark.rule("RET-12")
def test_without_interest_a_message_gets_a_sequence_and_is_not_stored(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    for expected in (1, 2):
        assert publish(rg, stream, "a") == [expected]
        state = stream.info().state
        assert (state.messages, state.bytes) == (0, 0)
        assert (state.first_seq, state.last_seq) == (expected + 1, expected)
    worker = RawConsumer(rg, stream.name, filter_subject=f"{stream.name}.a")
    assert publish(rg, stream, "b", "a", "b") == [3, 4, 5]
    state = stream.info().state
    assert (state.messages, state.first_seq, state.last_seq) == (1, 4, 5)
    with pytest.raises(railgun.MessageNotFound):
        stream.get(5)
    assert sequences(worker.take(9)) == [4]


@pytest.mark.rule("RET-12")
def test_without_interest_a_pipeline_stores_only_what_somebody_wants(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    RawConsumer(rg, stream.name, filter_subject=f"{stream.name}.a")
    futures = [rg.publish_soon(f"{stream.name}.{'ab'[number % 2]}", b"x") for number in range(200)]
    rg.flush()
    assert [future.result().sequence for future in futures] == list(range(1, 201))
    state = stream.info(deleted=True).state
    assert (state.messages, state.first_seq, state.last_seq) == (100, 1, 200)
    assert held(stream) == list(range(1, 200, 2))


@pytest.mark.rule("RET-13", "RET-14")
def test_a_message_goes_when_explicit_all_and_none_are_done_with_it(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    explicit = RawConsumer(rg, stream.name, "EXPLICIT")
    cumulative = RawConsumer(rg, stream.name, "ALL", ack_policy="all")
    silent = RawConsumer(rg, stream.name, "NONE", ack_policy="none")
    publish(rg, stream, *"aaaaaaaaaa")
    each = explicit.take(10)
    together = cumulative.take(10)
    explicit.ack(each[0], each[1], each[3])
    assert held(stream) == list(range(1, 11))
    cumulative.ack(together[2])
    assert held(stream) == list(range(1, 11))
    assert sequences(silent.take(2)) == [1, 2]
    assert held(stream) == list(range(3, 11))
    assert sequences(silent.take(2)) == [3, 4]
    assert held(stream) == list(range(3, 11))
    explicit.ack(each[2])
    assert held(stream) == list(range(4, 11))
    cumulative.ack(together[8])
    assert held(stream) == list(range(5, 11))
    explicit.ack(*each[4:])
    assert held(stream) == list(range(5, 11))
    assert sequences(silent.take(10)) == [5, 6, 7, 8, 9, 10]
    assert held(stream) == [10]
    cumulative.ack(together[9])
    assert held(stream) == []


@pytest.mark.rule("RET-13")
def test_only_consumers_whose_filter_matches_hold_a_message(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    wide = RawConsumer(rg, stream.name, "WIDE")
    narrow = RawConsumer(rg, stream.name, "NARROW", filter_subject=f"{stream.name}.a")
    publish(rg, stream, "a", "b", "a", "b")
    wide.ack(*wide.take(9))
    assert held(stream) == [1, 3]
    first, second = narrow.take(9)
    narrow.ack(second)
    assert held(stream) == [1]
    narrow.ack(first)
    assert held(stream) == []


@pytest.mark.rule("RET-13")
def test_who_comes_later_holds_what_is_still_there_if_it_wants_it(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    first = RawConsumer(rg, stream.name, "FIRST")
    publish(rg, stream, "a", "a", "a")
    found = first.take(3)
    RawConsumer(rg, stream.name, "NEW", deliver_policy="new")
    first.ack(found[0])
    assert held(stream) == [2, 3]
    everything = RawConsumer(rg, stream.name, "EVERYTHING")
    first.ack(found[1], found[2])
    assert held(stream) == [2, 3]
    late = everything.take(9)
    assert sequences(late) == [2, 3]
    everything.ack(late[0])
    assert held(stream) == [3]
    publish(rg, stream, "a")
    first.ack(*first.take())
    everything.ack(*late, *everything.take())
    assert held(stream) == [4]  # NEW wants it


@pytest.mark.rule("RET-13")
def test_a_terminated_message_is_needed_no_more_and_a_refused_one_is(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    worker = RawConsumer(rg, stream.name)
    publish(rg, stream, "a", "a")
    first, second = worker.take(2)
    worker.nak(first)
    worker.term(second)
    assert held(stream) == [1]


@pytest.mark.rule("RET-11", "RET-13")
def test_what_one_consumer_gave_up_stays_when_the_others_ack_it(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    gives_up = RawConsumer(rg, stream.name, "GIVES_UP", max_deliver=1)
    works = RawConsumer(rg, stream.name, "WORKS")
    publish(rg, stream, "a", "a", "a")
    first, second, third = gives_up.take(3)
    gives_up.nak(first, second)
    gives_up.ack(third)
    assert gives_up.numbers().ack_pending == 0
    works.ack(*works.take(3))
    assert held(stream) == [1, 2]  # never acked by GIVES_UP
    gives_up.ack(first)  # late, and still an ack
    assert held(stream) == [2]
    gives_up.delete()
    assert held(stream) == []


@pytest.mark.rule("RET-14")
def test_with_ack_none_delivered_is_done(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    silent = RawConsumer(rg, stream.name, ack_policy="none")
    publish(rg, stream, "a", "b", "c")
    assert [reply.body for reply in silent.take(2)] == [b"a", b"b"]
    assert held(stream) == [3]
    assert [reply.body for reply in silent.take(2)] == [b"c"]
    assert held(stream) == []


@pytest.mark.rule("RET-15")
def test_deleting_a_consumer_removes_what_only_it_needed(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    stays, goes = RawConsumer(rg, stream.name, "STAYS"), RawConsumer(rg, stream.name, "GOES")
    publish(rg, stream, *"aaaaa")
    by_stays, by_goes = stays.take(5), goes.take(2)
    stays.ack(by_stays[1], by_stays[2])
    goes.ack(*by_goes)
    assert held(stream) == [1, 3, 4, 5]
    goes.delete()
    assert held(stream) == [1, 4, 5]
    stays.delete()
    state = stream.info().state
    assert (state.messages, state.first_seq, state.last_seq) == (0, 6, 5)
    assert publish(rg, stream, "a") == [6]
    assert stream.info().state.messages == 0


@pytest.mark.rule("RET-15")
def test_deleting_a_filtered_consumer_leaves_the_messages_of_others(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    a = RawConsumer(rg, stream.name, "A", filter_subject=f"{stream.name}.a")
    RawConsumer(rg, stream.name, "B", filter_subject=f"{stream.name}.b")
    publish(rg, stream, "a", "b", "a", "b")
    a.delete()
    assert held(stream) == [2, 4]


@pytest.mark.rule("RET-15", "STA-04")
def test_deleting_a_consumer_removes_what_lies_before_the_start_of_the_others(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    b = RawConsumer(rg, stream.name, "B", filter_subject=f"{stream.name}.b")
    late = RawConsumer(rg, stream.name, "LATE", deliver_policy="by_start_sequence", opt_start_seq=5)
    publish(rg, stream, *"ababab")
    assert held(stream) == [1, 2, 3, 4, 5, 6]
    b.delete()
    assert held(stream) == [5, 6]
    late.ack(*late.take(2))
    assert held(stream) == []


@pytest.mark.rule("RET-16")
def test_a_durable_that_is_away_still_holds_messages(cluster: Cluster, rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    with cluster.connect() as other:
        other.stream(stream.name).create_consumer("AWAY")
    here = RawConsumer(rg, stream.name, "HERE")
    publish(rg, stream, "a", "a", "a")
    here.ack(*here.take(3))
    assert held(stream) == [1, 2, 3]
    with cluster.connect() as other:
        back = other.stream(stream.name).consumer("AWAY")
        for message in back.fetch(2, wait=5.0):
            message.ack_sync()
    assert held(stream) == [3]
    publish(rg, stream, "a")
    here.ack(*here.take(3))
    assert held(stream) == [3, 4]
    with cluster.connect() as other:
        found = other.stream(stream.name).consumer("AWAY").fetch(2, wait=5.0)
        assert [message.sequence for message in found] == [3, 4]
        for message in found:
            message.ack_sync()
    assert held(stream) == []


@pytest.mark.rule("RET-17")
def test_a_narrower_filter_lets_go_of_what_nobody_needs(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    worker = RawConsumer(rg, stream.name, filter_subject=f"{stream.name}.>")
    publish(rg, stream, "a", "b", "a", "b")
    worker.update(filter_subject=f"{stream.name}.a")
    assert held(stream) == [1, 3]
    assert sequences(worker.take(9)) == [1, 3]


@pytest.mark.rule("RET-17")
def test_a_narrower_filter_keeps_what_another_consumer_needs(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    narrowed = RawConsumer(rg, stream.name, "NARROWED")
    other = RawConsumer(rg, stream.name, "OTHER", filter_subject=f"{stream.name}.b")
    publish(rg, stream, "a", "b", "c", "b")
    (_, needed, _, _) = narrowed.take(4)
    assert needed.subject == f"{stream.name}.b"
    other.ack(*other.take(1))
    narrowed.update(filter_subject=f"{stream.name}.a")
    assert held(stream) == [1, 4]
    other.ack(*other.take(9))
    assert held(stream) == [1]
    publish(rg, stream, "c")
    assert held(stream) == [1]


@pytest.mark.rule("RET-19")
def test_a_duplicate_is_known_even_where_nothing_was_stored(rg: Railgun) -> None:
    stream = filled(rg, retention="interest")
    subject = f"{stream.name}.a"
    assert rg.publish(subject, b"x", msg_id="1") == railgun.PubAck(stream.name, 1)
    assert rg.publish(subject, b"x", msg_id="1") == railgun.PubAck(stream.name, 1, duplicate=True)
    RawConsumer(rg, stream.name)
    assert rg.publish(subject, b"x", msg_id="1") == railgun.PubAck(stream.name, 1, duplicate=True)
    assert stream.info().state.messages == 0
    assert rg.publish(subject, b"x", msg_id="2") == railgun.PubAck(stream.name, 2)
    assert held(stream) == [2]


@pytest.mark.rule("RET-20")
@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_holes_are_counted_and_the_first_moves_only_with_the_first(rg: Railgun, retention: str) -> None:
    stream = filled(rg, retention=retention)
    worker = RawConsumer(rg, stream.name)
    publish(rg, stream, *"aaaaa")
    found = worker.take(5)

    def after_ack(sequence: int) -> tuple[int, int, int]:
        worker.ack(found[sequence - 1])
        state = stream.info().state
        return state.first_seq, state.last_seq, state.num_deleted

    assert after_ack(3) == (1, 5, 1)
    assert after_ack(1) == (2, 5, 1)
    assert after_ack(2) == (4, 5, 0)
    assert after_ack(5) == (4, 5, 1)
    assert after_ack(4) == (6, 5, 0)


# ------------------------------------------------------------ changing the retention


@pytest.mark.rule("UPD-04")
@pytest.mark.parametrize(
    "old, new",
    [
        ("limits", "workqueue"),
        ("interest", "workqueue"),
        ("workqueue", "limits"),
        ("workqueue", "interest"),
    ],
)
def test_nothing_becomes_or_stops_being_a_work_queue(rg: Railgun, old: str, new: str) -> None:
    stream = filled(rg, "a", retention=old)
    assert update_refused(rg, stream.name, subjects=[f"{stream.name}.>"], retention=new) == NO_WAY
    assert stream.info().config.retention == old
    with pytest.raises(railgun.InvalidStreamConfig):
        rg.update_stream(stream.name, retention=new)


@pytest.mark.rule("UPD-04")
def test_limits_and_interest_change_into_each_other(rg: Railgun) -> None:
    stream = filled(rg)
    worker = RawConsumer(rg, stream.name)
    publish(rg, stream, "a")
    rg.update_stream(stream.name, retention="interest")
    assert stream.info().config.retention == "interest"
    assert held(stream) == [1]
    worker.ack(*worker.take())
    assert held(stream) == []
    rg.update_stream(stream.name, retention="limits")
    assert stream.info().config.retention == "limits"
    publish(rg, stream, "a")
    worker.ack(*worker.take())
    assert held(stream) == [2]


@pytest.mark.rule("UPD-05")
def test_the_change_to_interest_removes_what_all_have_acked(rg: Railgun) -> None:
    stream = filled(rg, *"aabbaabb")
    wide = RawConsumer(rg, stream.name, "WIDE")
    cumulative = RawConsumer(rg, stream.name, "ALL", ack_policy="all")
    narrow = RawConsumer(rg, stream.name, "NARROW", filter_subject=f"{stream.name}.b")
    each = wide.take(8)
    wide.ack(*each[:6])  # not 7 and 8
    cumulative.ack(cumulative.take(8)[4])  # 1 to 5
    of_b = narrow.take(4)  # 3, 4, 7, 8
    narrow.ack(of_b[0], of_b[2])  # not 4 and 8
    assert held(stream) == list(range(1, 9))
    rg.update_stream(stream.name, retention="interest")
    assert held(stream) == [4, 6, 7, 8]
    narrow.ack(of_b[1])
    assert held(stream) == [6, 7, 8]


@pytest.mark.rule("UPD-05")
def test_the_change_to_interest_keeps_what_was_delivered_and_not_acked(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, *"aaa")
    worker = RawConsumer(rg, stream.name)
    _, second, _ = worker.take(3)
    worker.ack(second)
    rg.update_stream(stream.name, retention="interest")
    assert held(stream) == [1, 3]
    clock.advance(31)
    again = worker.take(3)
    assert sequences(again) == [1, 3]
    worker.ack(*again)
    assert held(stream) == []


@pytest.mark.rule("UPD-05", "RET-11")
def test_the_change_to_interest_keeps_what_was_given_up(rg: Railgun) -> None:
    stream = filled(rg, *"aa")
    worker = RawConsumer(rg, stream.name, max_deliver=1)
    first, second = worker.take(2)
    worker.nak(first)
    worker.ack(second)
    rg.update_stream(stream.name, retention="interest")
    assert held(stream) == [1]


# ------------------------------------------------------------ limits above both


@pytest.mark.rule("LIM-02")
@pytest.mark.parametrize("retention", ["workqueue", "interest"])
@pytest.mark.parametrize(
    "limit, left",
    [
        ({"max_msgs": 3}, [3, 4, 5]),
        ({"max_bytes": 160}, [3, 4, 5]),  # subjects of 17, payloads of 1 byte: 48 each
        ({"max_msgs_per_subject": 1}, [4, 5]),
    ],
    ids=["max_msgs", "max_bytes", "max_msgs_per_subject"],
)
def test_limits_stay_upper_bounds(
    rg: Railgun, retention: str, limit: dict[str, int], left: list[int]
) -> None:
    stream = filled(rg, retention=retention, **limit)
    worker = RawConsumer(rg, stream.name)
    publish(rg, stream, *"ababa")
    assert held(stream) == left
    assert sequences(worker.take(9)) == left


@pytest.mark.rule("LIM-02")
@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_age_stays_an_upper_bound(rg: Railgun, clock: Clock, retention: str) -> None:
    stream = filled(rg, retention=retention, max_age=600)
    worker = RawConsumer(rg, stream.name, ack_wait=3600 * SECOND)
    publish(rg, stream, "a", "a")
    assert sequences(worker.take()) == [1]
    clock.advance(400)
    publish(rg, stream, "a")
    clock.advance(201)
    assert held(stream) == [3]
    assert sequences(worker.take(9)) == [3]


@pytest.mark.rule("LIM-02")
@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_a_full_queue_refuses_until_an_ack_makes_room(rg: Railgun, retention: str) -> None:
    stream = filled(rg, retention=retention, max_msgs=2, discard="new")
    worker = RawConsumer(rg, stream.name)
    publish(rg, stream, "a", "a")
    with pytest.raises(railgun.StreamFull) as raised:
        publish(rg, stream, "a")
    error = raised.value
    assert (error.err_code, error.code, error.description) == (10077, 503, "maximum messages exceeded")
    worker.ack(*worker.take())
    assert publish(rg, stream, "a") == [3]
    assert held(stream) == [2, 3]
