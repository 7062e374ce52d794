"""The subject algebra, against tables of examples and against a model that simply tries every subject."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun.model.subjects import Filter, Patterns, collides, is_literal, is_subset, is_valid, matches

# Every literal subject over this alphabet of up to this depth. A pattern of at most three tokens that differs from
# another on any subject at all also differs on one of these: "z" stands for every token that no pattern names.
ALPHABET = ("a", "b", "z")
WORLD = [".".join(tokens) for depth in (1, 2, 3, 4) for tokens in product(ALPHABET, repeat=depth)]

tokens = st.sampled_from(["a", "b", "*"])
patterns = st.builds(
    lambda head, tail: ".".join([*head, *tail]),
    st.lists(tokens, min_size=1, max_size=3),
    st.sampled_from([[], [">"]]),
) | st.just(">")


def stands_for(pattern: str) -> set[str]:
    """The model: which subjects of the world the pattern means, token by token, by definition."""
    found = set()
    wanted = pattern.split(".")
    for subject in WORLD:
        have = subject.split(".")
        if wanted[-1] == ">":
            fits = len(have) >= len(wanted)
            pairs = zip(wanted[:-1], have, strict=False)
        else:
            fits = len(have) == len(wanted)
            pairs = zip(wanted, have, strict=False)
        if fits and all(want in ("*", got) for want, got in pairs):
            found.add(subject)
    return found


@pytest.mark.rule("SUB-04", "SUB-05")
@given(patterns, st.sampled_from(WORLD))
def test_matches_what_the_pattern_stands_for(pattern: str, subject: str) -> None:
    assert matches(pattern, subject) == (subject in stands_for(pattern))


@pytest.mark.rule("SUB-09")
@given(patterns, patterns)
def test_patterns_collide_when_a_subject_matches_both(one: str, other: str) -> None:
    assert collides(one, other) == bool(stands_for(one) & stands_for(other))
    assert collides(one, other) == collides(other, one)


@pytest.mark.rule("SUB-10")
@given(patterns, patterns)
def test_a_subset_matches_nothing_that_the_other_does_not(one: str, other: str) -> None:
    assert is_subset(one, other) == (stands_for(one) <= stands_for(other))


@pytest.mark.rule("SUB-09", "SUB-10")
@given(st.lists(patterns, max_size=8), patterns)
def test_many_patterns_collide_and_cover_as_they_do_one_by_one(chosen: list[str], one: str) -> None:
    many = Patterns(chosen[:4])
    for pattern in chosen[4:]:
        many.add(pattern)
    assert many.collide(one) == any(collides(one, other) for other in chosen)
    assert many.cover(one) == any(is_subset(one, other) for other in chosen)


@pytest.mark.rule("SUB-11")
@given(st.lists(patterns, max_size=6), st.sampled_from(WORLD))
def test_a_filter_passes_what_any_of_its_patterns_matches(chosen: list[str], subject: str) -> None:
    expected = not chosen or any(subject in stands_for(pattern) for pattern in chosen)
    assert Filter(chosen).matches(subject) == expected


@pytest.mark.rule("SUB-01", "SUB-02", "SUB-03", "SUB-06", "SUB-07")
@pytest.mark.parametrize(
    "pattern",
    ["a", "a.b", "A.b", "*", ">", "a.*", "*.a", "a.>", "a.*.>", "foo*", "*bar", "foo>", "foo.>>", "a.**"],
)
def test_valid_patterns(pattern: str) -> None:
    assert is_valid(pattern)


@pytest.mark.rule("SUB-02", "SUB-03", "SUB-06")
@pytest.mark.parametrize(
    "pattern",
    [
        "",
        ".",
        "a..b",
        ".a",
        "a.",
        " x",
        "y ",
        "a b",
        "a\tb",
        "a\r",
        "a\nb",
        "a\fb",
        "a\0b",
        "a.>.b",
        ">.a",
        "a.>.>",
    ],
)
def test_invalid_patterns(pattern: str) -> None:
    assert not is_valid(pattern)
    assert not is_literal(pattern)


@pytest.mark.rule("SUB-07", "SUB-08")
@pytest.mark.parametrize(
    "subject, literal",
    [
        ("a.b", True),
        ("foo*", True),
        ("foo.>>", True),
        ("*", False),
        (">", False),
        ("a.*", False),
        ("a.>", False),
    ],
)
def test_only_whole_tokens_are_wildcards(subject: str, literal: bool) -> None:
    assert is_literal(subject) is literal
    assert matches("foo*", "foobar") is False


def test_a_filter_knows_when_it_is_everything_or_one_literal() -> None:
    assert Filter().everything
    assert Filter("").everything
    assert Filter([">", "a"]).everything
    assert not Filter("a.>").everything
    assert Filter("a.b").literal == "a.b"
    assert Filter(["a.b", "a.b"]).literal == "a.b"
    assert Filter(["a", "b"]).literal is None
    assert Filter("a.*").literal is None
    assert Filter(">").literal is None


def test_filters_are_equal_by_their_patterns() -> None:
    assert Filter(["a", "b.*"]) == Filter(["b.*", "a", "a"])
    assert hash(Filter(["a", "b.*"])) == hash(Filter(["b.*", "a"]))
    assert Filter("a") != Filter("b")
    assert Filter("a") != "a"


def test_a_filter_takes_patterns_of_any_length_and_number() -> None:
    deep = ".".join(["*"] * 5_000)
    assert Filter(deep).matches(".".join(["x"] * 5_000))
    assert not Filter(deep).matches("x")
    many = Filter([f"s{number}.*" for number in range(2_000)])
    assert many.matches("s1999.x")
    assert not many.matches("s2000.x")


@pytest.mark.parametrize("pattern", ["a..b", "a.>.b", ".", "a.", "(", "[", "a.\\"])
def test_what_is_no_pattern_matches_nothing_and_raises_nothing(pattern: str) -> None:
    for subject in WORLD:
        assert not matches(pattern, subject)
        assert not Filter(pattern).matches(subject)
        assert not Filter([pattern, "q.*", "r.*"]).matches(subject)
