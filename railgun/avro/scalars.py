"""Python types that hold one value, and how Avro writes each: the schema, the value for fastavro, the default in JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any, Final, NamedTuple
from uuid import UUID

from pydantic import AwareDatetime, NaiveDatetime

Convert = Callable[[Any], Any]


class Mapped(NamedTuple):
    """One type in Avro.

    ``write`` turns a value into what fastavro writes, ``read`` what it has read into what pydantic validates; None: it is that already.
    ``default`` turns a value into the JSON of a default, and raises ValueError for one that JSON cannot hold.
    """

    schema: Any
    python: tuple[type, ...]  # classes of the values, to choose the branch of a union
    write: Convert | None = None
    read: Convert | None = None
    default: Convert = lambda value: value
    branch: str | None = (
        None  # the name that tells fastavro which branch of a union it is, if not that of the type
    )
    position: Callable[[Any], int] | None = None  # of a union: the branch that a value is of


class NoSuchType(Exception):
    """A type has no counterpart in Avro; the text says what to use instead."""


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NAIVE_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - of local times, which have no zone
_MICROSECOND: Final = (EPOCH.replace(microsecond=1)) - EPOCH
_EDGES: Final = (1, 9999)  # years in which a time may be another year's in UTC
_LONGS: Final = range(-(2**63), 2**63)


def _logical(base: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more}


CHECKS: Final[
    dict[Convert, type]
] = {}  # functions that give each value of a type as it is, for lists of them


def _only(kind: type) -> Convert:
    """A check that a value is of a type: models can be changed and made without one, and fastavro writes 1.5 as the long 1."""

    def check(value: Any) -> Any:
        if type(value) is not kind and (not isinstance(value, kind) or isinstance(value, bool)):
            raise TypeError(f"{type(value).__name__} is not a valid {kind.__name__}")
        return value

    CHECKS[check] = kind
    return check


def day(value: Any) -> Any:
    """The value, if it is a date. Raises TypeError, also for a datetime: its time would be lost."""
    if not isinstance(value, date) or isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} is not a valid date")
    return value


def aware(value: Any) -> Any:
    """The value, if it is a time that a reader can make again. Raises ValueError, TypeError, OverflowError."""
    if not isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} is not a valid datetime")
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone: give one, or declare the field as NaiveDatetime")
    if value.year in _EDGES:
        value.astimezone(UTC)  # OverflowError: no reader could make a datetime of it
    return value


def _naive(value: Any) -> Any:
    if not isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} is not a valid datetime")
    if value.tzinfo is not None:
        raise ValueError(f"{value} has a time zone, and NaiveDatetime has none")
    return value


def _without_zone(value: Any) -> Any:
    if not isinstance(value, time):
        raise TypeError(f"{type(value).__name__} is not a valid time")
    if value.tzinfo is not None:
        raise ValueError(f"{value} has a time zone: Avro's times of a day have none")
    return value


def _finite(value: float) -> float:
    if not isfinite(value):
        raise ValueError(f"{value} is not JSON")
    return float(value)


def _long(value: int) -> int:
    if not isinstance(value, int):  # a range looks for it among all its numbers, one after the other
        raise TypeError(f"{type(value).__name__} is not a valid int")
    if value not in _LONGS:
        raise ValueError(f"{value} has more than 64 bits")
    return value


def _micros(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


SCALARS: Final[dict[Any, Mapped]] = {
    str: Mapped("string", (str,), default=_only(str)),
    bool: Mapped("boolean", (bool,), _only(bool)),
    int: Mapped("long", (int,), _only(int), default=_long),
    float: Mapped("double", (float,), default=_finite),
    bytes: Mapped("bytes", (bytes,), default=lambda value: value.decode("latin-1")),
    type(None): Mapped("null", (type(None),)),
    datetime: Mapped(
        _logical("long", "timestamp-micros"),
        (datetime,),
        aware,
        default=lambda value: (aware(value) - EPOCH) // _MICROSECOND,
    ),
    date: Mapped(
        _logical("int", "date"), (date,), day, default=lambda value: value.toordinal() - EPOCH.toordinal()
    ),
    time: Mapped(
        _logical("long", "time-micros"),
        (time,),
        _without_zone,
        default=lambda value: _micros(_without_zone(value)),
    ),
    UUID: Mapped(_logical("string", "uuid"), (UUID,), _only(UUID), default=str),
}
SCALARS[AwareDatetime] = SCALARS[datetime]
SCALARS[NaiveDatetime] = Mapped(
    _logical("long", "local-timestamp-micros"),
    (datetime,),
    _naive,
    default=lambda value: (_naive(value) - NAIVE_EPOCH) // _MICROSECOND,
)


def decimal(metadata: Iterable[Any]) -> Mapped:
    """Decimals, with the digits that their field declares. Raises NoSuchType without them: Avro has no other decimals."""
    digits = places = None
    for one in metadata:
        digits = getattr(one, "max_digits", None) or digits
        found = getattr(one, "decimal_places", None)
        places = places if found is None else found
    if digits is None or places is None:
        raise NoSuchType(
            "Decimal needs a number of digits: declare it with Field(max_digits=18, decimal_places=2)"
        )
    return Mapped(
        _logical("bytes", "decimal", precision=digits, scale=places),
        (Decimal,),
        _number,
        default=lambda value: _unscaled(value, places).decode("latin-1"),
    )


def _number(value: Any) -> Any:
    """The value, if it is a finite Decimal: fastavro takes bytes for one that is written already. Raises TypeError, ValueError."""
    if not isinstance(value, Decimal):
        raise TypeError(f"{type(value).__name__} is not a valid Decimal")
    if not value.is_finite():
        raise ValueError(f"{value} is not a finite number")
    return value


def _unscaled(value: Decimal, places: int) -> bytes:
    number = int(value.scaleb(places))
    if Decimal(number).scaleb(-places) != value:
        raise ValueError(f"{value} has more than {places} decimal places")
    return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)
