"""Records that are written by hand have the bytes that fastavro would write."""

from __future__ import annotations

import io
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from enum import IntEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from railgun.avro import Events, InvalidEvent, SchemaFolder
from railgun.avro.parsing import parsed
from railgun.avro.quick_writing import quick_writer
from railgun.avro.records import record_of


class Plain(BaseModel):
    text: str
    number: int
    ratio: float
    flag: bool
    data: bytes
    at: datetime
    day: date
    key: UUID
    note: str | None = None
    count: int | None = 5
    raw: bytes | None = None
    sent: datetime | None = None
    other: UUID | None = None
    sure: bool | None = None
    due: date | None = None
    part: float | None = 0.5


_FIRST = datetime(1, 1, 2)  # noqa: DTZ001 - the strategy wants it without
_LAST = datetime(9999, 12, 30)  # noqa: DTZ001
_NUMBERS = st.one_of(
    [st.integers(-(2**bits), 2**bits - 1) for bits in (6, 7, 13, 14, 20, 27, 28, 41, 42, 55, 56, 63)]
)  # numbers of every length, and those at the edges between lengths
_TIMES = st.datetimes(
    _FIRST,
    _LAST,
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8))]),
)
_PLAIN = st.builds(
    Plain,
    text=st.text(st.characters(codec="utf-8")) | st.integers(8_000, 9_000).map("ä".__mul__),
    number=_NUMBERS,
    ratio=st.floats(),
    data=st.binary(),
    at=_TIMES,
    note=st.none() | st.text(st.characters(codec="utf-8"), max_size=200),
    count=st.none() | _NUMBERS,
    raw=st.none() | st.binary(),
    sent=st.none() | _TIMES,
    other=st.none() | st.uuids(),
    sure=st.none() | st.booleans(),
    due=st.none() | st.dates(),
    part=st.none() | st.floats(),
)
RECORD = record_of(Plain)[0]
SCHEMA = parsed(RECORD.schema)


@given(_PLAIN)
def test_both_write_the_same_bytes(event: Plain) -> None:
    quick = quick_writer(SCHEMA)
    assert quick is not None
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, RECORD.datum(event))
    assert quick(event.__dict__, b"frame") == b"frame" + out.getvalue()


class Encoding:
    """A value that has the method of a text, and is none."""

    def encode(self, *_: object) -> bytes:
        return b"garbage"


class Digit(IntEnum):
    ONE = 1


class Name(str):
    """A text of a class of its own."""


GOOD = {
    "text": "a", "number": 1, "ratio": 1.5, "flag": True, "data": b"", "at": datetime(2026, 1, 1, tzinfo=UTC),
    "day": date(2026, 1, 1), "key": UUID(int=1), "note": None, "count": None,
    "raw": None, "sent": None, "other": None, "sure": None, "due": None, "part": None,
}  # fmt: skip


@pytest.mark.parametrize(
    "field, value",
    [
        ("text", 5), ("text", "\ud800"), ("number", 2**63), ("number", True), ("number", 1.5), ("ratio", "x"),
        ("flag", 1), ("data", "text"), ("at", datetime(2026, 1, 1)), ("at", 5),  # noqa: DTZ001 - that is the point
        ("day", 5), ("key", "text"), ("note", 5), ("text", None), ("text", Path("a")), ("text", b"a"), ("text", Encoding()),
        ("number", None), ("number", -(2**63) - 1), ("number", 2**64), ("number", -(2**64)), ("number", 10**30),
        ("number", Digit.ONE), ("count", 2**63), ("count", -(2**70)), ("count", "5"), ("ratio", None), ("flag", None),
        ("data", bytearray(b"a")), ("data", None), ("at", None), ("at", date(2026, 1, 1)), ("key", None),
        ("at", datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))), ("sent", 5), ("sent", datetime(2026, 1, 1)),  # noqa: DTZ001
        ("day", None), ("day", datetime(2026, 1, 1, 12, tzinfo=UTC)), ("raw", "text"), ("other", "text"), ("sure", 1), ("sure", "yes"), ("due", 5), ("part", "x"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_not_written(field: str, value: Any) -> None:
    quick = quick_writer(SCHEMA)
    assert quick is not None
    assert quick(GOOD, b"")
    with pytest.raises((TypeError, ValueError, AttributeError, OverflowError, struct.error)):
        quick({**GOOD, field: value}, b"")


def test_other_types_are_left_to_fastavro() -> None:
    class Listed(BaseModel):
        text: str
        items: list[str]

    class Either(BaseModel):
        value: int | str | None

    assert quick_writer(parsed(record_of(Listed)[0].schema)) is None
    assert quick_writer(parsed(record_of(Either)[0].schema)) is None


def test_a_subclass_is_written_as_its_base_is() -> None:
    class Moment(datetime):
        pass

    quick = quick_writer(SCHEMA)
    assert quick is not None
    values = {**GOOD, "text": Name("a"), "at": Moment(2026, 1, 1, tzinfo=UTC)}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, values)
    assert quick(values, b"") == out.getvalue() == quick(GOOD, b"")


def test_a_field_that_was_removed_is_an_error() -> None:
    quick = quick_writer(SCHEMA)
    assert quick is not None
    with pytest.raises(KeyError):
        quick({name: value for name, value in GOOD.items() if name != "note"}, b"")


def test_a_model_that_was_changed_to_a_wrong_type_is_not_an_event(tmp_path: Path) -> None:
    """Nothing of what pydantic checked is taken for granted: models can be changed, and made without a check."""
    events = Events(SchemaFolder(tmp_path))
    events.use(Plain)
    for field, value in (("text", 5), ("number", "5"), ("number", 2**63), ("at", "today"), ("sent", 5)):
        changed = Plain(**GOOD)  # type: ignore[arg-type]
        setattr(changed, field, value)
        made = Plain.model_construct(**{**GOOD, field: value})  # type: ignore[arg-type]
        for event in (changed, made):
            assert events.payload(Plain(**GOOD))  # type: ignore[arg-type]
            with pytest.raises(InvalidEvent):
                events.payload(event)
            with pytest.raises(InvalidEvent):
                events.written(event)


def test_an_event_that_is_ready_is_written_as_any_other(tmp_path: Path) -> None:
    """A subclass is a model of its own: it is not ready because its base is, and has its own fields and name."""

    class More(Plain):
        extra: int = 1

    events = Events(SchemaFolder(tmp_path))
    event = Plain(**GOOD)  # type: ignore[arg-type]
    more = More(**GOOD)  # type: ignore[arg-type]
    assert events.written(event) is None
    events.use(Plain)
    assert events.written(event) == (events.payload(event), events.header(event))
    assert [events.written(one) for one in (more, b"bytes", "text", None, Plain)] == [None] * 5
    assert events.decode(events.payload(more), More) == more
