"""What a stream holds, told by Spark and by the facade in one form, and records planted in its log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

from confluent_kafka import Producer
from pyspark.sql import DataFrame

import railgun
from tests.support.cell import Cell

Headers = Sequence[tuple[str, bytes | None]]


class At(TypedDict):
    """The cluster, as arguments."""

    server: str
    prefix: str


class Seen(NamedTuple):
    """One message."""

    sequence: int
    subject: str
    time_ns: int
    headers: dict[str, str]
    payload: bytes


def rows(frame: DataFrame) -> list[Seen]:
    """The messages of a frame, by sequence."""
    found = [
        Seen(row.sequence, row.subject, row.time_ns, row.headers, bytes(row.payload))
        for row in frame.collect()
    ]
    return sorted(found)


def sequences(frame: DataFrame) -> list[int]:
    """The sequences of a frame."""
    return sorted(row.sequence for row in frame.select("sequence").collect())


def held(stream: railgun.Stream, **asked: Any) -> list[Seen]:
    """The same, told by the owner of the stream."""
    return [
        Seen(
            one.sequence,
            one.subject,
            one.time_ns,
            {name: value.decode() for name, value in one.headers},
            one.payload,
        )
        for one in stream.read(**asked)
    ]


def own_headers(sequence: object, incarnation: object, time_ns: object = 1_000) -> list[tuple[str, bytes]]:
    """Railgun's three, with whatever is given in place of numbers."""
    given = (("Railgun-Sequence", sequence), ("Railgun-Time", time_ns), ("Railgun-Incarnation", incarnation))
    return [(name, str(value).encode()) for name, value in given]


def plant(
    cell: Cell,
    stream: str,
    records: Sequence[tuple[bytes | None, bytes | None, Headers]],
    *,
    abort: bool = False,
) -> None:
    """Write records that no worker wrote into the log, in one transaction."""
    producer = Producer(
        {"bootstrap.servers": cell.bootstrap, "transactional.id": f"planter-{stream}", "linger.ms": 1}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    for key, value, headers in records:
        producer.produce(f"{cell.prefix}.log.{stream}", value, key, headers=list(headers))
    producer.flush(20)
    if abort:
        producer.abort_transaction(20)
    else:
        producer.commit_transaction(20)


def incarnation_of(rg: railgun.Railgun, stream: str) -> int:
    """Which stream of this name lives."""
    rg.connection.sync_registry(20)
    known = rg.connection.stream(stream)
    assert known is not None
    return known.incarnation
