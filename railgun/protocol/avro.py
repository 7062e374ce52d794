"""Avro bodies: dicts to bytes and back, by the name of a schema of ``schemas/``.

Decoding is strict: bytes that do not decode to the end raise :class:`WireError`, which the shard turns into a record in
``rejected``.
"""

from __future__ import annotations

import io
import json
from contextlib import suppress
from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import fastavro

from railgun.errors import RailgunError
from railgun.model.headers import HeaderList, Headers
from railgun.protocol.varints import varint


class WireError(RailgunError):
    """Bytes that do not fit their schema."""


def schema_folder() -> Path:
    """The folder of the schemas: inside an installed package, or beside it in a checkout."""
    installed = Path(__file__).parent.parent / "_schemas"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "schemas"


@cache
def schema(name: str) -> Any:
    """The parsed schema ``schemas/<name>.avsc``."""
    return fastavro.parse_schema(json.loads((schema_folder() / f"{name}.avsc").read_text("utf-8")))


def encode(name: str, value: dict[str, Any]) -> bytes:
    """The value as the Avro bytes of schema ``name``."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema(name), value)
    return out.getvalue()


@cache
def _older(name: str) -> list[tuple[Any, dict[str, Any]]]:
    """Earlier forms of the schema, before its last fields were added, newest first, with the defaults of the missing fields."""
    written = json.loads((schema_folder() / f"{name}.avsc").read_text("utf-8"))
    fields, lacking, found = written["fields"], {}, []
    while fields and "default" in fields[-1]:
        default = fields[-1]["default"]  # which JSON writes as a text where it is bytes
        lacking[fields[-1]["name"]] = default.encode("latin-1") if fields[-1]["type"] == "bytes" else default
        fields = fields[:-1]
        found.append((fastavro.parse_schema(written | {"fields": fields}), dict(lacking)))
    return found


def decode(name: str, data: bytes, *, later: bool = False) -> dict[str, Any]:
    """The value of Avro bytes of schema ``name``. Raises WireError unless they are exactly one such value.

    A schema may grow at its end, by fields with a default: bytes of an older version get the default. ``later``: the bytes may also
    be of a later version, whose new fields are left out.
    """
    try:
        return _decode(name, schema(name), data, later=later)
    except WireError as error:
        for shape, defaults in _older(name) if error.__cause__ is not None else ():
            with suppress(WireError):
                return _decode(name, shape, data) | deepcopy(defaults)
        raise


def _decode(name: str, shape: Any, data: bytes, *, later: bool = False) -> dict[str, Any]:
    source = io.BytesIO(data)
    try:
        value = fastavro.schemaless_reader(source, shape, None)
    except (
        EOFError,
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        OverflowError,
        MemoryError,
        UnicodeDecodeError,
    ) as error:
        raise WireError(f"not a {name}: {str(error) or type(error).__name__}") from error
    if source.tell() != len(data) and not later:
        raise WireError(f"not a {name}: {len(data) - source.tell()} bytes too many")
    assert isinstance(value, dict)
    return value


# -- parts that are written by hand, because there is one for each message


@lru_cache(4096)
def _length(number: int) -> bytes:
    return varint(number << 1)


@lru_cache(64)
def encode_time(time: int) -> bytes:
    """A field of the type ``long`` that is a time; 0 for one before 1970. Messages that come together share it."""
    return varint(max(time, 0) << 1)


def encode_bytes(value: bytes) -> bytes:
    """A field of the type ``bytes`` or ``string``."""
    return _length(len(value)) + value


def encode_headers(headers: Headers) -> bytes:
    """The field that holds the headers of a message."""
    if not headers:
        return _length(0)
    pairs = [encode_bytes(name.encode("utf-8")) + encode_bytes(value) for name, value in headers]
    return _length(len(headers)) + b"".join(pairs) + _length(0)


def headers_out(headers: Headers) -> list[dict[str, Any]]:
    """The headers of a message as the schemas have them."""
    return [{"name": name, "value": value} for name, value in headers]


def headers_in(fields: list[dict[str, Any]]) -> HeaderList:
    """The headers of a message from the form that the schemas have."""
    return [(field["name"], field["value"]) for field in fields]
