"""Limits and what happens at them: discard old, discard new, per subject, by size and by age (LIM)."""

from __future__ import annotations

import pytest

from railgun.client.facade.railgun import Railgun
from railgun.client.facade.sync.stream import Stream
from railgun.errors import MessageRefused, StreamFull
from railgun.model import headers as h
from railgun.testing import Clock
from tests.support.raw import refused
from tests.support.streams import Make, Unique, held

MEBIBYTE = 1_048_576


def one_size(stream: Stream, payload: bytes = b"") -> int:
    """Bytes that a message on ``<name>.a`` counts."""
    return 30 + len(f"{stream.name}.a") + len(payload)


# ------------------------------------------------------------ discard old


@pytest.mark.rule("LIM-01")
def test_reading_removes_nothing(rg: Railgun, make: Make) -> None:
    stream = make(allow_direct=True)
    for number in range(3):
        rg.publish(f"{stream.name}.a", b"%d" % number)
    before = stream.info().state
    for _ in range(2):
        assert [stream.get(number).payload for number in (1, 2, 3)] == [b"0", b"1", b"2"]
        stream.get_last(f"{stream.name}.a")
        rg.request(f"DIRECT.GET.{stream.name}", b'{"seq":1,"batch":3}')
    assert stream.info().state == before


@pytest.mark.rule("LIM-03")
def test_one_message_too_many_pushes_the_oldest_out(rg: Railgun, make: Make) -> None:
    stream = make(max_msgs=3)
    for _ in range(3):
        rg.publish(f"{stream.name}.a")
    assert held(stream) == [1, 2, 3]
    assert rg.publish(f"{stream.name}.a").sequence == 4
    state = stream.info().state
    assert (state.messages, state.first_seq, state.last_seq) == (3, 2, 4)
    for _ in range(20):
        rg.publish_soon(f"{stream.name}.a")
    rg.flush()
    assert held(stream) == [22, 23, 24]


@pytest.mark.rule("LIM-04")
def test_bytes_too_many_push_the_oldest_out(rg: Railgun, make: Make, unique: Unique) -> None:
    size = 30 + len(f"{unique('LIM')}.a")
    stream = make(max_bytes=3 * size + 10)
    for _ in range(3):
        rg.publish(f"{stream.name}.a")
    rg.publish(f"{stream.name}.a", b"x" * 10)  # one goes, and the rest is exactly the limit
    assert held(stream) == [2, 3, 4]
    rg.publish(f"{stream.name}.a", b"x")  # one byte more than the oldest one frees: two must go
    assert held(stream) == [4, 5]
    assert stream.info().state.bytes <= 3 * size + 10


@pytest.mark.rule("LIM-04")
def test_a_message_larger_than_the_stream_is_acked_and_leaves_nothing(rg: Railgun, make: Make) -> None:
    stream = make(max_bytes=200)
    rg.publish(f"{stream.name}.a")
    assert rg.publish(f"{stream.name}.a", b"x" * 500).sequence == 2
    state = stream.info().state
    assert (state.messages, state.bytes, state.first_seq, state.last_seq) == (0, 0, 3, 2)
    assert rg.publish(f"{stream.name}.a").sequence == 3


# ------------------------------------------------------------ discard new


@pytest.mark.rule("LIM-05")
def test_a_full_stream_refuses(rg: Railgun, make: Make) -> None:
    stream = make(max_msgs=2, discard="new")
    subject = f"{stream.name}.a"
    rg.publish(subject)
    rg.publish(subject)
    before = stream.info().state
    assert refused(rg, subject, b"x") == (10077, 503, "maximum messages exceeded")
    assert stream.info().state == before
    stream.delete_message(1)
    assert rg.publish(subject).sequence == 3


@pytest.mark.rule("LIM-06")
def test_a_message_that_would_not_fit_is_refused(rg: Railgun, make: Make) -> None:
    stream = make(max_bytes=150, discard="new")
    subject = f"{stream.name}.a"
    room = 150 - one_size(stream)
    rg.publish(subject)
    assert refused(rg, subject, b"x" * 150) == (10077, 503, "maximum bytes exceeded")
    assert stream.info().state.last_seq == 1
    rg.publish(subject, b"x" * (room - one_size(stream)))  # exactly
    assert stream.info().state.bytes == 150
    with pytest.raises(StreamFull):
        rg.publish(subject)


# ------------------------------------------------------------ per subject


@pytest.mark.rule("LIM-07")
@pytest.mark.parametrize("discard", ["old", "new"])
@pytest.mark.parametrize("limit", [1, 2])
def test_the_newest_of_each_subject_are_kept(rg: Railgun, make: Make, discard: str, limit: int) -> None:
    stream = make(max_msgs_per_subject=limit, discard=discard)
    for token in ("a", "b", "a", "a", "c", "a", "b"):
        rg.publish(f"{stream.name}.{token}")
    kept = {1: [5, 6, 7], 2: [2, 4, 5, 6, 7]}[limit]
    assert held(stream) == kept
    counts = stream.info(subjects=">").state.subjects
    assert counts is not None
    assert max(counts.values()) == limit
    assert stream.get_last(f"{stream.name}.a").sequence == 6


@pytest.mark.rule("LIM-08", "LIM-09")
def test_a_full_subject_refuses_unless_it_is_rolled_up(rg: Railgun, make: Make) -> None:
    stream = make(max_msgs_per_subject=1, discard="new", discard_new_per_subject=True, allow_rollup_hdrs=True)
    a, b = f"{stream.name}.a", f"{stream.name}.b"
    rg.publish(a)
    assert refused(rg, a, b"x") == (10077, 503, "maximum messages per subject exceeded")
    assert rg.publish(b).sequence == 2
    assert rg.publish(a, headers={h.ROLLUP: "sub"}).sequence == 3
    assert held(stream) == [2, 3]


@pytest.mark.rule("LIM-10")
def test_a_full_stream_still_replaces_within_a_full_subject(rg: Railgun, make: Make) -> None:
    stream = make(max_msgs=2, max_msgs_per_subject=1, discard="new")
    rg.publish(f"{stream.name}.a")
    rg.publish(f"{stream.name}.b")
    assert rg.publish(f"{stream.name}.a").sequence == 3
    assert held(stream) == [2, 3]
    assert refused(rg, f"{stream.name}.c", b"") == (10077, 503, "maximum messages exceeded")


@pytest.mark.rule("LIM-11")
def test_bytes_are_replaced_only_by_no_more_bytes(rg: Railgun, make: Make, unique: Unique) -> None:
    size = 30 + len(f"{unique('LIM')}.a") + 10
    stream = make(max_bytes=2 * size, max_msgs_per_subject=1, discard="new")
    rg.publish(f"{stream.name}.a", b"x" * 10)
    rg.publish(f"{stream.name}.b", b"x" * 10)
    assert rg.publish(f"{stream.name}.a", b"x" * 10).sequence == 3
    assert refused(rg, f"{stream.name}.a", b"x" * 11) == (10077, 503, "maximum bytes exceeded")
    assert rg.publish(f"{stream.name}.a", b"x" * 9).sequence == 4
    assert held(stream) == [2, 4]


# ------------------------------------------------------------ one message


@pytest.mark.rule("LIM-12")
def test_the_largest_message_counts_headers_and_payload(rg: Railgun, make: Make) -> None:
    stream = make(max_msg_size=50)
    subject = f"{stream.name}.a"
    assert rg.publish(subject, b"x" * 50).sequence == 1
    assert refused(rg, subject, b"x" * 51) == (10054, 400, "message size exceeds maximum allowed")
    block = len("Name:value\r\n\r\n")
    rg.publish(subject, b"x" * (50 - block), headers={"Name": "value"})
    with pytest.raises(MessageRefused):
        rg.publish(subject, b"x" * (51 - block), headers={"Name": "value"})
    with pytest.raises(MessageRefused):
        rg.publish(subject, b"x" * 50, msg_id="1")
    assert stream.info().state.messages == 2


@pytest.mark.rule("LIM-13")
def test_without_a_limit_of_its_own_a_message_may_have_a_mebibyte(rg: Railgun, make: Make) -> None:
    stream = make()
    rg.publish(f"{stream.name}.a", b"x" * MEBIBYTE)
    with pytest.raises(MessageRefused) as caught:
        rg.publish(f"{stream.name}.a", b"x" * (MEBIBYTE + 1))
    assert caught.value.err_code == 10054
    assert len(stream.get(1).payload) == MEBIBYTE
    larger = make("LARGER", max_msg_size=2 * MEBIBYTE)
    rg.publish(f"{larger.name}.a", b"x" * (MEBIBYTE + 1))
    assert larger.info().state.messages == 1


@pytest.mark.rule("LIM-14")
def test_headers_have_a_limit_of_their_own(rg: Railgun, make: Make) -> None:
    stream = make()
    fits = 65_535 - len("N:\r\n\r\n")
    rg.publish(f"{stream.name}.a", headers={"N": "x" * fits})
    told = refused(rg, f"{stream.name}.a", b"", headers={"N": "x" * (fits + 1)})
    assert told == (10097, 400, "header size exceeds maximum allowed of 64k")
    with pytest.raises(MessageRefused):
        rg.publish(f"{stream.name}.a", msg_id="x" * 65_536)
    assert stream.info().state.messages == 1


# ------------------------------------------------------------ age


@pytest.mark.rule("LIM-15", "LIM-16")
def test_messages_go_when_they_are_old_enough(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make(max_age=60)
    rg.publish(
        f"{stream.name}.a", headers={"Nats-Time-Stamp": "2000-01-01T00:00:00Z"}
    )  # no header makes it older
    clock.advance(30)
    rg.publish(f"{stream.name}.b")
    clock.advance(28)
    assert held(stream) == [1, 2]
    clock.advance(3)
    state = stream.info().state
    assert (state.messages, state.first_seq, state.last_seq) == (1, 2, 2)
    clock.advance(31)
    state = stream.info().state
    assert (state.messages, state.bytes, state.first_seq, state.last_seq) == (0, 0, 3, 2)
    assert rg.publish(f"{stream.name}.a").sequence == 3


@pytest.mark.rule("LIM-15")
def test_age_needs_no_traffic_to_be_noticed(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make(max_age=5, duplicate_window=5)
    for _ in range(1_200):  # more than one block
        rg.publish_soon(f"{stream.name}.a")
    rg.flush()
    clock.advance(6)
    assert stream.info().state.messages == 0
