"""What streams and archives hold, in forms that can be compared, and how far a job is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import railgun
from tests.support.naming import unique
from topologies.pipelines.parts.place import Place

Row = tuple[int, str, int, str, tuple[tuple[str, str], ...]]


def filled(rg: railgun.Railgun, count: int, **options: Any) -> str:
    """A new stream with so many messages."""
    name = unique("ARCHIVED")
    rg.create_stream(name, subjects=[f"{name}.*"], **options)
    publish(rg, name, count)
    return name


def publish(rg: railgun.Railgun, name: str, count: int) -> None:
    futures = [
        rg.publish_soon(f"{name}.{n % 5}", f"message {n}".encode() + bytes(n % 7), headers={"N": str(n)})
        for n in range(count)
    ]
    for future in futures:
        future.result()


def live(rg: railgun.Railgun, name: str) -> list[Row]:
    """What the facade gives: sequence, subject, time, hash of the payload, headers."""
    return [
        (
            one.sequence,
            one.subject,
            one.time_ns,
            hashlib.sha256(one.payload).hexdigest(),
            tuple(sorted((key, value.decode()) for key, value in one.headers)),
        )
        for one in rg.stream(name).read()
    ]


def archived(spark: SparkSession, target: Path) -> list[Row]:
    """The same from the files, as any reader of Parquet finds them."""
    rows = spark.read.parquet(str(target)).select(
        "sequence", "subject", "time_ns", f.sha2("payload", 256), f.array_sort(f.map_entries("headers"))
    )
    return sorted(
        (number, subject, time, digest, tuple((key, value) for key, value in headers))
        for number, subject, time, digest, headers in rows.collect()
    )


def whole_batches(target: Path) -> int:
    return len(list(target.glob("batch=*/_SUCCESS")))


def content(rg: railgun.Railgun, name: str) -> list[tuple[str, str]]:
    """Subject, without its first token, and hash of what a stream holds, in order."""
    return [
        (one.subject.partition(".")[2], hashlib.sha256(one.payload).hexdigest())
        for one in rg.stream(name).read()
    ]


@contextmanager
def commands_of(at: Place, rg: railgun.Railgun, stream: str) -> Iterator[Callable[[], int]]:
    """Tells where the commands of the stream's partition end: sooner than their owner, who is busy with them."""
    known = rg.connection.stream(stream)
    assert known is not None
    place = TopicPartition(f"{at.prefix}.commands", known.partition)
    reader = Consumer({"bootstrap.servers": at.server, "group.id": "unused"})
    try:
        yield lambda: int(reader.get_watermark_offsets(place, 10)[1])
    finally:
        reader.close()


def sold(rg: railgun.Railgun, count: int) -> str:
    """A stream of sales: each third on one of three subjects, at prices of 0.5, 1.5 and so on; every tenth has none."""
    name = unique("SALES")
    rg.create_stream(name, subjects=[f"{name}.*"])
    futures = [
        rg.publish_soon(f"{name}.{n % 3}", "no price" if n % 10 == 9 else json.dumps({"price": n + 0.5}))
        for n in range(count)
    ]
    for future in futures:
        future.result()
    return name


def expected_totals(name: str, count: int) -> dict[str, tuple[int, float]]:
    mine = {key: [n for n in range(count) if n % 3 == key] for key in range(3)}
    return {
        f"{name}.{key}": (len(all_of), sum(n + 0.5 for n in all_of if n % 10 != 9))
        for key, all_of in mine.items()
    }


def totals_in(messages: list[bytes]) -> dict[str, tuple[int, float]]:
    found = [json.loads(payload) for payload in messages]
    return {one["key"]: (one["count"], one["sum"]) for one in found}
