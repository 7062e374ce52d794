"""Reading messages: the plain get and the direct get, with their statuses."""

from __future__ import annotations

import base64
import threading
from typing import Any

import pytest

from railgun.client.facade.railgun import Railgun
from railgun.client.facade.sync.stream import Stream
from railgun.errors import MessageNotFound
from railgun.model.durations import rfc3339
from railgun.model.messages import Reply
from railgun.testing import Clock
from tests.support.naming import unique
from tests.support.raw import ask, frames, nobody_answers, refused, statuses
from tests.support.streams import filled

NOT_FOUND = (10037, 404, "no message found")
BAD = (10003, 400, "bad request")
LONG_AGO = "2001-01-01T00:00:00Z"


def direct(rg: Railgun, stream: Stream, body: dict[str, Any] | bytes) -> list[Reply]:
    return frames(rg, f"DIRECT.GET.{stream.name}", body)


def sequences(replies: list[Reply]) -> list[int]:
    """The sequences of the messages, without the statuses."""
    return [int(reply.header("Nats-Sequence") or 0) for reply in replies if reply.status is None]


@pytest.mark.rule("GET-01")
def test_get_by_sequence(rg: Railgun) -> None:
    stream = filled(rg)
    rg.publish(f"{stream.name}.a", b"hello", headers={"Colour": "red"})
    raw = ask(rg, f"STREAM.MSG.GET.{stream.name}", {"seq": 1})
    assert raw["type"] == "io.nats.jetstream.api.v1.stream_msg_get_response"
    message = raw["message"]
    assert (message["subject"], message["seq"]) == (f"{stream.name}.a", 1)
    assert base64.b64decode(message["data"]) == b"hello"
    assert b"Colour: red" in base64.b64decode(message["hdrs"])
    got = stream.get(1)
    assert (got.payload, got.header("Colour"), rfc3339(got.time_ns)) == (b"hello", "red", message["time"])


@pytest.mark.rule("GET-01")
def test_a_message_that_is_not_there_is_not_found(rg: Railgun) -> None:
    stream = filled(rg, "a", "a", "a")
    stream.delete_message(2)
    for sequence in (2, 4, 1_000):
        assert refused(rg, f"STREAM.MSG.GET.{stream.name}", {"seq": sequence}) == NOT_FOUND
    with pytest.raises(MessageNotFound):
        stream.get(2)
    assert refused(rg, f"STREAM.MSG.GET.{unique('NONE')}", {"seq": 1})[0] == 10059


@pytest.mark.rule("GET-02")
def test_the_last_on_a_subject_wildcards_allowed(rg: Railgun) -> None:
    stream = filled(rg, "a.x", "b.x", "a.y", "b.y")
    assert stream.get_last(f"{stream.name}.a.x").sequence == 1
    assert stream.get_last(f"{stream.name}.a.*").sequence == 3
    assert stream.get_last(f"{stream.name}.*.x").sequence == 2
    stream.delete_message(3)
    assert stream.get_last(f"{stream.name}.a.*").sequence == 1
    with pytest.raises(MessageNotFound):
        stream.get_last(f"{stream.name}.c.*")


@pytest.mark.rule("GET-03")
def test_the_next_on_a_subject(rg: Railgun) -> None:
    stream = filled(rg, "a", "b", "a", "b", "c")
    assert stream.get_next(f"{stream.name}.b").sequence == 2
    assert stream.get_next(f"{stream.name}.b", sequence=2).sequence == 2
    assert stream.get_next(f"{stream.name}.b", sequence=3).sequence == 4
    assert stream.get_next(f"{stream.name}.*", sequence=5).sequence == 5
    with pytest.raises(MessageNotFound):
        stream.get_next(f"{stream.name}.b", sequence=5)


@pytest.mark.rule("GET-04")
def test_the_first_message_at_or_after_a_time(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a")
    clock.advance(10)
    rg.publish(f"{stream.name}.b", b"2")
    clock.advance(10)
    rg.publish(f"{stream.name}.b", b"3")
    second = stream.get(2).time_ns
    get = f"STREAM.MSG.GET.{stream.name}"
    assert ask(rg, get, {"start_time": LONG_AGO})["message"]["seq"] == 1
    assert ask(rg, get, {"start_time": rfc3339(second)})["message"]["seq"] == 2
    assert ask(rg, get, {"start_time": rfc3339(second + 1)})["message"]["seq"] == 3
    assert ask(rg, get, {"start_time": LONG_AGO, "next_by_subj": f"{stream.name}.b"})["message"]["seq"] == 2
    assert refused(rg, get, {"start_time": rfc3339(stream.get(3).time_ns + 1)}) == NOT_FOUND
    stream.delete_message(2)
    assert ask(rg, get, {"start_time": rfc3339(second)})["message"]["seq"] == 3


CONTRADICTIONS: list[dict[str, Any]] = [
    {"seq": 1, "last_by_subj": "a"},
    {"seq": 1, "start_time": LONG_AGO},
    {"start_time": LONG_AGO, "last_by_subj": "a"},
    {"last_by_subj": "a", "next_by_subj": "a"},
]


@pytest.mark.rule("GET-05")
@pytest.mark.parametrize("body", CONTRADICTIONS)
def test_a_request_selects_in_one_way(rg: Railgun, body: dict[str, Any]) -> None:
    stream = filled(rg, "a", allow_direct=True)
    assert refused(rg, f"STREAM.MSG.GET.{stream.name}", body) == BAD
    assert statuses(direct(rg, stream, body)) == [(408, "Bad Request")]


@pytest.mark.rule("GET-05")
@pytest.mark.parametrize("body", [b"", b"{}", b'{"seq": 0}'])
def test_a_request_that_selects_nothing_is_bad(rg: Railgun, body: bytes) -> None:
    stream = filled(rg, "a", allow_direct=True)
    assert refused(rg, f"STREAM.MSG.GET.{stream.name}", body) == BAD
    assert statuses(direct(rg, stream, body)) == [(408, "Empty Request")]


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"seq": "1"}', b'{"seq": -1}', b'{"start_time": "noon"}'])
def test_a_request_that_is_none_is_malformed(rg: Railgun, body: bytes) -> None:
    stream = filled(rg, "a", allow_direct=True)
    assert refused(rg, f"STREAM.MSG.GET.{stream.name}", body)[0] == 10025
    assert statuses(direct(rg, stream, body)) == [(408, "Malformed Request")]


@pytest.mark.rule("GET-06")
def test_what_was_acked_is_seen_by_the_next_get(rg: Railgun) -> None:
    stream = filled(rg)
    for number in range(20):
        sequence = rg.publish(f"{stream.name}.a", b"%d" % number).sequence
        assert stream.get(sequence).payload == b"%d" % number
        assert stream.get_last(f"{stream.name}.a").sequence == sequence


@pytest.mark.rule("GET-07")
def test_nobody_answers_a_direct_get_that_is_not_allowed(rg: Railgun) -> None:
    stream = filled(rg, "a")
    assert nobody_answers(rg, f"DIRECT.GET.{stream.name}", {"seq": 1})
    rg.update_stream(stream.name, allow_direct=True)
    assert sequences(direct(rg, stream, {"seq": 1})) == [1]


@pytest.mark.rule("GET-08")
def test_a_direct_get_is_the_message_and_where_it_is_from(rg: Railgun) -> None:
    stream = filled(rg, allow_direct=True)
    rg.publish(f"{stream.name}.a", b"\x00raw", headers={"Colour": "red"})
    (reply,) = direct(rg, stream, {"seq": 1})
    assert (reply.body, reply.status, reply.header("Colour")) == (b"\x00raw", None, "red")
    assert reply.header("Nats-Stream") == stream.name
    assert reply.header("Nats-Subject") == f"{stream.name}.a"
    assert reply.header("Nats-Sequence") == "1"
    assert reply.header("Nats-Time-Stamp") == rfc3339(stream.get(1).time_ns)
    assert statuses(direct(rg, stream, {"seq": 2})) == [(404, "Message Not Found")]
    assert statuses(direct(rg, stream, {"last_by_subj": "none"})) == [(404, "Message Not Found")]


@pytest.mark.rule("GET-10")
def test_the_short_form_reads_the_last_on_a_subject(rg: Railgun) -> None:
    stream = filled(rg, "a.b", "a.b", "c", allow_direct=True)
    name = f"DIRECT.GET.{stream.name}.{stream.name}.a.b"
    assert sequences(frames(rg, name)) == [2]
    assert sequences(frames(rg, name, {"no_hdr": False})) == [2]
    for body in (
        {"seq": 1},
        {"last_by_subj": "x"},
        {"next_by_subj": "x"},
        {"batch": 2},
        {"multi_last": ["x"]},
    ):
        assert statuses(frames(rg, name, body)) == [(408, "Bad Request")]
    missing = frames(rg, f"DIRECT.GET.{stream.name}.{stream.name}.z")
    assert statuses(missing) == [(404, "Message Not Found")]


@pytest.mark.rule("GET-11")
def test_a_batch_steps_over_what_was_deleted(rg: Railgun) -> None:
    stream = filled(rg, "a", "b", "a", "b", "a", "b", allow_direct=True)
    stream.delete_message(3)
    replies = direct(rg, stream, {"seq": 2, "batch": 3})
    assert sequences(replies) == [2, 4, 5]
    assert [reply.header("Nats-Num-Pending") for reply in replies] == ["3", "2", "1", "1"]
    assert [reply.header("Nats-Last-Sequence") for reply in replies] == ["0", "2", "4", "5"]
    assert statuses(replies)[-1] == (204, "EOB")
    assert replies[-1].body == b""
    rest = direct(rg, stream, {"next_by_subj": f"{stream.name}.b", "batch": 10})
    assert sequences(rest) == [2, 4, 6]
    assert rest[-1].header("Nats-Num-Pending") == "0"


@pytest.mark.rule("GET-11")
def test_what_is_pending_counts_the_filter_from_the_start(rg: Railgun) -> None:
    stream = filled(rg, *("a", "b", "b", "a", "b", "a", "b", "b"), allow_direct=True)
    stream.delete_message(5)
    for start, first, pending in ((1, 2, 3), (3, 3, 2), (4, 7, 1), (8, 8, 0)):
        body = {"seq": start, "next_by_subj": f"{stream.name}.b", "batch": 1}
        message, end = direct(rg, stream, body)
        assert (message.header("Nats-Sequence"), message.header("Nats-Num-Pending")) == (
            str(first),
            str(pending),
        )
        assert end.header("Nats-Num-Pending") == str(pending)


@pytest.mark.rule("GET-12")
@pytest.mark.parametrize("body", [{"seq": 1}, {"seq": 1, "batch": 0}, {"seq": 1, "max_bytes": 1_000}])
def test_without_a_batch_there_is_one_message_and_no_end(rg: Railgun, body: dict[str, int]) -> None:
    stream = filled(rg, "a", "a", "a", allow_direct=True)
    replies = direct(rg, stream, body)
    assert sequences(replies) == [1]
    assert len(replies) == 1
    assert replies[0].header("Nats-Num-Pending") is None


@pytest.mark.rule("GET-13")
def test_a_batch_ends_after_the_message_that_reaches_its_bytes(rg: Railgun) -> None:
    stream = filled(rg, allow_direct=True)
    subject = f"{stream.name}.a"
    for _ in range(5):
        rg.publish(subject, b"x" * 1_000)
    one = len(subject) + 1_000
    for limit, expected in ((1, 1), (one, 1), (one + 1, 2), (3 * one, 3), (100 * one, 5)):
        replies = direct(rg, stream, {"seq": 1, "batch": 10, "max_bytes": limit})
        assert sequences(replies) == list(range(1, expected + 1))
        assert statuses(replies)[-1] == (204, "EOB")
        assert replies[-1].header("Nats-Num-Pending") == str(5 - expected)


@pytest.mark.rule("GET-14")
def test_only_a_batch_skips_forward(rg: Railgun) -> None:
    stream = filled(rg, "a", "a", "a", allow_direct=True)
    stream.delete_message(2)
    assert statuses(direct(rg, stream, {"seq": 2})) == [(404, "Message Not Found")]
    assert sequences(direct(rg, stream, {"seq": 2, "batch": 1})) == [3]
    assert statuses(direct(rg, stream, {"seq": 4, "batch": 2})) == [(404, "Message Not Found")]


@pytest.mark.rule("GET-15")
def test_the_last_of_each_subject(rg: Railgun) -> None:
    stream = filled(rg, "a", "b", "c", "b", "a", "z.z", allow_direct=True)
    replies = direct(rg, stream, {"multi_last": [f"{stream.name}.*"]})
    assert [(number, reply.body) for number, reply in zip(sequences(replies), replies, strict=False)] == [
        (3, b"3"),
        (4, b"4"),
        (5, b"5"),
    ]
    assert statuses(replies)[-1] == (204, "EOB")
    assert replies[-1].header("Nats-UpTo-Sequence") == "6"
    assert [reply.header("Nats-Num-Pending") for reply in replies] == ["2", "1", "0", "0"]
    chosen = direct(rg, stream, {"multi_last": [f"{stream.name}.a", f"{stream.name}.z.*"]})
    assert sequences(chosen) == [5, 6]


@pytest.mark.rule("GET-16")
def test_the_view_up_to_a_sequence(rg: Railgun) -> None:
    stream = filled(rg, "a", "b", "a", "b", "a", allow_direct=True)
    patterns = [f"{stream.name}.*"]
    replies = direct(rg, stream, {"multi_last": patterns, "up_to_seq": 3})
    assert sequences(replies) == [2, 3]
    assert replies[-1].header("Nats-UpTo-Sequence") == "3"
    assert sequences(direct(rg, stream, {"multi_last": patterns, "up_to_seq": 1})) == [1]
    assert statuses(direct(rg, stream, {"multi_last": ["none"]})) == [(404, "No Results")]
    both = {"multi_last": patterns, "up_to_seq": 3, "up_to_time": LONG_AGO}
    assert statuses(direct(rg, stream, both)) == [(408, "Bad Request")]


@pytest.mark.rule("GET-16")
def test_the_view_up_to_a_time(rg: Railgun, clock: Clock) -> None:
    stream = filled(rg, "a", "b", allow_direct=True)
    clock.advance(10)
    rg.publish(f"{stream.name}.a", b"3")
    patterns = [f"{stream.name}.*"]
    third = stream.get(3).time_ns
    assert sequences(direct(rg, stream, {"multi_last": patterns, "up_to_time": rfc3339(third)})) == [1, 2]
    assert sequences(direct(rg, stream, {"multi_last": patterns, "up_to_time": rfc3339(third + 1)})) == [2, 3]
    assert statuses(direct(rg, stream, {"multi_last": patterns, "up_to_time": LONG_AGO})) == [
        (404, "No Results")
    ]


@pytest.mark.rule("GET-17")
def test_too_many_subjects_are_refused(rg: Railgun) -> None:
    stream = filled(rg, allow_direct=True)
    for number in range(1_024):
        rg.publish_soon(f"{stream.name}.{number}", b"x")
    rg.flush(timeout=30)
    replies = direct(rg, stream, {"multi_last": [f"{stream.name}.*"]})
    assert len(sequences(replies)) == 1_024
    rg.publish(f"{stream.name}.more", b"x")
    assert statuses(direct(rg, stream, {"multi_last": [f"{stream.name}.*"]})) == [(413, "Too Many Results")]


@pytest.mark.rule("GET-18")
def test_headers_can_be_left_out(rg: Railgun) -> None:
    stream = filled(rg, allow_direct=True)
    rg.publish(f"{stream.name}.a", b"1", headers={"Colour": "red"})
    assert "hdrs" not in ask(rg, f"STREAM.MSG.GET.{stream.name}", {"seq": 1, "no_hdr": True})["message"]
    (reply,) = direct(rg, stream, {"seq": 1, "no_hdr": True})
    assert (reply.body, list(reply.headers)) == (b"1", [])


@pytest.mark.rule("GET-18")
def test_headers_can_be_left_out_where_bodies_are_only_in_the_log(rg: Railgun) -> None:
    stream = filled(rg)
    rg.publish(f"{stream.name}.a", b"1", headers={"Colour": "red"})
    assert "hdrs" not in ask(rg, f"STREAM.MSG.GET.{stream.name}", {"seq": 1, "no_hdr": True})["message"]
    assert stream.get(1).header("Colour") == "red"


@pytest.mark.rule("GET-19")
@pytest.mark.parametrize("fields", [{"batch": 2}, {"max_bytes": 10}, {"multi_last": ["a"]}, {"up_to_seq": 1}])
def test_a_plain_get_has_no_batches(rg: Railgun, fields: dict[str, Any]) -> None:
    stream = filled(rg, "a")
    assert refused(rg, f"STREAM.MSG.GET.{stream.name}", {"seq": 1, **fields}) == BAD


@pytest.mark.rule("GET-20")
def test_a_get_sees_a_batch_whole_or_not_at_all(rg: Railgun) -> None:
    stream = filled(rg, "a", "b", "c", allow_direct=True, allow_atomic=True, max_msgs_per_subject=1)
    subjects = [f"{stream.name}.{token}" for token in "abc"]
    with rg.batch() as first:
        for subject in subjects:
            first.add(subject, "0")
    seen: list[set[bytes]] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            replies = direct(rg, stream, {"multi_last": [f"{stream.name}.*"]})
            seen.append({reply.body for reply in replies if reply.status is None})

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, 21):
            with rg.batch() as batch:
                for subject in subjects:
                    batch.add(subject, str(number))
    finally:
        done.set()
        reader.join()
    assert seen
    assert [bodies for bodies in seen if len(bodies) != 1] == []


@pytest.mark.rule("GET-20")
def test_a_get_sees_a_roll_up_whole_or_not_at_all(rg: Railgun) -> None:
    """There is one message on the subject, before the roll-up, after it and meanwhile."""
    stream = filled(rg, "a", allow_direct=True, allow_rollup_hdrs=True)
    seen: list[int] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(len(sequences(direct(rg, stream, {"seq": 1, "batch": 10}))))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(20):
            rg.publish(f"{stream.name}.a", str(number), headers={"Nats-Rollup": "sub"})
    finally:
        done.set()
        reader.join()
    assert seen
    assert set(seen) == {1}
