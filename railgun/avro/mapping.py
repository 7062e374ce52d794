"""From the annotations of a pydantic model to Avro: containers, unions, enums and nested models.

What has no counterpart is refused by name, before anything is sent: a field that was left out, or written as something else, would be
missed when it is too late.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin

from pydantic import BaseModel, PlainSerializer, WrapSerializer
from pydantic.fields import FieldInfo

from railgun.avro.naming import is_name, record_name
from railgun.avro.resolving import KIND
from railgun.avro.scalars import CHECKS, SCALARS, Convert, Mapped, NoSuchType, decimal

_ARRAYS: dict[Any, type] = {
    list: list,
    Sequence: list,
    Iterable: list,
    set: set,
    AbstractSet: set,
    frozenset: frozenset,
    tuple: tuple,
}
_NO_LISTS = (str, bytes, bytearray, memoryview, Mapping)


class Records(Protocol):
    """The named types of one schema: each is written out where it is first met, and by its name afterwards."""

    def of_model(self, model: type[BaseModel]) -> Mapped: ...

    def of_symbols(self, name: str, symbols: tuple[str, ...], owner: object) -> Any: ...


def mapped(annotation: Any, metadata: Sequence[Any], records: Records, place: str) -> Mapped:
    """The type in Avro. ``place`` names the field, for types that have no name of their own. Raises NoSuchType, InvalidModel."""
    for one in metadata:
        if isinstance(one, PlainSerializer | WrapSerializer):
            raise NoSuchType("a serializer of its own says what is written, and Avro would not ask it")
    known = _known(annotation)
    if known is not None:
        return known
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return mapped(arguments[0], [*metadata, *_flat(arguments[1:])], records, place)
    if is_alias(annotation):
        return mapped(annotation.__value__, metadata, records, place)
    if hasattr(annotation, "__supertype__"):  # a NewType
        return mapped(annotation.__supertype__, metadata, records, place)
    if annotation is Decimal:
        return decimal(metadata)
    if origin in (Union, types.UnionType):
        return _union([mapped(one, metadata, records, place) for one in arguments])
    if origin is Literal:
        return _literal(arguments, records, place)
    if origin in _ARRAYS:
        return _array(origin, arguments, records, place)
    if origin in (dict, Mapping):
        if arguments[0] is not str:
            raise NoSuchType("the keys of a dict must be str: Avro has no others")
        return _map(mapped(arguments[1], (), records, place))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _enum(annotation, records)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return records.of_model(annotation)
    name = getattr(annotation, "__name__", str(annotation))
    raise NoSuchType(f"{name} has no counterpart in Avro: use a type that docs/events.md lists")


def is_alias(annotation: Any) -> bool:
    """Whether it is a name for another type, made by ``type X = …`` or by the class for that of typing_extensions: not one class on each Python."""
    return hasattr(annotation, "__value__") and hasattr(annotation, "__type_params__")


def _known(annotation: Any) -> Mapped | None:
    try:
        return SCALARS.get(annotation)
    except TypeError:  # an annotation that has no hash
        return None


def _flat(metadata: Iterable[Any]) -> list[Any]:
    """The constraints, also those inside of a ``Field(…)``."""
    found: list[Any] = []
    for one in metadata:
        found += one.metadata if isinstance(one, FieldInfo) else [one]
    return found


# ------------------------------------------------------------ containers


def _array(origin: Any, arguments: tuple[Any, ...], records: Records, place: str) -> Mapped:
    make = _ARRAYS[origin]
    if make is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
        raise NoSuchType("a tuple of fixed length has no counterpart in Avro: use tuple[X, ...] or a model")
    item = mapped(arguments[0], (), records, place)
    write, read = item.write, item.read
    return Mapped(
        {"type": "array", "items": item.schema},
        (make,),
        _writing_array(write),
        _reading_array(make, read),
        lambda value: [item.default(one) for one in _in_order(value)],
    )


def _writing_array(write: Convert | None) -> Convert:
    # Always a list of its own: a tuple would be taken for a value with the name of its branch.
    if write is None:
        return lambda value: list(_items(value))
    kinds = {CHECKS.get(write)}

    def written(value: Any) -> list[Any]:
        items = list(_items(value))
        return items if {*map(type, items)} <= kinds else [write(one) for one in items]

    return written


def _items(value: Any) -> Iterable[Any]:
    """The items of a list, a set or the like; a text has items, too, and is none of these. Raises TypeError."""
    if isinstance(value, _NO_LISTS):
        raise TypeError(f"{type(value).__name__} is not a valid list")
    items: Iterable[Any] = value
    return items


def _reading_array(make: type, read: Convert | None) -> Convert | None:
    if read is None:
        return None if make is list else make
    return lambda value: make(read(one) for one in value)


def _in_order(value: Iterable[Any]) -> Iterable[Any]:
    """A default must be the same text in every process, and sets come in any order."""
    return sorted(value, key=repr) if isinstance(value, AbstractSet) else value


def _map(item: Mapped) -> Mapped:
    write, read = item.write, item.read
    return Mapped(
        {"type": "map", "values": item.schema},
        (dict,),
        None if write is None else lambda value: {key: write(one) for key, one in value.items()},
        None if read is None else lambda value: {key: read(one) for key, one in value.items()},
        lambda value: {key: item.default(one) for key, one in value.items()},
    )


# ------------------------------------------------------------ named values


def _enum(enum: type[Enum], records: Records) -> Mapped:
    """Members by their names: values may be anything, and change without notice."""
    names = tuple(enum.__members__)
    if any(not is_name(name) for name in names):
        raise NoSuchType(f"the members of {enum.__name__} need names of letters, digits and _")
    return Mapped(
        records.of_symbols(record_name(enum), names, enum),
        (enum,),
        # With use_enum_values a model holds the values of the members.
        lambda value: (value if isinstance(value, enum) else enum(value)).name,
        lambda value: value if isinstance(value, enum) else enum[value],
        lambda value: (value if isinstance(value, enum) else enum(value)).name,
        branch=record_name(enum),
    )


def _literal(values: tuple[Any, ...], records: Records, place: str) -> Mapped:
    if any(not is_name(value) for value in values):
        raise NoSuchType(
            f"Literal{list(values)!r} is not a valid list of symbols: use texts of letters, digits and _, or an Enum"
        )
    return Mapped(records.of_symbols(place, values, values), (str,), branch=place.replace(".", "_"))


# ------------------------------------------------------------ unions


def _union(branches: list[Mapped]) -> Mapped:
    """Several types in one. Those that Avro or its readers could mistake for one another are refused."""
    bases = [base_of(branch) for branch in branches]
    for base in dict.fromkeys(bases):
        if base != "record" and bases.count(base) > 1:
            raise NoSuchType(
                f"two types of this union are {base} in Avro, and no reader could tell them apart"
            )
    for one, other in (("map", "record"), ("enum", "string")):
        if one in bases and other in bases:
            raise NoSuchType(
                f"a {one} and a {other} of Avro are in this union: no reader could tell them apart"
            )
    # Avro reads each as the other: with another version of the schema, the first of them is taken for both.
    if "string" in bases and "bytes" in [branch.schema for branch in branches]:
        text = branches[bases.index("string")].python[0].__name__
        raise NoSuchType(
            f"{text} and bytes are in this union: readers of another version could not tell them apart"
        )
    values = [branch for branch in branches if branch.schema != "null"]
    if len(values) == 1:
        return _optional(values[0])
    choose = {one: place for place, branch in enumerate(branches) for one in branch.python}
    names: dict[str | None, Convert | None] = {
        branch.branch: branch.read for branch in values if branch.branch is not None
    }
    others = {kind: branch.read for branch in values for kind in _read_as(branch)}
    return Mapped(
        [branch.schema for branch in branches],
        tuple(choose),
        lambda value: _written(branches[_place(value, choose)], value),
        lambda value: _read(value, names, others),
        lambda value: branches[_place(value, choose)].default(value),
        position=lambda value: _place(value, choose),
    )


def _optional(only: Mapped) -> Mapped:
    plain = only.write is None and base_of(only) not in (
        "array",
        "map",
    )  # fastavro looks into these first
    return Mapped(
        ["null", only.schema],
        (type(None), *only.python),
        None if plain else lambda value: None if value is None else _written(only, value),
        (lambda value: _read(value, {only.branch: only.read}, {dict: only.read, str: only.read}))
        if only.branch is not None
        else _or_none(only.read),
        lambda value: None if value is None else only.default(value),
        position=lambda value: 0 if value is None else 1,
    )


def base_of(branch: Mapped) -> str:
    """The kind of an Avro type, without its logical type or its name."""
    if isinstance(branch.schema, dict):
        return str(branch.schema["type"])
    if branch.schema in _PRIMITIVES:
        return str(branch.schema)
    # The name of a type that is written out elsewhere.
    return "record" if issubclass(branch.python[0], BaseModel) else "enum"


_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


def _or_none(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _place(value: Any, choose: Mapping[type, int]) -> int:
    for kind in type(value).__mro__:
        if kind in choose:
            return choose[kind]
    raise ValueError(f"{type(value).__name__} is none of the types of its union")


def _written(branch: Mapped, value: Any) -> Any:
    """The value with the name of its branch: fastavro would try one after the other."""
    return branch.branch or base_of(branch), value if branch.write is None else branch.write(value)


def _read_as(branch: Mapped) -> tuple[type, ...]:
    return {"enum": (str,), "array": (list,), "map": (dict,)}.get(base_of(branch), ())


def _read(
    value: Any, names: Mapping[str | None, Convert | None], others: Mapping[type, Convert | None]
) -> Any:
    """A value of a union. fastavro gives records with their names, an enum where the schema has no more than its name, and all else bare; and where the
    writer had no union, records are bare, too, with their names inside (:data:`KIND`).
    """
    if type(value) is tuple:
        name, value = value
        convert = names.get(name)
    elif type(value) is dict and value.get(KIND) in names:
        convert = names[value[KIND]]
    else:
        convert = others.get(type(value))
    return value if convert is None else convert(value)
