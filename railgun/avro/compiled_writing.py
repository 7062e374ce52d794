"""Records of plain fields, written by a function that is made for their schema: one line of code after the other, no call for each field.

The text of that function is put together from the templates below and compiled once for each model; names of fields are in it as
quoted keys only. It takes nothing but values of exactly the type that the field declares. All else it leaves to the function that it is given, which
writes the value or says what is wrong with it (:mod:`railgun.avro.quick_writing`). A test holds both to the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from struct import Struct, error
from typing import Any, Final, NamedTuple
from uuid import UUID

from railgun.avro.scalars import EPOCH
from railgun.protocol.varints import FOLLOWED, LAST, varint

WriteRecord = Callable[[dict[str, Any], bytes], bytes]


class _Template(NamedTuple):
    """Lines that make parts ``a…`` of a value ``v``; ``#`` stands for the number of the field."""

    lines: tuple[str, ...]
    parts: tuple[str, ...]


# A number of up to 28 bits is two groups at most; a time of our days has four.
_TEMPLATES: Final = {
    "string": _Template(
        ("if type(v#) is not str: return other(values, frame)", "a# = v#.encode()"),
        ("lengths[len(a#)]", "a#"),
    ),
    "bytes": _Template(
        ("if type(v#) is not bytes: return other(values, frame)",), ("lengths[len(v#)]", "v#")
    ),
    "long": _Template(
        (
            "if type(v#) is not int: return other(values, frame)",
            "a# = v# << 1 ^ v# >> 63",
            "if a# < 16384: b# = last[a#]",
            "elif a# < 268435456: b# = more[a# & 16383] + last[a# >> 14]",
            "else: b# = varint(a#)",  # which refuses what has more than 64 bits
        ),
        ("b#",),
    ),
    "double": _Template(("a# = double(v#)",), ("a#",)),
    "boolean": _Template(
        (
            "if v# is True: a# = b'\\1'",
            "elif v# is False: a# = b'\\0'",
            "else: return other(values, frame)",
        ),
        ("a#",),
    ),
    "timestamp-micros": _Template(
        (
            "if type(v#) is not datetime or v#.tzinfo is None or not 1 < v#.year < 9999: return other(values, frame)",
            "v# = v# - epoch",
            "a# = (v#.days * 86400 + v#.seconds) * 1000000 + v#.microseconds",
            "a# = a# << 1 ^ a# >> 63",
            "if 4398046511104 <= a# < 72057594037927936:",
            "    b# = more[a# & 16383] + more[a# >> 14 & 16383] + more[a# >> 28 & 16383] + last[a# >> 42]",
            "else: b# = varint(a#)",
        ),
        ("b#",),
    ),
    "date": _Template(
        (
            "if type(v#) is not date: return other(values, frame)",
            "a# = v#.toordinal() - first_day",
            "b# = varint(a# << 1 ^ a# >> 63)",
        ),
        ("b#",),
    ),
    "uuid": _Template(
        ("if type(v#) is not UUID: return other(values, frame)",), ("b'H'", "str(v#).encode()")
    ),
}


def compiled_writer(schema: dict[str, Any], other: WriteRecord) -> WriteRecord:
    """A function that writes the values of a record behind a frame, as ``other`` does, which gets what is out of the ordinary.

    The fields are of the types that :mod:`railgun.avro.quick_writing` knows.
    """
    lines, parts = [], ["frame"]
    for number, field in enumerate(schema["fields"]):
        added, written = _field(field["name"], field["type"])
        lines += [line.replace("#", str(number)) for line in added]
        parts += [part.replace("#", str(number)) for part in written]
    body = "".join(f"        {line}\n" for line in lines)
    text = (
        "def record(values, frame):\n"
        "    try:\n"
        f"{body}"
        f"        return join(({', '.join(parts)},))\n"
        "    except (TypeError, ValueError, LookupError, ArithmeticError, error):\n"
        "        pass\n"
        "    return other(values, frame)\n"
    )
    names = {**_NAMES, "other": other}
    exec(compile(text, f"<writer of {schema['name']}>", "exec"), names)
    made: WriteRecord = names["record"]
    return made


def _field(name: str, schema: Any) -> _Template:
    """The lines of one field, and the parts that they make."""
    read = f"v# = values[{name!r}]"
    if not isinstance(schema, list):
        found = _TEMPLATES[_kind(schema)]
        return _Template((read, *found.lines), found.parts)
    place = 1 - schema.index("null")
    found = _TEMPLATES[_kind(schema[place])]
    kept = [f"o{number}_#" for number, _ in enumerate(found.parts)]
    return _Template(
        (
            read,
            f"if v# is None: i# = {bytes((2 - 2 * place,))!r}; {' = '.join(kept)} = b''",
            "else:",
            *(f"    {line}" for line in found.lines),
            f"    i# = {bytes((2 * place,))!r}; {', '.join(kept)} = {', '.join(found.parts)}",
        ),
        ("i#", *kept),
    )


def _kind(schema: Any) -> str:
    return str(schema["logicalType"] if isinstance(schema, dict) else schema)


_NAMES: Final[dict[str, Any]] = {
    **{"UUID": UUID, "date": date, "datetime": datetime, "error": error},
    **{"double": Struct("<d").pack, "join": b"".join},
    **{"epoch": EPOCH, "first_day": EPOCH.toordinal()},
    **{"lengths": LAST[::2], "last": LAST, "more": FOLLOWED, "varint": varint},
}
"""What the functions know beside their fields."""
