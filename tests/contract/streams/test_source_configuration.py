"""Configurations of mirrors and sources: what is refused, what is stored and shown, and how they change."""

from __future__ import annotations

from typing import Any

import pytest

import railgun
from railgun.errors import ConfigError, InvalidStreamConfig
from tests.support.raw import create_refused, update_refused
from tests.support.streams import Make, Unique

BAD_SUBJECT = [{"src": "a..b", "dest": "c"}]
BAD_DESTINATION = [{"src": "a.*", "dest": "b.$2"}]
COVERED = [{"src": "a.b", "dest": "c"}, {"src": "a.*", "dest": "d.$1"}]
ONE = [{"src": "a", "dest": "b"}]
OUT_OF_RANGE = "invalid mapping destination: wildcard index out of range in $2: [2]"
TWO_FILTERS = "with multiple subject transforms cannot also have a single subject filter"


@pytest.mark.rule("MIR-02", "MIR-03", "TTL-07")
@pytest.mark.parametrize(
    "fields, refusal",
    [
        ({"first_seq": 5}, (10143, 400, "stream mirrors can not have first sequence configured")),
        ({"subjects": ["a"]}, (10034, 400, "stream mirrors can not contain subjects")),
        ({"sources": [{"name": "B"}]}, (10031, 400, "stream mirrors can not also contain other sources")),
        ({"allow_msg_counter": True}, (10173, 400, "stream mirrors can not also calculate counters")),
        ({"allow_atomic": True}, (10198, 400, "stream mirrors can not also use atomic publishing")),
        ({"allow_msg_schedules": True}, (10186, 400, "stream mirrors can not also schedule messages")),
        (
            {"subject_delete_marker_ttl": 10**9},
            (10052, 500, "subject delete markers forbidden on mirrors"),
        ),
    ],
)
def test_what_a_mirror_excludes(
    rg: railgun.Railgun, unique: Unique, fields: dict[str, Any], refusal: tuple[int, int, str]
) -> None:
    assert create_refused(rg, unique("M"), mirror={"name": "ORIGIN"}, **fields) == refusal


@pytest.mark.rule("MIR-04")
@pytest.mark.parametrize(
    "fields, refusal",
    [
        ({"filter_subject": "a", "subject_transforms": ONE}, (10150, 400, f"mirror {TWO_FILTERS}")),
        (
            {"subject_transforms": BAD_SUBJECT},
            (10151, 400, "mirror transform source: invalid subject a..b"),
        ),
        ({"subject_transforms": BAD_DESTINATION}, (10154, 400, f"mirror transform: {OUT_OF_RANGE}")),
        ({"subject_transforms": COVERED}, (10152, 400, "mirror subject filters can not overlap")),
        ({"name": "a.b"}, (10142, 400, "mirrored stream name is invalid")),
        (
            {"filter_subject": "a..b"},
            (10049, 500, "subject filter 'a..b' for the mirror invalid subject"),
        ),
    ],
)
def test_what_a_mirror_can_not_say(
    rg: railgun.Railgun, unique: Unique, fields: dict[str, Any], refusal: tuple[int, int, str]
) -> None:
    assert create_refused(rg, unique("M"), mirror={"name": "ORIGIN", **fields}) == refusal


@pytest.mark.rule("SRC-05", "SRC-06", "SRC-12")
@pytest.mark.parametrize(
    "fields, refusal",
    [
        ({"filter_subject": "a", "subject_transforms": ONE}, (10144, 400, f"source {TWO_FILTERS}")),
        (
            {"subject_transforms": BAD_SUBJECT},
            (10145, 400, "source transform source: invalid subject a..b"),
        ),
        ({"subject_transforms": BAD_DESTINATION}, (10146, 400, f"source transform: {OUT_OF_RANGE}")),
        ({"subject_transforms": COVERED}, (10147, 400, "source filters can not overlap")),
        ({"name": ""}, (10141, 400, "sourced stream name is invalid")),
        ({"opt_start_seq": 5}, (10140, 400, "duplicate source configuration detected")),
        (
            {"filter_subject": "a..b"},
            (10049, 500, "subject filter 'a..b' for the source: invalid subject"),
        ),
    ],
)
def test_what_a_source_can_not_say(
    rg: railgun.Railgun, unique: Unique, fields: dict[str, Any], refusal: tuple[int, int, str]
) -> None:
    sources = [{"name": "ORIGIN"}, {"name": "ORIGIN", **fields}]
    assert create_refused(rg, unique("S"), sources=sources) == refusal


@pytest.mark.rule("MIR-13")
def test_a_stream_does_not_copy_itself(rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("LOOP")
    for fields in ({"mirror": name}, {"sources": ["A", name]}):
        with pytest.raises(InvalidStreamConfig) as caught:
            rg.create_stream(name, **fields)
        assert (caught.value.err_code, caught.value.code, caught.value.description) == (
            10052,
            500,
            "detected cycle",
        )


@pytest.mark.parametrize("start", [{"opt_start_seq": -1}, {"opt_start_time": "soon"}])
def test_a_start_that_cannot_be_read_is_no_configuration(
    rg: railgun.Railgun, unique: Unique, start: dict[str, Any]
) -> None:
    (name,) = start
    for copied in ({"mirror": {"name": "A", **start}}, {"sources": [{"name": "A"}, {"name": "B", **start}]}):
        number, code, text = create_refused(rg, unique("M"), **copied)
        assert (number, code) == (10025, 400)
        assert text.startswith(f'invalid JSON: field "{name}": ')


def test_a_name_alone_is_for_callers_and_not_for_the_api(rg: railgun.Railgun, unique: Unique) -> None:
    assert create_refused(rg, unique("M"), mirror="A")[0] == 10025
    assert create_refused(rg, unique("M"), sources=["A"])[0] == 10025
    with pytest.raises(ConfigError):
        rg.create_stream(unique("M"), sources="A")


@pytest.mark.rule("UPD-09")
def test_a_stream_does_not_become_a_mirror(rg: railgun.Railgun, make: Make) -> None:
    stream = make()
    with pytest.raises(InvalidStreamConfig) as caught:
        rg.update_stream(stream.name, mirror="ORIGIN", subjects=[])
    assert (caught.value.err_code, caught.value.code) == (10055, 400)
    assert stream.info().config.subjects == [f"{stream.name}.>"]


# ---------------------------------------------------------------- what is stored and shown


@pytest.mark.rule("CFG-05", "CFG-06", "CFG-17", "MIR-02", "MIR-12")
def test_a_mirror_is_created_by_the_name_of_its_origin(
    rg: railgun.Railgun, make: Make, unique: Unique
) -> None:
    origin, name = make("ORIGIN"), unique("M")
    mirror = rg.create_stream(name, mirror=origin.name)
    info = mirror.info()
    assert info.config.mirror == railgun.StreamSource(name=origin.name)
    assert (info.config.subjects, info.config.duplicate_window, info.config.sources) == ([], None, None)
    assert info.mirror is not None
    assert (info.mirror.name, info.sources) == (origin.name, [])
    same = rg.create_stream(name, mirror={"name": origin.name, "filter_subject": ""})
    assert same.info().config == info.config


@pytest.mark.rule("CFG-05", "CFG-17", "SRC-05", "SRC-06", "SRC-13")
def test_sources_are_shown_as_they_were_given(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    one, other = make("A"), make("B")
    sources = [
        one.name,
        railgun.StreamSource(name=other.name, filter_subject=f"{other.name}.a", opt_start_seq=2),
        railgun.StreamSource(
            name=other.name,
            subject_transforms=[railgun.SubjectTransform(src=f"{other.name}.b", dest="renamed")],
        ),
    ]
    info = rg.create_stream(unique("ALL"), sources=sources).info()
    assert info.config.sources == [railgun.StreamSource(name=one.name), *sources[1:]]
    assert (info.config.subjects, info.config.duplicate_window, info.mirror) == ([], None, None)
    shown = [(source.name, source.filter_subject, source.subject_transforms) for source in info.sources]
    assert sorted(shown, key=str) == sorted(
        [
            (one.name, None, ()),
            (other.name, f"{other.name}.a", ()),
            (other.name, None, (railgun.SubjectTransform(src=f"{other.name}.b", dest="renamed"),)),
        ],
        key=str,
    )


@pytest.mark.rule("MIR-05", "SRC-12")
def test_a_copy_takes_messages_as_large_as_its_origin(
    rg: railgun.Railgun, make: Make, unique: Unique
) -> None:
    limited, free = make("LIMITED", max_msg_size=100), make("FREE")
    mirrored, sourced = {"name": limited.name}, [{"name": free.name}, {"name": limited.name}]
    assert create_refused(rg, unique("M"), mirror=mirrored, max_msg_size=99) == (
        10030,
        400,
        "stream mirror must have max message size >= source",
    )
    assert create_refused(rg, unique("S"), sources=sourced, max_msg_size=99) == (
        10046,
        400,
        "stream source must have max message size >= target",
    )
    copy = rg.create_stream(unique("S"), sources=sourced, max_msg_size=100)
    assert update_refused(rg, copy.name, sources=sourced, max_msg_size=99)[0] == 10046
    assert rg.create_stream(unique("M"), mirror=mirrored).info().config.max_msg_size == -1


@pytest.mark.rule("MIR-11")
def test_mirror_direct_is_what_the_origin_says(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    direct, other = make("DIRECT", allow_direct=True), make("OTHER")
    assert rg.create_stream(unique("M"), mirror=direct.name).info().config.mirror_direct
    asked = rg.create_stream(unique("N"), mirror=other.name, mirror_direct=True)
    assert not asked.info().config.mirror_direct


@pytest.mark.rule("MIR-13")
def test_two_streams_source_from_each_other_by_different_subjects_only(
    rg: railgun.Railgun, unique: Unique
) -> None:
    a, b = unique("A"), unique("B")
    rg.create_stream(a, subjects=[f"{a}.>"], sources=[{"name": b, "filter_subject": f"{b}.>"}])
    assert create_refused(rg, b, mirror={"name": a}) == (10052, 500, "detected cycle")
    assert create_refused(rg, b, sources=[{"name": a}]) == (10052, 500, "detected cycle")
    rg.create_stream(b, subjects=[f"{b}.>"], sources=[{"name": a, "filter_subject": f"{a}.>"}])
    changed = {"subjects": [f"{b}.>"], "sources": [{"name": a}]}
    assert update_refused(rg, b, **changed) == (10052, 500, "detected cycle")


# ---------------------------------------------------------------- changes


@pytest.mark.rule("UPD-09", "CFG-05")
def test_a_mirror_is_promoted_and_not_changed(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    origin, other, name = make("ORIGIN", allow_direct=True), make("OTHER"), unique("M")
    rg.create_stream(name, mirror=origin.name)
    for mirror in (other.name, {"name": origin.name, "opt_start_seq": 2}):
        with pytest.raises(InvalidStreamConfig) as caught:
            rg.update_stream(name, mirror=mirror)
        assert (caught.value.err_code, caught.value.code) == (10055, 400)
    assert rg.update_stream(name, description="kept").info().config.mirror is not None
    info = rg.update_stream(name, mirror=None).info()
    assert (info.config.subjects, info.config.mirror, info.config.mirror_direct) == ([name], None, False)
    assert info.config.duplicate_window is not None
    assert (info.config.description, info.mirror) == ("kept", None)
    assert rg.publish(name, b"its own").stream == name


@pytest.mark.rule("UPD-10")
def test_sources_come_and_go(rg: railgun.Railgun, make: Make, unique: Unique) -> None:
    one, other = make("A"), make("B")
    stream = make("ALL", sources=[{"name": one.name}])
    for sources in ([one.name, other.name], [{"name": other.name, "filter_subject": "b"}], [one.name], None):
        info = rg.update_stream(stream.name, sources=sources).info()
        assert len(info.config.sources or ()) == len(info.sources) == len(sources or ())
        assert info.config.subjects == [f"{stream.name}.>"]
