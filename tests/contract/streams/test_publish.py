"""Publishing: acks, conditions, the order of the checks, roll-ups (PUB)."""

from __future__ import annotations

import threading

import pytest

from railgun.client.facade.railgun import Railgun
from railgun.errors import (
    ApiError,
    ExpectedStreamMismatch,
    NoStreamResponse,
    RequestTimeout,
    StreamSealed,
    WrongLastMessageId,
    WrongLastSequence,
)
from railgun.model import headers as h
from railgun.testing import Clock
from tests.support.raw import ask, refused
from tests.support.streams import Make, Unique

# ------------------------------------------------------------ acks


@pytest.mark.rule("PUB-01")
def test_a_request_to_a_captured_subject_is_acked_with_stream_and_sequence(rg: Railgun, make: Make) -> None:
    stream = make()
    assert ask(rg, f"{stream.name}.a", b"one") == {"stream": stream.name, "seq": 1}
    assert ask(rg, f"{stream.name}.b", b"two") == {"stream": stream.name, "seq": 2}
    assert [stream.get(number).payload for number in (1, 2)] == [b"one", b"two"]


@pytest.mark.rule("PUB-02")
def test_a_publish_that_wants_no_ack_is_stored_all_the_same(rg: Railgun, make: Make) -> None:
    stream = make()
    assert rg.publish(f"{stream.name}.a", b"silent", ack=False) is None
    assert rg.publish(f"{stream.name}.a", b"loud").sequence == 2
    assert stream.get(1).payload == b"silent"


@pytest.mark.rule("PUB-03")
def test_a_stream_without_acks_answers_neither_success_nor_refusal(rg: Railgun, make: Make) -> None:
    stream = make(no_ack=True)
    with pytest.raises(RequestTimeout):
        rg.request(f"{stream.name}.a", b"stored", timeout=0.6)
    with pytest.raises(RequestTimeout):
        rg.request(f"{stream.name}.a", b"refused", headers={h.EXPECTED_LAST_SEQUENCE: "9"}, timeout=0.6)
    assert stream.info().state.messages == 1
    assert stream.get(1).payload == b"stored"


@pytest.mark.rule("PUB-04")
def test_a_sequence_is_never_given_twice(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make(max_age=10, duplicate_window=10)
    subject = f"{stream.name}.a"
    assert [rg.publish(subject).sequence for _ in range(3)] == [1, 2, 3]
    stream.delete_message(3)
    assert rg.publish(subject).sequence == 4
    stream.purge()
    assert rg.publish(subject).sequence == 5
    clock.advance(11)
    assert stream.info().state.messages == 0
    assert rg.publish(subject).sequence == 6


@pytest.mark.rule("PUB-04")
def test_a_stream_may_begin_at_a_later_sequence(rg: Railgun, make: Make) -> None:
    stream = make(first_seq=100)
    assert [rg.publish(f"{stream.name}.a").sequence for _ in range(2)] == [100, 101]


@pytest.mark.rule("PUB-05")
def test_a_subject_that_no_stream_captures_is_told_at_once(rg: Railgun, make: Make, unique: Unique) -> None:
    stream, stray = make(), f"{unique('STRAY')}.a"
    with pytest.raises(NoStreamResponse) as caught:
        rg.publish(stray, b"x")
    assert caught.value.subject == stray
    (reply,) = rg.request(stray, b"x")
    assert (reply.status, reply.body) == (503, b"")
    assert stream.info().state.last_seq == 0


@pytest.mark.rule("PUB-06")
def test_a_message_is_stored_as_it_was_sent(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make()
    before = clock.now_ns()
    headers = [("Twice", "1"), ("Twice", "2"), ("lower", b"\xff\x00"), ("Empty", "")]
    rg.publish(f"{stream.name}.a", b"\x00\xffpayload", headers=headers)
    after = clock.now_ns()
    message = stream.get(1)
    assert (message.subject, message.payload) == (f"{stream.name}.a", b"\x00\xffpayload")
    assert list(message.headers) == [("Twice", b"1"), ("Twice", b"2"), ("lower", b"\xff\x00"), ("Empty", b"")]
    assert before - 1_000_000_000 <= message.time_ns <= after + 1_000_000_000
    assert stream.info().raw["state"]["last_ts"] == stream.info().raw["state"]["first_ts"]


@pytest.mark.rule("PUB-06")
def test_the_subject_is_stored_after_its_transform(rg: Railgun, make: Make, unique: Unique) -> None:
    name = unique("MOVED")
    stream = rg.create_stream(
        name,
        subjects=[f"{name}.*"],
        subject_transform={"src": f"{name}.*", "dest": f"{name}.to.{{{{wildcard(1)}}}}"},
    )
    rg.publish(f"{name}.a", b"x")
    assert stream.get(1).subject == f"{name}.to.a"


@pytest.mark.rule("PUB-06")
def test_header_names_are_matched_as_they_are_written(rg: Railgun, make: Make) -> None:
    stream = make()
    ack = ask(rg, f"{stream.name}.a", b"x", headers={"nats-expected-last-sequence": "9", "NATS-TTL": "x"})
    assert ack == {"stream": stream.name, "seq": 1}
    assert stream.get(1).header("nats-expected-last-sequence") == "9"


@pytest.mark.rule("PUB-23")
def test_messages_of_one_publisher_keep_their_order(rg: Railgun, make: Make) -> None:
    stream = make()
    futures = [rg.publish_soon(f"{stream.name}.{number % 3}", b"%d" % number) for number in range(300)]
    futures.append(rg.publish_soon(f"{stream.name}.0", b"300", headers={"With": "headers"}))
    rg.flush()
    assert [future.result().sequence for future in futures] == list(range(1, 302))
    for number in (1, 2, 150, 299, 301):
        assert stream.get(number).payload == b"%d" % (number - 1)


# ------------------------------------------------------------ conditions


@pytest.mark.rule("PUB-07")
def test_the_expected_stream_must_be_the_one_that_stores(rg: Railgun, make: Make) -> None:
    stream = make()
    with pytest.raises(ExpectedStreamMismatch):
        rg.publish(f"{stream.name}.a", expected_stream="OTHER")
    told = refused(rg, f"{stream.name}.a", b"x", headers={h.EXPECTED_STREAM: "OTHER"})
    assert told == (10060, 400, "expected stream does not match")
    assert rg.publish(f"{stream.name}.a", expected_stream=stream.name).sequence == 1


@pytest.mark.rule("PUB-08")
def test_the_expected_last_sequence_must_be_the_streams(rg: Railgun, make: Make) -> None:
    stream = make()
    subject = f"{stream.name}.a"
    assert rg.publish(subject, expected_last_sequence=0).sequence == 1
    told = refused(rg, subject, b"x", headers={h.EXPECTED_LAST_SEQUENCE: "0"})
    assert told == (10071, 400, "wrong last sequence: 1")
    with pytest.raises(WrongLastSequence) as caught:
        rg.publish(f"{stream.name}.other", expected_last_sequence=7)
    assert caught.value.actual == 1
    assert rg.publish(subject, expected_last_sequence=1).sequence == 2
    assert rg.publish(subject).sequence == 3  # no header: no condition


@pytest.mark.rule("PUB-09")
def test_the_last_sequence_does_not_go_back_with_purge_or_delete(rg: Railgun, make: Make) -> None:
    stream = make()
    subject = f"{stream.name}.a"
    rg.publish(subject)
    rg.publish(subject)
    stream.delete_message(2)
    for expected in (0, 1):
        with pytest.raises(WrongLastSequence) as caught:
            rg.publish(subject, expected_last_sequence=expected)
        assert caught.value.actual == 2
    stream.purge()
    with pytest.raises(WrongLastSequence):
        rg.publish(subject, expected_last_sequence=0)
    assert rg.publish(subject, expected_last_sequence=2).sequence == 3


@pytest.mark.rule("PUB-10")
def test_the_expected_last_sequence_of_a_subject(rg: Railgun, make: Make) -> None:
    stream = make()
    a, b = f"{stream.name}.a", f"{stream.name}.b"
    assert rg.publish(a, expected_last_subject_sequence=0).sequence == 1
    assert rg.publish(b, expected_last_subject_sequence=0).sequence == 2
    told = refused(rg, a, b"x", headers={h.EXPECTED_LAST_SUBJECT_SEQUENCE: "2"})
    assert told == (10071, 400, "wrong last sequence: 1")
    assert rg.publish(a, expected_last_subject_sequence=1).sequence == 3
    stream.delete_message(3)  # the newest that exists counts
    assert rg.publish(a, expected_last_subject_sequence=1).sequence == 4
    stream.purge(subject=a)
    assert rg.publish(a, expected_last_subject_sequence=0).sequence == 5


@pytest.mark.rule("PUB-11")
def test_the_condition_may_look_at_other_subjects(rg: Railgun, make: Make) -> None:
    stream = make()
    a, b, c = (f"{stream.name}.x.{token}" for token in "abc")
    rg.publish(a)
    rg.publish(b)
    both = f"{stream.name}.x.*"
    with pytest.raises(WrongLastSequence) as caught:
        rg.publish(c, expected_last_subject_sequence=1, expected_last_subject_sequence_subject=both)
    assert caught.value.actual == 2
    ack = rg.publish(c, expected_last_subject_sequence=2, expected_last_subject_sequence_subject=both)
    assert ack.sequence == 3
    ack = rg.publish(c, expected_last_subject_sequence=1, expected_last_subject_sequence_subject=a)
    assert ack.sequence == 4
    nothing = f"{stream.name}.y.>"
    assert (
        rg.publish(
            c, expected_last_subject_sequence=0, expected_last_subject_sequence_subject=nothing
        ).sequence
        == 5
    )


@pytest.mark.rule("PUB-12")
def test_a_subject_to_look_at_needs_a_sequence(rg: Railgun, make: Make) -> None:
    stream = make()
    told = refused(
        rg, f"{stream.name}.a", b"x", headers={h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT: f"{stream.name}.a"}
    )
    assert told == (10193, 400, "missing sequence for expected last sequence per subject")


@pytest.mark.rule("PUB-13")
def test_the_expected_last_id_is_that_of_the_last_message(rg: Railgun, make: Make) -> None:
    stream = make()
    subject = f"{stream.name}.a"
    rg.publish(subject, msg_id="one", expected_last_msg_id="")
    told = refused(rg, subject, b"x", headers={h.EXPECTED_LAST_MSG_ID: "two"})
    assert told == (10070, 400, "wrong last msg ID: one")
    rg.publish(subject, expected_last_msg_id="one")
    with pytest.raises(WrongLastMessageId) as caught:
        rg.publish(subject, expected_last_msg_id="one")
    assert caught.value.actual == ""  # the last message has no id
    assert rg.publish(subject, expected_last_msg_id="").sequence == 3


@pytest.mark.rule("PUB-14")
def test_of_many_with_the_same_expectation_exactly_one_succeeds(rg: Railgun, make: Make) -> None:
    """One owner decides in order, so nobody meets a winner in flight: losers always learn the sequence."""
    stream = make()
    subject = f"{stream.name}.a"
    start = threading.Barrier(6)
    outcomes: list[int | ApiError] = []

    def compete() -> None:
        start.wait(10)
        try:
            outcomes.append(rg.publish(subject, expected_last_subject_sequence=0).sequence)
        except ApiError as error:
            outcomes.append(error)

    rivals = [threading.Thread(target=compete) for _ in range(6)]
    for rival in rivals:
        rival.start()
    for rival in rivals:
        rival.join(30)
    errors = [outcome for outcome in outcomes if isinstance(outcome, ApiError)]
    assert [outcome for outcome in outcomes if outcome not in errors] == [1]
    assert [(error.err_code, error.description) for error in errors] == [
        (10071, "wrong last sequence: 1")
    ] * 5
    assert stream.info().state.messages == 1


@pytest.mark.rule("PUB-15")
def test_a_refused_publish_stores_nothing_and_takes_no_sequence(rg: Railgun, make: Make) -> None:
    stream = make(max_msg_size=20)
    subject = f"{stream.name}.a"
    rg.publish(subject, b"first")
    before = stream.info().state
    for headers, payload in (
        ({h.EXPECTED_LAST_SEQUENCE: "7"}, b"x"),
        ({h.EXPECTED_STREAM: "OTHER"}, b"x"),
        ({h.ROLLUP: "sub"}, b"x"),
        ({h.TTL: "5"}, b"x"),
        ({}, b"x" * 21),
    ):
        refused(rg, subject, payload, headers=headers)
    assert stream.info().state == before
    assert rg.publish(subject).sequence == 2


CHECKS: list[
    tuple[str, dict[str, str], int]
] = [  # in the order of PUB-16, each with its header and its refusal
    ("counter", {h.INCREMENT: "1"}, 10168),
    ("expected stream", {h.EXPECTED_STREAM: "OTHER"}, 10060),
    ("ttl", {h.TTL: "5"}, 10166),
    ("duplicate", {h.MSG_ID: "known"}, 0),
    ("last of the subject", {h.EXPECTED_LAST_SUBJECT_SEQUENCE: "9"}, 10071),
    ("last sequence", {h.EXPECTED_LAST_SEQUENCE: "9"}, 10071),
    ("last id", {h.EXPECTED_LAST_MSG_ID: "other"}, 10070),
    ("rollup", {h.ROLLUP: "sub"}, 10111),
    ("size", {"Large": "x" * 200}, 10054),
    ("discard", {}, 10077),
]


@pytest.mark.rule("PUB-16")
def test_the_checks_run_in_their_order(rg: Railgun, make: Make) -> None:
    """A message that breaks one rule and every later one is told of the first."""
    stream = make(max_msgs=1, discard="new", max_msg_size=150)
    subject = f"{stream.name}.a"
    rg.publish(subject, msg_id="known")
    for number, (name, _, expected) in enumerate(CHECKS):
        headers = {key: value for _, given, _ in CHECKS[number:] for key, value in given.items()}
        answer = ask(rg, subject, b"x", headers=headers)
        if name == "duplicate":
            assert answer == {"stream": stream.name, "seq": 1, "duplicate": True}
        else:
            assert answer["error"]["err_code"] == expected, name


@pytest.mark.rule("PUB-16", "LIM-08")
def test_the_first_wrong_expectation_is_named_and_the_subject_before_the_stream(
    rg: Railgun, make: Make
) -> None:
    stream = make(max_msgs=2, discard="new", max_msgs_per_subject=1, discard_new_per_subject=True)
    a, b = f"{stream.name}.a", f"{stream.name}.b"
    rg.publish(a)
    rg.publish(b)
    wrong = {
        h.EXPECTED_LAST_SUBJECT_SEQUENCE: "9",
        h.EXPECTED_LAST_SEQUENCE: "9",
        h.EXPECTED_LAST_MSG_ID: "x",
    }
    assert refused(rg, a, b"x", headers=wrong) == (10071, 400, "wrong last sequence: 1")
    del wrong[h.EXPECTED_LAST_SUBJECT_SEQUENCE]
    assert refused(rg, a, b"x", headers=wrong) == (10071, 400, "wrong last sequence: 2")
    full = (10077, 503, "maximum messages per subject exceeded")
    assert refused(rg, a, b"x") == full
    assert refused(rg, f"{stream.name}.c", b"x") == (10077, 503, "maximum messages exceeded")


@pytest.mark.rule("PUB-07", "TTL-03")
@pytest.mark.parametrize(
    "name",
    [
        h.EXPECTED_STREAM,
        h.EXPECTED_LAST_SEQUENCE,
        h.EXPECTED_LAST_SUBJECT_SEQUENCE,
        h.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
        h.EXPECTED_LAST_MSG_ID,
        h.ROLLUP,
        h.TTL,
        h.STREAM_SOURCE,
    ],
)
def test_an_empty_instruction_is_none(rg: Railgun, make: Make, name: str) -> None:
    stream = make()
    rg.publish(f"{stream.name}.a", msg_id="one")
    for empty in ("", "  "):
        assert "error" not in ask(rg, f"{stream.name}.a", b"x", headers={name: empty})
    assert stream.info().state.messages == 3
    assert dict(stream.get(2).headers)[name] == b""


@pytest.mark.rule("PUB-16", "PUB-08", "PUB-10")
@pytest.mark.parametrize("value", ["x", "-1", "1.0", "0x1", "1 "])
@pytest.mark.parametrize("name", [h.EXPECTED_LAST_SEQUENCE, h.EXPECTED_LAST_SUBJECT_SEQUENCE])
def test_an_expected_sequence_that_is_no_number_is_wrong(
    rg: Railgun, make: Make, name: str, value: str
) -> None:
    stream = make()
    rg.publish(f"{stream.name}.a")
    told = refused(rg, f"{stream.name}.a", b"x", headers={name: value})
    assert told == (10071, 400, "wrong last sequence: 1")


@pytest.mark.rule("PUB-16", "DUP-01")
def test_leading_spaces_are_no_part_of_a_value(rg: Railgun, make: Make) -> None:
    stream = make(allow_rollup_hdrs=True)
    subject = f"{stream.name}.a"
    rg.publish(subject, msg_id="one")
    assert ask(rg, subject, b"x", headers={h.MSG_ID: "  one"})["duplicate"]
    assert rg.publish(subject, msg_id=" one").duplicate
    expected = {
        h.EXPECTED_STREAM: f" {stream.name}",
        h.EXPECTED_LAST_SEQUENCE: " 1",
        h.EXPECTED_LAST_MSG_ID: " one",
    }
    assert ask(rg, subject, b"x", headers=expected)["seq"] == 2
    assert ask(rg, subject, b"x", headers={h.ROLLUP: " sub"})["seq"] == 3
    assert stream.info().state.messages == 1
    assert rg.publish(subject, msg_id="  new").sequence == 4
    assert rg.publish(subject, msg_id="new").duplicate


@pytest.mark.rule("PUB-18", "PUB-16", "TTL-03")
def test_what_is_told_of_a_source_and_of_a_ttl_without_sense(rg: Railgun, make: Make) -> None:
    stream = make()
    subject = f"{stream.name}.a"
    worst = {
        h.TTL: "soon",
        h.ROLLUP: "sub",
        h.EXPECTED_LAST_MSG_ID: "x",
        h.STREAM_SOURCE: "S 1",
        h.EXPECTED_LAST_SEQUENCE: "9",
    }
    for name, number in (
        (h.EXPECTED_LAST_SEQUENCE, 10071),
        (h.STREAM_SOURCE, 10227),
        (h.EXPECTED_LAST_MSG_ID, 10070),
        (h.ROLLUP, 10111),
        (h.TTL, 10165),
    ):
        assert refused(rg, subject, b"x", headers=worst)[0] == number
        del worst[name]


@pytest.mark.rule("RET-12", "TTL-03")
def test_the_ttl_of_a_message_that_is_not_stored_says_nothing(rg: Railgun, make: Make) -> None:
    stream = make(retention="interest", allow_msg_ttl=True)
    assert ask(rg, f"{stream.name}.a", b"x", headers={h.TTL: "soon"}) == {"stream": stream.name, "seq": 1}
    stream.create_consumer("C")
    assert refused(rg, f"{stream.name}.a", b"x", headers={h.TTL: "soon"})[0] == 10165


@pytest.mark.rule("PUB-16", "PUB-17")
def test_a_sealed_stream_refuses_before_anything_else(rg: Railgun, make: Make) -> None:
    stream = make()
    rg.publish(f"{stream.name}.a", msg_id="known")
    rg.update_stream(stream.name, sealed=True)
    with pytest.raises(StreamSealed):
        rg.publish(f"{stream.name}.a")
    headers = {key: value for _, given, _ in CHECKS for key, value in given.items()}
    told = refused(rg, f"{stream.name}.a", b"x", headers=headers)
    assert told == (10109, 400, "invalid operation on sealed stream")
    assert stream.info().state.last_seq == 1


@pytest.mark.rule("PUB-18")
def test_a_client_may_not_pretend_to_be_a_source(rg: Railgun, make: Make) -> None:
    stream = make()
    told = refused(rg, f"{stream.name}.a", b"x", headers={h.STREAM_SOURCE: "ORIGIN 1"})
    assert told == (10227, 400, "message stream source header is not allowed")


# ------------------------------------------------------------ roll-ups


@pytest.mark.rule("PUB-21")
def test_a_rollup_of_a_subject_removes_what_was_there_before(rg: Railgun, make: Make) -> None:
    stream = make(allow_rollup_hdrs=True)
    a, b = f"{stream.name}.a", f"{stream.name}.b"
    for subject in (a, b, a, b):
        rg.publish(subject)
    assert rg.publish(a, b"sum", headers={h.ROLLUP: "sub"}).sequence == 5
    info = stream.info(subjects=">", deleted=True).state
    assert (info.subjects, info.deleted, info.first_seq) == ({a: 1, b: 2}, [3], 2)
    assert stream.get_last(a).payload == b"sum"


@pytest.mark.rule("PUB-21", "LIM-03")
@pytest.mark.parametrize("limit", ["max_msgs", "max_bytes"])
def test_a_rollup_in_a_full_stream_first_counts_like_any_other_message(
    rg: Railgun, make: Make, limit: str
) -> None:
    stream = make(allow_rollup_hdrs=True)
    a, b = f"{stream.name}.a", f"{stream.name}.b"
    for subject in (b, a, b):
        rg.publish(subject, b"x" * 100)
    state = stream.info().state
    rg.update_stream(stream.name, **{limit: state.messages if limit == "max_msgs" else state.bytes})
    rg.publish(a, b"x" * 60, headers={h.ROLLUP: "sub"})
    info = stream.info(deleted=True).state
    assert (info.messages, info.first_seq, info.deleted) == (2, 3, [])
    assert stream.get_last(a).sequence == 4


@pytest.mark.rule("PUB-21", "LIM-04")
def test_a_rollup_that_is_larger_than_its_stream_leaves_nothing(rg: Railgun, make: Make) -> None:
    stream = make(allow_rollup_hdrs=True, max_bytes=300)
    rg.publish(f"{stream.name}.a", b"x")
    for number, value in ((2, "sub"), (3, "all")):
        assert rg.publish(f"{stream.name}.a", b"x" * 500, headers={h.ROLLUP: value}).sequence == number
        assert stream.info().state.messages == 0


@pytest.mark.rule("PUB-21")
def test_a_rollup_of_everything_leaves_only_itself(rg: Railgun, make: Make) -> None:
    stream = make(allow_rollup_hdrs=True)
    for token in "abc":
        rg.publish(f"{stream.name}.{token}")
    assert rg.publish(f"{stream.name}.a", headers={h.ROLLUP: "all"}).sequence == 4
    state = stream.info(subjects=">").state
    assert (state.messages, state.first_seq, state.last_seq) == (1, 4, 4)
    assert state.subjects == {f"{stream.name}.a": 1}


@pytest.mark.rule("PUB-22")
def test_a_rollup_needs_permission_and_a_known_value(rg: Railgun, make: Make) -> None:
    closed, denied, allowed = (
        make("CLOSED"),
        make("DENIED", deny_purge=True),
        make("OPEN", allow_rollup_hdrs=True),
    )
    for stream in (closed, denied):
        told = refused(rg, f"{stream.name}.a", b"x", headers={h.ROLLUP: "sub"})
        assert told == (10111, 500, "rollup not permitted")
    told = refused(rg, f"{allowed.name}.a", b"x", headers={h.ROLLUP: "some"})
    assert told == (10111, 500, 'rollup value invalid: "some"')
    rg.publish(f"{allowed.name}.a")
    assert rg.publish(f"{allowed.name}.a", headers={h.ROLLUP: "SUB"}).sequence == 2
    assert rg.publish(f"{allowed.name}.b", headers={h.ROLLUP: "All"}).sequence == 3
    assert allowed.info().state.messages == 1
