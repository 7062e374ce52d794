"""What an example of a sink expects beside Kafka: a Connect, and a PostgreSQL with the database ``shop``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from railgun.kafka.embedded import EmbeddedConnect
from railgun.kafka.embedded.ports import LOOPBACK
from tests.support.cell import Cell
from tests.support.postgres import Postgres


class SinkSide(NamedTuple):
    """The address of Connect, and host and port of the database."""

    connect: str
    database: str


@contextmanager
def running_sink_side(cell: Cell, folder: Path) -> Iterator[SinkSide]:
    connect = EmbeddedConnect(cell.bootstrap, folder, prefix=cell.prefix, environment={"PG_PASSWORD": "any"})
    try:
        connect.begin()
        with Postgres() as postgres:
            with postgres.connected() as connection:
                connection.execute("create role shop login")
                connection.execute("create database shop owner shop")
            connect.await_ready()
            yield SinkSide(connect.url, f"{LOOPBACK}:{postgres.port}")
    finally:
        connect.kill()
