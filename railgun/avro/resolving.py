"""Reading by two versions of a schema: what was written with one, as the other.

A record or an enum that a schema has in several places is written out in the first of them, and is a name in the others. fastavro meets a name on
one side and what it stands for on the other where a new version has its fields in another order, and fails if it is to name records, or misses
defaults (seen with 1.13).
So both sides are given without names: what a name stands for is in its place, each time the same object, also inside of itself.
"""

from __future__ import annotations

import io
from typing import Any, Final

import fastavro
from fastavro._read_py import schemaless_reader as read_in_python

from railgun.avro.parsing import NAMED


class _Missing:
    """The only value of its class: a field that the writer did not have."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
# A field that each record gets when it is read: its name. fastavro names records only where the writer had a union, too.
KIND: Final = "__railgun_record"
# fastavro compares both sides first. They hold themselves: it must find a difference before it follows them.
_SIDE: Final = "__railgun_side"
_TYPES: Final = ("type", "items", "values")
# fastavro's compiled reader has no limit of its own, and ends the process where the stack does: after some thousand levels of a record that holds
# itself, each of a byte at least. More bytes of such records are read by its twin in Python, which meets Python's limit.
_SAFE_BYTES: Final = 250


def read(source: io.BytesIO, written: Any, wanted: Any, *, nested: bool, names: bool = False) -> Any:
    """What is in there from where it stands, written by one schema, as another one wants it, or as it is if that is None.

    ``nested``: whether a record of it may hold one of its kind; ``names``: whether records in unions come with their names. Raises what fastavro
    raises, and RecursionError for what is nested too deeply.
    """
    deep = nested and source.getbuffer().nbytes > _SAFE_BYTES
    reader = read_in_python if deep else fastavro.schemaless_reader
    return reader(source, written, wanted, return_record_name=names)


def as_written(schema: Any) -> Any:
    """A parsed schema as that of a writer."""
    return _Linked(schema, reading=False).whole


def as_read(schema: Any) -> Any:
    """A parsed schema to resolve others to: what a writer did not have is :data:`MISSING`, and the model has its default for it.

    fastavro gives a default as it is in the schema, also where that is the JSON of a time. Of a union it takes the first branch that could hold
    what was written, so a double comes last: an integer would become one, and lose digits.
    """
    return _Linked(schema, reading=True).whole


class _Linked:
    """One side, made from a parsed schema."""

    def __init__(self, schema: Any, *, reading: bool) -> None:
        self._reading = reading
        self._named: dict[str, Any] = schema.get(NAMED, {}) if isinstance(schema, dict) else {}
        self._made: dict[str, dict[str, Any]] = {}
        self.whole = self._linked(schema)
        if isinstance(schema, dict):
            marks = {key: value for key, value in schema.items() if key.startswith("__")}
            self.whole = {_SIDE: reading, **self.whole, **marks, NAMED: self._made}

    def _linked(self, schema: Any) -> Any:
        if isinstance(schema, list):
            branches = sorted(schema, key=lambda one: one == "double") if self._reading else schema
            return [self._linked(one) for one in branches]
        if isinstance(schema, str):
            return self._linked(self._named[schema]) if schema in self._named else schema
        if not isinstance(schema, dict):
            return schema
        name = schema.get("name")
        if name in self._made:
            return self._made[name]
        made: dict[str, Any] = {}
        if isinstance(name, str):
            self._made[name] = made  # before its fields, which may hold it
        for key, value in schema.items():
            if key == "fields":
                made[key] = [self._field(field) for field in value]
                if self._reading:
                    made[key].append({"name": KIND, "type": "string", "default": name})
            elif not key.startswith("__"):
                made[key] = self._linked(value) if key in _TYPES else value
        return made

    def _field(self, field: dict[str, Any]) -> dict[str, Any]:
        made = {**field, "type": self._linked(field["type"])}
        if self._reading and "default" in field:
            made["default"] = MISSING
        return made
