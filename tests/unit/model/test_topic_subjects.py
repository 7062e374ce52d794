"""Templates of adopted topics: every value is a token, and every token has one value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun.model.stream_config import TopicSource
from railgun.model.subjects import is_literal
from railgun.model.topics.topic_subjects import RecordParts, Template, decode_token, encode_token

values = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(lambda one: one.encode("utf-8"))


@pytest.mark.rule("TOP-05")
@given(values)
def test_a_value_is_one_token_that_says_what_it_was(value: bytes | None) -> None:
    token = encode_token(value)
    assert is_literal(token)
    assert "." not in token
    assert decode_token(token) == value


@pytest.mark.rule("TOP-05")
@pytest.mark.parametrize(
    "value, token",
    [
        (b"42", "42"),
        ("Zürich".encode(), "Zürich"),
        (b"a.b c", "a%2Eb%20c"),
        (b"*", "%2A"),
        (b">", "%3E"),
        (b"100%", "100%25"),
        (b"\xff\xc3", "%FF%C3"),
        (b"", "%"),
        (None, "%-"),
    ],
)
def test_tokens(value: bytes | None, token: str) -> None:
    assert TopicSource.token(value) == token
    assert TopicSource.value(token) == value


RECORD = RecordParts(
    "shop.orders", 2, 41, b"a.b", [("type", b"new"), ("type", b"paid"), ("none", None), ("raw", b"\xff")]
)


@pytest.mark.rule("TOP-04", "TOP-06")
@pytest.mark.parametrize(
    "text, subject, plain",
    [
        ("orders.{key}", "orders.a%2Eb", "orders.a.b"),
        ("{header:type}.p{partition}.{offset}", "paid.p2.41", "paid.p2.41"),
        ("{topic}", "shop%2Eorders", "shop.orders"),
        ("x.{header:none}", "x.%-", None),
        ("{header:nothing}", "%-", None),
        ("x.{header:raw}", "x.%FF", "x.\\xff"),
        ("orders", "orders", "orders"),
    ],
)
def test_templates(text: str, subject: str, plain: str | None) -> None:
    made = Template(text)
    assert made.makes_subjects
    assert made.subject(RECORD) == subject
    assert made.text(RECORD) == plain


@given(values, st.lists(st.tuples(st.text(max_size=5), values), max_size=3))
def test_a_template_that_makes_subjects_makes_one_of_every_record(
    key: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    record = RecordParts("t", 0, 7, key, headers)
    assert is_literal(Template("a.{key}{header:x}.b-{header:y}").subject(record))


@pytest.mark.parametrize("text", ["{keys}", "{header:}", "a.{key", "a}.b", "{}", "{{key}}"])
def test_a_template_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid template"):
        Template(text)


@pytest.mark.parametrize("text", ["", "a..{key}", "a.{key}.", "a b", "*.{key}", ">"])
def test_a_template_that_makes_no_subjects_says_so(text: str) -> None:
    assert not Template(text).makes_subjects
