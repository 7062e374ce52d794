"""The rules of stream configurations as values: what the contract tests cannot reach through a cluster of one node."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from railgun.api.bodies import parse_config
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.durations import from_nanos, to_nanos
from railgun.model.refusals import FILTERS_OVERLAP, QUEUE_FILTER_TAKEN, Refusal
from railgun.model.stream_config import StreamConfig
from railgun.model.subjects import collides
from railgun.semantics.consumers.configuration.consumer_configuration import completed, normalise_consumer
from railgun.semantics.streams.configuration.claimed_subjects import ClaimedSubjects
from railgun.semantics.streams.configuration.stream_configuration import check_update, normalise

NONE = ClusterLimits()
MANY = 20_000


def stored(limits: ClusterLimits = NONE, **fields: Any) -> StreamConfig:
    found = normalise(StreamConfig.model_validate({"name": "ORDERS", **fields}), limits)
    assert isinstance(found, StreamConfig), found
    return found


def refused(limits: ClusterLimits = NONE, *, pedantic: bool = False, **fields: Any) -> Refusal:
    found = normalise(StreamConfig.model_validate({"name": "ORDERS", **fields}), limits, pedantic=pedantic)
    assert isinstance(found, Refusal), found
    return found


def change_refused(old: dict[str, Any], new: dict[str, Any]) -> Refusal:
    found = check_update(stored(**old), StreamConfig.model_validate({"name": "ORDERS", **new}), NONE)
    assert isinstance(found, Refusal), found
    return found


def test_what_is_stored_is_stored_again_unchanged() -> None:
    config = stored(max_msgs=5, subject_delete_marker_ttl=2, metadata={"team": "a"}, first_seq=7)
    assert normalise(config, NONE) == config
    assert check_update(config, config, NONE) == config
    assert StreamConfig.from_json(config.to_json()) == config


@pytest.mark.rule("LIM-18")
def test_the_platform_may_demand_and_cap_max_bytes() -> None:
    limits = ClusterLimits(require_max_bytes=True, max_stream_bytes=1_000)
    assert refused(limits) == (400, 10113, "account requires a stream config to have max bytes set")
    assert refused(limits, max_bytes=1_001) == (
        400,
        10122,
        "stream max bytes exceeds account limit max stream bytes",
    )
    assert stored(limits, max_bytes=1_000).max_bytes == 1_000


@pytest.mark.rule("CFG-16")
def test_replicas_are_as_many_as_the_brokers_can_hold() -> None:
    assert stored(ClusterLimits(replicas=3), num_replicas=3).num_replicas == 3
    assert refused(ClusterLimits(replicas=1), num_replicas=2).err_code == 10074
    assert refused(num_replicas=6).description == "maximum replicas is 5"
    assert refused(num_replicas=-1).err_code == 10133
    assert stored(num_replicas=0).num_replicas == 1


@pytest.mark.rule("TTL-07")
def test_delete_markers_imply_ttl_and_rollup() -> None:
    config = stored(subject_delete_marker_ttl=1)
    assert (config.allow_msg_ttl, config.allow_rollup_hdrs) == (True, True)
    assert refused(subject_delete_marker_ttl=0.5).description == (
        "subject delete marker TTL must be at least 1 second"
    )
    assert refused(subject_delete_marker_ttl=-1).err_code == 10052
    assert not stored(
        subject_delete_marker_ttl=1, deny_purge=True
    ).deny_purge  # markers roll up, which purges
    assert refused(subject_delete_marker_ttl=1, mirror={"name": "X"}).description == (
        "subject delete markers forbidden on mirrors"
    )
    assert stored(subject_delete_marker_ttl=0).subject_delete_marker_ttl is None


@pytest.mark.rule("CFG-29")
def test_metadata_tells_the_level_that_the_stream_needs() -> None:
    assert stored().metadata == {"_nats.req.level": "0"}
    assert stored(allow_msg_ttl=True, metadata={"a": "b", "_nats.ver": "9", "_nats.level": "9"}).metadata == {
        "a": "b",
        "_nats.req.level": "1",
    }


@pytest.mark.rule("CFG-26")
@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"discard": "new"}, "counter stream cannot use discard new"),
        ({"allow_msg_ttl": True}, "counter stream cannot use message TTLs"),
        ({"allow_msg_schedules": True}, "counter stream cannot use message schedules"),
        ({"retention": "interest"}, "counter stream can only use limits retention"),
    ],
)
def test_counters_exclude_other_options(fields: dict[str, Any], reason: str) -> None:
    assert refused(allow_msg_counter=True, **fields) == (500, 10052, reason)


@pytest.mark.rule("CTR-21")
def test_a_mirror_does_not_count() -> None:
    assert refused(allow_msg_counter=True, mirror={"name": "X"}) == (
        400,
        10173,
        "stream mirrors can not also calculate counters",
    )


@pytest.mark.parametrize(
    "fields, feature",
    [
        ({"allow_msg_schedules": True}, "allow_msg_schedules"),
        ({"persist_mode": "async"}, "persist_mode async"),
    ],
)
def test_what_cannot_be_done_yet_is_refused_by_name(fields: dict[str, Any], feature: str) -> None:
    assert refused(**fields) == (500, 10052, f"{feature} is not supported yet")


@pytest.mark.rule("CFG-25")
@pytest.mark.parametrize(
    "republish",
    [
        {"src": ">", "dest": "ORDERS.>"},
        {"dest": ">"},
        {"dest": ""},
        {"src": "*", "dest": "ORDERS.$1"},
        {"src": "*", "dest": "{{wildcard(1)}}.new"},
        {"src": "*", "dest": "ORDERS.{{split(1,-)}}"},
        {"src": "a.*", "dest": "{{splitfromleft(1,3)}}"},
    ],
)
def test_republishing_into_the_stream_itself_is_a_cycle(republish: dict[str, str]) -> None:
    reason = "stream configuration for republish destination forms a cycle"
    assert refused(subjects=["ORDERS.>"], republish=republish) == (500, 10052, reason)


@pytest.mark.rule("CFG-25")
def test_republishing_elsewhere_is_allowed_if_the_destination_can_be_made() -> None:
    assert stored(subjects=["ORDERS.>"], republish={"src": ">", "dest": "COPY.>"}).republish is not None
    assert (
        stored(subjects=["ORDERS.*"], republish={"src": "*.*", "dest": "ORDERS.$1.$2"}).republish is not None
    )
    reason = "stream configuration for republish with transform from 'a.*' to 'b.$2' not valid"
    assert refused(republish={"src": "a.*", "dest": "b.$2"}) == (500, 10052, reason)


@pytest.mark.rule("UPD-04")
def test_a_work_queue_stays_one() -> None:
    reason = "stream configuration update can not change retention policy to/from workqueue"
    for old, new in (("workqueue", "limits"), ("interest", "workqueue")):
        assert change_refused({"retention": old}, {"retention": new}).description == reason
    assert check_update(stored(), stored(retention="interest"), NONE) == stored(retention="interest")


@pytest.mark.rule("UPD-17")
def test_limits_below_what_consumers_have_are_refused_with_their_names() -> None:
    limited = stored(consumer_limits={"max_ack_pending": 10, "inactive_threshold": 60})
    consumers = [
        ConsumerConfig(name="Z", ack_policy="explicit", max_ack_pending=11),
        ConsumerConfig(name="A", ack_policy="explicit", max_ack_pending=10, inactive_threshold=61),
        ConsumerConfig(name="M", ack_policy="explicit", max_ack_pending=10, inactive_threshold=60),
    ]
    refusal = check_update(stored(), limited, NONE, consumers=consumers)
    assert refusal == (500, 10069, "change to limits violates consumers: A, Z")
    assert check_update(stored(), limited, NONE, consumers=consumers[2:]) == limited


@pytest.mark.rule("UPD-02", "UPD-03", "UPD-16")
def test_name_storage_and_persistence_never_change() -> None:
    assert (
        change_refused({}, {"name": "OTHER"}).description == "stream configuration name must match original"
    )
    assert change_refused({}, {"storage": "memory"}).description == (
        "stream configuration update can not change storage type"
    )
    assert change_refused({}, {"persist_mode": "async"}).description == (
        "stream configuration update can not change persist mode"
    )


@pytest.mark.rule("UPD-07", "UPD-08")
def test_sealing_again_is_no_change_and_unsealing_is_refused() -> None:
    sealed = check_update(
        stored(max_age=60, allow_rollup_hdrs=True),
        stored(max_age=60).model_copy(update={"sealed": True}),
        NONE,
    )
    assert isinstance(sealed, StreamConfig)
    again = StreamConfig(name="ORDERS", sealed=True, deny_delete=True, deny_purge=True)
    assert check_update(sealed, again, NONE) == sealed.model_copy(
        update={"duplicate_window": timedelta(minutes=2)}
    )
    for denial, called in (("deny_delete", "message deletes"), ("deny_purge", "purge")):
        assert check_update(sealed, again.model_copy(update={denial: False}), NONE) == (
            500,
            10052,
            f"stream configuration update can not cancel deny {called}",
        )
    assert check_update(sealed, StreamConfig(name="ORDERS"), NONE) == (
        500,
        10052,
        "stream configuration update can not unseal a sealed stream",
    )


def test_the_first_sequence_stays_what_it_was() -> None:
    updated = check_update(stored(first_seq=10), StreamConfig(name="ORDERS", first_seq=99), NONE)
    assert isinstance(updated, StreamConfig)
    assert updated.first_seq == 10
    assert refused(first_seq=-1).err_code == 10052
    assert refused(first_seq=2**63).err_code == 10052


_TOKENS = st.sampled_from(["a", "b", "*"])
_PATTERNS = st.builds(
    lambda tokens, rest: ".".join([*tokens, *rest]),
    st.lists(_TOKENS, min_size=1, max_size=3),
    st.sampled_from([[], [">"]]),
)


@pytest.mark.rule("CFG-08", "UPD-12", "SUB-09")
@given(st.lists(st.tuples(st.sampled_from(["S", "T", "U"]), st.lists(_PATTERNS, max_size=3))), _PATTERNS)
def test_who_claims_a_subject_is_what_comparing_all_would_tell(
    claims: list[tuple[str, list[str]]], asked: str
) -> None:
    claimed, known = ClaimedSubjects(), dict[str, list[str]]()
    for stream, patterns in claims:
        claimed.claim(stream, patterns)
        known[stream] = patterns
    wanted = {stream for stream, own in known.items() if any(collides(asked, one) for one in own)}
    assert claimed.who_meets(asked) == wanted
    assert claimed.who_meets(">") == {stream for stream, own in known.items() if own}
    for stream in known:
        claimed.claim(stream, [])
    assert claimed.who_meets(">") == set()


@pytest.mark.rule("CFG-08", "CFG-09")
def test_tens_of_thousands_of_subjects_are_not_compared_in_pairs() -> None:
    """In pairs they take the registrar, and with it every other change of a stream, minutes."""
    many = [f"orders.{number}.*" for number in range(MANY)]
    claimed = ClaimedSubjects()
    claimed.claim("ORDERS", many)
    claimed.claim("PAYMENTS", [*(f"payments.{number}.*" for number in range(MANY)), "*.7.x.y"])
    assert not any(claimed.who_meets(f"other.{number}.*") for number in range(MANY))
    assert claimed.who_meets("orders.7.x.*") == {"PAYMENTS"}
    refusal = refused(subjects=[*many, "orders.*.x", "orders.0.y"])
    assert refusal.description == 'subject "orders.0.*" overlaps with "orders.*.x"'


@pytest.mark.rule("CON-17", "RET-06")
def test_tens_of_thousands_of_filters_are_not_compared_in_pairs() -> None:
    many = [f"orders.{number}" for number in range(MANY)]
    queue = stored(subjects=["orders.>"], retention="workqueue")
    first = completed(ConsumerConfig(name="FIRST", ack_policy="explicit", filter_subjects=many), queue)
    assert isinstance(first, ConsumerConfig)
    inside = ConsumerConfig(
        name="C", ack_policy="explicit", filter_subjects=["orders.7", *many[8:], "orders.*"]
    )
    assert completed(inside, queue) == FILTERS_OVERLAP
    other = [f"orders.x.{number}" for number in range(MANY)]
    second = ConsumerConfig(name="SECOND", ack_policy="explicit", filter_subjects=other)
    assert isinstance(normalise_consumer(second, queue, [first], consumers=1), ConsumerConfig)
    third = ConsumerConfig(name="THIRD", ack_policy="explicit", filter_subjects=[*other, "orders.7"])
    assert normalise_consumer(third, queue, [first], consumers=1) == QUEUE_FILTER_TAKEN


@pytest.mark.parametrize(
    "body, number",
    [
        (b"{", 10025),
        (b"[]", 10025),
        (b"\xff\xfe", 10025),
        (b'{"name": "ORDERS", "max_msgs": NaN}', 10025),
        (b'{"name": "ORDERS", "max_msgs": 99999999999999999999}', 10025),
        (b'{"name": "ORDERS", "description": "\\ud800"}', 10025),
        (b"[" * 100_000, 10025),
        (b'{"name": "ORDERS", "max_age": "soon"}', 10025),
        (b'{"name": "ORDERS", "max_age": {}}', 10025),
        (b'{"name": "ORDERS", "max_age": 1.5}', 10025),
        (b'{"name": "ORDERS", "max_age": 1e18}', 10025),
        (b'{"name": "ORDERS", "max_age": "PT1S"}', 10025),
        (b'{"name": "ORDERS", "max_age": true}', 10025),
        (b'{"name": "ORDERS", "consumer_limits": {"inactive_threshold": 0.5}}', 10025),
        (b'{"name": "ORDERS", "subjects": "a"}', 10025),
        (b'{"name": "ORDERS", "mirror": []}', 10025),
        (b'{"name": "ORDERS", "retention": "forever"}', 10025),
    ],
)
def test_no_body_of_a_request_raises(body: bytes, number: int) -> None:
    found = parse_config(body)
    assert isinstance(found, Refusal)
    assert found.err_code == number


def test_a_wrong_field_is_named() -> None:
    assert parse_config(b'{"name": "ORDERS", "colour": 1}') == (
        400,
        10025,
        'invalid JSON: json: unknown field "colour"',
    )
    nested = parse_config(b'{"name": "ORDERS", "subject_transform": {"dest": "a", "x": 1}}')
    assert nested == (400, 10025, 'invalid JSON: json: unknown field "x"')
    wrong = parse_config(b'{"name": "ORDERS", "max_msgs": "many"}')
    assert isinstance(wrong, Refusal)
    assert wrong.description.startswith('invalid JSON: field "max_msgs": input should be a valid integer')


def test_nulls_are_as_good_as_nothing_and_durations_are_nanoseconds() -> None:
    found = parse_config(b'{"name": "ORDERS", "subjects": null, "max_age": 1500000000, "pedantic": true}')
    assert not isinstance(found, Refusal)
    assert found.pedantic
    assert found.config.max_age == timedelta(seconds=1.5)
    assert found.config.subjects == []


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.integers(-(2**63) + 1, 2**63 - 1))
@example(-1, 0)
@example(99_999_999, 100_000_000)
@example(1_000, 1_001)
def test_durations_compare_and_come_back_as_the_nanoseconds_that_they_are(one: int, other: int) -> None:
    first, second = from_nanos(one), from_nanos(other)
    assert to_nanos(first) == one
    assert (first < second, first <= second, first == second) == (one < other, one <= other, one == other)
    assert (first > second, first >= second, bool(first)) == (one > other, one >= other, one != 0)
    assert (first != second) == (one != other)
    assert copy.deepcopy(first) == first
    assert hash(from_nanos(one)) == hash(first)


def test_a_duration_in_nanoseconds_is_a_timedelta_for_whoever_reads_it() -> None:
    wait = ConsumerConfig.from_api({"ack_wait": 1_500_000_001}).ack_wait
    assert wait is not None
    assert wait.total_seconds() == 1.5
    assert wait + timedelta(seconds=1) == timedelta(seconds=2.5)
    assert ConsumerConfig(ack_wait=-1e-9).to_api()["ack_wait"] == -1
    with pytest.raises(TypeError):
        assert wait < 3
