"""Codecs of values: bytes that come back as they were put, and a reason where they cannot be read."""

from __future__ import annotations

import io
import json
import zlib
from dataclasses import dataclass
from typing import Any

import avro.schema
import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from railgun import codecs
from railgun.client.buckets.coding import Coding, coding
from railgun.errors import ConfigError
from railgun.model.bucket_config import BucketConfig
from railgun.model.bucket_entry import Entry
from railgun.model.messages import StoredMessage

USER_V1 = {
    "type": "record",
    "name": "User",
    "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}],
}
USER = USER_V1 | {"fields": [*USER_V1["fields"], {"name": "city", "type": "string", "default": "?"}]}  # type: ignore[misc]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class User(BaseModel):
    name: str
    age: int = Field(alias="years")


@dataclass
class Point:
    x: int
    y: int


def coded(codec: Any = None, model: Any = None) -> Coding:
    return coding(BucketConfig(bucket="B"), None, codec, model)


def read(coded: Coding, raw: bytes) -> Entry:
    return coded.entry(StoredMessage("kv.B.key", 1, raw, [], 0))


@pytest.mark.rule("KV-46")
@given(st.binary(max_size=64))
def test_bytes_come_back_exactly(value: bytes) -> None:
    for codec in (codecs.PlainValues(), codecs.Base64Values(), codecs.ZlibValues()):
        assert codec.decode(codec.encode(value)) == value


@pytest.mark.rule("KV-46")
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_comes_back_exactly(value: str) -> None:
    assert codecs.PlainValues().encode(value) == value.encode()
    assert codecs.TextValues().decode(codecs.TextValues().encode(value)) == value


@pytest.mark.rule("KV-41")
@given(JSON)
def test_json_comes_back_exactly(value: Any) -> None:
    codec = codecs.ValueChain(codecs.JsonValues(), codecs.ZlibValues(), codecs.Base64Values())
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.rule("KV-43")
def test_a_chain_encodes_left_to_right_and_decodes_right_to_left() -> None:
    stored = codecs.ValueChain(codecs.JsonValues(), codecs.ZlibValues()).encode({"a": 1})
    assert zlib.decompress(stored) == b'{"a":1}'
    assert read(coded([codecs.JsonValues(), codecs.ZlibValues()]), stored).value == {"a": 1}


@pytest.mark.rule("KV-41")
def test_a_model_is_stored_as_json_under_its_aliases() -> None:
    users = coded(model=User)
    stored = users.payload(User(name="ada", years=36))
    assert json.loads(stored) == {"name": "ada", "years": 36}
    assert read(users, stored).value == User(name="ada", years=36)
    assert users.payload({"name": "ada", "years": 36}) == stored


@pytest.mark.rule("KV-41", "KV-43")
def test_a_model_stands_before_other_codecs() -> None:
    points = coded(codecs.ZlibValues(), model=Point)
    stored = points.payload(Point(1, 2))
    assert zlib.decompress(stored) == b'{"x":1,"y":2}'
    assert read(points, stored).value == Point(1, 2)


@pytest.mark.rule("KV-41")
def test_a_type_that_is_not_a_model_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="is not a valid model"):
        coded(model=object())


@pytest.mark.rule("KV-41")
@pytest.mark.parametrize(
    "codec, value",
    [
        (None, 5),
        (codecs.TextValues(), b"bytes"),
        (codecs.JsonValues(), float("nan")),
        (codecs.JsonValues(), {1, 2}),
        (codecs.ModelValues(User), {"name": "ada"}),
        (codecs.AvroValues(USER), {"name": "ada", "age": "old"}),
        (codecs.AvroValues(USER), {"age": 36}),
        (codecs.AvroValues(USER), None),
        (codecs.AvroValues(USER), {"name": "ada", "age": 2**40, "city": ""}),
        (codecs.Base64Values(), 1.5),
    ],
)
def test_a_value_that_cannot_be_encoded_is_the_callers_error(codec: Any, value: Any) -> None:
    with pytest.raises(ConfigError, match="is not a valid"):
        coded(codec).payload(value)


@pytest.mark.rule("KV-42")
@pytest.mark.parametrize(
    "codec, raw, reason",
    [
        (codecs.TextValues(), b"\xff", "invalid start byte"),
        (codecs.JsonValues(), b"{", "Expecting property name"),
        (codecs.JsonValues(), b"[" * 100_000, "recursion"),
        (codecs.ModelValues(User), b'{"name": "ada"}', "years: Field required"),
        (codecs.AvroValues(USER), b"", "not Avro's single-object encoding"),
        (codecs.AvroValues(USER), b"\xc3\x01", "written with another schema"),
        (codecs.AvroValues(USER), b"\xc3\x0112345678ada", "written with another schema"),
        (
            codecs.AvroValues(USER),
            codecs.AvroValues(USER_V1).encode({"name": "a", "age": 1}),
            "another schema",
        ),
        (codecs.AvroValues("int"), codecs.AvroValues("int").encode(7) + b"!", "1 bytes too many"),
        (codecs.Base64Values(), b"a=", "not base64"),
        (codecs.ZlibValues(), b"plain", "incorrect header"),
        (codecs.ZlibValues(), zlib.compress(b"abc")[:-2], "not exactly one compressed value"),
        (codecs.ZlibValues(max_size=10), zlib.compress(bytes(11)), "larger than 10 bytes"),
    ],
)
def test_a_value_that_cannot_be_decoded_says_why_and_raises_nothing(
    codec: Any, raw: bytes, reason: str
) -> None:
    entry = read(coded(codec), raw)
    assert (entry.raw, entry.value) == (raw, raw)
    assert reason in str(entry.error)


ADA = {"name": "ada", "age": 36, "city": "x"}


@pytest.mark.rule("KV-41")
@pytest.mark.parametrize(
    "schema, value", [(USER, ADA), (json.dumps(USER), ADA), ("int", 7), (["null", "string"], "x")]
)
def test_avro_values_are_in_the_single_object_encoding(schema: Any, value: Any) -> None:
    """The bytes are put together here by other means: the fingerprint by Apache's library, the value by fastavro's bare form."""
    read = json.loads(schema) if isinstance(schema, str) and schema != "int" else schema
    bare = io.BytesIO()
    fastavro.schemaless_writer(bare, fastavro.parse_schema(read), value)
    fingerprint = avro.schema.parse(json.dumps(read)).fingerprint("CRC-64-AVRO")
    codec = codecs.AvroValues(schema)
    assert codec.encode(value) == b"\xc3\x01" + fingerprint + bare.getvalue()
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.rule("KV-41")
def test_the_fingerprint_of_an_avro_value_is_that_of_the_specification() -> None:
    """``"int"`` has the fingerprint 8247732601305521295 in the test data of Avro; it is stored lowest byte first."""
    header = codecs.AvroValues("int").encode(1)[:10]
    assert int.from_bytes(header[2:], "little") == 8247732601305521295


@pytest.mark.rule("KV-41")
def test_avro_values_of_an_older_schema_are_read_as_todays() -> None:
    stored = codecs.AvroValues(USER_V1).encode({"name": "ada", "age": 36})
    assert codecs.AvroValues(USER, older=[USER_V1]).decode(stored) == {"name": "ada", "age": 36, "city": "?"}


@pytest.mark.parametrize(
    "schema", ["nothing", {"type": "record"}, "{", {"type": "array", "items": "Missing"}]
)
def test_what_is_not_an_avro_schema_is_refused_at_once(schema: Any) -> None:
    with pytest.raises(ConfigError, match="is not a valid Avro schema"):
        codecs.AvroValues(schema)


TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "parts", "type": {"type": "array", "items": "Tree"}}],
}


@pytest.mark.rule("KV-42")
def test_a_value_that_is_nested_without_end_ends_no_process() -> None:
    older = TREE | {"fields": [*TREE["fields"], {"name": "note", "type": "string", "default": ""}]}  # type: ignore[misc]
    codec = codecs.AvroValues(TREE, older=[older])
    value: dict[str, Any] = {"parts": []}
    for _ in range(100):
        value = {"parts": [value, {"parts": []}]}
    assert codec.decode(codec.encode(value)) == value
    for header in (
        codec.encode({"parts": []})[:10],
        codecs.AvroValues(older).encode({"parts": [], "note": ""})[:10],
    ):
        entry = read(coded(codec), header + b"\x02" * 200_000 + b"\0")
        assert "it is nested too deeply" in str(entry.error)
    for _ in range(100_000):
        value = {"parts": [value]}
    with pytest.raises(ConfigError, match="it is nested too deeply"):
        coded(codec).payload(value)
    while value["parts"]:  # an object of that depth is not dropped at once either
        value = value["parts"][0]
