"""Typed events in Spark: two versions of a record, read as either, by the writers of the folder."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pydantic import BaseModel, Field
from pyspark.sql import SparkSession

from railgun import avro
from railgun.spark import from_avro

pytestmark = [
    pytest.mark.timeout(600),  # the first test waits for the JVM
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


def test_versions_are_read_both_ways(spark: SparkSession, tmp_path: Path) -> None:
    """One frame, one job: a JVM is slow to begin with each of them."""
    folder = avro.SchemaFolder(tmp_path)
    events = avro.Events(folder)
    payloads = [
        events.payload(Placed(id="1", amount=Decimal("1.50"), at=AT)),
        events.payload(PlacedLater(id="2", amount=Decimal("2.50"), at=AT, note="x", lines=3)),
        b"\0\0\0\0\7 of a schema that nobody knows",
    ]
    frame = spark.createDataFrame([(bytearray(one),) for one in payloads], "payload binary")
    writers = avro.writers(folder, Placed)
    earlier, later = (
        from_avro("payload", writers, reader=avro.schema_of(model)) for model in (Placed, PlacedLater)
    )
    micros = "unix_micros(later.at) as micros"
    rows = frame.select(earlier.alias("earlier"), later.alias("later")).selectExpr("*", micros).collect()
    assert [row.earlier and (row.earlier.id, row.earlier.amount) for row in rows] == [
        ("1", Decimal("1.50")),
        ("2", Decimal("2.50")),
        None,
    ]
    assert [row.later and (row.later.id, row.later.note, row.later.lines) for row in rows] == [
        ("1", None, 1),
        ("2", "x", 3),
        None,
    ]
    assert [row.micros for row in rows] == [round(AT.timestamp() * 1_000_000)] * 2 + [None]


def test_a_payload_that_claims_to_hold_billions_is_damaged_and_no_more(spark: SparkSession) -> None:
    """Avro makes room for them first: such a payload would end the JVM, and with it all that it does."""
    claims = b"\xee\xff\xff\xff\x0f"  # 2,147,483,639 of them
    lists = {"type": "array", "items": "long"}
    kinds: list[tuple[object, bytes, object]] = [
        (lists, b"\2\x0a\0", [5]),
        ("string", b"\2a", "a"),
        ("bytes", b"\2a", b"a"),
    ]
    for kind, body, value in kinds:
        items = {"name": "items", "type": kind}
        writers = {1: json.dumps({"type": "record", "name": "Listed", "fields": [items]})}
        payloads = [(bytearray(b"\0\0\0\0\1" + one),) for one in (claims, body)]
        frame = spark.createDataFrame(payloads, "payload binary")
        rows = frame.select(from_avro("payload", writers).alias("event")).collect()
        assert [row.event["items"] for row in rows] == [None, value]
        with pytest.raises(Py4JJavaError, match="Malformed records"):
            frame.select(from_avro("payload", writers, mode="FAILFAST")).collect()
    assert spark.range(3).count() == 3, "it runs on"
