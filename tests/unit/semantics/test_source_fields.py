"""The rules of mirrors and sources as values: what one configuration may say, and how it may change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from railgun.api.bodies import parse_config
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal
from railgun.model.stream_config import NO_TIME, StreamConfig, StreamSource
from railgun.semantics.streams.configuration.source_fields import MAX_SOURCES, MAX_TRANSFORMS
from railgun.semantics.streams.configuration.stream_configuration import check_update, normalise

NONE = ClusterLimits()


def given(**fields: Any) -> StreamConfig:
    return StreamConfig.model_validate({"name": "COPY", **fields})


def stored(**fields: Any) -> StreamConfig:
    found = normalise(given(**fields), NONE)
    assert isinstance(found, StreamConfig), found
    return found


def refused(**fields: Any) -> tuple[int, str]:
    found = normalise(given(**fields), NONE)
    assert isinstance(found, Refusal), found
    return found.err_code, found.description


def transforms(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"src": src, "dest": dest} for src, dest in pairs]


# ---------------------------------------------------------------- mirrors


@pytest.mark.rule("CFG-05", "CFG-17", "MIR-02")
def test_a_mirror_has_no_subjects_and_no_duplicate_window() -> None:
    config = stored(mirror="ORDERS")
    assert config.mirror == StreamSource(name="ORDERS")
    assert (config.subjects, config.duplicate_window, config.sources) == ([], None, None)
    assert normalise(config, NONE) == config
    assert StreamConfig.from_json(config.to_json()) == config
    window = stored(mirror="ORDERS", duplicate_window=60).duplicate_window
    assert window is not None
    assert window > NO_TIME


@pytest.mark.rule("MIR-02", "MIR-03", "TTL-07")
@pytest.mark.parametrize(
    "fields, number, text",
    [
        ({"first_seq": 5}, 10143, "stream mirrors can not have first sequence configured"),
        ({"subjects": ["a"]}, 10034, "stream mirrors can not contain subjects"),
        ({"sources": ["B"]}, 10031, "stream mirrors can not also contain other sources"),
        ({"allow_msg_counter": True}, 10173, "stream mirrors can not also calculate counters"),
        ({"allow_atomic": True}, 10198, "stream mirrors can not also use atomic publishing"),
        ({"allow_msg_schedules": True}, 10186, "stream mirrors can not also schedule messages"),
        ({"subject_delete_marker_ttl": 1}, 10052, "subject delete markers forbidden on mirrors"),
    ],
)
def test_what_a_mirror_excludes(fields: dict[str, Any], number: int, text: str) -> None:
    assert refused(mirror="ORDERS", **fields) == (number, text)


@pytest.mark.rule("MIR-03")
def test_the_refusals_of_mirrors_come_in_the_order_of_nats() -> None:
    everything = {"subjects": ["a..b"], "sources": [""], "allow_atomic": True}
    assert refused(mirror="a.b", first_seq=5, **everything)[0] == 10143
    assert refused(mirror="a.b", **everything)[0] == 10034
    assert refused(mirror="a.b", **{**everything, "subjects": []})[0] == 10031
    assert refused(mirror="a.b", allow_atomic=True)[0] == 10198
    both = {"filter_subject": "a", "subject_transforms": transforms(("a..b", "x"))}
    assert refused(mirror={"name": "a.b", **both}, subject_delete_marker_ttl=1)[0] == 10150


@pytest.mark.rule("MIR-04")
@pytest.mark.parametrize(
    "fields, number, text",
    [
        (
            {"filter_subject": "a", "subject_transforms": transforms(("b", "c"))},
            10150,
            "mirror with multiple subject transforms cannot also have a single subject filter",
        ),
        (
            {"subject_transforms": transforms(("a..b", "c"))},
            10151,
            "mirror transform source: invalid subject a..b",
        ),
        (
            {"subject_transforms": transforms(("a.*", "b.$2"))},
            10154,
            "mirror transform: invalid mapping destination: wildcard index out of range in $2: [2]",
        ),
        (
            {"subject_transforms": transforms(("a.*", "x.$1"), ("*.b", "y.$1"))},
            10152,
            "mirror subject filters can not overlap",
        ),
        (
            {"subject_transforms": transforms(("", ""), ("a", "b"))},
            10152,
            "mirror subject filters can not overlap",
        ),
        ({"name": "a.b"}, 10142, "mirrored stream name is invalid"),
        ({"name": ""}, 10142, "mirrored stream name is invalid"),
        ({"name": "x" * 256}, 10142, "mirrored stream name is invalid"),
        ({"filter_subject": "a..b"}, 10049, "subject filter 'a..b' for the mirror invalid subject"),
        ({"name": "COPY"}, 10052, "detected cycle"),
    ],
)
def test_what_a_mirror_can_not_say(fields: dict[str, Any], number: int, text: str) -> None:
    assert refused(mirror={"name": "ORDERS", **fields}) == (number, text)


# ---------------------------------------------------------------- sources


@pytest.mark.rule("CFG-05", "CFG-17", "SRC-05")
def test_sources_are_given_by_name_or_with_all_that_they_can_say() -> None:
    config = stored(
        sources=[
            "A",
            StreamSource(name="B", filter_subject="b.>", opt_start_seq=7),
            {"name": "C", "subject_transforms": transforms(("c.*", "seen.$1"), ("d.>", ""))},
            {"name": "D", "opt_start_time": datetime(2026, 1, 31, 12, tzinfo=UTC)},
        ]
    )
    assert (config.subjects, config.duplicate_window) == ([], None)
    assert config.to_api()["sources"] == [
        {"name": "A"},
        {"name": "B", "filter_subject": "b.>", "opt_start_seq": 7},
        {"name": "C", "subject_transforms": transforms(("c.*", "seen.$1"), ("d.>", ""))},
        {"name": "D", "opt_start_time": "2026-01-31T12:00:00Z"},
    ]
    assert stored(subjects=["own.>"], sources=["A"]).subjects == ["own.>"]


@pytest.mark.rule("CFG-06", "SRC-05")
def test_what_is_empty_is_not_stored() -> None:
    empty = {"opt_start_seq": 0, "opt_start_time": "", "filter_subject": "", "subject_transforms": []}
    assert stored(sources=[{"name": "A", **empty}]) == stored(sources=["A"])
    assert stored(mirror={"name": "A", **empty}) == stored(mirror="A")
    assert stored(sources=[]) == stored()
    both = {"name": "A", "opt_start_seq": 3, "opt_start_time": "2026-01-31T12:00:00Z"}
    assert stored(sources=[both]).to_api()["sources"] == [both]  # as NATS: the sequence counts


@pytest.mark.rule("SRC-05", "SRC-12")
@pytest.mark.parametrize(
    "fields, number, text",
    [
        (
            {"filter_subject": "a", "subject_transforms": transforms(("b", "c"))},
            10144,
            "source with multiple subject transforms cannot also have a single subject filter",
        ),
        (
            {"subject_transforms": transforms(("a..b", "c"))},
            10145,
            "source transform source: invalid subject a..b",
        ),
        (
            {"subject_transforms": transforms(("a.*", "b.$2"))},
            10146,
            "source transform: invalid mapping destination: wildcard index out of range in $2: [2]",
        ),
        (
            {"subject_transforms": transforms(("a.b", "x"), ("*.b", "y.$1"))},
            10147,
            "source filters can not overlap",
        ),
        (
            {"subject_transforms": transforms(("*.b", "y.$1"), ("a.b", "x"))},
            10147,
            "source filters can not overlap",
        ),
        ({"name": "a.b"}, 10141, "sourced stream name is invalid"),
        ({"name": ""}, 10141, "sourced stream name is invalid"),
        ({"filter_subject": "a..b"}, 10049, "subject filter 'a..b' for the source: invalid subject"),
        ({"name": "COPY"}, 10052, "detected cycle"),
    ],
)
def test_what_a_source_can_not_say(fields: dict[str, Any], number: int, text: str) -> None:
    assert refused(sources=["A", {"name": "B", **fields}]) == (number, text)


@pytest.mark.rule("SRC-05")
def test_transforms_of_a_source_may_share_subjects_if_neither_covers_the_other() -> None:
    shared = transforms(("a.*", "x.$1"), ("*.b", "y.$1"))
    assert stored(sources=[{"name": "A", "subject_transforms": shared}]).sources is not None


@pytest.mark.rule("SRC-06")
@pytest.mark.parametrize(
    "one, other",
    [
        ({}, {}),
        ({}, {"filter_subject": ">"}),
        ({"opt_start_seq": 1}, {"opt_start_seq": 2}),
        ({"filter_subject": "a"}, {"subject_transforms": transforms(("a", ""))}),
        ({"subject_transforms": transforms(("", ""))}, {}),
        (
            {"subject_transforms": transforms(("a", "b"), ("c", "d"))},
            {"subject_transforms": transforms(("a", "b"), ("c", "d"))},
        ),
    ],
)
def test_the_same_source_twice_is_refused(one: dict[str, Any], other: dict[str, Any]) -> None:
    sources = [{"name": "A", **one}, {"name": "B"}, {"name": "A", **other}]
    assert refused(sources=sources) == (10140, "duplicate source configuration detected")


@pytest.mark.rule("SRC-06")
def test_one_stream_may_be_sourced_with_several_filters_and_transforms() -> None:
    sources = [
        {"name": "A", "filter_subject": "a"},
        {"name": "A", "filter_subject": "*"},
        {"name": "A", "subject_transforms": transforms(("a", "b"))},
        {"name": "A", "subject_transforms": transforms(("a", "c"))},
    ]
    assert len(stored(sources=sources).sources or ()) == 4


def test_sources_schedule_nothing() -> None:
    assert refused(sources=["A"], allow_msg_schedules=True) == (
        10187,
        "stream source can not also schedule messages",
    )


def test_sources_and_their_transforms_are_bounded() -> None:
    names = [f"S{number}" for number in range(MAX_SOURCES)]
    assert len(stored(sources=names).sources or ()) == 1_000
    assert refused(sources=[*names, "T"]) == (10052, "a stream can not have more than 1000 sources")
    half = transforms(*((f"a{number}", "") for number in range(MAX_TRANSFORMS // 2)))
    sources = [{"name": name, "subject_transforms": half} for name in ("A", "B")]
    assert len(stored(sources=sources).sources or ()) == 2
    more = [*sources, {"name": "C", "subject_transforms": transforms(("a", ""))}]
    assert refused(sources=more) == (
        10052,
        "the sources of a stream can not have more than 1000 transforms",
    )


def test_a_start_leaves_room_for_a_long_life() -> None:
    highest = 2**62
    assert stored(mirror={"name": "A", "opt_start_seq": highest}).mirror
    for copied in (
        {"mirror": {"name": "A", "opt_start_seq": highest + 1}},
        {"sources": [{"name": "A", "opt_start_seq": 2**63 - 2}]},
    ):
        assert refused(**copied) == (10052, f"start sequence needs to be at most {highest}")


# ---------------------------------------------------------------- as requests carry them


@pytest.mark.parametrize(
    "body, field",
    [
        (b'{"name": "COPY", "mirror": "ORDERS"}', "mirror"),
        (b'{"name": "COPY", "sources": ["ORDERS"]}', "sources.0"),
        (b'{"name": "COPY", "sources": {"name": "ORDERS"}}', "sources"),
        (b'{"name": "COPY", "mirror": {"name": "ORDERS", "opt_start_seq": -1}}', "opt_start_seq"),
        (b'{"name": "COPY", "mirror": {"name": "ORDERS", "opt_start_seq": "1"}}', "mirror.opt_start_seq"),
        (b'{"name": "COPY", "sources": [{"name": "ORDERS", "opt_start_time": "soon"}]}', "opt_start_time"),
        (b'{"name": "COPY", "mirror": {"name": "ORDERS", "opt_start_time": "2026-01-31"}}', "opt_start_time"),
    ],
)
def test_a_request_says_more_than_a_name_and_only_what_can_be_read(body: bytes, field: str) -> None:
    found = parse_config(body)
    assert isinstance(found, Refusal)
    assert (found.err_code, found.description.startswith(f'invalid JSON: field "{field}":')) == (10025, True)


def test_a_name_that_is_missing_is_not_a_valid_name() -> None:
    for body in (b'{"name": "COPY", "mirror": {}}', b'{"name": "COPY", "Sources": [{"Name": null}]}'):
        found = parse_config(body)
        assert not isinstance(found, Refusal)
        assert refused(**found.config.to_api())[0] in (10141, 10142)
    plain = parse_config(b'{"name": "COPY", "mirror": {"name": "A", "subject_transforms": [{"src": "a"}]}}')
    assert not isinstance(plain, Refusal)
    assert stored(**plain.config.to_api()).to_api()["mirror"]["subject_transforms"] == transforms(("a", ""))


# ---------------------------------------------------------------- changes


@pytest.mark.rule("UPD-09")
def test_a_mirror_is_never_changed() -> None:
    mirror = stored(mirror={"name": "ORDERS", "opt_start_seq": 3})
    for changed in ("ORDERS", "OTHER", {"name": "ORDERS", "opt_start_seq": 4}):
        assert check_update(mirror, given(mirror=changed), NONE) == (
            400,
            10055,
            "stream mirror configuration can not be updated",
        )
    same = given(mirror={"name": "ORDERS", "opt_start_seq": 3, "filter_subject": ""}, description="x")
    updated = check_update(mirror, same, NONE)
    assert isinstance(updated, StreamConfig)
    assert (updated.mirror, updated.description) == (mirror.mirror, "x")
    assert check_update(stored(), given(mirror="ORDERS"), NONE) == check_update(
        mirror, given(mirror="OTHER"), NONE
    )


@pytest.mark.rule("UPD-09", "CFG-05", "CFG-17", "CFG-22")
def test_a_mirror_that_is_promoted_listens_on_its_name() -> None:
    mirror = stored(mirror="ORDERS", mirror_direct=True)
    promoted = check_update(mirror, mirror.model_copy(update={"mirror": None}), NONE)
    assert promoted == stored()
    elsewhere = check_update(mirror, given(subjects=["own.>"]), NONE)
    assert elsewhere == stored(subjects=["own.>"])
    assert check_update(stored(), given(mirror_direct=True), NONE) == (
        500,
        10052,
        "stream has no mirror but does have mirror direct",
    )


@pytest.mark.rule("UPD-10")
def test_sources_come_go_and_change() -> None:
    before = stored(subjects=["own"], sources=["A", {"name": "B", "filter_subject": "b"}])
    for sources in (["A"], ["A", "B", "C"], [{"name": "A", "opt_start_seq": 9}], None):
        after = check_update(before, given(subjects=["own"], sources=sources), NONE)
        assert after == stored(subjects=["own"], sources=sources)
        assert isinstance(after, StreamConfig)
        assert check_update(after, before, NONE) == before
    assert check_update(before, given(), NONE) == stored()
