"""A stream into a table of PostgreSQL: Kafka Connect with the JDBC sink, beside a consumer's loop that puts the same rows with psycopg."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import psycopg

import railgun
from railgun.kafka.embedded import EmbeddedConnect
from railgun.kafka.embedded.server_properties import JVM_FLAGS
from railgun.protocol.topics import Names
from railgun.sinks import Connect, JdbcSink
from tests.benchmarks import raw_kafka
from tests.benchmarks.arena import Arena
from tests.benchmarks.cluster import Cluster
from tests.benchmarks.contest import RAILGUN, Row, Side
from tests.benchmarks.rows.sides import MAIN, many_subjects, new_stream, railgun_client, rate
from tests.benchmarks.scale import PAYLOAD, Scale
from tests.support.postgres import USER, Postgres, rows_in

LOOP: Final = "a consumer's loop with psycopg"
_AT_ONCE: Final = 2_000  # rows of one transaction, on both sides: the default of the sink
_SECONDS: Final = 300.0
_LOOK_EVERY: Final = 0.1
_TABLE: Final = """
    create table {table} (
        incarnation bigint, sequence bigint, time_ns bigint, subject text, payload bytea,
        primary key (incarnation, sequence)
    )"""
_PUT: Final = """
    insert into {table} values (%s, %s, %s, %s, %s) on conflict (incarnation, sequence) do update
    set time_ns = excluded.time_ns, subject = excluded.subject, payload = excluded.payload"""
_numbers = itertools.count(1)


class JdbcRows(Row):
    key, name, unit = "sink-jdbc", "a stream into a PostgreSQL table", "rows/s"

    def rounds(self, scale: Scale) -> int:
        return min(scale.rounds, 3)

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        cluster = arena.cluster(MAIN)
        with railgun_client(cluster) as client:
            stream = new_stream(client)
            client.publish_all(many_subjects(stream, scale.pipelined), PAYLOAD)
        # With the compiler that a Connect in production has: it pays after a round.
        flags = [flag for flag in JVM_FLAGS if "Tiered" not in flag]
        local = EmbeddedConnect(
            cluster.bootstrap, arena.folder / "connect", prefix=cluster.prefix, jvm_flags=flags
        )
        with (
            Postgres() as postgres,
            local,
            Connect(local.url, timeout=60) as connect,
            cluster.connect() as rg,
        ):
            yield {
                RAILGUN: lambda: _by_connect(connect, rg, stream, postgres, scale.pipelined),
                LOOP: lambda: _by_loop(cluster, stream, postgres, scale.pipelined),
            }


def _by_connect(connect: Connect, rg: railgun.Railgun, stream: str, postgres: Postgres, count: int) -> float:
    """From the first rows on: the start of a sink takes as long for a short stream as for a long one."""
    name = f"sink_{next(_numbers)}"
    url = f"{postgres.jdbc_url}?reWriteBatchedInserts=true"  # as psycopg does: many rows in one round trip
    sink = JdbcSink(name=name, stream=stream, url=url, user=USER, table=name)
    connect.apply(sink, rg)
    with postgres.connected() as connection:
        first, begin = _await(connection, name, 1)
        _, end = _await(connection, name, count)
    connect.delete(name)
    if first == count:
        raise RuntimeError(f"{count} rows were there at once: too few to measure")
    return (count - first) / (end - begin)


def _await(connection: psycopg.Connection, table: str, count: int) -> tuple[int, float]:
    """The number of rows once there are so many, and the moment. Asked seldom, over one connection: questions cost the database."""
    deadline = time.perf_counter() + _SECONDS
    while (found := rows_in(connection, table)) < count:
        if time.perf_counter() > deadline:
            raise TimeoutError(f"{found} of {count} rows after {_SECONDS:.0f} s")
        time.sleep(_LOOK_EVERY)
    return found, time.perf_counter()


def _by_loop(cluster: Cluster, stream: str, postgres: Postgres, count: int) -> float:
    table = f"loop_{next(_numbers)}"
    topic = Names(cluster.prefix).log(stream)
    with postgres.connected() as connection, closing(raw_kafka.reader(cluster.bootstrap, topic)) as consumer:
        connection.execute(_TABLE.format(table=table).encode())
        put = _PUT.format(table=table).encode()

        def work() -> None:
            stored = 0
            while stored < count:
                rows = [_row(record) for record in consumer.consume(_AT_ONCE, 10) if record.error() is None]
                if not rows:
                    raise TimeoutError(f"{stored} of {count} records were read")
                with connection.transaction(), connection.cursor() as cursor:
                    cursor.executemany(put, rows)
                consumer.commit(asynchronous=False)
                stored += len(rows)

        return rate(count, work)


def _row(record: Any) -> tuple[int, int, int, str, bytes]:
    sequence, made, incarnation = (int(value) for _, value in record.headers()[-3:])
    return incarnation, sequence, made, record.key().decode(), record.value()
