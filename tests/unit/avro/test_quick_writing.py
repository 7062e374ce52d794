"""Records that are written by hand have the bytes that fastavro would write."""

from __future__ import annotations

import io
import struct
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

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


_FIRST = datetime(1, 1, 2)  # noqa: DTZ001 - the strategy wants it without
_PLAIN = st.builds(
    Plain,
    text=st.text(st.characters(codec="utf-8")),
    number=st.integers(-(2**63), 2**63 - 1),
    ratio=st.floats(),
    data=st.binary(),
    at=st.datetimes(_FIRST, timezones=st.just(UTC)),
    note=st.none() | st.text(st.characters(codec="utf-8"), max_size=200),
    count=st.none() | st.integers(-(2**63), 2**63 - 1),
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


GOOD = {
    "text": "a", "number": 1, "ratio": 1.5, "flag": True, "data": b"", "at": datetime(2026, 1, 1, tzinfo=UTC),
    "day": date(2026, 1, 1), "key": UUID(int=1), "note": None, "count": None,
}  # fmt: skip


@pytest.mark.parametrize(
    "field, value",
    [
        ("text", 5), ("text", "\ud800"), ("number", 2**63), ("number", True), ("number", 1.5), ("ratio", "x"),
        ("flag", 1), ("data", "text"), ("at", datetime(2026, 1, 1)), ("at", 5),  # noqa: DTZ001 - that is the point
        ("day", 5), ("key", "text"), ("note", 5),
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
