"""Codecs of keys: what is stored is a valid key, and comes back as it was given."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun import codecs
from railgun.client.buckets.coding import coding
from railgun.errors import ConfigError, InvalidKey
from railgun.model.bucket_config import BucketConfig
from railgun.model.messages import StoredMessage

VALID = re.compile(r"\A[-/_a-zA-Z0-9]+\Z")  # KV-02
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
DOTTED = BucketConfig(bucket="B", dotted_keys=True)
PARTS = st.text(st.sampled_from("ab_-09"), min_size=1, max_size=4)


class Upper:
    """A codec of a program's own, which shows the order in a chain."""

    keeps_wildcards = True

    def encode(self, key: str) -> str:
        return f"u{key}"

    def decode(self, key: str) -> str:
        if not key.startswith("u"):
            raise KeyError(key)  # as a careless codec would
        return key[1:]


@pytest.mark.rule("KV-41", "KV-02", "KV-04")
@given(ANY_TEXT)
def test_any_text_is_a_valid_key_in_base64(key: str) -> None:
    stored = codecs.Base64Keys().encode(key)
    assert VALID.match(stored)
    assert not stored.startswith("_kv"), "no text begins with the bytes that would give a reserved key"
    assert codecs.Base64Keys().decode(stored) == key


@pytest.mark.rule("KV-41")
def test_the_example_of_the_rule() -> None:
    assert codecs.Base64Keys().encode("Acme Inc.") == "QWNtZSBJbmMu"
    assert codecs.Base64Keys().decode("QWNtZSBJbmMu") == "Acme Inc."


@pytest.mark.rule("KV-41")
@pytest.mark.parametrize("stored", ["QWNtZQ==", "QWN tZQ", "QWNtZR", "Q", "+/+/", "ä", "__8"])
def test_a_stored_key_that_no_encoder_made_is_not_decoded(stored: str) -> None:
    with pytest.raises(ValueError):
        codecs.Base64Keys().decode(stored)


@pytest.mark.rule("KV-41", "KV-43")
def test_base64_by_token_keeps_dots_and_wildcards() -> None:
    codec = codecs.Base64Keys(tokens=True)
    assert codec.encode("Acme Inc.contact") == "QWNtZSBJbmM.Y29udGFjdA"
    assert codec.decode("QWNtZSBJbmM.Y29udGFjdA") == "Acme Inc.contact"
    assert codec.encode("Acme Inc.*.>") == "QWNtZSBJbmM.*.>"
    assert codec.keeps_wildcards
    assert not codecs.Base64Keys().keeps_wildcards


@pytest.mark.rule("KV-44")
@pytest.mark.parametrize(
    "path, stored, back",
    [
        ("/a/b/", "_root_.a.b", "/a/b"),
        ("/a/b", "_root_.a.b", "/a/b"),
        ("a/b/", "a.b", "a/b"),
        ("a", "a", "a"),
        ("/", "_root_", "/"),
        ("/a/*", "_root_.a.*", "/a/*"),
        ("/a/>", "_root_.a.>", "/a/>"),
        ("_rooted", "_rooted", "_rooted"),
        ("a/_root_/b", "a._root_.b", "a/_root_/b"),
    ],
)
def test_a_path_is_stored_with_dots(path: str, stored: str, back: str) -> None:
    assert codecs.PathKeys().encode(path) == stored
    assert codecs.PathKeys().decode(stored) == back


@pytest.mark.rule("KV-44")
@given(st.booleans(), st.lists(PARTS, min_size=1, max_size=4))
def test_a_path_comes_back(rooted: bool, parts: list[str]) -> None:
    path = ("/" if rooted else "") + "/".join(parts)
    assert codecs.PathKeys().decode(codecs.PathKeys().encode(path)) == path


@pytest.mark.rule("KV-44")
@pytest.mark.parametrize("path", ["a.b", "_root_", "_root_/a"])
def test_a_path_that_would_come_back_as_another_is_refused(path: str) -> None:
    with pytest.raises(ValueError):
        codecs.PathKeys().encode(path)
    with pytest.raises(InvalidKey, match="is not a valid key: "):
        coding(DOTTED, codecs.PathKeys()).subject(path)


@pytest.mark.rule("KV-43")
def test_a_chain_encodes_left_to_right_and_decodes_right_to_left() -> None:
    chain = codecs.KeyChain(codecs.PathKeys(), Upper(), codecs.Base64Keys())
    stored = codecs.Base64Keys().encode("u_root_.a.b")
    assert chain.encode("/a/b/") == stored
    assert chain.decode(stored) == "/a/b"


@pytest.mark.rule("KV-43")
def test_a_chain_keeps_wildcards_only_if_all_of_it_do() -> None:
    assert codecs.KeyChain().keeps_wildcards
    assert codecs.KeyChain(codecs.PathKeys(), Upper()).keeps_wildcards
    assert not codecs.KeyChain(codecs.PathKeys(), codecs.Base64Keys()).keeps_wildcards
    assert codecs.KeyChain(codecs.PathKeys(), codecs.Base64Keys(tokens=True)).keeps_wildcards


@pytest.mark.rule("KV-41", "KV-43")
def test_a_bucket_takes_no_codec_one_or_a_list() -> None:
    assert coding(DOTTED).subject("a.b") == "kv.B.a.b"
    assert coding(DOTTED, codecs.PathKeys()).subject("/a") == "kv.B._root_.a"
    both = coding(BucketConfig(bucket="B"), [codecs.PathKeys(), codecs.Base64Keys()])
    assert both.key(both.subject("/a/b")) == "/a/b"


@pytest.mark.rule("KV-43")
@pytest.mark.parametrize("pattern", ["*", "a.>", "/a/*", "a/>"])
def test_a_pattern_is_refused_where_the_codec_hides_wildcards(pattern: str) -> None:
    hidden = coding(DOTTED, codecs.Base64Keys())
    with pytest.raises(ConfigError, match="does not keep wildcards"):
        hidden.pattern(pattern)
    assert hidden.pattern("Acme Inc.") == "kv.B.QWNtZSBJbmMu"


@pytest.mark.rule("KV-43", "KV-44")
def test_a_pattern_of_paths_is_a_pattern_of_subjects() -> None:
    paths = coding(DOTTED, codecs.PathKeys())
    assert [paths.pattern(one) for one in ("/a/*", "/a/>", ">")] == [
        "kv.B._root_.a.*",
        "kv.B._root_.a.>",
        "kv.B.>",
    ]


@pytest.mark.rule("KV-42")
@pytest.mark.parametrize("codec, stored", [(codecs.Base64Keys(), "no-base64"), (Upper(), "lower")])
def test_a_key_that_cannot_be_decoded_is_shown_as_it_is_stored_with_the_reason(
    codec: Any, stored: str
) -> None:
    entry = coding(DOTTED, codec).entry(StoredMessage(f"kv.B.{stored}", 1, b"v", [], 0))
    assert (entry.key, entry.raw) == (stored, b"v")
    assert entry.error is not None
