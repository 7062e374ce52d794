"""Consumers: what they may be, how long they live, how they are changed, and what their info says (CON)."""

from __future__ import annotations

from typing import Any

import pytest

from railgun import Message, Railgun
from railgun.errors import ApiError, InvalidConsumerConfig
from railgun.testing import Clock
from tests.support.consumers import (
    MILLI,
    NOT_FOUND,
    SECOND,
    about,
    add,
    add_ephemeral,
    add_refused,
    creation,
    delivered,
    delivery,
    exists,
    messages,
    pull,
    sequences,
    settle,
    take,
    waiters,
)
from tests.support.raw import ask, refused, statuses
from tests.support.streams import Make, Unique, put_on
from tests.support.waiting import wait_until

DAY = 86_400.0
PUSH_BASED = (409, "Consumer is push based")


def configured(rg: Railgun, stream: str, name: str = "C") -> dict[str, Any]:
    """The configuration that the info of a consumer shows."""
    config = about(rg, stream, name)["config"]
    assert isinstance(config, dict)
    return config


# ------------------------------------------------------------ kinds and life


@pytest.mark.rule("CON-01", "PUL-11")
def test_a_deliver_subject_makes_it_push(rg: Railgun, make: Make, unique: Unique) -> None:
    stream, inbox = make(), unique("inbox")
    put_on(rg, stream, "a")
    assert "deliver_subject" not in add(rg, stream.name, "PULL")["config"]
    assert add(rg, stream.name, "PUSH", deliver_subject=inbox)["config"]["deliver_subject"] == inbox
    assert statuses(pull(rg, stream.name, "PUSH")) == [PUSH_BASED]
    assert sequences(pull(rg, stream.name, "PULL")) == [1]
    with rg.listen(inbox) as listener:
        assert delivery(next(iter(listener))).consumer == "PUSH"


@pytest.mark.rule("CON-02")
def test_a_durable_keeps_its_position_until_it_is_deleted(
    cluster: Any, rg: Railgun, make: Make, clock: Clock
) -> None:
    stream = make()
    put_on(rg, stream, "a", "b", "c")
    with cluster.connect() as first:
        add(first, stream.name)
        one, two = take(first, stream.name, batch=2)
        settle(first, one)
        settle(first, two)
    clock.advance(10 * DAY)
    info = about(rg, stream.name)
    assert (delivered(info), info["num_ack_pending"], info["num_pending"]) == ((2, 2), 0, 1)
    assert sequences(take(rg, stream.name, batch=5)) == [3]
    assert ask(rg, f"CONSUMER.DELETE.{stream.name}.C")["success"] is True
    assert not exists(rg, stream.name)
    add(rg, stream.name)
    assert sequences(take(rg, stream.name, batch=5)) == [1, 2, 3]


@pytest.mark.rule("CON-03")
@pytest.mark.parametrize("threshold", [None, 20])
def test_an_ephemeral_vanishes_when_it_is_unused(
    rg: Railgun, make: Make, clock: Clock, threshold: int | None
) -> None:
    stream = make()
    fields = {} if threshold is None else {"inactive_threshold": threshold * SECOND}
    name = add_ephemeral(rg, stream.name, **fields)
    assert not configured(rg, stream.name, name).get("durable_name")
    clock.advance((threshold or 5) - 1)
    assert exists(rg, stream.name, name)
    clock.advance(2.5)
    assert not exists(rg, stream.name, name)
    assert stream.info().state.consumer_count == 0


@pytest.mark.rule("CON-04")
def test_an_ephemeral_push_consumer_outlives_its_listener_by_the_grace_period(
    rg: Railgun, make: Make, unique: Unique, clock: Clock
) -> None:
    stream, inbox = make(), unique("inbox")
    with rg.listen(inbox):
        name = add_ephemeral(rg, stream.name, deliver_subject=inbox)
        wait_until(lambda: about(rg, stream.name, name)["push_bound"], "the listener is known")
        clock.advance(60)
        assert exists(rg, stream.name, name)
    wait_until(lambda: not about(rg, stream.name, name)["push_bound"], "the listener is gone")
    clock.advance(3)
    with rg.listen(inbox):
        wait_until(lambda: about(rg, stream.name, name)["push_bound"], "the new listener is known")
        clock.advance(60)
        assert exists(rg, stream.name, name)
    wait_until(lambda: not about(rg, stream.name, name)["push_bound"], "the new listener is gone")
    clock.advance(7)
    assert not exists(rg, stream.name, name)


@pytest.mark.rule("CON-05")
def test_pulls_deliveries_and_acks_keep_an_ephemeral_pull_consumer(
    rg: Railgun, make: Make, clock: Clock
) -> None:
    stream = make()
    name = add_ephemeral(rg, stream.name, inactive_threshold=10 * SECOND)
    with waiters() as room:
        waiting = room.pull(rg, stream.name, name, {"expires": 300 * SECOND}, waiting=1)
        clock.advance(60)
        assert exists(rg, stream.name, name)
        put_on(rg, stream, "a")
        (message,) = waiting.result()
    clock.advance(8)
    assert exists(rg, stream.name, name)  # the delivery
    settle(rg, message)
    clock.advance(8)
    assert exists(rg, stream.name, name)  # the ack
    clock.advance(4)
    assert not exists(rg, stream.name, name)


@pytest.mark.rule("CON-06")
def test_a_durable_may_have_an_inactive_threshold(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make()
    add(rg, stream.name, "IDLE", inactive_threshold=30 * SECOND)
    add(rg, stream.name, "NEVER", inactive_threshold=0)
    clock.advance(29)
    assert exists(rg, stream.name, "IDLE")
    clock.advance(2.5)
    assert not exists(rg, stream.name, "IDLE")
    clock.advance(10 * DAY)
    assert exists(rg, stream.name, "NEVER")


# ------------------------------------------------------------ names


@pytest.mark.rule("CON-07")
@pytest.mark.parametrize("name", ["a.b", "a b", "a*", "*", ">", "a\tb", "a\nb", "a\rb", "a\fb"])
def test_characters_of_a_name(rg: Railgun, make: Make, name: str) -> None:
    stream = make().name
    allowed = r"can not contain '.', '*', '>', '\', '/'"
    body = creation(stream, {"name": name})
    assert refused(rg, f"CONSUMER.CREATE.{stream}", body) == (10052, 500, f"consumer name {allowed}")
    if "." not in name:  # what follows a dot in the address is a filter
        texts = [f"consumer name {allowed}", f"consumer durable name {allowed}"]
        assert add_refused(rg, stream, name) in [(10052, 500, text) for text in texts]
    with pytest.raises(InvalidConsumerConfig, match="can not contain"):
        rg.stream(stream).create_consumer(name)
    assert rg.stream(stream).info().state.consumer_count == 0


@pytest.mark.rule("CON-07")
def test_path_separators_length_and_disagreement_of_names(rg: Railgun, make: Make) -> None:
    stream = make().name
    separators = (10127, 400, "Consumer name can not contain path separators")
    for name in ("a/b", "a\\b"):
        body = creation(stream, {"durable_name": name})
        assert refused(rg, f"CONSUMER.CREATE.{stream}.{name}", body) == separators
        assert refused(rg, f"CONSUMER.DURABLE.CREATE.{stream}.{name}", body) == separators
    too_long = (10102, 400, "consumer name is too long, maximum allowed is 255")
    assert add_refused(rg, stream, "x" * 256) == too_long
    assert add(rg, stream, "x" * 255)["name"] == "x" * 255
    differ = (10132, 400, "Consumer Durable and Name have to be equal if both are provided")
    both = creation(stream, {"name": "A", "durable_name": "B"})
    assert refused(rg, f"CONSUMER.CREATE.{stream}", both) == differ
    agreed = creation(stream, {"name": "SAME", "durable_name": "SAME"})
    assert ask(rg, f"CONSUMER.CREATE.{stream}.SAME", agreed)["name"] == "SAME"


def test_metadata_that_is_too_large_is_refused_after_everything_else(rg: Railgun, make: Make) -> None:
    queue = make(retention="workqueue").name
    large = {"metadata": {"key": "x" * 131_072}}
    assert add_refused(rg, queue, "C", **large)[:2] == (10135, 400)
    assert add_refused(rg, queue, "C", ack_policy="none", **large)[:2] == (10084, 400)  # as nats-server does
    assert rg.stream(queue).info().state.consumer_count == 0


@pytest.mark.rule("CON-08")
def test_an_ephemeral_gets_a_name(rg: Railgun, make: Make) -> None:
    stream = make()
    put_on(rg, stream, "a")
    names = [add_ephemeral(rg, stream.name), add_ephemeral(rg, stream.name), stream.create_consumer().name]
    assert len(set(names)) == 3
    for name in names:
        assert name
        assert not set(name) & set(" \t\r\n\f.*>\\/")
        assert sequences(take(rg, stream.name, name)) == [1]


# ------------------------------------------------------------ create and update


@pytest.mark.rule("CON-09")
def test_defaults_of_a_raw_request(rg: Railgun, make: Make, unique: Unique) -> None:
    stream = make().name
    plain = ask(rg, f"CONSUMER.CREATE.{stream}.PLAIN", creation(stream, {"durable_name": "PLAIN"}))["config"]
    expected = {
        "deliver_policy": "all",
        "ack_policy": "none",
        "replay_policy": "instant",
        "max_deliver": -1,
        "max_waiting": 512,
    }
    assert {name: plain.get(name) for name in expected} == expected
    assert not plain.get("ack_wait")
    assert not plain.get("max_ack_pending")
    for policy in ("explicit", "all"):
        acked = add(rg, stream, policy, ack_policy=policy)["config"]
        assert (acked["ack_wait"], acked["max_ack_pending"]) == (30 * SECOND, 1000)
        assert (acked["max_deliver"], acked["max_waiting"]) == (-1, 512)
    push = add(rg, stream, "PUSH", deliver_subject=unique("inbox"))["config"]
    assert (push["ack_wait"], push["max_ack_pending"]) == (30 * SECOND, 1000)
    assert not push.get("max_waiting")


@pytest.mark.rule("CON-09")
def test_the_facade_acks_explicitly(rg: Railgun, make: Make) -> None:
    stream = make()
    assert stream.create_consumer("WORKER").name == "WORKER"
    config = configured(rg, stream.name, "WORKER")
    assert (config["ack_policy"], config["durable_name"]) == ("explicit", "WORKER")
    passing = stream.create_consumer("PASSING", ephemeral=True, ack_policy="none")
    config = configured(rg, stream.name, passing.name)
    assert (config["ack_policy"], config.get("durable_name")) == ("none", None)


@pytest.mark.rule("CON-10")
def test_create_update_or_either(rg: Railgun, make: Make) -> None:
    stream = make().name
    assert add_refused(rg, stream, action="update") == (10149, 400, "consumer does not exist")
    assert not exists(rg, stream)
    add(rg, stream, action="create", description="one")
    created = about(rg, stream)["created"]
    add(rg, stream, action="create", description="one")
    taken = add_refused(rg, stream, action="create", description="two")
    assert taken == (10148, 400, "consumer already exists")
    assert configured(rg, stream)["description"] == "one"
    assert add(rg, stream, action="update", description="two")["config"]["description"] == "two"
    assert add(rg, stream, description="three")["config"]["description"] == "three"
    assert about(rg, stream)["created"] == created
    assert add(rg, stream, "OTHER")["name"] == "OTHER"
    assert rg.stream(stream).info().state.consumer_count == 2


PULL_CHANGES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"deliver_policy": "new"}, "deliver policy can not be updated"),
    ({}, {"ack_policy": "all"}, "ack policy can not be updated"),
    ({}, {"deliver_subject": "somewhere.else"}, "can not update pull consumer to push based"),
    (
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 2},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 3},
        "start sequence",
    ),
    (
        {"deliver_policy": "by_start_time", "opt_start_time": "2024-01-01T00:00:00Z"},
        {"deliver_policy": "by_start_time", "opt_start_time": "2024-01-01T00:00:01Z"},
        "start time",
    ),
    ({"max_waiting": 5}, {"max_waiting": 6}, "waiting"),
    ({}, {"mem_storage": True}, "storage"),
]
PUSH_CHANGES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"deliver_subject": None}, "can not update push consumer to pull based"),
    ({}, {"replay_policy": "original"}, "replay policy"),
    ({}, {"idle_heartbeat": 5 * SECOND}, "heart"),
    ({"idle_heartbeat": 5 * SECOND}, {"idle_heartbeat": 6 * SECOND}, "heart"),
    ({"idle_heartbeat": 5 * SECOND}, {"idle_heartbeat": 5 * SECOND, "flow_control": True}, "flow control"),
]


@pytest.mark.rule("CON-11")
@pytest.mark.parametrize("push", [False, True])
def test_what_can_not_be_updated(rg: Railgun, make: Make, unique: Unique, push: bool) -> None:
    stream = make().name
    always = {"deliver_subject": unique("inbox")} if push else {}
    for number, (before, after, text) in enumerate(PUSH_CHANGES if push else PULL_CHANGES):
        name = f"C{number}"
        add(rg, stream, name, **always, **before)
        shown = configured(rg, stream, name)
        for action in (None, "update"):
            err_code, code, description = add_refused(rg, stream, name, action=action, **(always | after))
            assert (err_code, code) == (10012, 500), (after, description)
            exact = "updat" in text
            assert (description == text) if exact else (text in description), (description, text)
        assert configured(rg, stream, name) == shown


UPDATES: list[dict[str, Any]] = [
    {"ack_wait": 7 * SECOND},
    {"backoff": [1 * SECOND, 2 * SECOND]},
    {"max_deliver": 4},
    {"max_ack_pending": 9},
    {"filter_subject": "x.*"},
    {"filter_subjects": ["x.*", "y.*"]},
    {"sample_freq": "50"},
    {"description": "new"},
    {"metadata": {"a": "b"}},
    {"headers_only": True},
    {"inactive_threshold": 60 * SECOND},
]


@pytest.mark.rule("CON-12")
def test_what_can_be_updated(rg: Railgun, make: Make, unique: Unique) -> None:
    stream = make().name
    for number, change in enumerate(UPDATES):
        add(rg, stream, f"C{number}")
        add(rg, stream, f"C{number}", action="update", **change)
        shown = configured(rg, stream, f"C{number}")
        assert {name: shown.get(name) for name in change} == change
    inbox = unique("inbox")
    add(rg, stream, "PUSH", deliver_subject=inbox)
    add(rg, stream, "PUSH", deliver_subject=inbox, rate_limit_bps=1000)
    assert configured(rg, stream, "PUSH")["rate_limit_bps"] == 1000


@pytest.mark.rule("CON-12")
def test_a_deliver_subject_moves_while_nobody_listens(rg: Railgun, make: Make, unique: Unique) -> None:
    stream, old, new = make(), unique("old"), unique("new")
    add(rg, stream.name, deliver_subject=old)
    with rg.listen(old):
        wait_until(lambda: about(rg, stream.name)["push_bound"], "the listener is known")
        in_use = (10013, 400, "consumer name already in use")
        assert add_refused(rg, stream.name, deliver_subject=new) == in_use
        assert configured(rg, stream.name)["deliver_subject"] == old
    wait_until(lambda: not about(rg, stream.name)["push_bound"], "the listener is gone")
    add(rg, stream.name, deliver_subject=new)
    put_on(rg, stream, "a")
    with rg.listen(new) as listener:
        assert delivery(next(iter(listener))).sequence == 1


@pytest.mark.rule("CON-13", "CFG-27")
def test_limits_of_the_stream_are_defaults_and_ceilings(rg: Railgun, make: Make) -> None:
    stream = make(consumer_limits={"inactive_threshold": 20, "max_ack_pending": 50}).name
    unset = add(rg, stream, "UNSET")["config"]
    assert (unset["max_ack_pending"], unset["inactive_threshold"]) == (50, 20 * SECOND)
    lower = add(rg, stream, "LOWER", max_ack_pending=49, inactive_threshold=19 * SECOND)["config"]
    assert (lower["max_ack_pending"], lower["inactive_threshold"]) == (49, 19 * SECOND)
    excess = (10121, 400, "consumer max ack pending exceeds system limit of 50")
    assert add_refused(rg, stream, "MORE", max_ack_pending=51) == excess
    err_code, code, text = add_refused(rg, stream, "MORE", inactive_threshold=21 * SECOND)
    assert (err_code, code) == (10153, 400)
    assert text.startswith("consumer inactive threshold exceeds system limit of 20")
    assert add_refused(rg, stream, "LOWER", max_ack_pending=51, inactive_threshold=SECOND) == excess
    assert not exists(rg, stream, "MORE")


# ------------------------------------------------------------ filters


@pytest.mark.rule("CON-14", "SEQ-15")
def test_a_changed_filter_keeps_the_position(rg: Railgun, make: Make) -> None:
    stream = make()
    put_on(rg, stream, *["foo"] * 10, *["bar"] * 10)
    add(rg, stream.name, filter_subject=f"{stream.name}.foo")
    for message in take(rg, stream.name, batch=5):
        settle(rg, message)
    add(rg, stream.name, filter_subject=f"{stream.name}.bar")
    (message,) = take(rg, stream.name)
    found = delivery(message)
    assert (message.subject, found.sequence, found.consumer_sequence) == (f"{stream.name}.bar", 11, 6)
    assert found.pending == about(rg, stream.name)["num_pending"] == 9


@pytest.mark.rule("CON-15", "CON-16")
def test_filters_that_exclude_each_other_and_empty_ones(rg: Railgun, make: Make) -> None:
    stream = make().name
    both = (10136, 400, "consumer cannot have both FilterSubject and FilterSubjects specified")
    assert add_refused(rg, stream, filter_subject="a", filter_subjects=["b"]) == both
    empty = (10139, 400, "consumer filter in FilterSubjects cannot be empty")
    assert add_refused(rg, stream, filter_subjects=["a", ""]) == empty
    assert not exists(rg, stream)


@pytest.mark.rule("CON-17")
@pytest.mark.parametrize(
    "filters", [["a.*", "a.b"], ["a.b", "a.>"], ["a.b", "a.b"], ["a.*.c", ">"], ["x", "a.*.*", "a.b.*"]]
)
def test_a_filter_inside_another_is_refused(rg: Railgun, make: Make, filters: list[str]) -> None:
    stream = make().name
    overlap = (10138, 400, "consumer subject filters cannot overlap")
    assert add_refused(rg, stream, filter_subjects=filters) == overlap
    assert not exists(rg, stream)
    add(rg, stream, filter_subjects=["a.b"])
    assert add_refused(rg, stream, filter_subjects=filters) == overlap
    assert configured(rg, stream)["filter_subjects"] == ["a.b"]


@pytest.mark.rule("CON-17", "CON-18")
def test_partial_overlap_gives_every_message_once_in_order(rg: Railgun, make: Make) -> None:
    stream = make()
    tokens = ["a.foo.foo", "a.x.x", "a.x.foo", "a.foo.x", "b.foo.foo", "a.foo.foo", "a.foo.y", "a.y.foo"]
    put_on(rg, stream, *tokens)
    add(rg, stream.name, filter_subjects=[f"{stream.name}.a.foo.*", f"{stream.name}.a.*.foo"])
    assert about(rg, stream.name)["num_pending"] == 6
    found = take(rg, stream.name, batch=20)
    assert sequences(found) == [1, 3, 4, 6, 7, 8]
    assert [delivery(one).consumer_sequence for one in found] == [1, 2, 3, 4, 5, 6]
    assert [one.subject for one in found][:2] == [f"{stream.name}.a.foo.foo", f"{stream.name}.a.x.foo"]


@pytest.mark.rule("CON-18")
def test_several_filters_are_one_order(rg: Railgun, make: Make) -> None:
    stream = make()
    tokens = ["c", "a", "b", "c", "b", "a", "d"] * 30
    put_on(rg, stream, *tokens)
    filters = [f"{stream.name}.{token}" for token in ("b", "a", "d")]
    consumer = stream.create_consumer("C", filter_subjects=filters)
    wanted = [number for number, token in enumerate(tokens, 1) if token != "c"]
    found: list[Message] = []
    while batch := consumer.fetch(50, wait=1.0) if len(found) < len(wanted) else []:
        found += batch
    assert [message.sequence for message in found] == wanted
    assert [message.consumer_sequence for message in found] == list(range(1, len(wanted) + 1))


@pytest.mark.rule("CON-19")
def test_a_filter_outside_the_stream_waits_for_its_subjects(rg: Railgun, make: Make, unique: Unique) -> None:
    stream, later = make(), unique("later")
    put_on(rg, stream, "a")
    add(rg, stream.name, filter_subject=f"{later}.*")
    assert about(rg, stream.name)["num_pending"] == 0
    assert take(rg, stream.name) == []
    rg.update_stream(stream.name, subjects=[f"{stream.name}.>", f"{later}.>"])
    rg.publish(f"{later}.x", b"at last")
    assert [reply.body for reply in take(rg, stream.name)] == [b"at last"]


@pytest.mark.rule("CON-19")
@pytest.mark.parametrize("filters", ["a..b", ".a", "a.", "a b", "a.>.b", ">.a"])
def test_a_filter_must_be_a_subject(rg: Railgun, make: Make, filters: str) -> None:
    stream = make().name
    for fields in ({"filter_subject": filters}, {"filter_subjects": ["ok", filters]}):
        _, code, text = add_refused(rg, stream, **fields)
        assert code in (400, 500)
        assert text
        assert not exists(rg, stream)
    with pytest.raises(ApiError):
        rg.stream(stream).create_consumer("C", filter_subject=filters)


# ------------------------------------------------------------ combinations


@pytest.mark.rule("CON-20")
def test_deliver_subjects(rg: Railgun, make: Make, unique: Unique) -> None:
    stream = make().name
    wildcards = (10079, 400, "consumer deliver subject has wildcards")
    for subject in ("in.*", "in.>", "*"):
        assert add_refused(rg, stream, deliver_subject=subject) == wildcards
    invalid = (10112, 400, "invalid push consumer deliver subject")
    for subject in ("in..x", ".in", "in.", "in x"):
        assert add_refused(rg, stream, deliver_subject=subject) == invalid
    cycle = (10081, 400, "consumer deliver subject forms a cycle")
    assert add_refused(rg, stream, deliver_subject=f"{stream}.in") == cycle
    assert not exists(rg, stream)
    assert add(rg, stream, deliver_subject=unique("in") + ".x")["name"] == "C"


@pytest.mark.rule("CON-21")
def test_options_of_the_other_kind(rg: Railgun, make: Make, unique: Unique) -> None:
    stream = make().name
    waiting = (10080, 400, "consumer in push mode can not set max waiting")
    assert add_refused(rg, stream, deliver_subject=unique("in"), max_waiting=5) == waiting
    rate = (10086, 400, "consumer in pull mode can not have rate limit set")
    assert add_refused(rg, stream, rate_limit_bps=1000) == rate
    heartbeat = (10088, 400, "consumer idle heartbeat requires a push based consumer")
    assert add_refused(rg, stream, idle_heartbeat=SECOND) == heartbeat
    flow = (10089, 400, "consumer flow control requires a push based consumer")
    assert add_refused(rg, stream, flow_control=True) == flow
    assert not exists(rg, stream)


@pytest.mark.rule("CON-22", "CON-23")
def test_options_that_need_others(rg: Railgun, make: Make, unique: Unique) -> None:
    stream, inbox = make().name, unique("in")
    pending = (10082, 400, "consumer requires ack policy for max ack pending")
    assert add_refused(rg, stream, deliver_subject=inbox, ack_policy="none", max_ack_pending=1) == pending
    assert add(rg, stream, "PENDING", deliver_subject=inbox, ack_policy="all", max_ack_pending=1)
    small = (10083, 400, "consumer idle heartbeat needs to be >= 100ms")
    assert add_refused(rg, stream, deliver_subject=inbox, idle_heartbeat=99 * MILLI) == small
    assert add_refused(rg, stream, deliver_subject=inbox, idle_heartbeat=100 * MILLI - 1) == small
    assert add_refused(rg, stream, deliver_subject=inbox, idle_heartbeat=1) == small
    assert add(rg, stream, "BEATS", deliver_subject=inbox, idle_heartbeat=100 * MILLI)
    flow = (10108, 400, "consumer with flow control also needs heartbeats")
    assert add_refused(rg, stream, deliver_subject=inbox, flow_control=True) == flow
    assert add(rg, stream, "FLOW", deliver_subject=inbox, flow_control=True, idle_heartbeat=SECOND)
    assert not exists(rg, stream)


@pytest.mark.rule("CON-24")
def test_values_that_make_no_sense(rg: Railgun, make: Make) -> None:
    stream = make().name
    wait = (10183, 400, "consumer ack wait needs to be positive")
    assert add_refused(rg, stream, ack_wait=-SECOND) == wait
    assert add_refused(rg, stream, ack_wait=-1) == wait
    backoff = (10184, 400, "consumer backoff needs to be positive")
    assert add_refused(rg, stream, backoff=[SECOND, -MILLI]) == backoff
    assert add_refused(rg, stream, backoff=[SECOND, -1]) == backoff
    assert not exists(rg, stream)


@pytest.mark.rule("CON-10")
def test_durations_are_kept_to_the_nanosecond(rg: Railgun, make: Make) -> None:
    stream = make().name
    waits = [1_500_000_001, 2 * SECOND + 999]
    shown = add(rg, stream, "EXACT", ack_policy="explicit", backoff=waits, max_deliver=3)
    assert (shown["config"]["backoff"], shown["config"]["ack_wait"]) == (waits, waits[0])
    assert add(rg, stream, "EXACT", action="create", ack_policy="explicit", backoff=waits, max_deliver=3)
    other = add_refused(
        rg,
        stream,
        "EXACT",
        action="create",
        ack_policy="explicit",
        backoff=[waits[0] + 1, waits[1]],
        max_deliver=3,
    )
    assert other == (10148, 400, "consumer already exists")


@pytest.mark.rule("CON-25")
def test_what_is_not_there(rg: Railgun, make: Make, unique: Unique) -> None:
    nowhere = unique("NOWHERE")
    no_stream = (10059, 404, "stream not found")
    assert add_refused(rg, nowhere) == no_stream
    stream = make()
    assert refused(rg, f"CONSUMER.INFO.{stream.name}.C") == NOT_FOUND
    assert refused(rg, f"CONSUMER.DELETE.{stream.name}.C") == NOT_FOUND
    with pytest.raises(ApiError) as raised:
        stream.consumer("C").info()
    assert (raised.value.err_code, raised.value.code) == (10014, 404)
    with pytest.raises(ApiError) as raised:
        stream.delete_consumer("C")
    assert (raised.value.err_code, raised.value.description) == (10014, "consumer not found")


@pytest.mark.rule("CON-33", "ACK-04")
@pytest.mark.parametrize("policy", ["none", "all", "explicit"])
def test_a_pull_consumer_may_have_any_ack_policy(rg: Railgun, make: Make, clock: Clock, policy: str) -> None:
    stream = make()
    put_on(rg, stream, "a", "b", "c")
    add(rg, stream.name, ack_policy=policy)
    found = take(rg, stream.name, batch=2)
    assert sequences(found) == [1, 2]
    if policy != "none":
        settle(rg, found[1])
    info = about(rg, stream.name)
    assert info["num_ack_pending"] == (1 if policy == "explicit" else 0)
    clock.advance(31)
    assert sequences(take(rg, stream.name, batch=5)) == ([1, 3] if policy == "explicit" else [3])


# ------------------------------------------------------------ what it shows


@pytest.mark.rule("CON-26")
def test_headers_only_beside_a_size_of_the_publisher(rg: Railgun, make: Make) -> None:
    stream = make()
    for _ in range(2):
        rg.publish(f"{stream.name}.a", b"x" * 50, headers={"Nats-Msg-Size": "7", "Colour": "red"})
    expected = [("Nats-Msg-Size", b"7"), ("Colour", b"red"), ("Nats-Msg-Size", b"50")]
    add(rg, stream.name, headers_only=True)
    for reply in take(rg, stream.name, batch=2):
        assert (reply.body, list(reply.headers)) == (b"", expected)
    found = stream.create_consumer("FACADE", headers_only=True).fetch(2, wait=5.0)
    assert [(one.payload, list(one.headers)) for one in found] == [(b"", expected)] * 2


@pytest.mark.rule("CON-26", "PUL-06")
def test_a_limit_of_bytes_counts_no_payload_that_is_not_delivered(rg: Railgun, make: Make) -> None:
    stream = make()
    for _ in range(3):
        rg.publish(f"{stream.name}.a", b"x" * 5_000)
    add(rg, stream.name, headers_only=True)
    found = pull(rg, stream.name, body={"batch": 3, "max_bytes": 1_000, "no_wait": True})
    assert sequences(found) == [1, 2, 3]
    again = add(rg, stream.name, "AGAIN", headers_only=True)
    assert again["num_pending"] == 3
    first = pull(rg, stream.name, "AGAIN", body={"batch": 3, "max_bytes": 10, "no_wait": True})
    assert statuses(first) == [(409, "Message Size Exceeds MaxBytes")]


@pytest.mark.rule("CON-26")
def test_headers_only(rg: Railgun, make: Make) -> None:
    stream = make()
    rg.publish(f"{stream.name}.a", b"x" * 1234, headers={"Colour": "red"})
    rg.publish(f"{stream.name}.b", b"")
    add(rg, stream.name, headers_only=True)
    first, second = take(rg, stream.name, batch=2)
    assert (first.body, first.header("Nats-Msg-Size"), first.header("Colour")) == (b"", "1234", "red")
    assert (second.body, second.header("Nats-Msg-Size")) == (b"", "0")
    consumer = stream.create_consumer("FACADE", headers_only=True)
    message = consumer.next(wait=5.0)
    assert message is not None
    assert message.payload == b""
    assert dict(message.headers)["Nats-Msg-Size"] == b"1234"
    assert stream.get(1).payload == b"x" * 1234


@pytest.mark.rule("CON-27", "CON-28", "CON-29")
def test_the_info_of_a_consumer(rg: Railgun, make: Make, unique: Unique) -> None:
    stream = make()
    put_on(rg, stream, "a", "b", "a", "a", "a")
    add(rg, stream.name, filter_subject=f"{stream.name}.a")
    first, _, _ = take(rg, stream.name, batch=3)
    settle(rg, first)
    info = about(rg, stream.name)
    assert (info["stream_name"], info["name"]) == (stream.name, "C")
    assert info["config"]["filter_subject"] == f"{stream.name}.a"
    assert info["delivered"] | {"consumer_seq": 3, "stream_seq": 4} == info["delivered"]
    assert info["ack_floor"] | {"consumer_seq": 1, "stream_seq": 2} == info["ack_floor"]
    counts = ("num_ack_pending", "num_redelivered", "num_waiting", "num_pending")
    assert [info[name] for name in counts] == [2, 0, 0, 1]
    assert not info.get("push_bound")
    facade = stream.consumer("C").info()
    assert (facade.delivered.consumer_seq, facade.delivered.stream_seq) == (3, 4)
    assert (facade.num_ack_pending, facade.num_pending) == (2, 1)
    inbox = unique("in")
    add(rg, stream.name, "PUSH", deliver_subject=inbox)
    with rg.listen(inbox):
        wait_until(lambda: about(rg, stream.name, "PUSH")["push_bound"] is True, "it is bound")


@pytest.mark.rule("CON-28", "CON-29")
def test_pending_drops_at_delivery_and_ack_pending_at_the_ack(rg: Railgun, make: Make) -> None:
    stream = make()
    put_on(rg, stream, *["a"] * 10)
    add(rg, stream.name)

    def counts() -> tuple[int, int]:
        info = about(rg, stream.name)
        return info["num_pending"], info["num_ack_pending"]

    assert counts() == (10, 0)
    found = take(rg, stream.name, batch=4)
    assert [delivery(one).pending for one in found] == [9, 8, 7, 6]
    assert counts() == (6, 4)
    settle(rg, found[3])
    assert counts() == (6, 3)
    put_on(rg, stream, "a")
    assert counts() == (7, 3)
    stream.delete_message(9)
    assert counts() == (6, 3)
    settle(rg, found[0], b"-NAK")
    assert counts() == (6, 3)
    settle(rg, found[1], b"+TERM")
    assert counts() == (6, 2)
    stream.purge()
    assert counts() == (0, 0)


@pytest.mark.rule("CON-30")
def test_redelivered_counts_messages_and_not_attempts(rg: Railgun, make: Make) -> None:
    stream = make()
    put_on(rg, stream, "a", "b", "c")
    add(rg, stream.name)
    found = take(rg, stream.name, batch=3)
    assert about(rg, stream.name)["num_redelivered"] == 0
    again = found[0]
    for _ in range(3):
        settle(rg, again, b"-NAK")
        (again,) = take(rg, stream.name)
        assert delivery(again).sequence == 1
        assert about(rg, stream.name)["num_redelivered"] == 1
    settle(rg, found[1], b"-NAK")
    take(rg, stream.name)
    assert about(rg, stream.name)["num_redelivered"] == 2
    settle(rg, again)
    assert about(rg, stream.name)["num_redelivered"] == 1


@pytest.mark.rule("CON-30")
def test_nothing_is_redelivered_with_one_delivery(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make()
    put_on(rg, stream, "a")
    add(rg, stream.name, max_deliver=1)
    (message,) = take(rg, stream.name)
    settle(rg, message, b"-NAK")
    clock.advance(31)
    assert take(rg, stream.name) == []
    assert about(rg, stream.name)["num_redelivered"] == 0


@pytest.mark.rule("CON-31")
def test_deleting_a_consumer_ends_its_waiting_pulls(rg: Railgun, make: Make) -> None:
    stream = make()
    add(rg, stream.name)
    put_on(rg, stream, "a")
    with waiters() as room:
        first = room.pull(rg, stream.name, body={"batch": 3, "expires": 300 * SECOND}, waiting=1)
        second = room.pull(rg, stream.name, body=b"", waiting=2)
        stream.delete_consumer("C")
        gone = (409, "Consumer Deleted")
        assert statuses(first.result()) == [(None, None), gone]
        assert statuses(second.result()) == [gone]
    assert not exists(rg, stream.name)


@pytest.mark.rule("CON-32", "ACK-18")
def test_consumers_do_not_disturb_each_other(rg: Railgun, make: Make, clock: Clock) -> None:
    stream = make()
    put_on(rg, stream, "a", "b", "c")
    add(rg, stream.name, "ONE")
    add(rg, stream.name, "TWO")
    for message in take(rg, stream.name, "ONE", batch=3):
        settle(rg, message)
    untouched = about(rg, stream.name, "TWO")
    assert (delivered(untouched), untouched["num_pending"], untouched["num_ack_pending"]) == ((0, 0), 3, 0)
    found = take(rg, stream.name, "TWO", batch=3)
    assert sequences(found) == [1, 2, 3]
    assert {delivery(one).deliveries for one in found} == {1}
    clock.advance(31)
    assert take(rg, stream.name, "ONE") == []
    assert sequences(messages(take(rg, stream.name, "TWO", batch=3))) == [1, 2, 3]
    assert stream.info().state.messages == 3
