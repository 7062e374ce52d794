"""The parts that a sink is tested on, together: a cell, a Connect, a PostgreSQL; and records that no worker wrote."""

from __future__ import annotations

import itertools
import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

import railgun
from railgun.kafka.embedded import EmbeddedConnect
from railgun.protocol.topics import Names
from railgun.sinks import Connect, JdbcSink, dead_letters
from tests.support.cell import Cell
from tests.support.postgres import USER, Postgres
from tests.support.waiting import wait_until

Rows = list[tuple[int, str, bytes]]  # sequence, subject, payload
_numbers = itertools.count(1)


class SinkParts:
    """A context manager. Everything starts at the same time: each part takes seconds."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.cell = Cell(bootstrap, folder)
        self.postgres = Postgres()
        self.local = EmbeddedConnect(
            bootstrap,
            folder / "connect",
            prefix=self.cell.prefix,
            environment={"RAILGUN_TEST_PASSWORD": "any"},
        )
        self._open = ExitStack()

    def __enter__(self) -> SinkParts:
        with ExitStack() as opening:
            opening.callback(self.local.kill)
            self.local.begin()
            opening.enter_context(self.postgres)
            opening.enter_context(self.cell)
            self.cell.ready_worker()
            self.rg = opening.enter_context(self.cell.connect())
            self.local.await_ready()
            self.connect = opening.enter_context(Connect(self.local.url, timeout=60))
            self._open = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def names(self) -> Names:
        return Names(self.cell.prefix)

    def stream(self, **settings: Any) -> railgun.Stream:
        """A stream that no other test uses; it captures everything below its name in lower case."""
        name = f"S{next(_numbers)}"
        return self.rg.create_stream(name, subjects=[f"{name.lower()}.>"], **settings)

    def letters(self, sink: str) -> list[railgun.StoredMessage]:
        """The dead letters of a sink, carried into a stream of their own."""
        name = f"DLQ_{sink}"
        self.rg.create_stream(name, subjects=[f"{name}.>"])
        dead_letters(self.rg, sink, name)
        return list(self.rg.stream(name).read())

    def publish(self, stream: railgun.Stream, count: int, what: str = "m") -> None:
        for number in range(count):
            self.rg.publish_soon(f"{stream.name.lower()}.{number % 7}", f"{what}{number}")
        self.rg.flush()

    def jdbc(self, stream: railgun.Stream, **fields: Any) -> JdbcSink:
        """A sink of the stream into a table of its own."""
        name = f"{stream.name.lower()}_{secrets.token_hex(3)}"
        given = {
            "name": name,
            "stream": stream.name,
            "url": self.postgres.jdbc_url,
            "user": USER,
            "password": "${env:RAILGUN_TEST_PASSWORD}",
            "table": name,
        }
        return JdbcSink.model_validate(given | fields)

    def stored(self, stream: railgun.Stream) -> Rows:
        return [(one.sequence, one.subject, one.payload) for one in stream.read()]

    def rows(self, table: str, incarnation: int | None = None) -> Rows:
        with self.postgres.connected() as connection:
            where = "" if incarnation is None else f" where incarnation = {incarnation}"
            query = f"select sequence, subject, payload from {table}{where} order by incarnation, sequence"
            return connection.execute(query.encode()).fetchall()

    def await_rows(self, table: str, count: int, timeout: float = 40.0) -> None:
        wait_until(lambda: self.postgres.count(table) >= count, f"{count} rows in {table}", timeout)

    def incarnation(self, stream: railgun.Stream) -> int:
        self.rg.connection.sync_registry(10)
        known = self.rg.connection.stream(stream.name)
        assert known is not None
        return known.incarnation

    def plant(self, stream: railgun.Stream, *records: tuple[bytes | None, dict[str, bytes]]) -> None:
        """Put records into a log that no worker wrote: values and headers."""
        producer = Producer({"bootstrap.servers": self.cell.bootstrap, "acks": "all"})
        for value, headers in records:
            producer.produce(self.names.log(stream.name), key=b"planted", value=value, headers=headers)
        assert producer.flush(20) == 0

    def write_letters_again(self, sink: str) -> int:
        """Copy the dead letters of a sink behind themselves, as a Connect does that was killed; their number."""
        topic = f"{self.cell.prefix}.sink.{sink}.connect-dlq"
        settings = {
            "bootstrap.servers": self.cell.bootstrap,
            "group.id": "unused",
            "auto.offset.reset": "earliest",
        }
        consumer, producer = Consumer(settings), Producer({"bootstrap.servers": self.cell.bootstrap})
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 20)
        consumer.assign([TopicPartition(topic, 0, 0)])
        for record in consumer.consume(end, 20):
            made = record.timestamp()[1]
            producer.produce(topic, record.value(), record.key(), headers=record.headers(), timestamp=made)
        consumer.close()
        assert producer.flush(20) == 0
        return end

    def plant_aborted(self, stream: railgun.Stream, count: int) -> None:
        """Records of a transaction that was aborted; they look as messages do."""
        producer = Producer(
            {"bootstrap.servers": self.cell.bootstrap, "transactional.id": secrets.token_hex(8)}
        )
        producer.init_transactions(20)
        producer.begin_transaction()
        for number in range(count):
            headers = message_headers(900_000 + number, self.incarnation(stream))
            producer.produce(self.names.log(stream.name), key=b"aborted", value=b"aborted", headers=headers)
        producer.flush(20)
        producer.abort_transaction(20)


def message_headers(sequence: object, incarnation: int) -> dict[str, bytes]:
    """The headers of a message in a log."""
    return {
        "Railgun-Sequence": str(sequence).encode(),
        "Railgun-Time": b"1700000000000000000",
        "Railgun-Incarnation": b"%d" % incarnation,
    }
