"""De-duplication by message id (DUP)."""

from __future__ import annotations

import json

import pytest

from railgun.client.facade.railgun import Railgun
from railgun.client.facade.sync.stream import Stream
from railgun.errors import ApiError
from railgun.model import headers as h
from railgun.testing import Clock
from tests.support.raw import ask
from tests.support.streams import Make, Unique


def stored(rg: Railgun, stream: Stream, message_id: str, token: str = "a") -> bool:
    """Whether a publish with this id is stored as a new message."""
    return not rg.publish(f"{stream.name}.{token}", b"x", msg_id=message_id).duplicate


@pytest.mark.rule("DUP-01")
def test_a_second_message_of_an_id_is_acked_as_the_first(rg: Railgun, make: Make) -> None:
    stream = make()
    subject = f"{stream.name}.a"
    rg.publish(subject)
    assert ask(rg, subject, b"x", headers={h.MSG_ID: "1"}) == {"stream": stream.name, "seq": 2}
    rg.publish(subject)
    again = ask(rg, subject, b"x", headers={h.MSG_ID: "1"})
    assert again == {"stream": stream.name, "seq": 2, "duplicate": True}
    ack = rg.publish(subject, b"x", msg_id="1")
    assert (ack.sequence, ack.duplicate) == (2, True)
    assert stream.info().state.last_seq == 3


@pytest.mark.rule("DUP-02")
def test_body_and_subject_do_not_matter(rg: Railgun, make: Make) -> None:
    stream = make()
    rg.publish(f"{stream.name}.a", b"body", msg_id="1")
    for subject, payload in ((f"{stream.name}.a", b"another"), (f"{stream.name}.b", b"body")):
        assert rg.publish(subject, payload, msg_id="1").duplicate
    assert stream.info().state.messages == 1


@pytest.mark.rule("DUP-03", "STO-04")
def test_four_publishes_of_one_id_leave_the_first(rg: Railgun, unique: Unique) -> None:
    name = unique("ORDERS")
    subject = f"ORDERS.{name[-4:]}"[:10]  # ten characters, as ORDERS.new has
    stream = rg.create_stream(name, subjects=[subject])
    acks = [rg.publish(subject, f"hello{number}", msg_id="1") for number in range(1, 5)]
    assert [(ack.sequence, ack.duplicate) for ack in acks] == [(1, False), (1, True), (1, True), (1, True)]
    state = stream.info().state
    assert (state.messages, state.bytes) == (1, 67)
    assert stream.get(1).text == "hello1"


@pytest.mark.rule("DUP-04", "DUP-06")
def test_the_window_is_two_minutes_unless_told_otherwise(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make()
    assert stored(rg, stream, "1")
    clock.advance(118)
    assert not stored(rg, stream, "1")
    clock.advance(3)
    ack = rg.publish(f"{stream.name}.a", b"x", msg_id="1")
    assert (ack.sequence, ack.duplicate) == (2, False)


@pytest.mark.rule("DUP-05")
def test_a_duplicate_does_not_extend_the_window(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make(duplicate_window=30)
    assert stored(rg, stream, "1")
    for _ in range(2):
        clock.advance(14)
        assert not stored(rg, stream, "1")
    clock.advance(14)  # 42 s after the first, 14 s after the last duplicate
    assert stored(rg, stream, "1")


@pytest.mark.rule("DUP-07")
def test_ids_are_of_one_stream(rg: Railgun, make: Make) -> None:
    one, other = make("ONE"), make("OTHER")
    assert stored(rg, one, "1")
    assert stored(rg, other, "1")
    assert not stored(rg, one, "1")


@pytest.mark.rule("DUP-08")
def test_no_id_or_an_empty_one_is_not_checked(rg: Railgun, make: Make) -> None:
    stream = make()
    for _ in range(2):
        assert not rg.publish(f"{stream.name}.a").duplicate
        assert "duplicate" not in ask(rg, f"{stream.name}.a", b"x", headers={h.MSG_ID: ""})
    assert stream.info().state.messages == 4


@pytest.mark.rule("DUP-09")
def test_removing_messages_does_not_forget_their_ids(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make(max_msgs=4)
    assert [stored(rg, stream, one) for one in "123"] == [True] * 3
    stream.delete_message(1)
    stream.purge()
    assert [stored(rg, stream, one) for one in "123"] == [False] * 3
    aged = make("AGED", allow_msg_ttl=True, duplicate_window=100)
    rg.publish(f"{aged.name}.a", msg_id="1", ttl=1)
    clock.advance(5)
    assert aged.info().state.messages == 0
    assert not stored(rg, aged, "1")


@pytest.mark.rule("DUP-11")
def test_another_window_holds_at_once(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make(duplicate_window=100)
    assert stored(rg, stream, "old")
    clock.advance(50)
    assert stored(rg, stream, "young")
    rg.update_stream(stream.name, duplicate_window=30)
    assert stored(rg, stream, "old")  # forgotten: older than the new window
    assert not stored(rg, stream, "young")
    rg.update_stream(stream.name, duplicate_window=300)
    clock.advance(60)
    assert not stored(rg, stream, "young")  # longer than it was


@pytest.mark.rule("DUP-12")
def test_a_refused_publish_leaves_no_id_behind(rg: Railgun, make: Make) -> None:
    stream = make()
    with pytest.raises(ApiError):
        rg.publish(f"{stream.name}.a", msg_id="1", expected_last_sequence=9)
    assert stored(rg, stream, "1")
    assert not stored(rg, stream, "1")


@pytest.mark.rule("DUP-13")
def test_copies_that_are_on_their_way_together_are_told_the_sequence(rg: Railgun, make: Make) -> None:
    """One owner decides in order: no copy is ever "in process", each is the first or a duplicate with its sequence."""
    stream = make()
    futures = [rg.publish_soon(f"{stream.name}.a", b"%d" % number, msg_id="same") for number in range(50)]
    rg.flush()
    acks = [future.result() for future in futures]
    assert {ack.sequence for ack in acks} == {1}
    assert [ack.duplicate for ack in acks] == [False] + [True] * 49
    assert stream.get(1).payload == b"0"


@pytest.mark.rule("DUP-15")
def test_only_the_very_header_counts(rg: Railgun, make: Make) -> None:
    stream = make()
    for name in ("X-Nats-Msg-Id", "Nats-Msg-Id-2", "nats-msg-id", "Nats-Msg-Id", "Nats-Msg-Id"):
        ask(rg, f"{stream.name}.a", b"x", headers={name: "1"})
    assert stream.info().state.messages == 4
    headers = [("Other", "Nats-Msg-Id: 1"), ("Nats-Msg-Id", "2")]
    reply = rg.request(f"{stream.name}.a", b"x", headers=headers)[0]
    assert json.loads(reply.body) == {"stream": stream.name, "seq": 5}
