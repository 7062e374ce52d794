"""Records of plain fields, written by hand: fastavro takes half as much time again for an event of a few fields (seen).

Only fields of the most common types are written here; a record with any other is fastavro's as a whole. A test holds both to the same bytes.
Values are checked more strictly than fastavro does, which writes 1.5 as the long 1. What is exactly of its type is written by
a function that is compiled for the record (:mod:`railgun.avro.compiled_writing`), the rest here, field by field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from railgun.avro.compiled_writing import WriteRecord, compiled_writer
from railgun.avro.scalars import EPOCH, aware, day
from railgun.protocol.varints import varint

Write = Callable[[Any], bytes]
_DOUBLE: Final = struct.Struct("<d")
_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
_FIRST_DAY: Final = EPOCH.toordinal()


def quick_writer(schema: dict[str, Any]) -> WriteRecord | None:
    """A function that writes the values of a record behind a frame; None if a field is not of the plain types.

    It raises TypeError, ValueError, AttributeError, KeyError, OverflowError or struct.error for a value that is not of its type.
    """
    fields: list[tuple[str, Write]] = []
    for field in schema["fields"]:
        write = _write(field["type"])
        if write is None:
            return None
        fields.append((field["name"], write))

    def record(values: dict[str, Any], frame: bytes) -> bytes:
        parts = [frame]
        parts += [write(values[name]) for name, write in fields]
        return b"".join(parts)

    return compiled_writer(schema, record)


def _write(schema: Any) -> Write | None:
    if isinstance(schema, list):
        if len(schema) != 2 or "null" not in schema:
            return None
        place = 1 - schema.index("null")
        write = _write(schema[place])
        return None if write is None else _optional(write, varint(2 * place), varint(2 - 2 * place))
    if isinstance(schema, dict):
        return _LOGICAL.get(schema.get("logicalType", ""))
    return _PLAIN.get(schema)


def _optional(write: Write, index: bytes, null: bytes) -> Write:
    return lambda value: null if value is None else index + write(value)


def _long(value: int) -> bytes:
    if type(value) is not int:
        raise TypeError(f"{type(value).__name__} is not a valid int")
    if not _LEAST <= value <= _MOST:
        raise OverflowError(f"{value} has more than 64 bits")
    return varint((value << 1) ^ (value >> 63))


def _text(value: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} is not a valid str")
    data = value.encode("utf-8")
    return varint(len(data) << 1) + data


def _data(value: bytes) -> bytes:
    if type(value) is not bytes:
        raise TypeError(f"{type(value).__name__} is not valid bytes")
    return varint(len(value) << 1) + value


def _flag(value: bool) -> bytes:
    if type(value) is not bool:
        raise TypeError(f"{type(value).__name__} is not a valid bool")
    return b"\1" if value else b"\0"


def _moment(value: datetime) -> bytes:
    since = aware(value) - EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return varint((micros << 1) ^ (micros >> 63))


def _day(value: date) -> bytes:
    return _long(day(value).toordinal() - _FIRST_DAY)


def _uuid(value: UUID) -> bytes:
    if type(value) is not UUID:
        raise TypeError(f"{type(value).__name__} is not a valid UUID")
    return _text(str(value))


_PLAIN: Final[dict[str, Write]] = {
    "string": _text,
    "long": _long,
    "double": _DOUBLE.pack,
    "boolean": _flag,
    "bytes": _data,
}
_LOGICAL: Final[dict[str, Write]] = {"timestamp-micros": _moment, "date": _day, "uuid": _uuid}
