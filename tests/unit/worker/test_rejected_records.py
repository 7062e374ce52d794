"""Records of ``rejected`` fit into it, whatever was refused: one that does not would end each worker that meets it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from confluent_kafka import Producer

from railgun.model.cluster_limits import LARGEST_BODY, LARGEST_RECORD
from railgun.protocol.topics import Names
from railgun.shard.drain import Drain, Input, Rejected
from railgun.worker.shards.transaction import DrainWriter, Prepared


class CountingProducer:
    """A producer that knows how large the batch of each record is."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.values: list[bytes | None] = []

    def produce(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, _c: object, _a: object, millis: int, headers: Any
    ) -> None:  # fmt: skip
        size: Any = DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, headers)
        self.sizes.append(size)
        self.values.append(value)

    def begin_transaction(self) -> None: ...
    def commit_transaction(self, _seconds: float) -> None: ...


@pytest.mark.parametrize(
    "header, count, value",
    [
        (
            ("abcdefghij", b"0123456789" * 7),
            99_990,
            89_300,
        ),  # as many as clients read, to the last byte of a record
        (("\N{GRINNING FACE}" * 21, b""), 99_000, 1_000),
        (("a", None), 100_000, LARGEST_BODY - 120_000),
        (("a", b"b"), 1, LARGEST_BODY - 10),
    ],
)
def test_what_was_barely_small_enough_to_be_sent_is_kept_with_its_reason(
    header: tuple[str, bytes | None], count: int, value: int
) -> None:
    producer = CountingProducer()
    source = Input(False, 7, 0, b"ORDERS", [header] * count, b"x" * value)
    drain = Drain(rejected=[Rejected(source, "no stream " * 200)])
    DrainWriter(cast("Producer", producer), Names(), 0).write(Prepared(drain, []))
    assert max(producer.sizes) < LARGEST_RECORD
    assert producer.values[0], "something of it is kept"


def test_what_fits_is_kept_whole() -> None:
    producer = CountingProducer()
    source = Input(False, 7, 0, b"ORDERS", [("a", b"b")] * 1_000, b"x" * 8_000_000)
    DrainWriter(cast("Producer", producer), Names(), 0).write(
        Prepared(Drain(rejected=[Rejected(source, "no stream")]), [])
    )
    assert producer.values == [b"x" * 8_000_000]
