"""Whether one version of a schema can be read as another, and if not, why, in words.

Avro's own rules (``avro.compatibility``), and one more: a logical type stays what it is, because a time that is read as a plain number is
read without an error. Versions are compared with all earlier ones: a stream is read from its beginning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from railgun.avro.parsing import NAMED
from railgun.errors import ConfigError

Compatibility = Literal["FULL", "BACKWARD", "FORWARD", "NONE"]
LEVELS: Final = ("FULL", "BACKWARD", "FORWARD", "NONE")
_LOGICAL: Final = ("logicalType", "precision", "scale")
_MISMATCH: Final = re.compile(r"reader type: (\S+) not compatible with writer type: (\S+)")


def check_level(level: object) -> None:
    """Raises ConfigError for a word that is none of the levels."""
    if level not in LEVELS:
        raise ConfigError(f"{level!r} is not a valid compatibility: use one of {', '.join(LEVELS)}")


def differences(new: Any, earlier: Iterable[tuple[str, Any]], level: Compatibility = "FULL") -> list[str]:
    """What makes the new schema unusable beside earlier ones, each given with its name. Empty: it can be used.

    BACKWARD: the new one reads what the earlier ones wrote. FORWARD: they read what it writes. FULL: both.
    """
    found: list[str] = []
    for name, old in earlier:
        if level in ("FULL", "BACKWARD"):
            found += [f"it cannot read {name}: {why}" for why in unreadable(reader=new, writer=old)]
        if level in ("FULL", "FORWARD"):
            found += [f"{name} cannot read it: {why}" for why in unreadable(reader=old, writer=new)]
    return found


def unreadable(*, reader: Any, writer: Any) -> list[str]:
    """Why what was written with one schema cannot be read as another."""
    try:
        from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
        from avro.errors import AvroException
        from avro.schema import parse
    except ImportError as error:
        raise ConfigError(
            "the package avro is missing, which compares schemas: pip install 'railgun[avro]'"
        ) from error
    checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
    try:
        read, write = parse(json.dumps(_bare(reader))), parse(json.dumps(_bare(writer)))
        result = checker.get_compatibility(read, write)
    except AvroException as error:  # of a schema that others made, and that fastavro takes
        return [f"they cannot be compared ({error})"]
    found = (
        []
        if result.compatibility is SchemaCompatibilityType.compatible
        else _in_words(result, reader, writer)
    )
    reading, writing = (one.get(NAMED, {}) if isinstance(one, dict) else {} for one in (reader, writer))
    changes = _logical_changes(_Two(reader, writer, (reading, writing)), "", set())
    return found + [why for why in changes if why not in found]


def _in_words(result: Any, reader: Any, writer: Any) -> list[str]:
    """avro gives reasons and places apart, each sorted by chance: the places say more, and are named by their fields."""
    said = sorted(_sentence(message) for message in result.messages)
    places = sorted({_place(location, reader, writer) for location in result.locations} - {""})
    return [f"{', '.join(said)} (at {', '.join(places)})" if places else ", ".join(said)]


def _sentence(message: str) -> str:
    mismatch = _MISMATCH.match(message)
    if mismatch:
        return f"{mismatch[2]} became {mismatch[1]}" if mismatch[1] != mismatch[2] else message
    if message.startswith("{"):
        return f"the symbols {message.strip('{}')} are missing"
    return f"the field {message} has no default" if message.isidentifier() else message


def _place(location: str, reader: Any, writer: Any) -> str:
    """``/fields/1/type/fields/0`` as ``items.sku``."""
    names: list[str] = []
    at: Any = reader
    for part in location.strip("/").split("/"):
        try:
            at = at[int(part)] if part.isdigit() else at[part]
        except (KeyError, IndexError, TypeError):
            return ".".join(names)
        if part.isdigit() and isinstance(at, dict) and "name" in at:
            names.append(at["name"])
    return ".".join(names)


class _Two(NamedTuple):
    """Two schemas that are compared, and the records and enums of each by their names: only the first place of one has more than its name."""

    reader: Any
    writer: Any
    named: tuple[Mapping[str, Any], Mapping[str, Any]]

    def inside(self, reader: Any, writer: Any) -> _Two:
        reader, writer = (
            known.get(one, one) if isinstance(one, str) else one
            for one, known in zip((reader, writer), self.named, strict=True)
        )
        return self._replace(reader=reader, writer=writer)


def _logical_changes(two: _Two, place: str, seen: set[tuple[int, int]]) -> Iterator[str]:
    reader, writer, _ = two
    if (id(reader), id(writer)) in seen:
        return
    seen.add((id(reader), id(writer)))
    if isinstance(reader, list) or isinstance(writer, list):
        read, written = _branches(reader), _branches(writer)
        if "bytes" in written and "string" in read and "bytes" not in read:
            yield _no_text(place)
        for base in sorted(written.keys() - read.keys()):
            if _logical_of(written[base]) != "plain":  # it may be promoted, a date to a double
                yield f"{place or 'it'} was {_logical_of(written[base])} and is no longer"
        for base in read.keys() & written.keys():
            yield from _logical_changes(two.inside(read[base], written[base]), place, seen)
        return
    before, after = _logical_of(writer), _logical_of(reader)
    if before != after:
        yield f"{place or 'it'} was {before} and became {after}"
    elif (reader, writer) == ("string", "bytes"):
        yield _no_text(place)
    elif isinstance(reader, dict) and isinstance(writer, dict):
        for key in ("items", "values"):
            if key in reader and key in writer:
                yield from _logical_changes(two.inside(reader[key], writer[key]), place, seen)
        written_fields = {field["name"]: field for field in writer.get("fields", ())}
        for field in reader.get("fields", ()):
            names = [field["name"], *field.get("aliases", ())]
            other = next((written_fields[name] for name in names if name in written_fields), None)
            if other is not None:
                inner = f"{place}.{field['name']}".lstrip(".")
                yield from _logical_changes(two.inside(field["type"], other["type"]), inner, seen)


def _no_text(place: str) -> str:
    """Avro itself reads bytes as a string, if they happen to be one."""
    return f"{place or 'it'} was bytes and became string, and not all bytes are a text"


def _branches(schema: Any) -> dict[str, Any]:
    """The branches of a union by their kind; a type alone is a union of one."""
    branches = schema if isinstance(schema, list) else [schema]
    return {
        (one.get("name") or str(one.get("type"))) if isinstance(one, dict) else str(one): one
        for one in branches
    }


def _logical_of(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "plain"
    return " ".join(str(schema[key]) for key in _LOGICAL if key in schema) or "plain"


def _bare(schema: Any) -> Any:
    """Without fastavro's own marks, and without logical types: avro's package warns of those that it does not know."""
    if isinstance(schema, dict):
        return {
            key: value if key == "default" else _bare(value)
            for key, value in schema.items()
            if not key.startswith("__") and key not in _LOGICAL
        }
    return [_bare(one) for one in schema] if isinstance(schema, list | tuple) else schema
