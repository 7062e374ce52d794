"""Configurations of mirrors and sources: what is refused when a stream is created."""

from __future__ import annotations

from typing import Any

import pytest

import railgun
from railgun.errors import ConfigError, InvalidStreamConfig
from tests.support.raw import create_refused
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
