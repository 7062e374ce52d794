"""Subject transforms: what they make, and what cannot be one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun.model.stream_config import SubjectTransform
from railgun.model.subjects import is_literal
from railgun.model.transforms import BadDestination, BadSource, Transform


def transform(src: str, dest: str) -> Transform:
    return Transform(SubjectTransform(src=src, dest=dest))


@pytest.mark.rule("CFG-24")
@pytest.mark.parametrize(
    "src, dest, subject, made",
    [
        ("foo", "bar", "foo", "bar"),
        ("foo.*", "bar.$1", "foo.x", "bar.x"),
        ("foo.*.*", "bar.$2.$1", "foo.x.y", "bar.y.x"),
        ("foo.*.*", "bar.{{wildcard(2)}}.{{Wildcard( 1 )}}", "foo.x.y", "bar.y.x"),
        ("foo.*.*", "bar.$1", "foo.x.y", "bar.x"),
        ("foo.>", "bar.>", "foo.x.y", "bar.x.y"),
        ("foo.*.>", "bar.$1.baz.>", "foo.x.y.z", "bar.x.baz.y.z"),
        ("", "in.>", "foo.x", "in.foo.x"),
        (">", "in.>", "foo", "in.foo"),
        ("foo", "$JS.x", "foo", "$JS.x"),
        ("*", "bar.{{splitfromleft(1,3)}}", "abcde", "bar.abc.de"),
        ("*", "bar.{{SplitFromRight(1,3)}}", "abcde", "bar.ab.cde"),
        ("*", "bar.{{splitfromright(1,9)}}", "abcde", "bar.abcde"),
        ("*", "{{slicefromleft(1,2)}}", "abcde", "ab.cd.e"),
        ("*", "{{slicefromright(1,2)}}", "abcde", "a.bc.de"),
        ("*", "{{slicefromleft(1,2)}}", "abcd", "ab.cd"),
        ("*", "{{left(1,2)}}", "abcde", "ab"),
        ("*", "{{right(1,2)}}", "abcde", "de"),
        ("*", "{{left(1,0)}}", "abcde", "abcde"),
        ("*", "{{split(1,-)}}", "-a-b--c-", "a.b.c"),
        ("*", "{{split(1,-)}}", "---", "---"),
        ("*", "bar.{{partition(10,1)}}", "foo", "bar.3"),
        ("*", "bar.{{partition(10,1)}}", "baz", "bar.0"),
        ("*.*", "bar.{{partition(10)}}", "foo.bar", "bar.6"),
        ("*.x.*", "bar.{{partition(10,1,2)}}", "fo.x.o", "bar.3"),
        ("foo", "bar.{{partition(10)}}", "foo", "bar.3"),
        ("*", "bar.{{partition(0,1)}}", "foo", "bar.0"),
    ],
)
def test_a_matching_subject_is_rewritten(src: str, dest: str, subject: str, made: str) -> None:
    assert transform(src, dest).apply(subject) == made


@pytest.mark.rule("CFG-24")
def test_a_subject_that_the_source_does_not_match_is_left_alone() -> None:
    assert transform("foo.*", "bar.$1").apply("baz.x") is None
    assert transform("foo.*", "bar.$1").apply("foo") is None


def test_an_empty_destination_changes_nothing() -> None:
    assert transform("foo.*", "").apply("foo.x") == "foo.x"


@pytest.mark.rule("CFG-24")
@pytest.mark.parametrize("src", ["foo..bar", ".foo", "a.>.b", "a b"])
def test_a_source_must_be_a_subject(src: str) -> None:
    with pytest.raises(BadSource, match="invalid subject"):
        transform(src, "bar")


@pytest.mark.rule("CFG-24")
@pytest.mark.parametrize(
    "src, dest, reason",
    [
        ("foo.*", "bar.*", "invalid subject"),
        ("foo.*", "bar.>", "invalid subject"),
        ("foo.>", "bar", "invalid subject"),
        ("foo", "bar..baz", "invalid transform"),
        ("foo", "a b", "invalid transform"),
        ("foo.>", "bar.>.baz", "invalid transform"),
        ("foo", "bar.$1", "wildcard index out of range"),
        ("foo.*", "bar.$2", r"wildcard index out of range in \$2: \[2\]"),
        ("foo.*", "bar.$0", "wildcard index out of range"),
        ("foo.*", "bar.{{wildcard(3)}}", "wildcard index out of range"),
        ("foo.*", "bar.{{partition(3,2)}}", "wildcard index out of range"),
        ("foo.*", "bar.{{wildcard()}}", "not enough arguments"),
        ("foo.*", "bar.{{wildcard(1,2)}}", "too many arguments"),
        ("foo.*", "bar.{{wildcard(x)}}", "function argument is invalid"),
        ("foo.*", "bar.{{partition(x,1)}}", "function argument is invalid"),
        ("foo.*", "bar.{{partition(99999999999,1)}}", "function argument is invalid"),
        ("foo.*", "bar.{{split(1)}}", "not enough arguments"),
        ("foo.*", "bar.{{split(1,)}}", "function argument is invalid"),
        ("foo.*", "bar.{{left(1,2,3)}}", "too many arguments"),
        ("foo.*", "bar.{{unknown(1)}}", r"unknown function in \{\{unknown\(1\)\}\}"),
        ("foo.*", "bar.{{wildcard}}", "unknown function"),
    ],
)
def test_a_destination_must_fit_its_source(src: str, dest: str, reason: str) -> None:
    with pytest.raises(BadDestination, match=reason):
        transform(src, dest)


@given(st.lists(st.text("ab-", min_size=1, max_size=6), min_size=3, max_size=3), st.integers(-3, 9))
def test_what_comes_out_is_a_subject_again(tokens: list[str], size: int) -> None:
    dest = ".".join(
        [
            f"{{{{slicefromleft(1,{size})}}}}",
            f"{{{{slicefromright(2,{size})}}}}",
            f"{{{{splitfromleft(3,{size})}}}}",
            f"{{{{splitfromright(1,{size})}}}}",
            f"{{{{left(2,{size})}}}}",
            f"{{{{right(3,{size})}}}}",
            "{{split(1,-)}}",
            f"{{{{partition({size},1,2,3)}}}}",
        ]
    )
    made = transform("*.*.*", dest).apply(".".join(tokens))
    assert made is not None
    assert is_literal(made)
