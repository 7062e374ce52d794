"""The commit of a batch: what is checked, against which state, and that all is stored or nothing (BAT-29 … BAT-36, BAT-48)."""

from __future__ import annotations

from typing import Any

import pytest

from railgun import Railgun, Stream
from railgun.errors import ApiError, StreamFull, WrongLastSequence
from railgun.model import headers as h
from tests.support.batches import Sender, committed, payloads
from tests.support.streams import Make, put_on

WRONG = (10164, 400, "wrong last sequence")


@pytest.fixture
def stream(rg: Railgun, make: Make) -> Stream:
    """A stream with one message on each of ``x`` and ``y``."""
    made = make(allow_atomic=True, allow_rollup_hdrs=True, allow_msg_ttl=True)
    put_on(rg, made, "x", "y")
    return made


def commit(rg: Railgun, stream: Stream, *messages: tuple[str, dict[str, Any]]) -> tuple[int, int, str] | int:
    """A batch of (token, options): the last sequence, or the refusal."""
    try:
        with rg.batch() as batch:
            for token, options in messages:
                batch.add(f"{stream.name}.{token}", token, **options)
    except ApiError as error:
        return error.err_code, error.code, error.description
    assert batch.ack is not None
    return batch.ack.sequence


@pytest.mark.rule("BAT-29")
def test_expectations_compare_with_the_stream_at_the_commit(rg: Railgun, stream: Stream) -> None:
    sender = Sender(rg, stream)
    assert sender.send("B", 1, Nats_Expected_Last_Sequence=3) is None  # which is wrong as yet
    assert sender.send("C", 1, Nats_Expected_Last_Sequence=2) is None  # and this right
    rg.publish(f"{stream.name}.z")
    assert sender.refused("C", 2, "1") == (10071, 400, "wrong last sequence: 3")
    answer = sender.send("B", 2, "1")
    assert answer is not None
    assert answer["seq"] == 5


@pytest.mark.rule("BAT-13", "BAT-30", "BAT-31")
def test_only_the_first_message_may_expect_a_last_sequence(rg: Railgun, stream: Stream) -> None:
    right, wrong = {"expected_last_sequence": 2}, {"expected_last_sequence": 3}
    assert commit(rg, stream, ("a", right), ("b", {})) == 4
    assert commit(rg, stream, ("a", right), ("b", {})) == (10071, 400, "wrong last sequence: 4")
    assert commit(rg, stream, ("a", {}), ("b", {"expected_last_sequence": 4})) == WRONG
    assert commit(rg, stream, ("a", {}), ("b", wrong)) == (10071, 400, "wrong last sequence: 4")
    assert commit(rg, stream, ("a", {}), ("b", {"expected_last_sequence": 5}))[0] == 10071  # type: ignore[index]
    assert stream.info().state.last_seq == 4


@pytest.mark.rule("BAT-23", "BAT-31", "PUB-18")
def test_of_two_faults_the_one_that_nats_names_is_named(rg: Railgun, stream: Stream) -> None:
    wrong: dict[str, Any] = {"expected_last_sequence": 7}
    subject = {"headers": {h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT: "x"}}
    source = {"headers": {h.STREAM_SOURCE: "X 1 > >"}}
    increment = {"expected_last_msg_id": "1", "headers": {h.INCREMENT: "1"}}
    assert commit(rg, stream, ("x", wrong | subject))[0] == 10071  # type: ignore[index]
    assert commit(rg, stream, ("x", wrong | source))[0] == 10227  # type: ignore[index]
    assert commit(rg, stream, ("x", increment))[0] == 10177  # type: ignore[index]


@pytest.mark.rule("BAT-32")
def test_a_subject_is_checked_only_before_the_batch_writes_it(rg: Railgun, stream: Stream) -> None:
    def last(sequence: int) -> dict[str, int]:
        return {"expected_last_subject_sequence": sequence}

    assert commit(rg, stream, ("x", last(1)), ("y", last(2)), ("x", {})) == 5
    assert commit(rg, stream, ("x", last(5)), ("x", last(6))) == WRONG
    assert commit(rg, stream, ("x", {}), ("x", last(5))) == WRONG
    assert commit(rg, stream, ("x", {}), ("y", last(2))) == (10071, 400, "wrong last sequence: 4")
    assert stream.info().state.last_seq == 5


@pytest.mark.rule("BAT-33")
def test_the_subject_that_is_checked_may_be_another(rg: Railgun, stream: Stream) -> None:
    def last(token: str, sequence: int) -> dict[str, Any]:
        subject = f"{stream.name}.{token}"
        return {
            "expected_last_subject_sequence": sequence,
            "expected_last_subject_sequence_subject": subject,
        }

    assert commit(rg, stream, ("a", last("x", 1)), ("b", last("x", 1)), ("c", last("y", 2))) == 5
    assert commit(rg, stream, ("x", last("y", 2)), ("b", last("x", 1))) == WRONG
    assert commit(rg, stream, ("x", {}), ("b", last("*", 5))) == WRONG
    assert commit(rg, stream, ("a", last("x", 2))) == (10071, 400, "wrong last sequence: 1")
    assert stream.info().state.last_seq == 5


@pytest.mark.rule("BAT-34")
def test_limits_count_the_messages_of_the_batch(rg: Railgun, make: Make) -> None:
    stream = make(allow_atomic=True, discard="new", max_msgs=3)
    exceeded = (10077, 503, "maximum messages exceeded")
    assert commit(rg, stream, ("a", {}), ("b", {}), ("c", {}), ("d", {})) == exceeded
    assert commit(rg, stream, ("a", {}), ("b", {})) == 2
    assert commit(rg, stream, ("a", {}), ("b", {})) == exceeded
    assert commit(rg, stream, ("a", {})) == 3
    assert stream.info().state.messages == 3


@pytest.mark.rule("BAT-34")
def test_limits_of_a_subject_count_the_messages_of_the_batch(rg: Railgun, make: Make) -> None:
    stream = make(allow_atomic=True, discard="new", discard_new_per_subject=True, max_msgs_per_subject=1)
    exceeded = (10077, 503, "maximum messages per subject exceeded")
    assert commit(rg, stream, ("a", {}), ("a", {})) == exceeded
    assert commit(rg, stream, ("a", {}), ("b", {})) == 2
    assert commit(rg, stream, ("c", {}), ("b", {})) == exceeded
    assert stream.info().state.last_seq == 2


@pytest.mark.rule("BAT-34")
def test_bytes_count_the_messages_of_the_batch(rg: Railgun, make: Make) -> None:
    stream = make(allow_atomic=True, discard="new", max_bytes=1_000)
    message = (f"{stream.name}.a", bytes(200))
    with pytest.raises(StreamFull, match="maximum bytes exceeded"):
        committed(rg, *[message] * 4)
    committed(rg, *[message] * 3)
    assert stream.info().state.messages == 3


@pytest.mark.rule("BAT-34")
def test_a_message_makes_room_for_the_next_on_its_subject(rg: Railgun, make: Make) -> None:
    stream = make(allow_atomic=True, discard="new", max_msgs=2, max_msgs_per_subject=1)
    assert commit(rg, stream, ("a", {}), ("b", {}), ("a", {}), ("b", {})) == 4
    assert commit(rg, stream, ("b", {}), ("c", {})) == (10077, 503, "maximum messages exceeded")
    assert payloads(stream) == [b"a", b"b"]
    assert stream.info().state.first_seq == 3


@pytest.mark.rule("BAT-14")
def test_a_batch_that_is_larger_than_its_stream_keeps_the_newest(rg: Railgun, make: Make) -> None:
    stream = make(allow_atomic=True, max_msgs=2)
    assert commit(rg, stream, ("a", {}), ("b", {}), ("c", {})) == 3
    assert payloads(stream) == [b"b", b"c"]


@pytest.mark.rule("BAT-35")
def test_roll_ups_come_before_what_they_would_remove(rg: Railgun, stream: Stream) -> None:
    everything, subject = {"headers": {h.ROLLUP: "all"}}, {"headers": {h.ROLLUP: "sub"}}
    assert commit(rg, stream, ("a", {}), ("b", everything)) == (10111, 500, "batch rollup all invalid")
    assert commit(rg, stream, ("x", {}), ("x", subject)) == (10111, 500, "batch rollup sub invalid")
    assert stream.info().state.messages == 2
    assert commit(rg, stream, ("a", {}), ("x", subject), ("x", {})) == 5
    assert payloads_of(stream) == [(2, b"2"), (3, b"a"), (4, b"x"), (5, b"x")]
    assert commit(rg, stream, ("a", everything), ("b", subject), ("a", {})) == 8
    assert payloads_of(stream) == [(6, b"a"), (7, b"b"), (8, b"a")]


def payloads_of(stream: Stream) -> list[tuple[int, bytes]]:
    """Sequence and payload of all messages, in order."""
    found, sequence = [], 0
    state = stream.info().state
    while sequence < state.last_seq:
        message = stream.get_next(">", sequence=sequence + 1)
        sequence = message.sequence
        found.append((sequence, message.payload))
    return found


@pytest.mark.rule("BAT-13", "BAT-36")
@pytest.mark.parametrize(
    "options, number",
    [
        ({"expected_stream": "OTHER"}, 10060),
        ({"headers": {h.ROLLUP: "none"}}, 10111),
        ({"ttl": "soon"}, 10165),
        ({"headers": {h.STREAM_SOURCE: "X 1 > >"}}, 10227),
        ({"expected_last_msg_id": "X"}, 10177),
        ({"headers": {h.MSG_ID: "X"}}, 10177),
    ],
)
def test_one_message_that_is_refused_refuses_all(
    rg: Railgun, stream: Stream, options: dict[str, Any], number: int
) -> None:
    for place in range(3):
        messages = [("a", {}), ("b", {}), ("c", {})]
        messages[place] = ("d", options)
        assert commit(rg, stream, *messages)[0] == number  # type: ignore[index]
    state = stream.info().state
    assert (state.messages, state.last_seq) == (2, 2)


@pytest.mark.rule("BAT-13", "TTL-02")
@pytest.mark.parametrize("ttl", ["soon", "-1", "60"])
def test_a_batch_has_no_life_times_where_the_stream_has_none(rg: Railgun, make: Make, ttl: str) -> None:
    stream = make(allow_atomic=True)
    first = {"headers": {h.TTL: ttl}, "expected_last_sequence": 7}
    assert commit(rg, stream, ("a", first), ("b", {})) == (10166, 400, "per-message TTL is disabled")
    assert stream.info().state.last_seq == 0


@pytest.mark.rule("BAT-48")
def test_a_batch_under_interest_without_consumers(rg: Railgun, make: Make) -> None:
    stream = make(allow_atomic=True, retention="interest")
    assert commit(rg, stream, ("a", {}), ("b", {}), ("c", {})) == 3
    state = stream.info().state
    assert (state.messages, state.last_seq) == (0, 3)
    stream.create_consumer("C", filter_subject=f"{stream.name}.b")
    assert commit(rg, stream, ("a", {}), ("b", {}), ("c", {})) == 6
    assert stream.info().state.messages == 1


@pytest.mark.rule("BAT-48")
def test_a_batch_in_a_work_queue(rg: Railgun, make: Make) -> None:
    stream = make(allow_atomic=True, retention="workqueue")
    consumer = stream.create_consumer("C")
    assert commit(rg, stream, ("a", {}), ("b", {})) == 2
    for message in consumer.fetch(2, wait=10):
        message.ack_sync()
    assert stream.info().state.messages == 0


def test_subjects_are_transformed(rg: Railgun, make: Make, unique: Any) -> None:
    name = unique("T")
    stream = rg.create_stream(
        name,
        subjects=[f"{name}.in.*"],
        allow_atomic=True,
        subject_transform={"src": f"{name}.in.*", "dest": f"{name}.out.{{{{wildcard(1)}}}}"},
    )
    assert commit(rg, stream, ("in.a", {}), ("in.b", {})) == 2
    assert stream.get(2).subject == f"{name}.out.b"
    with pytest.raises(WrongLastSequence):
        committed(rg, (f"{name}.in.a", b""), (f"{name}.in.a", b""), expected_last_subject_sequence=1)


@pytest.mark.rule("CTR-31")
def test_counters_accumulate_within_a_batch(rg: Railgun, make: Make) -> None:
    stream = make(allow_atomic=True, allow_msg_counter=True)
    one, two, below = ({"headers": {h.INCREMENT: number}} for number in ("+1", "+2", "-5"))
    assert increments(rg, stream, ("hits", one), ("hits", two), ("other", below)) == 3
    assert [stream.get(number).json()["val"] for number in (1, 2, 3)] == ["1", "3", "-5"]
    assert increments(rg, stream, ("hits", one), ("hits", one)) == 5
    assert stream.get_last(f"{stream.name}.hits").json()["val"] == "5"
    most = {"headers": {h.INCREMENT: "9223372036854775801"}}
    assert increments(rg, stream, ("hits", two), ("hits", most)) == 10171
    assert increments(rg, stream, ("hits", one), ("hits", {})) == 10169
    assert increments(rg, stream, ("new", {}), ("new", one)) == 10172
    assert stream.get_last(f"{stream.name}.hits").json()["val"] == "5"
    assert stream.info().state.last_seq == 5
    value = rg.publish(f"{stream.name}.hits", headers={h.INCREMENT: "+1"}).value
    assert value == 6


def increments(rg: Railgun, stream: Stream, *messages: tuple[str, dict[str, Any]]) -> int:
    """A batch of (token, options) without payloads: the last sequence, or the number of the refusal."""
    try:
        with rg.batch() as batch:
            for token, options in messages:
                batch.add(f"{stream.name}.{token}", **options)
    except ApiError as error:
        return error.err_code
    assert batch.ack is not None
    return batch.ack.sequence
