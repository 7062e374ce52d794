"""Typed events in Spark: two versions of a record in one stream, read as either, by the writers of the folder."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field
from pyspark.sql import SparkSession

import railgun
from railgun import avro
from railgun.spark import from_avro, read
from tests.support.cell import Cell
from tests.support.naming import unique
from tests.support.spark import At

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(180),  # the first test waits for the JVM
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),  # pyspark's connections to its JVM
]

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class Placed(BaseModel):
    __avro_name__ = "shop.Placed"
    id: str
    amount: Decimal = Field(max_digits=12, decimal_places=2)
    at: datetime


class PlacedLater(BaseModel):
    __avro_name__ = "shop.Placed"
    id: str
    amount: Decimal = Field(max_digits=12, decimal_places=2)
    at: datetime
    note: str | None = None
    lines: int = 1


def test_versions_are_read_both_ways(spark: SparkSession, cell: Cell, at: At, tmp_path: Path) -> None:
    folder = avro.SchemaFolder(tmp_path)
    stream = unique("TYPED")
    with railgun.connect(cell.bootstrap, prefix=cell.prefix, timeout=60.0, registry=folder) as rg:
        rg.create_stream(stream, subjects=[f"{stream}.>"])
        rg.publish(f"{stream}.a", Placed(id="1", amount=Decimal("1.50"), at=AT))
        rg.publish(f"{stream}.a", PlacedLater(id="2", amount=Decimal("2.50"), at=AT, note="x", lines=3))
        rg.publish(f"{stream}.a", b"\0\0\0\0\7 unknown")
    frame = read(spark, stream, **at)
    writers = avro.writers(folder, Placed)

    def rows(model: type[BaseModel]) -> list[Any]:
        decoded = from_avro("payload", writers, reader=avro.schema_of(model)).alias("event")
        found = frame.orderBy("sequence").select(decoded).collect()
        return [None if row.event is None else row.event.asDict() for row in found]

    moment = AT.replace(tzinfo=None)
    first: dict[str, Any] = {"id": "1", "amount": Decimal("1.50")}
    second: dict[str, Any] = {"id": "2", "amount": Decimal("2.50")}
    later = rows(PlacedLater)
    assert all(row["at"] in (moment, AT) for row in later[:2])
    assert [{**row, "at": None} for row in later[:2]] == [
        {**first, "at": None, "note": None, "lines": 1},
        {**second, "at": None, "note": "x", "lines": 3},
    ]
    assert [{**row, "at": None} for row in rows(Placed)[:2]] == [
        {**first, "at": None},
        {**second, "at": None},
    ]
    assert later[2] is None
