"""Value codecs: what a program puts into a bucket, and the bytes that are stored (KV-41, KV-46).

A codec is any object with the methods of :class:`ValueCodec`. What it cannot decode does not end a read or a watch: the entry
has the bytes and says why.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import fastavro
from fastavro import schema as avro_schema
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError

from railgun.avro.parsing import AvroSchema, holds_itself, parsed
from railgun.avro.resolving import read
from railgun.client.buckets.codecs import from_base64, to_base64
from railgun.client.publishing.arguments import payload_bytes
from railgun.errors import ConfigError
from railgun.model.validation import in_words

_SINGLE_OBJECT: Final = (
    b"\xc3\x01"  # how Avro's single-object encoding begins; the schema's fingerprint follows
)
_HEADER: Final = 10  # bytes of both
_LARGEST: Final = 64 * 2**20
_TOO_DEEP: Final = "it is nested too deeply"


class ValueCodec(Protocol):
    """The two directions of a value. Both raise ValueError, or another error of theirs, for what they cannot turn."""

    def encode(self, value: Any) -> bytes: ...

    def decode(self, value: bytes) -> Any: ...


class PlainValues:
    """The codec of a bucket that was given none: bytes are stored as they are, text as UTF-8, and read as bytes (KV-46)."""

    def __repr__(self) -> str:
        return "PlainValues()"

    def encode(self, value: Any) -> bytes:
        return payload_bytes(value)

    def decode(self, value: bytes) -> bytes:
        return value


class TextValues:
    """Values that are text, stored as UTF-8."""

    def __repr__(self) -> str:
        return "TextValues()"

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise TypeError(f"{type(value).__name__} is not a text")
        return value.encode("utf-8")

    def decode(self, value: bytes) -> str:
        return value.decode("utf-8")


class JsonValues:
    """Values that are JSON: numbers, texts, booleans, None, lists and dicts of them. NaN and infinity are not JSON and are refused."""

    def __repr__(self) -> str:
        return "JsonValues()"

    def encode(self, value: Any) -> bytes:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8")

    def decode(self, value: bytes) -> Any:
        return json.loads(value.decode("utf-8"))


class ModelValues:
    """Values of one type, stored as JSON: a pydantic model, a dataclass, or anything that pydantic can validate.

    A value that is put must be of the type already, or be what the type can be made of, such as a dict for a model. Names are those
    of the fields' aliases, because these are what the model reads.
    """

    def __init__(self, model: Any) -> None:
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(model)
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise ConfigError(
                f"{model!r} is not a valid model: no value can be read as it ({error})"
            ) from error
        self._name = getattr(model, "__name__", str(model))

    def __repr__(self) -> str:
        return f"ModelValues({self._name})"

    def encode(self, value: Any) -> bytes:
        try:
            return self._adapter.dump_json(self._adapter.validate_python(value), by_alias=True)
        except ValidationError as error:
            raise ValueError(in_words(error)) from error
        except PydanticSerializationError as error:
            raise ValueError(f"a {self._name} that cannot be JSON: {error}") from error

    def decode(self, value: bytes) -> Any:
        try:
            return self._adapter.validate_json(value)
        except ValidationError as error:
            raise ValueError(in_words(error)) from error


class AvroValues:
    """Values of an Avro schema, in Avro's single-object encoding: two bytes, the fingerprint of the schema, the value.

    The fingerprint costs ten bytes and shows with which schema a value was written: bare Avro bytes of another schema are often
    read without an error, as another value. Values written with an ``older`` schema are read as the schema of
    today says (added fields get their defaults). Programs in other languages read this form as well.
    """

    def __init__(self, schema: AvroSchema, *, older: Iterable[AvroSchema] = ()) -> None:
        self._schema = parsed(schema)
        self._header = _header_of(self._schema)
        self._written_with = {self._header: self._schema}
        for one in older:
            before = parsed(one)
            self._written_with.setdefault(_header_of(before), before)
        self._may_nest = any(map(holds_itself, self._written_with.values()))

    def __repr__(self) -> str:
        return f"AvroValues({avro_schema.to_parsing_canonical_form(self._schema)})"

    def encode(self, value: Any) -> bytes:
        if self._may_nest:
            _check_depth(value)
        fastavro.validate(value, self._schema)  # the writer alone lets an int of 41 bits and the like pass
        out = io.BytesIO()
        out.write(self._header)
        fastavro.schemaless_writer(out, self._schema, value)
        return out.getvalue()

    def decode(self, value: bytes) -> Any:
        header = value[:_HEADER]
        if not header.startswith(_SINGLE_OBJECT):
            raise ValueError("not Avro's single-object encoding")
        written = self._written_with.get(header)
        if written is None:
            raise ValueError(f"written with another schema (fingerprint {header[2:].hex()})")
        source = io.BytesIO(value)
        source.seek(_HEADER)
        wanted = None if written is self._schema else self._schema
        try:
            found = read(source, written, wanted, nested=self._may_nest)
        except RecursionError as error:
            raise ValueError(_TOO_DEEP) from error
        if source.tell() != len(value):
            raise ValueError(f"{len(value) - source.tell()} bytes too many")
        return found


def _check_depth(value: Any) -> None:
    """Raises ValueError for a value that is nested so deeply that fastavro would end the process."""
    try:
        _look_into(value)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def _look_into(value: Any) -> None:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for one in inside:
        _look_into(one)


class Base64Values:
    """Bytes as text in base64 (URL-safe, without padding), for readers that take no other bytes."""

    def __repr__(self) -> str:
        return "Base64Values()"

    def encode(self, value: Any) -> bytes:
        return to_base64(payload_bytes(value)).encode("ascii")

    def decode(self, value: bytes) -> bytes:
        return from_base64(value.decode("ascii"))


class ZlibValues:
    """Bytes, compressed. Behind another codec it makes its bytes smaller: ``[JsonValues(), ZlibValues()]``.

    ``max_size``: a value that would become larger than this many bytes is not read, so that a small message cannot fill the memory.
    """

    def __init__(self, *, level: int = -1, max_size: int = _LARGEST) -> None:
        self._level = level
        self._max_size = max_size

    def __repr__(self) -> str:
        return "ZlibValues()"

    def encode(self, value: Any) -> bytes:
        return zlib.compress(payload_bytes(value), self._level)

    def decode(self, value: bytes) -> bytes:
        reader = zlib.decompressobj()
        found = reader.decompress(value, self._max_size)
        if reader.unconsumed_tail:
            raise ValueError(f"larger than {self._max_size} bytes")
        if not reader.eof or reader.unused_data:
            raise ValueError("not exactly one compressed value")
        return found


class ValueChain:
    """Several value codecs as one: the first encodes first and decodes last (KV-43). All but the first take bytes."""

    def __init__(self, *codecs: ValueCodec) -> None:
        self._codecs = codecs

    def __repr__(self) -> str:
        return f"ValueChain({', '.join(map(repr, self._codecs))})"

    def encode(self, value: Any) -> bytes:
        for codec in self._codecs:
            value = codec.encode(value)
        return payload_bytes(value)

    def decode(self, value: bytes) -> Any:
        for codec in reversed(self._codecs):
            value = codec.decode(value)
        return value


def one_value_codec(given: ValueCodec | Sequence[ValueCodec] | None, model: Any = None) -> ValueCodec:
    """The codec of a bucket from what the program gave: none, one, several that are chained, or a model.

    A model beside codecs is the first of the chain, as what makes the bytes. Raises ConfigError if the model is not one.
    """
    chain = [] if given is None else list(given) if isinstance(given, Sequence) else [given]
    if model is not None:
        chain.insert(0, ModelValues(model))
    if not chain:
        return PlainValues()
    return chain[0] if len(chain) == 1 else ValueChain(*chain)


def _header_of(schema: Any) -> bytes:
    """The first ten bytes of a value. fastavro gives the fingerprint in the order of bytes that the encoding wants, lowest first."""
    form = avro_schema.to_parsing_canonical_form(schema)
    return _SINGLE_OBJECT + bytes.fromhex(avro_schema.fingerprint(form, "CRC-64-AVRO"))
