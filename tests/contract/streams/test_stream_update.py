"""Changing streams: what may change, what acts at once, what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from railgun.client.facade.railgun import Railgun
from railgun.errors import NoStreamResponse, StreamFull, StreamSealed
from railgun.testing import Clock
from tests.support.consumers import add, settle, take
from tests.support.naming import unique
from tests.support.raw import ask, refused, update_refused
from tests.support.waiting import wait_until

CANNOT = "stream configuration update can not"


@pytest.mark.rule("UPD-01")
@pytest.mark.parametrize(
    "fields",
    [
        {"max_msgs": 7, "max_bytes": 70_000, "max_msgs_per_subject": 3, "max_msg_size": 100},
        {"max_age": timedelta(hours=1), "duplicate_window": timedelta(seconds=9)},
        {"discard": "new"},
        {"description": "changed", "metadata": {"team": "b", "_nats.req.level": "0"}},
        {"no_ack": True},
        {"allow_direct": True},
        {"allow_rollup_hdrs": True},
        {"deny_delete": True},
        {"deny_purge": True},
    ],
)
def test_most_of_a_configuration_can_change(rg: Railgun, fields: dict[str, Any]) -> None:
    name = unique("CHANGES")
    stream = rg.create_stream(name)
    before = stream.info().config
    rg.update_stream(name, **fields)
    assert stream.info().config == before.model_copy(update=fields)


@pytest.mark.rule("UPD-01")
def test_a_transform_can_be_changed(rg: Railgun) -> None:
    name = unique("REMAP")
    stream = rg.create_stream(name, subjects=[f"{name}.>"])
    rg.publish(f"{name}.in", b"1")
    rg.update_stream(name, subject_transform={"src": f"{name}.in", "dest": f"{name}.out"})
    rg.publish(f"{name}.in", b"2")
    assert [stream.get(sequence).subject for sequence in (1, 2)] == [f"{name}.in", f"{name}.out"]


@pytest.mark.rule("UPD-01", "UPD-11")
def test_subjects_can_be_added_and_removed_and_messages_stay(rg: Railgun) -> None:
    name = unique("MOVES")
    stream = rg.create_stream(name, subjects=[f"{name}.a", f"{name}.b"])
    rg.publish(f"{name}.a", b"1")
    rg.update_stream(name, subjects=[f"{name}.b", f"{name}.c"])
    with pytest.raises(NoStreamResponse):
        rg.publish(f"{name}.a", b"2")
    rg.publish(f"{name}.c", b"3")
    assert stream.get(1).subject == f"{name}.a"
    assert stream.info().state.messages == 2


@pytest.mark.rule("UPD-11")
def test_a_removed_subject_is_free_for_another_stream(rg: Railgun) -> None:
    name = unique("GIVES")
    rg.create_stream(name, subjects=[f"{name}.a", f"{name}.b"])
    rg.update_stream(name, subjects=[f"{name}.b"])
    other = unique("TAKES")
    rg.create_stream(other, subjects=[f"{name}.a"])
    assert rg.publish(f"{name}.a", b"1").stream == other


@pytest.mark.rule("UPD-03", "UPD-16")
@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"storage": "memory"}, f"{CANNOT} change storage type"),
        ({"persist_mode": "async"}, f"{CANNOT} change persist mode"),
    ],
)
def test_where_messages_are_kept_never_changes(rg: Railgun, fields: dict[str, str], reason: str) -> None:
    name = unique("KEPT")
    rg.create_stream(name)
    assert update_refused(rg, name, **fields) == (10052, 500, reason)


@pytest.mark.rule("UPD-06")
def test_a_lower_number_of_messages_trims_the_oldest_at_once(rg: Railgun) -> None:
    name = unique("TRIM")
    stream = rg.create_stream(name)
    for number in range(10):
        rg.publish(name, b"%d" % number)
    rg.update_stream(name, max_msgs=3)
    state = stream.info().state
    assert (state.messages, state.first_seq, state.last_seq) == (3, 8, 10)
    assert stream.get(8).payload == b"7"


@pytest.mark.rule("UPD-06")
def test_fewer_bytes_trim_the_oldest_at_once(rg: Railgun) -> None:
    name = unique("TRIM")
    stream = rg.create_stream(name)
    for _ in range(10):
        rg.publish(name, b"x" * 100)
    size = stream.info().state.bytes // 10
    rg.update_stream(name, max_bytes=4 * size + 1)
    state = stream.info().state
    assert (state.messages, state.bytes, state.first_seq) == (4, 4 * size, 7)


@pytest.mark.rule("UPD-06")
def test_fewer_messages_a_subject_trim_each_subject_at_once(rg: Railgun) -> None:
    name = unique("TRIM")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    for token in ("a", "a", "b", "a", "b"):
        rg.publish(f"{name}.{token}", b"x")
    rg.update_stream(name, max_msgs_per_subject=1)
    state = stream.info(subjects=">", deleted=True).state
    assert state.subjects == {f"{name}.a": 1, f"{name}.b": 1}
    assert (state.first_seq, state.last_seq) == (4, 5)


@pytest.mark.rule("UPD-06")
def test_a_lower_age_expires_what_is_too_old(rg: Railgun, clock: Clock) -> None:
    name = unique("AGES")
    stream = rg.create_stream(name)
    rg.publish(name, b"old")
    clock.advance(60)
    rg.publish(name, b"new")
    rg.update_stream(name, max_age=30, duplicate_window=30)
    wait_until(lambda: stream.info().state.messages == 1, "the old message expires")
    assert stream.info().state.first_seq == 2


@pytest.mark.rule("UPD-06", "LIM-05", "LIM-06")
@pytest.mark.parametrize("before", ["old", "new"])
@pytest.mark.parametrize(
    "limit, reason",
    [({"max_msgs": 2}, "maximum messages exceeded"), ({"max_bytes": 100}, "maximum bytes exceeded")],
)
def test_lower_limits_under_discard_new_remove_nothing(
    rg: Railgun, before: str, limit: dict[str, int], reason: str
) -> None:
    name = unique("FULL")
    stream = rg.create_stream(name, discard=before)
    for _ in range(5):
        rg.publish(name, b"x")
    rg.update_stream(name, discard="new", **limit)
    assert (stream.info().state.messages, stream.info().state.first_seq) == (5, 1)
    with pytest.raises(StreamFull, match=reason):
        rg.publish(name, b"no room")
    for sequence in range(1, 5):
        stream.delete_message(sequence)
    assert rg.publish(name, b"room").sequence == 6


@pytest.mark.rule("UPD-06", "LIM-10")
def test_a_full_stream_that_takes_a_message_in_place_of_another_is_not_trimmed(rg: Railgun) -> None:
    name = unique("FULL")
    stream = rg.create_stream(name, subjects=[f"{name}.*"], discard="new", max_msgs_per_subject=1)
    for token in "abcd":
        rg.publish(f"{name}.{token}", b"x")
    rg.update_stream(name, max_msgs=2)
    assert rg.publish(f"{name}.a", b"x").sequence == 5
    assert (stream.info().state.messages, stream.info().state.first_seq) == (4, 2)


@pytest.mark.rule("UPD-06")
def test_a_change_to_discard_old_trims_what_was_too_much_before(rg: Railgun) -> None:
    name = unique("FULL")
    stream = rg.create_stream(name)
    for _ in range(5):
        rg.publish(name, b"x")
    rg.update_stream(name, discard="new", max_msgs=2)
    rg.update_stream(name, discard="old")
    assert (stream.info().state.messages, stream.info().state.first_seq) == (2, 4)


@pytest.mark.rule("UPD-05")
def test_a_stream_without_consumers_that_comes_to_interest_is_emptied(rg: Railgun) -> None:
    name = unique("NOBODY")
    stream = rg.create_stream(name)
    for _ in range(3):
        rg.publish(name, b"x")
    rg.update_stream(name, retention="interest")
    state = stream.info().state
    assert (state.messages, state.first_seq, state.last_seq) == (0, 4, 3)
    assert rg.publish(name, b"x").sequence == 4
    untouched = rg.create_stream(unique("NEVER"))
    rg.update_stream(untouched.name, retention="interest")
    assert untouched.info().state.first_seq == 0


@pytest.mark.rule("UPD-05", "RET-13")
def test_a_stream_that_comes_to_interest_drops_what_is_done_and_keeps_what_no_filter_matches(
    rg: Railgun,
) -> None:
    name = unique("SOME")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    for token in "abab":
        rg.publish(f"{name}.{token}", b"x")
    add(rg, name, filter_subject=f"{name}.b")
    settle(rg, take(rg, name)[0])
    rg.update_stream(name, retention="interest")
    assert stream.info(deleted=True).state.deleted == [2]
    rg.publish(f"{name}.a", b"dropped")
    assert stream.info(deleted=True).state.deleted == [2, 5]


@pytest.mark.rule("UPD-05", "STA-04")
def test_a_stream_that_comes_to_interest_drops_what_lies_before_its_consumers(rg: Railgun) -> None:
    name = unique("LATER")
    stream = rg.create_stream(name)
    for _ in range(4):
        rg.publish(name, b"x")
    add(rg, name, deliver_policy="by_start_sequence", opt_start_seq=3)
    rg.update_stream(name, retention="interest")
    assert (stream.info().state.messages, stream.info().state.first_seq) == (2, 3)


@pytest.mark.rule("UPD-08")
@pytest.mark.parametrize(
    "change", [{"max_msgs": 1}, {"max_bytes": 10}, {"max_msgs_per_subject": 1}, {"retention": "interest"}]
)
@pytest.mark.parametrize("before", [{}, {"sealed": True}], ids=["sealing", "sealed"])
def test_nothing_leaves_a_stream_that_is_sealed(
    rg: Railgun, before: dict[str, Any], change: dict[str, Any]
) -> None:
    name = unique("SEALED")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    for token in "aab":
        rg.publish(f"{name}.{token}", b"x")
    if before:
        rg.update_stream(name, **before)
    rg.update_stream(name, sealed=True, **change)
    state = stream.info().state
    assert (state.messages, state.first_seq, state.last_seq) == (3, 1, 3)


@pytest.mark.rule("UPD-07")
@pytest.mark.parametrize(
    "option, reason",
    [
        ("deny_delete", f"{CANNOT} cancel deny message deletes"),
        ("deny_purge", f"{CANNOT} cancel deny purge"),
    ],
)
def test_what_is_denied_stays_denied(rg: Railgun, option: str, reason: str) -> None:
    name = unique("DENIED")
    rg.create_stream(name, **{option: True})
    assert update_refused(rg, name) == (10052, 500, reason)


@pytest.mark.rule("UPD-07", "UPD-08")
def test_sealing_is_for_ever_and_sets_the_rest(rg: Railgun) -> None:
    name = unique("SEALED")
    stream = rg.create_stream(name, max_age=3600, allow_rollup_hdrs=True)
    rg.publish(name, b"kept")
    rg.update_stream(name, sealed=True)
    config = stream.info().config
    assert (config.sealed, config.max_age, config.discard) == (True, timedelta(0), "new")
    assert (config.deny_delete, config.deny_purge, config.allow_rollup_hdrs) == (True, True, False)
    with pytest.raises(StreamSealed):
        rg.publish(name, b"late")
    assert update_refused(rg, name) == (10052, 500, f"{CANNOT} unseal a sealed stream")
    assert stream.get(1).payload == b"kept"


@pytest.mark.rule("UPD-12")
def test_new_subjects_must_be_free(rg: Railgun) -> None:
    name, other = unique("MINE"), unique("THEIRS")
    rg.create_stream(name)
    rg.create_stream(other, subjects=[f"{other}.*"])
    overlap = (10065, 400, "subjects overlap with an existing stream")
    assert update_refused(rg, name, subjects=[name, f"{other}.a"]) == overlap
    rg.update_stream(name, subjects=[name, f"{name}.*"])
    assert rg.stream(name).info().config.subjects == [name, f"{name}.*"]


@pytest.mark.rule("UPD-13")
def test_message_ttl_cannot_be_switched_off(rg: Railgun) -> None:
    name = unique("TTL")
    rg.create_stream(name)
    rg.update_stream(name, allow_msg_ttl=True)
    assert update_refused(rg, name) == (10052, 500, "message TTL status can not be disabled")


@pytest.mark.rule("UPD-18")
def test_a_refused_update_changes_nothing(rg: Railgun) -> None:
    name = unique("FIRM")
    stream = rg.create_stream(name, subjects=[f"{name}.*"], max_msgs=10)
    for _ in range(5):
        rg.publish(f"{name}.a", b"x")
    before = stream.info()
    assert update_refused(rg, name, subjects=["other"], max_msgs=1, storage="memory")[0] == 10052
    assert update_refused(rg, name, subjects=["a..b"], max_msgs=1)[0] == 10052
    after = stream.info()
    assert (after.config, after.state) == (before.config, before.state)
    assert rg.publish(f"{name}.a", b"x").sequence == 6


@pytest.mark.rule("UPD-02", "CFG-04")
def test_a_stream_cannot_be_renamed(rg: Railgun) -> None:
    name, other = unique("OLD"), unique("NEW")
    rg.create_stream(name)
    assert refused(rg, f"STREAM.UPDATE.{name}", {"name": other})[0] == 10056
    assert refused(rg, f"STREAM.INFO.{other}")[0] == 10059


def test_the_answer_of_an_update_is_the_stream_after_it(rg: Railgun) -> None:
    name = unique("AFTER")
    rg.create_stream(name)
    for _ in range(3):
        rg.publish(name, b"x")
    answer = ask(rg, f"STREAM.UPDATE.{name}", {"name": name, "max_msgs": 1})
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_update_response"
    assert (answer["config"]["max_msgs"], answer["state"]["messages"]) == (1, 1)
