"""Garbage in every topic that a client or a starting worker reads: all of them go on, old and new."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from confluent_kafka import KafkaError, Message, Producer

import railgun
from railgun.protocol.routing import partition_of
from railgun.protocol.topics import Names
from tests.support.cell import Cell
from tests.support.commands import invoke
from tests.support.worker_process import PARTITIONS

pytestmark = pytest.mark.kafka

OWN = ("Railgun-Sequence", "Railgun-Time", "Railgun-Incarnation")
ODD_HEADERS: list[Any] = [
    None,
    [("x", b"foreign")],
    [(name, b"not a number") for name in OWN],
    [(name, None) for name in OWN],
    [("Railgun-Sequence", b"5")],
    [("Railgun-Sequence", b"-1"), ("Railgun-Time", b""), ("Railgun-Incarnation", b"9" * 5_000)],
]


VALUES = (b"", b"\xff" * 40, b"[]", b"{}")
REGISTRY_KEYS = (
    b"", b"\xff", b"epoch/0", b"epoch/1", b"epoch/x", b"epoch/", b"stream/ORDERS", b"stream/\xff", b"cluster", b"later/kind",
)  # fmt: skip


class NotUtf8(str):
    """The name of a header that is written as bytes which are no text."""

    def encode(self, *_: object) -> bytes:
        return b"\xff\xfe"


class Vandal:
    """Writes what nobody expects."""

    def __init__(self, cell: Cell) -> None:
        self._bootstrap = cell.bootstrap
        self._producer = Producer({"bootstrap.servers": cell.bootstrap})
        self.refused: list[str] = []

    def write(
        self, topic: str, records: Sequence[tuple[bytes | None, bytes | None, Any]], partitions: int = 1
    ) -> None:
        for partition in range(partitions):
            for key, value, headers in records:
                self._producer.produce(
                    topic, value, key, partition, headers=headers, on_delivery=self._written
                )
        assert self._producer.flush(20) == 0
        assert self.refused == []

    def _written(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.refused.append(error.str())

    def write_bad_names(self, monkeypatch: pytest.MonkeyPatch, places: Sequence[tuple[str, int]]) -> None:
        """Records whose headers have names that are not UTF-8, which no client of Kafka writes by itself."""
        for module in (
            "message_accumulator",
            "producer",
        ):  # where names are encoded in C, they are encoded well
            builder = f"aiokafka.producer.{module}.DefaultRecordBatchBuilder"
            monkeypatch.setattr(builder, _DefaultRecordBatchBuilderPy)

        async def send() -> None:
            async with AIOKafkaProducer(bootstrap_servers=self._bootstrap) as producer:
                for topic, partition in places:
                    headers = [("Railgun-Kind", b"pack"), (NotUtf8("x"), b"1")]
                    await producer.send_and_wait(topic, b"v", b"k", partition=partition, headers=headers)

        asyncio.run(send())


def published(rg: railgun.Railgun, count: int, first: int) -> None:
    futures = [rg.publish_soon("orders.new", f"{number}") for number in range(first, first + count)]
    assert [future.result().sequence for future in futures] == list(range(first, first + count))


def worked_with(rg: railgun.Railgun, count: int, first: int, before: int = 0) -> None:
    """Publish, read alone and in bulk, acknowledge; ``before`` messages are published already."""
    stream = rg.stream("ORDERS")
    published(rg, count - before, first + before)
    assert stream.get(first).text == f"{first}"
    found = stream.consumer("WORK").fetch(count, wait=20.0)
    assert [(message.sequence, message.text, list(message.headers)) for message in found] == [
        (number, f"{number}", []) for number in range(first, first + count)
    ]
    for message in found[:-1]:
        message.ack()
    found[-1].ack_sync()


def test_everybody_goes_on(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker = cell.ready_worker()
    names, vandal = Names(cell.prefix), Vandal(cell)
    with cell.connect() as old, old.advisories() as told:
        old.create_stream("ORDERS", subjects=["orders.*"]).create_consumer("WORK")
        worked_with(old, 150, 1)
        client = old.connection.client.encode()
        registry = [(key, value, None) for key in REGISTRY_KEYS for value in VALUES]
        vandal.write(names.registry, registry)  # a compacted topic takes no record without a key
        odd = [(key, value, None) for key in (None, b"", b"\xff", b"k") for value in (None, *VALUES)]
        vandal.write(names.replies, [*odd, *((client, value, None) for value in (None, *VALUES))], PARTITIONS)
        vandal.write(names.advisories, odd, PARTITIONS)
        log = names.log("ORDERS")
        published(old, 75, 151)
        vandal.write(
            log,
            [(key, b"foreign", headers) for key in (None, b"\xff", b"orders.new") for headers in ODD_HEADERS],
        )
        vandal.write_bad_names(monkeypatch, [(log, 0), (names.commands, partition_of("ORDERS", PARTITIONS))])

        worked_with(old, 150, 151, before=75)
        with cell.connect() as new:
            worked_with(new, 150, 301)
            assert [info.config.name for info in new.streams()] == ["ORDERS"]
            new.create_stream("MORE", subjects=["more"])
        assert any("MORE" in advisory.subject for advisory in told)

        worker.kill()
        cell.worker().wait_for(": ready after", times=PARTITIONS)
        worked_with(old, 150, 451)
    for topic in ("registry", "replies", names.advisories, log):
        assert len([one for one in caplog.records if one.args and one.args[0] == topic]) in range(1, 8)
    found = json.loads(invoke("doctor", "--server", cell.bootstrap, "--prefix", cell.prefix, "--json").stdout)
    assert found["healthy"], found
    assert [one["verdict"] for one in found["findings"] if one["check"] == "registry"] == ["note"]
