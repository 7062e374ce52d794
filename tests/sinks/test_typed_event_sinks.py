"""Typed events in a table, on real parts: the registry and its converter in Connect, and a schema that gets a second version."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from pydantic import BaseModel, Field

import railgun
from railgun import avro
from railgun.kafka.embedded import EmbeddedRegistry
from railgun.sinks import JdbcSink
from tests.support.commands import done, invoke
from tests.support.sink_parts import SinkParts
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


class Address(BaseModel):
    city: str


class First(BaseModel):
    __avro_name__ = "shop.Placed"
    id: str
    amount: int
    price: Decimal = Field(max_digits=18, decimal_places=2)
    day: date
    where: Address
    subject: str = "none"  # the name of a column that every table has


class Second(First):
    __avro_name__ = "shop.Placed"
    note: str | None = None
    channel: str = "shop"


class Labelled(BaseModel):
    labels: dict[str, str]


@pytest.fixture(scope="module")
def one_registry() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry() as made:
        yield made


@pytest.fixture
def local(one_registry: EmbeddedRegistry) -> EmbeddedRegistry:
    """The registry, started again if a test has ended it."""
    return one_registry.start()


@pytest.fixture
def rg(parts: SinkParts, local: EmbeddedRegistry) -> Iterator[railgun.Railgun]:
    with avro.SchemaRegistry(local.url, timeout=30) as registry:
        with railgun.connect(parts.cell.bootstrap, prefix=parts.cell.prefix, registry=registry) as made:
            yield made


def placed(version: type[First], number: int, **others: Any) -> First:
    return version(
        id=f"order-{number}",
        amount=number,
        price=Decimal("1.50"),
        day=date(2026, 1, 2),
        where=Address(city="Riga"),
        **others,
    )


def table_of(parts: SinkParts, sink: JdbcSink) -> list[dict[str, Any]]:
    """The rows of a table in the order of the sequence, without what differs from run to run."""
    with parts.postgres.connected() as connection, connection.cursor(row_factory=dict_row) as cursor:
        query = psycopg.sql.SQL("select * from {} order by sequence").format(
            psycopg.sql.Identifier(sink.table)
        )
        rows = cursor.execute(query).fetchall()
    return [{key: row[key] for key in row if key not in ("incarnation", "time_ns")} for row in rows]


def test_a_second_version_of_an_event_is_new_columns_and_leaves_the_rows_of_the_first(
    parts: SinkParts, rg: railgun.Railgun, local: EmbeddedRegistry
) -> None:
    stream = parts.stream()
    subject = f"{stream.name.lower()}.new"
    sink = parts.jdbc(stream, payload="fields", registry=local.url)
    for number in (1, 2):
        rg.publish(subject, placed(First, number, subject="a gift"))
    parts.connect.apply(sink, parts.rg)
    parts.await_rows(sink.table, 2)
    before = table_of(parts, sink)
    assert before == [
        {
            "sequence": number,
            "subject": subject,
            "id": f"order-{number}",
            "amount": number,
            "price": Decimal("1.50"),
            "day": date(2026, 1, 2),
            "where_city": "Riga",
            "event_subject": "a gift",
        }
        for number in (1, 2)
    ]

    rg.publish(subject, placed(Second, 3, note="fragile", channel="web"))
    rg.publish(subject, placed(First, 4))  # a program that was not upgraded yet
    parts.await_rows(sink.table, 4)
    after = table_of(parts, sink)
    assert after[:2] == [{**row, "note": None, "channel": "shop"} for row in before]
    assert [(row["id"], row["note"], row["channel"]) for row in after[2:]] == [
        ("order-3", "fragile", "web"),
        ("order-4", None, "shop"),
    ]


def test_what_is_no_event_is_a_dead_letter_with_its_reason_and_the_others_go_on(
    parts: SinkParts, rg: railgun.Railgun, local: EmbeddedRegistry
) -> None:
    stream = parts.stream()
    subject = f"{stream.name.lower()}.new"
    sink = parts.jdbc(stream, payload="fields", registry=local.url)
    rg.publish(subject, placed(First, 1))
    whole = bytes(stream.get(1).payload)
    bad = {
        b"order 7": "the payload is not a framed event (java.lang.IllegalStateException",
        b"": "the payload is not a framed event (java.lang.ArrayIndexOutOfBoundsException",
        b"\0\0": "the payload is not a framed event (java.nio.BufferUnderflowException",
        b"\0\x00\x0f\xff\xff" + whole[5:]: "No content with ID '1048575' was found",
        whole[:9]: "the payload ends before its schema does",
        whole[:5] + b"\xee\xff\xff\xff\x0f": "String length 2147483639 exceeds maximum",
    }
    for payload in bad:
        rg.publish(subject, payload)
    rg.publish(subject, Labelled(labels={"a": "b"}))
    rg.publish(subject, placed(First, 2))
    parts.connect.apply(sink, parts.rg)
    parts.await_rows(sink.table, 2)
    assert [row["id"] for row in table_of(parts, sink)] == ["order-1", "order-2"]
    assert parts.connect.status(sink.name).state == "RUNNING"

    *unread, labelled = parts.letters(sink.name)
    assert [letter.payload for letter in unread] == list(bad)
    for letter, reason in zip(unread, bad.values(), strict=True):
        assert reason in dict(letter.headers)["Sink-Reason"].decode()
    assert b"does not support MAP" in dict(labelled.headers)["Sink-Reason"]


def test_a_registry_that_is_gone_costs_no_event_whose_schema_is_known(
    parts: SinkParts, rg: railgun.Railgun, local: EmbeddedRegistry
) -> None:
    stream = parts.stream()
    subject, name = f"{stream.name.lower()}.new", f"command_{stream.name.lower()}"
    rg.publish(subject, placed(First, 1))
    cluster = ("--server", parts.cell.bootstrap, "--prefix", parts.cell.prefix, "--connect", parts.local.url)
    what = ("--stream", stream.name, "--jdbc", parts.postgres.jdbc_url, "--user", "postgres")
    into = ("--table", name, "--payload", "fields", "--registry", local.url)
    done(invoke("sink", "apply", name, *what, *into, *cluster))
    parts.await_rows(name, 1)
    local.kill()
    rg.publish(subject, b"\0\0\x0f\xff\xffunknown")
    rg.publish(subject, placed(First, 2))
    parts.await_rows(name, 2)
    wait_until(lambda: parts.connect.status(name).state == "RUNNING", "the sink goes on")
    (letter,) = parts.letters(name)
    assert b"the registry does not answer" in dict(letter.headers)["Sink-Reason"]
