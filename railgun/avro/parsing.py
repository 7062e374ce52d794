"""Avro schemas as they are given: parsed once, compared without what only people read, and named by a number."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import fastavro
from fastavro import schema as avro_schema

from railgun.errors import ConfigError

AvroSchema = Mapping[str, Any] | Sequence[Any] | str

NAMED: Final = (
    "__named_schemas"  # fastavro's mark: the records and enums inside of a parsed schema, by their names
)
FINGERPRINTS: Final = range(2**31)  # what readers in Java and Spark take for an id: four bytes, not negative
_NO_SCHEMA: Final = (
    *(ValueError, KeyError, TypeError, AttributeError, RecursionError),
    avro_schema.SchemaParseException,
)
_FOR_PEOPLE: Final = frozenset({"doc", "railgun-id"})


def parsed(schema: AvroSchema, what: str = "this") -> Any:
    """The schema as fastavro uses it: a schema, or its JSON as text. Raises ConfigError that begins with ``what``."""
    try:
        read = json.loads(schema) if isinstance(schema, str) and schema.lstrip()[:1] in '{["' else schema
        return fastavro.parse_schema(read, named_schemas={})  # type: ignore[arg-type]
    except avro_schema.UnknownType as error:
        raise ConfigError(
            f"{what} is not a valid Avro schema: it names the unknown type {error.name}"
        ) from error
    except _NO_SCHEMA as error:
        raise ConfigError(f"{what} is not a valid Avro schema: {error}") from error


def full_name(schema: Any) -> str | None:
    """The name of a parsed schema with its namespace; None for one that has no name."""
    return schema.get("name") if isinstance(schema, dict) else None


def holds_itself(schema: Any, inside: frozenset[str] = frozenset()) -> bool:
    """Whether a record of a parsed schema may hold one of its own kind: values of it are nested as deeply as who writes them likes."""
    if isinstance(schema, list):
        return any(holds_itself(one, inside) for one in schema)
    if not isinstance(schema, dict):
        return schema in inside
    if "fields" in schema:
        inside |= {schema["name"]}
        return any(holds_itself(field["type"], inside) for field in schema["fields"])
    return any(holds_itself(schema[key], inside) for key in ("type", "items", "values") if key in schema)


def has_endless_lists(schema: Any) -> bool:
    """Whether a value of a parsed schema may hold a list whose items take no bytes: a few damaged bytes claim billions of them, and no end of bytes ends it."""
    return _has_endless_lists(schema, schema.get(NAMED, {}) if isinstance(schema, dict) else {})


def _has_endless_lists(schema: Any, named: Mapping[str, Any]) -> bool:
    if isinstance(schema, list):
        return any(_has_endless_lists(one, named) for one in schema)
    if not isinstance(schema, dict):
        return False  # what a name stands for is written out elsewhere
    if schema["type"] == "array" and _takes_no_bytes(schema["items"], named):
        return True
    inside = [field["type"] for field in schema.get("fields", ())]
    inside += [schema[key] for key in ("type", "items", "values") if key in schema]
    return any(_has_endless_lists(one, named) for one in inside)


def _takes_no_bytes(schema: Any, named: Mapping[str, Any], inside: frozenset[str] = frozenset()) -> bool:
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        if schema["name"] in inside:
            return True  # nobody can write one that holds itself without an end
        inside |= {schema["name"]}
        return all(_takes_no_bytes(field["type"], named, inside) for field in schema["fields"])
    if isinstance(kind, str) and kind in named:
        return _takes_no_bytes(named[kind], named, inside)
    return bool(kind == "null" or (kind == "fixed" and schema["size"] == 0))


def fingerprint(schema: Any) -> int:
    """A number that schemas with the same meaning share, on every machine: the id of a schema in a folder.

    Unlike Avro's own fingerprints it looks at logical types and defaults, too: a time and a plain number are not read alike.
    """
    text = json.dumps(_for_machines(schema), sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:4], "big") % len(FINGERPRINTS)


def _for_machines(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {
            key: _for_machines(value)
            for key, value in schema.items()
            if key not in _FOR_PEOPLE and not key.startswith("__")  # fastavro's own marks
        }
    if isinstance(schema, list | tuple):
        return [_for_machines(one) for one in schema]
    return schema
