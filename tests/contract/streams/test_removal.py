"""Deleting one message and purging many."""

from __future__ import annotations

from typing import Any

import pytest

from railgun.client.facade.railgun import Railgun
from railgun.errors import MessageNotFound, NotPermitted
from tests.support.consumers import about, add, delivered, floor, sequences, take
from tests.support.naming import unique
from tests.support.raw import ask, refused
from tests.support.streams import filled, held

SEALED = (10109, 400, "invalid operation on sealed stream")


@pytest.mark.rule("DEL-01")
def test_a_deleted_message_is_gone_and_its_sequence_is_not(rg: Railgun) -> None:
    stream = filled(rg, "a", "a", "a")
    before = stream.info().state
    answer = ask(rg, f"STREAM.MSG.DELETE.{stream.name}", {"seq": 2})
    assert answer == {"type": "io.nats.jetstream.api.v1.stream_msg_delete_response", "success": True}
    after = stream.info().state
    assert (after.messages, after.bytes, after.last_seq) == (2, before.bytes * 2 // 3, 3)
    with pytest.raises(MessageNotFound):
        stream.get(2)
    assert rg.publish(f"{stream.name}.a", b"x").sequence == 4


@pytest.mark.rule("DEL-02")
def test_where_the_hole_is_decides_what_moves(rg: Railgun) -> None:
    stream = filled(rg, "a", "a", "a", "a", "a")

    def after_deleting(sequence: int) -> tuple[int, int, int]:
        stream.delete_message(sequence)
        state = stream.info().state
        return state.first_seq, state.last_seq, state.num_deleted

    assert after_deleting(3) == (1, 5, 1)
    assert after_deleting(1) == (2, 5, 1)
    assert after_deleting(2) == (4, 5, 0)
    assert after_deleting(5) == (4, 5, 1)
    assert after_deleting(4) == (6, 5, 0)
    assert stream.info().state.messages == 0
    assert rg.publish(f"{stream.name}.a", b"x").sequence == 6


@pytest.mark.rule("DEL-03")
def test_a_missing_sequence_cannot_be_deleted(rg: Railgun) -> None:
    stream = filled(rg, "a", "a")
    stream.delete_message(1)
    for sequence in (1, 3, 0):
        expected = (10043, 400, f"sequence {sequence} not found")
        assert refused(rg, f"STREAM.MSG.DELETE.{stream.name}", {"seq": sequence}) == expected
    assert refused(rg, f"STREAM.MSG.DELETE.{stream.name}")[0] == 10003
    assert refused(rg, f"STREAM.MSG.DELETE.{unique('NONE')}", {"seq": 1})[0] == 10059


@pytest.mark.rule("DEL-04")
@pytest.mark.parametrize("erase", [True, False])
@pytest.mark.parametrize("options", [{}, {"allow_direct": True}, {"max_msgs_per_subject": 5}])
def test_erased_or_unlinked_looks_the_same(rg: Railgun, erase: bool, options: dict[str, Any]) -> None:
    stream = filled(rg, "a", "b", "a", **options)
    stream.delete_message(3, erase=erase)
    assert held(stream) == [1, 2]
    assert stream.get_last(f"{stream.name}.a").sequence == 1
    with pytest.raises(MessageNotFound):
        stream.get(3)


@pytest.mark.rule("DEL-05")
def test_deletes_can_be_denied(rg: Railgun) -> None:
    stream = filled(rg, "a", deny_delete=True)
    denied = (10057, 500, "message delete not permitted")
    assert refused(rg, f"STREAM.MSG.DELETE.{stream.name}", {"seq": 1}) == denied
    with pytest.raises(NotPermitted):
        stream.delete_message(1)
    sealed = filled(rg, "a")
    rg.update_stream(sealed.name, sealed=True)
    assert refused(rg, f"STREAM.MSG.DELETE.{sealed.name}", {"seq": 1}) == SEALED
    assert (held(stream), held(sealed)) == ([1], [1])


@pytest.mark.rule("DEL-06")
@pytest.mark.parametrize("options", [{}, {"allow_direct": True}, {"max_msgs_per_subject": 5}])
def test_a_purge_empties_the_stream_and_the_sequence_goes_on(rg: Railgun, options: dict[str, Any]) -> None:
    stream = filled(rg, "a", "b", "a", **options)
    answer = ask(rg, f"STREAM.PURGE.{stream.name}")
    assert answer == {"type": "io.nats.jetstream.api.v1.stream_purge_response", "success": True, "purged": 3}
    state = stream.info(subjects=">").state
    assert (state.messages, state.bytes, state.first_seq, state.last_seq) == (0, 0, 4, 3)
    assert (state.first_ts, state.num_deleted, state.num_subjects) == ("0001-01-01T00:00:00Z", 0, 0)
    assert not state.subjects
    assert stream.purge() == 0
    assert rg.publish(f"{stream.name}.a", b"new").sequence == 4
    assert stream.get_last(f"{stream.name}.a").payload == b"new"


@pytest.mark.rule("DEL-07")
def test_a_purge_below_a_sequence(rg: Railgun) -> None:
    new = filled(rg)
    assert new.purge(sequence=1) == 0
    assert (new.info().state.first_seq, new.info().state.last_seq) == (0, 0)
    stream = filled(rg, "a", "b", "a", "b", "a")
    assert stream.purge(sequence=1) == 0
    assert stream.purge(sequence=3) == 2
    state = stream.info().state
    assert (state.messages, state.first_seq, state.last_seq) == (3, 3, 5)
    assert stream.get(3).subject == f"{stream.name}.a"
    assert stream.purge(sequence=2) == 0


@pytest.mark.rule("DEL-07")
def test_a_purge_beyond_the_last_sequence_moves_the_next_one(rg: Railgun) -> None:
    stream = filled(rg, "a", "a")
    assert stream.purge(sequence=100) == 2
    state = stream.info().state
    assert (state.messages, state.first_seq, state.last_seq) == (0, 100, 99)
    assert rg.publish(f"{stream.name}.a", b"x").sequence == 100
    assert stream.get(100).payload == b"x"


@pytest.mark.rule("DEL-08")
def test_a_purge_can_keep_the_newest(rg: Railgun) -> None:
    stream = filled(rg, "a", "b", "a", "b", "a", "b")
    stream.delete_message(5)
    assert stream.purge(keep=9) == 0
    assert stream.purge(keep=3) == 2
    assert held(stream) == [3, 4, 6]
    assert stream.purge(subject=f"{stream.name}.b", keep=1) == 1
    assert held(stream) == [3, 6]
    assert stream.purge(subject=f"{stream.name}.a", keep=1) == 0


@pytest.mark.rule("DEL-09")
def test_a_purge_can_be_for_some_subjects(rg: Railgun) -> None:
    stream = filled(rg, "a.x", "b.x", "a.y", "b.y", "a.x")
    assert stream.purge(subject=f"{stream.name}.a.x", sequence=5) == 1
    assert held(stream) == [2, 3, 4, 5]
    assert stream.purge(subject=f"{stream.name}.*.y") == 2
    assert held(stream) == [2, 5]
    assert stream.purge(subject=f"{stream.name}.c") == 0
    assert stream.purge(subject=f"{stream.name}.a.>") == 1
    state = stream.info().state
    assert (state.messages, state.first_seq, state.last_seq) == (1, 2, 5)


@pytest.mark.rule("DEL-10")
def test_a_purge_has_one_end(rg: Railgun) -> None:
    stream = filled(rg, "a", "a", "a")
    assert refused(rg, f"STREAM.PURGE.{stream.name}", {"seq": 2, "keep": 1}) == (10003, 400, "bad request")
    assert refused(rg, f"STREAM.PURGE.{stream.name}_NONE", {"seq": 2, "keep": 1})[0] == 10003
    assert held(stream) == [1, 2, 3]
    assert refused(rg, f"STREAM.PURGE.{unique('NONE')}")[0] == 10059


@pytest.mark.rule("DEL-11")
def test_purges_can_be_denied(rg: Railgun) -> None:
    stream = filled(rg, "a", deny_purge=True)
    assert refused(rg, f"STREAM.PURGE.{stream.name}") == (10110, 500, "stream purge not permitted")
    with pytest.raises(NotPermitted):
        stream.purge(keep=5)
    sealed = filled(rg, "a")
    rg.update_stream(sealed.name, sealed=True)
    assert refused(rg, f"STREAM.PURGE.{sealed.name}", {"filter": ">"}) == SEALED
    assert (held(stream), held(sealed)) == ([1], [1])


@pytest.mark.rule("DEL-14", "DEL-12")
@pytest.mark.parametrize("policy", ["none", "explicit"])
def test_a_filtered_purge_that_empties_a_stream_moves_who_wants_more(rg: Railgun, policy: str) -> None:
    name = unique("WIDER")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    for token in "ab":
        rg.publish(f"{name}.{token}", b"x")
    add(rg, name, ack_policy=policy)
    add(rg, name, "OTHER", ack_policy=policy, filter_subject=f"{name}.c")
    take(rg, name)
    stream.purge(subject=f"{name}.a")
    assert delivered(about(rg, name)) == (1, 1)
    stream.purge(subject=f"{name}.b")
    assert (delivered(about(rg, name)), floor(about(rg, name))) == ((1, 2), (1, 2))
    assert delivered(about(rg, name, "OTHER")) == (0, 0)
    rg.publish(f"{name}.a", b"x")
    assert sequences(take(rg, name, batch=3)) == [3]
