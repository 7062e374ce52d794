"""Creating streams: which configurations are taken, how they are shown, how streams are listed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from railgun.client.facade.railgun import Railgun
from railgun.errors import InvalidStreamConfig, StreamNotFound
from tests.support.naming import unique
from tests.support.raw import ask, create_refused, frames, refused, statuses, update_refused
from tests.support.waiting import wait_until

SECOND = 1_000_000_000
BAD_NAME = "stream name is required and can not contain '.', '*', '>', '\\', '/'"


@pytest.mark.rule("CFG-01")
@pytest.mark.parametrize("name", ["a b", "a\tb", "a\rb", "a\nb", "a\fb", "a*b", "a>b"])
def test_a_name_has_no_white_space_and_no_wildcards(rg: Railgun, name: str) -> None:
    assert create_refused(rg, name, subjects=[unique("x")]) == (10052, 500, BAD_NAME)


@pytest.mark.rule("CFG-01")
@pytest.mark.parametrize("name", ["a.b", ""])
def test_a_name_that_no_request_can_carry_is_refused_at_once(rg: Railgun, name: str) -> None:
    with pytest.raises(InvalidStreamConfig) as refusal:
        rg.create_stream(name, subjects=[unique("x")])
    assert (refusal.value.err_code, refusal.value.description) == (10052, BAD_NAME)
    asked: list[Callable[[], object]] = [
        lambda: rg.stream(name).info(),
        lambda: rg.delete_stream(name),
        lambda: rg.stream(name).get(1),
        lambda: rg.stream(name).purge(),
        lambda: rg.stream(name).consumer("C").info(),
    ]
    for call in asked:
        with pytest.raises(StreamNotFound):  # a request that was sent would end as RequestTimeout
            call()


@pytest.mark.rule("CFG-01")
@pytest.mark.parametrize("name", ["a/b", "a\\b"])
def test_a_name_is_no_path(rg: Railgun, name: str) -> None:
    assert create_refused(rg, name) == (10128, 400, "Stream name can not contain path separators")


@pytest.mark.rule("CFG-02")
def test_a_name_has_at_most_255_characters(rg: Railgun) -> None:
    name = unique("N").ljust(255, "n")
    assert create_refused(rg, name + "n") == (10052, 500, "stream name is too long, maximum allowed is 255")
    assert rg.create_stream(name).info().config.name == name


@pytest.mark.rule("CFG-03")
def test_descriptions_and_metadata_are_bounded(rg: Railgun) -> None:
    name = unique("TEXTS")
    assert create_refused(rg, name, description="d" * 4_097)[0] == 10052
    assert create_refused(rg, name, metadata={"key": "v" * 131_070})[0] == 10052
    rg.create_stream(name, description="d" * 4_096, metadata={"key": "v" * 131_069})
    assert rg.stream(name).info().config.description == "d" * 4_096


@pytest.mark.rule("CFG-04")
@pytest.mark.parametrize("call", ["CREATE", "UPDATE"])
def test_the_request_names_the_stream_it_addresses(rg: Railgun, call: str) -> None:
    name = unique("NAMED")
    rg.create_stream(name)
    mismatch = (10056, 400, "stream name in subject does not match request")
    assert refused(rg, f"STREAM.{call}.{name}", {"name": "OTHER"}) == mismatch


@pytest.mark.rule("CFG-01", "CFG-32")
def test_an_update_that_breaks_a_rule_is_told_so_whatever_it_addresses(rg: Railgun) -> None:
    nameless = "stream name is required and can not contain '.', '*', '>', '\\', '/'"
    assert refused(rg, "STREAM.UPDATE.NOWHERE", {}) == (10052, 500, nameless)
    wrong = update_refused(rg, "NOWHERE", max_age=-1)
    assert wrong == (10052, 500, "max age can not be negative")
    assert update_refused(rg, "NOWHERE") == (10059, 404, "stream not found")


@pytest.mark.rule("CFG-05")
def test_without_subjects_a_stream_listens_on_its_name(rg: Railgun) -> None:
    name = unique("LONE")
    assert rg.create_stream(name).info().config.subjects == [name]
    assert rg.publish(name, b"1").stream == name


@pytest.mark.rule("CFG-06")
def test_creating_the_same_again_changes_nothing(rg: Railgun) -> None:
    name = unique("SAME")
    body = {"name": name, "max_msgs": 10, "metadata": {"team": "a"}}
    first = ask(rg, f"STREAM.CREATE.{name}", body)
    rg.publish(name, b"kept")
    again = ask(rg, f"STREAM.CREATE.{name}", body)
    assert first["did_create"] is True
    assert "did_create" not in again
    assert again["created"] == first["created"]
    assert again["state"]["messages"] == 1


@pytest.mark.rule("CFG-07")
def test_a_name_is_taken_once(rg: Railgun) -> None:
    name = unique("TAKEN")
    rg.create_stream(name, max_msgs=10)
    taken = (10058, 400, "stream name already in use with a different configuration")
    assert create_refused(rg, name, max_msgs=11) == taken
    assert rg.stream(name).info().config.max_msgs == 10


@pytest.mark.rule("CFG-08")
def test_streams_never_share_a_subject(rg: Railgun) -> None:
    name = unique("OWNS")
    rg.create_stream(name, subjects=[f"{name}.foo.*", f"{name}.bar"])
    overlap = (10065, 400, "subjects overlap with an existing stream")
    for subject in (f"{name}.foo.a", f"{name}.*.b", f"{name}.>", f"{name}.bar"):
        assert create_refused(rg, unique("WANTS"), subjects=[unique("free"), subject]) == overlap
    assert rg.create_stream(unique("FREE"), subjects=[f"{name}.foo"]).info().state.messages == 0


@pytest.mark.rule("CFG-08")
def test_the_subjects_of_a_deleted_stream_are_free_again(rg: Railgun) -> None:
    name = unique("GONE")
    rg.create_stream(name, subjects=[f"{name}.*"])
    rg.delete_stream(name)
    assert rg.create_stream(unique("NEXT"), subjects=[f"{name}.a"]).info().state.messages == 0


@pytest.mark.rule("CFG-09")
def test_a_stream_does_not_overlap_with_itself(rg: Railgun) -> None:
    name = unique("SELF")
    a, b, c = f"{name}.a", f"{name}.*", f"{name}.c.d"
    assert create_refused(rg, name, subjects=[a, a]) == (10052, 500, "duplicate subjects detected")
    text = f'subject "{a}" overlaps with "{b}"'
    assert create_refused(rg, name, subjects=[c, a, b]) == (10052, 500, text)


@pytest.mark.rule("CFG-10")
def test_capturing_everything_needs_no_ack_and_one_replica(rg: Railgun) -> None:
    rg.create_stream(unique("FIRST"))
    name = unique("ALL")
    no_ack = (10052, 500, "capturing all subjects requires no-ack to be true")
    replicas = (10052, 500, "capturing all subjects requires replicas of 1")
    assert create_refused(rg, name, subjects=[">"]) == no_ack
    assert create_refused(rg, name, subjects=[">"], no_ack=True, num_replicas=3) == replicas
    # With both it is only the streams that exist which are in its way.
    assert create_refused(rg, name, subjects=[">"], no_ack=True)[0] == 10065


@pytest.mark.rule("CFG-11")
@pytest.mark.parametrize(
    "space, exempt, api",
    [
        ("$JS", "$JS.EVENT", "jetstream"),
        ("$JSC", "", "jetstream"),
        ("$NRG", "", "jetstream"),
        ("$SYS", "$SYS.ACCOUNT", "system"),
    ],
)
def test_the_spaces_of_the_api_need_no_ack(rg: Railgun, space: str, exempt: str, api: str) -> None:
    name = unique("SPACE")
    text = f"subjects that overlap with {api} api require no-ack to be true"
    assert create_refused(rg, name, subjects=[f"{space}.{name}.>"]) == (10052, 500, text)
    assert rg.create_stream(name, subjects=[f"{space}.{name}.>"], no_ack=True).info().config.no_ack
    if exempt:
        other = unique("EXEMPT")
        assert rg.create_stream(other, subjects=[f"{exempt}.{other}.>"]).info().config.name == other


LIMITS = ("max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size", "max_consumers")


@pytest.mark.rule("CFG-12")
@pytest.mark.parametrize("given", [0, -1, -5])
def test_no_limit_is_shown_as_minus_one(rg: Railgun, given: int) -> None:
    name = unique("LIMITS")
    config = ask(rg, f"STREAM.CREATE.{name}", {"name": name, **dict.fromkeys(LIMITS, given)})["config"]
    assert {limit: config[limit] for limit in LIMITS} == dict.fromkeys(LIMITS, -1)


@pytest.mark.rule("CFG-13")
@pytest.mark.parametrize("limit", LIMITS)
def test_pedantic_mode_refuses_what_it_would_put_right(rg: Railgun, limit: str) -> None:
    expected = (10157, 400, f"pedantic mode: {limit} must be set to -1")
    assert create_refused(rg, unique("PEDANT"), pedantic=True, **{limit: -2}) == expected
    name = unique("ZERO")
    assert ask(rg, f"STREAM.CREATE.{name}", {"name": name, "pedantic": True, limit: 0})["config"][limit] == -1


@pytest.mark.rule("CFG-14")
def test_max_age_is_at_least_100_ms(rg: Railgun) -> None:
    name = unique("AGE")
    assert create_refused(rg, name, max_age=-1) == (10052, 500, "max age can not be negative")
    for short in (1, 99_999_999):
        assert create_refused(rg, name, max_age=short) == (10052, 500, "max age needs to be >= 100ms")
    assert rg.create_stream(name, max_age=0.1).info().config.max_age == timedelta(milliseconds=100)


@pytest.mark.rule("CFG-15")
def test_defaults(rg: Railgun) -> None:
    name = unique("DEFAULTS")
    config = ask(rg, f"STREAM.CREATE.{name}", {"name": name})["config"]
    shown = {key: config[key] for key in ("retention", "discard", "storage", "num_replicas")}
    assert shown == {"retention": "limits", "discard": "old", "storage": "file", "num_replicas": 1}


@pytest.mark.rule("CFG-16")
def test_replicas_have_bounds(rg: Railgun) -> None:
    name = unique("REPLICAS")
    assert create_refused(rg, name, num_replicas=6) == (10052, 500, "maximum replicas is 5")
    assert create_refused(rg, name, num_replicas=-1) == (10133, 400, "replicas count cannot be negative")
    unsupported = (10074, 500, "replicas > 1 not supported in non-clustered mode")
    assert create_refused(rg, name, num_replicas=5) == unsupported


@pytest.mark.rule("CFG-17")
def test_the_window_is_two_minutes_or_the_age(rg: Railgun) -> None:
    assert rg.create_stream(unique("W")).info().config.duplicate_window == timedelta(minutes=2)
    assert rg.create_stream(unique("W"), max_age=3600).info().config.duplicate_window == timedelta(minutes=2)
    assert rg.create_stream(unique("W"), max_age=30).info().config.duplicate_window == timedelta(seconds=30)
    assert rg.create_stream(unique("W"), duplicate_window=5).info().config.duplicate_window == timedelta(
        seconds=5
    )


@pytest.mark.rule("CFG-18")
@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"duplicate_window": -1}, "duplicates window can not be negative"),
        (
            {"duplicate_window": 2 * SECOND, "max_age": SECOND},
            "duplicates window can not be larger then max age",
        ),
        (
            {"duplicate_window": SECOND + 2, "max_age": SECOND + 1},
            "duplicates window can not be larger then max age",
        ),
        ({"duplicate_window": 99_999_999}, "duplicates window needs to be >= 100ms"),
    ],
)
def test_the_window_has_bounds(rg: Railgun, fields: dict[str, int], reason: str) -> None:
    assert create_refused(rg, unique("WINDOW"), **fields) == (10052, 500, reason)


@pytest.mark.rule("CFG-19")
def test_discard_new_per_subject_needs_its_limits(rg: Railgun) -> None:
    name = unique("DISCARD")
    policy = (10052, 500, "discard new per subject requires discard new policy to be set")
    limit = (10052, 500, "discard new per subject requires max msgs per subject > 0")
    assert create_refused(rg, name, discard_new_per_subject=True, max_msgs_per_subject=1) == policy
    assert create_refused(rg, name, discard_new_per_subject=True, discard="new") == limit
    stream = rg.create_stream(name, discard_new_per_subject=True, discard="new", max_msgs_per_subject=1)
    assert stream.info().config.discard_new_per_subject


@pytest.mark.rule("CFG-20", "CFG-21", "CFG-22")
@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"deny_purge": True, "allow_rollup_hdrs": True}, "roll-ups require the purge permission"),
        ({"sealed": True}, "stream configuration for create can not be sealed"),
        ({"mirror_direct": True}, "stream has no mirror but does have mirror direct"),
    ],
)
def test_options_that_contradict_each_other(rg: Railgun, fields: dict[str, bool], reason: str) -> None:
    assert create_refused(rg, unique("OPTIONS"), **fields) == (10052, 500, reason)


@pytest.mark.rule("CFG-23")
def test_the_first_sequence_can_be_chosen(rg: Railgun) -> None:
    name = unique("FIRST")
    state = rg.create_stream(name, first_seq=1_000).info().state
    assert (state.first_seq, state.last_seq, state.messages) == (1_000, 999, 0)
    assert [rg.publish(name, b"x").sequence for _ in range(2)] == [1_000, 1_001]
    assert rg.stream(name).get(1_000).payload == b"x"


@pytest.mark.rule("CFG-24")
def test_a_transform_rewrites_what_it_matches_before_every_check(rg: Railgun) -> None:
    name = unique("MAP")
    stream = rg.create_stream(
        name, subjects=[f"{name}.>"], subject_transform={"src": f"{name}.in.*", "dest": f"{name}.out.$1"}
    )
    rg.publish(f"{name}.in.a", b"1")
    rg.publish(f"{name}.other", b"2")
    rg.publish(f"{name}.in.a", b"3", expected_last_subject_sequence=1)
    assert [stream.get(sequence).subject for sequence in (1, 2, 3)] == [
        f"{name}.out.a",
        f"{name}.other",
        f"{name}.out.a",
    ]
    assert stream.info(subjects=">").state.subjects == {f"{name}.out.a": 2, f"{name}.other": 1}


@pytest.mark.rule("CFG-24")
def test_a_bad_transform_is_refused(rg: Railgun) -> None:
    name = unique("MAP")
    source = create_refused(rg, name, subject_transform={"src": "a..b", "dest": "c"})
    assert source == (10155, 400, "stream transform source: invalid subject a..b")
    destination = create_refused(rg, name, subject_transform={"src": "a.*", "dest": "b.$2"})
    assert destination[:2] == (10156, 400)
    assert destination[2].startswith(
        "stream transform: invalid mapping destination: wildcard index out of range"
    )


@pytest.mark.rule("CFG-29")
def test_metadata_tells_the_level_that_is_needed(rg: Railgun) -> None:
    plain = rg.create_stream(unique("LEVEL"), metadata={"team": "a"}).info().config.metadata
    assert plain == {"team": "a", "_nats.req.level": "0"}
    expiring = rg.create_stream(unique("LEVEL"), allow_msg_ttl=True).info().config.metadata
    assert expiring == {"_nats.req.level": "1"}


@pytest.mark.rule("CFG-30")
def test_a_call_that_needs_a_newer_server_is_refused(rg: Railgun) -> None:
    name = unique("NEWER")
    stream = rg.create_stream(name, allow_direct=True)
    rg.publish(name, b"1")
    too_high = (10185, 412, "JetStream minimum api level required")
    bodies: dict[str, dict[str, Any]] = {
        f"STREAM.INFO.{name}": {},
        f"STREAM.MSG.GET.{name}": {"seq": 1},
        f"STREAM.MSG.DELETE.{name}": {"seq": 1},
        f"STREAM.PURGE.{name}": {},
        f"STREAM.DELETE.{name}": {},
        "STREAM.NAMES": {},
        "STREAM.LIST": {},
        "INFO": {},
    }
    for call, body in bodies.items():
        assert refused(rg, call, body, {"Nats-Required-Api-Level": "4"}) == too_high, call
        assert refused(rg, call, body, {"Nats-Required-Api-Level": "new"}) == too_high, call
    direct = frames(rg, f"DIRECT.GET.{name}", {"seq": 1}, {"Nats-Required-Api-Level": "4"})
    assert statuses(direct) == [(412, "Required Api Level")]
    assert stream.info().state.messages == 1
    assert "error" not in ask(rg, f"STREAM.INFO.{name}", {}, {"Nats-Required-Api-Level": "3"})


@pytest.mark.rule("CFG-31")
def test_streams_are_listed_by_name_in_pages_and_by_subject(rg: Railgun) -> None:
    root = unique("LISTED")
    names = [f"{root}_{letter}" for letter in "cab"]
    for name in names:
        rg.create_stream(name, subjects=[f"{root}.{name}.*"])
    for call, limit in (("STREAM.NAMES", 1_024), ("STREAM.LIST", 256)):
        answer = ask(rg, call, {"subject": f"{root}.*.x"})
        shown = [one if isinstance(one, str) else one["config"]["name"] for one in answer["streams"]]
        assert shown == sorted(names)
        assert (answer["total"], answer["offset"], answer["limit"]) == (3, 0, limit)
        rest = ask(rg, call, {"subject": f"{root}.>", "offset": 1})["streams"]
        assert [one if isinstance(one, str) else one["config"]["name"] for one in rest] == sorted(names)[1:]
        assert ask(rg, call, {"subject": f"{root}.other"})["streams"] in ([], None)
    assert [info.config.name for info in rg.streams(subject=f"{root}.>")] == sorted(names)


@pytest.mark.rule("CFG-32")
def test_what_is_not_there_is_not_found(rg: Railgun) -> None:
    name = unique("NOWHERE")
    missing = (10059, 404, "stream not found")
    assert refused(rg, f"STREAM.INFO.{name}") == missing
    assert refused(rg, f"STREAM.UPDATE.{name}", {"name": name}) == missing
    assert refused(rg, f"STREAM.DELETE.{name}") == missing
    with pytest.raises(StreamNotFound):
        rg.stream(name).info()


@pytest.mark.rule("CFG-33")
def test_info_tells_the_state(rg: Railgun) -> None:
    name = unique("STATE")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    new = stream.info().state
    assert (new.first_seq, new.last_seq, new.messages, new.bytes) == (0, 0, 0, 0)
    assert (new.num_deleted, new.num_subjects, new.consumer_count) == (0, 0, 0)
    for token in ("a", "b", "a", "c"):
        rg.publish(f"{name}.{token}", b"x")
    stream.delete_message(2)
    state = stream.info().state
    assert (state.messages, state.first_seq, state.last_seq) == (3, 1, 4)
    assert state.bytes == 3 * (30 + len(f"{name}.a") + 1)
    assert (state.num_deleted, state.num_subjects) == (1, 2)
    raw = ask(rg, f"STREAM.INFO.{name}")
    assert (raw["type"], raw["config"]["name"]) == ("io.nats.jetstream.api.v1.stream_info_response", name)
    assert raw["state"]["first_ts"] == ask(rg, f"STREAM.MSG.GET.{name}", {"seq": 1})["message"]["time"]
    assert raw["state"]["last_ts"] == ask(rg, f"STREAM.MSG.GET.{name}", {"seq": 4})["message"]["time"]


@pytest.mark.rule("CFG-33")
def test_details_are_told_on_request_only(rg: Railgun) -> None:
    name = unique("DETAILS")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    for token in ("a", "b", "a", "c"):
        rg.publish(f"{name}.{token}", b"x")
    stream.delete_message(2)
    plain = ask(rg, f"STREAM.INFO.{name}")["state"]
    assert "subjects" not in plain
    assert "deleted" not in plain
    detailed = stream.info(subjects=f"{name}.a", deleted=True).state
    assert detailed.subjects == {f"{name}.a": 2}
    assert detailed.deleted == [2]
    page = ask(rg, f"STREAM.INFO.{name}", {"subjects_filter": ">", "offset": 1})
    assert page["state"]["subjects"] == {f"{name}.c": 1}
    assert page["total"] == 2


@pytest.mark.rule("TTL-07")
def test_delete_markers_need_a_second_and_bring_their_options(rg: Railgun) -> None:
    name = unique("MARKERS")
    short = create_refused(rg, name, subject_delete_marker_ttl=SECOND - 1_000)
    assert short == (10052, 500, "subject delete marker TTL must be at least 1 second")
    config = rg.create_stream(name, subject_delete_marker_ttl=1).info().config
    assert (config.allow_msg_ttl, config.allow_rollup_hdrs) == (True, True)


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"\xff", b'{"name": 7e999'])
def test_a_body_that_is_no_object_is_no_request(rg: Railgun, body: bytes) -> None:
    name = unique("BODY")
    stream = rg.create_stream(name)
    rg.publish(name, b"1")
    for call in ("CREATE", "UPDATE", "INFO", "PURGE", "MSG.GET", "MSG.DELETE"):
        err_code, code, text = refused(rg, f"STREAM.{call}.{name}", body)
        assert (err_code, code, text[:14]) == (10025, 400, "invalid JSON: "), call
    assert stream.info().state.messages == 1


def test_a_misspelt_field_is_named(rg: Railgun) -> None:
    unknown = (10025, 400, 'invalid JSON: json: unknown field "max_message"')
    assert create_refused(rg, unique("TYPO"), max_message=1) == unknown


def test_the_answer_of_a_create_is_the_configuration_as_stored(rg: Railgun) -> None:
    name = unique("STORED")
    created = ask(rg, f"STREAM.CREATE.{name}", json.dumps({"name": name, "max_age": 5 * SECOND}).encode())
    assert created["type"] == "io.nats.jetstream.api.v1.stream_create_response"
    assert created["config"]["max_age"] == created["config"]["duplicate_window"] == 5 * SECOND
    assert created["config"] == ask(rg, f"STREAM.INFO.{name}")["config"]


def test_the_account_counts_the_streams_and_consumers_of_every_shard(rg: Railgun) -> None:
    def counted() -> bool:
        """On a shared cluster consumers of other tests may end at any moment: all three at one time."""
        account, streams, again = ask(rg, "$JS.API.INFO"), rg.streams(), ask(rg, "INFO")
        there = len(streams), sum(info.state.consumer_count for info in streams)
        return there == (account["streams"], account["consumers"]) == (again["streams"], again["consumers"])

    before = ask(rg, "INFO")
    names = [unique("COUNTED") for _ in range(4)]
    for name in names:
        stream = rg.create_stream(name)
        for consumer in ("A", "B", "C"):
            stream.create_consumer(consumer)
    wait_until(counted, "the account counts what is there")
    after = ask(rg, "INFO")
    assert after["streams"] == before["streams"] + 4
    assert after["consumers"] >= 12
    rg.stream(names[0]).delete_consumer("B")
    rg.delete_stream(names[1])
    wait_until(counted, "the account forgets what is gone")
    assert ask(rg, "INFO")["streams"] == before["streams"] + 3
