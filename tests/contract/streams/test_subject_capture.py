"""Subjects as a stream's user meets them: what is captured, what is refused, what a filter selects."""

from __future__ import annotations

import pytest

from railgun.client.facade.railgun import Railgun
from railgun.errors import ConfigError, NoStreamResponse
from tests.support.naming import unique
from tests.support.raw import create_refused


@pytest.mark.rule("SUB-01")
def test_subjects_are_case_sensitive(rg: Railgun) -> None:
    name = unique("CASE")
    stream = rg.create_stream(name, subjects=[f"{name}.new"])
    rg.publish(f"{name}.new", b"1")
    with pytest.raises(NoStreamResponse):
        rg.publish(f"{name}.NEW", b"2")
    assert stream.info().state.messages == 1


@pytest.mark.rule("SUB-02", "SUB-03", "SUB-06")
@pytest.mark.parametrize(
    "bad", ["", "foo..bar", ".foo", "foo.", " x", "y ", "a\tb", "a\rb", "a\nb", "a\fb", "a.>.b", ">.a"]
)
def test_a_malformed_subject_is_refused(rg: Railgun, bad: str) -> None:
    assert create_refused(rg, unique("BAD"), subjects=[bad]) == (10052, 500, "invalid subject")


@pytest.mark.rule("SUB-04")
def test_a_star_is_exactly_one_token(rg: Railgun) -> None:
    name = unique("STAR")
    stream = rg.create_stream(name, subjects=[f"{name}.*.c"])
    rg.publish(f"{name}.b.c", b"1")
    for subject in (f"{name}.c", f"{name}.b.b.c", f"{name}.b.d"):
        with pytest.raises(NoStreamResponse):
            rg.publish(subject, b"2")
    assert stream.info().state.messages == 1


@pytest.mark.rule("SUB-05")
def test_a_full_wildcard_needs_at_least_one_token(rg: Railgun) -> None:
    name = unique("FULL")
    stream = rg.create_stream(name, subjects=[f"{name}.>"])
    rg.publish(f"{name}.b", b"1")
    rg.publish(f"{name}.b.c", b"2")
    with pytest.raises(NoStreamResponse):
        rg.publish(name, b"3")
    assert stream.info().state.messages == 2


@pytest.mark.rule("SUB-07")
def test_a_wildcard_inside_a_token_is_a_plain_character(rg: Railgun) -> None:
    name = unique("PLAIN")
    stream = rg.create_stream(name, subjects=[f"{name}.foo*", f"{name}.>>"])
    rg.publish(f"{name}.foo*", b"1")
    rg.publish(f"{name}.>>", b"2")
    for subject in (f"{name}.foobar", f"{name}.x"):
        with pytest.raises(NoStreamResponse):
            rg.publish(subject, b"3")
    assert stream.info(subjects=">").state.subjects == {f"{name}.foo*": 1, f"{name}.>>": 1}


@pytest.mark.rule("SUB-08")
def test_nothing_can_be_published_to_a_wildcard(rg: Railgun) -> None:
    name = unique("WILD")
    stream = rg.create_stream(name, subjects=[f"{name}.>"])
    for subject in (f"{name}.*", f"{name}.>", f"{name}.*.a"):
        with pytest.raises(ConfigError):
            rg.publish(subject, b"1")
    assert stream.info().state.last_seq == 0


@pytest.mark.rule("SUB-09")
def test_patterns_collide_if_one_subject_matches_both(rg: Railgun) -> None:
    name = unique("COLLIDE")
    rg.create_stream(name, subjects=[f"{name}.foo.*"])
    assert create_refused(rg, unique("OTHER"), subjects=[f"{name}.*.foo"])[0] == 10065
    other = unique("APART")
    rg.create_stream(other, subjects=[f"{name}.foo.*.bar.>"])
    assert rg.publish(f"{name}.foo.a.bar.b", b"1").stream == other


@pytest.mark.rule("SUB-10")
def test_only_a_subset_of_an_exempt_space_is_exempt(rg: Railgun) -> None:
    name = unique("EVENT")
    assert create_refused(rg, name, subjects=[f"$JS.*.{name}"])[0] == 10052
    assert rg.create_stream(name, subjects=[f"$JS.EVENT.{name}.*"]).info().state.messages == 0


@pytest.mark.rule("SUB-11")
def test_an_open_filter_selects_everything(rg: Railgun) -> None:
    name = unique("OPEN")
    stream = rg.create_stream(name, subjects=[f"{name}.>"])
    for token in ("a", "b.c"):
        rg.publish(f"{name}.{token}", b"1")
    assert stream.get_last(">").sequence == 2
    assert stream.info(subjects=">").state.subjects == {f"{name}.a": 1, f"{name}.b.c": 1}
    assert stream.purge(subject=">") == 2
    rg.publish(f"{name}.a", b"1")
    assert stream.purge(subject="") == 1
