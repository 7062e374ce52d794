"""Codecs of a bucket (KV-41 … KV-44, KV-46): programs see their own keys and values everywhere."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

import railgun
from railgun import codecs
from railgun.errors import ConfigError, InvalidKey
from tests.support.buckets import MakeBucket


class User(BaseModel):
    name: str
    age: int


@pytest.mark.rule("KV-41", "KV-42", "KV-02")
def test_keys_of_any_characters_with_base64(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    plain = bucket(history=2)
    with pytest.raises(InvalidKey):
        plain.put("Acme Inc.", "1")
    config = rg.bucket(plain.name, key_codec=codecs.Base64Keys(), value_codec=codecs.Base64Values())
    assert config.put("Acme Inc.", b"\x00\xff") == 1
    config.put("Größe", "x")
    assert (plain.get("QWNtZSBJbmMu").raw, config.get("Acme Inc.").value) == (b"AP8", b"\x00\xff")
    assert sorted(config.keys()) == ["Acme Inc.", "Größe"]
    assert [(one.key, one.value) for one in config.history("Acme Inc.")] == [("Acme Inc.", b"\x00\xff")]
    assert set(config.get_many(["Acme Inc.", "Größe", "no"])) == {"Acme Inc.", "Größe"}
    with config.watch_all() as entries:
        assert [one.key for one in entries.initial()] == ["Acme Inc.", "Größe"]
    with config.transaction() as changes:
        changes.put("a b", "1")
    assert changes.revisions == {"a b": 3}
    config.delete("Acme Inc.")
    assert config.get("Acme Inc.", None) is None
    plain.put("no-base64", "1")  # by a program without the codec
    assert sorted(config.keys()) == ["Größe", "a b", "no-base64"]


@pytest.mark.rule("KV-43", "KV-44")
def test_paths_can_be_watched_by_patterns(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    name = bucket(dotted_keys=True).name
    paths = rg.bucket(name, key_codec=codecs.PathKeys())
    for path in ("/eu/paris", "/eu/rome", "/us/boston"):
        paths.put(path, path)
    assert paths.get("/eu/paris/").key == "/eu/paris"
    assert sorted(paths.keys("/eu/*")) == ["/eu/paris", "/eu/rome"]
    with paths.watch("/eu/>") as entries:
        assert sorted(one.key for one in entries.initial()) == ["/eu/paris", "/eu/rome"]
    hidden = rg.bucket(name, key_codec=[codecs.PathKeys(), codecs.Base64Keys()])
    hidden.put("/eu/paris", "1")
    with pytest.raises(ConfigError, match="does not keep wildcards"):
        hidden.watch("/eu/*")
    kept = rg.bucket(name, key_codec=[codecs.PathKeys(), codecs.Base64Keys(tokens=True)])
    kept.put("/asia/Hà Nội", "1")
    assert list(kept.keys("/asia/*")) == ["/asia/Hà Nội"]


@pytest.mark.rule("KV-41", "KV-42")
def test_a_value_that_cannot_be_decoded_reaches_the_caller_and_a_watch_goes_on(
    rg: railgun.Railgun, bucket: MakeBucket
) -> None:
    plain = bucket(history=3)
    users = rg.bucket(plain.name, model=User)
    users.put("ada", User(name="Ada", age=36))
    plain.put("bob", b"not JSON")
    users.put("cyd", {"name": "Cyd", "age": 7})
    assert users.get("ada").value == User(name="Ada", age=36)
    odd = users.get("bob")
    assert (odd.raw, odd.revision) == (b"not JSON", 2)
    assert "not a valid User" in str(odd.error)
    with users.watch_all() as entries:
        found = list(entries.initial())
    assert [(one.key, one.error is None) for one in found] == [("ada", True), ("bob", False), ("cyd", True)]
    with pytest.raises(ConfigError, match="is not a valid value for ModelValues"):
        users.put("dee", {"name": "Dee"})
    assert plain.get("dee", None) is None, "nothing was sent"


@pytest.mark.rule("KV-43", "KV-46")
def test_values_are_bytes_in_the_store_whatever_the_codec(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    plain = bucket()
    for value in (b"", bytes(range(256)), b"\x00"):
        plain.put("a", value)
        assert plain.get("a").value == value
    packed = rg.bucket(plain.name, value_codec=[codecs.JsonValues(), codecs.ZlibValues()])
    packed.put("a", ["x"] * 1000)
    assert packed.get("a").value == ["x"] * 1000
    assert len(plain.get("a").raw) < 100
    schema = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "long"}]}
    points = rg.bucket(plain.name, value_codec=codecs.AvroValues(schema))
    points.put("a", {"x": 5})
    assert points.get("a").value == {"x": 5}
    assert plain.get("a").raw[:2] == b"\xc3\x01"


class OddKeys:
    """A codec that gives whatever it was made with, and reads nothing."""

    keeps_wildcards = True

    def __init__(self, encoded: Any) -> None:
        self._encoded = encoded

    def encode(self, key: str) -> Any:
        return self._encoded

    def decode(self, key: str) -> str:
        raise KeyError(key)


class OddValues:
    """A codec that stores what it is given, of whatever type."""

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: bytes) -> bytes:
        return value


@pytest.mark.rule("KV-02", "KV-42")
def test_codecs_that_give_and_raise_anything(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    plain = bucket()
    plain.put("a", "1")
    assert list(rg.bucket(plain.name, key_codec=OddKeys("a")).keys()) == ["a"], "as it is stored"
    for call in ("get", "history", "delete", "keys", "watch"):
        with pytest.raises(InvalidKey, match="makes bytes of it"):
            list(getattr(rg.bucket(plain.name, key_codec=OddKeys(b"a")), call)("a"))
    values = rg.bucket(plain.name, value_codec=OddValues())
    values.put("a", "text")
    assert values.get("a").value == b"text"
    for wrong in (5, None, [b"x"]):
        with pytest.raises(ConfigError, match="is not a valid payload"):
            values.put("a", wrong)


@pytest.mark.rule("KV-44")
def test_keys_that_are_one_after_encoding(rg: railgun.Railgun, bucket: MakeBucket) -> None:
    plain = bucket(dotted_keys=True)
    paths = rg.bucket(plain.name, key_codec=codecs.PathKeys())
    paths.put("/a/b", "1")
    found = paths.get_many(["/a/b", "/a/b/", "/a"])
    assert {key: entry.text for key, entry in found.items()} == {"/a/b": "1", "/a/b/": "1"}
