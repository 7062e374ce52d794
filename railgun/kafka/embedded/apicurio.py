"""One local schema registry (Apicurio, with Confluent's API) and its life: start, stop, kill."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final

from railgun.errors import EmbeddedBrokerError
from railgun.kafka.embedded.errors import NotAPort, PortInUse
from railgun.kafka.embedded.folder import telling_line
from railgun.kafka.embedded.guarded import GuardedProcess
from railgun.kafka.embedded.jars import JarSet, fetched_folder
from railgun.kafka.embedded.java import find_java
from railgun.kafka.embedded.ports import LAST_PORT, LOOPBACK, free_port, is_free

APICURIO_VERSION: Final = "3.0.9"
REGISTRY: Final = JarSet(
    f"apicurio-{APICURIO_VERSION}",
    {
        f"io.apicurio:apicurio-registry-app:{APICURIO_VERSION}:all:tar.gz": (
            "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
        )
    },
    f"the registry Apicurio {APICURIO_VERSION}",
    "the local schema registry",
)
_API: Final = "/apis/ccompat/v7"  # Confluent's
_JVM_FLAGS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PORT_TAKEN: Final = re.compile(r"already in use|already bound")
_ATTEMPTS: Final = 3  # to find a port that nobody takes before the registry does


class EmbeddedRegistry:
    """A real schema registry on the loopback interface, for development and tests. A context manager; usable from one thread at a time.

    Guarantees: after :meth:`start`, ``url`` answers. The registry ends when its owner ends, also by ``kill -9``. Its schemas are in memory:
    a new start is an empty registry. Every wait is bounded. Failures are :class:`~railgun.errors.EmbeddedBrokerError` with one sentence
    each. The first start of a user downloads 109 MB.
    """

    def __init__(self, port: int = 0, *, start_timeout: float = 60.0, stop_timeout: float = 10.0) -> None:
        if not 0 <= port <= LAST_PORT:
            raise NotAPort(port=port)
        self._wanted_port = port
        self._port = port
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._folder: Path | None = None
        self._process: GuardedProcess | None = None

    @property
    def url(self) -> str:
        """The address for :class:`railgun.avro.SchemaRegistry`; known from the first start on."""
        if not self._port:
            raise EmbeddedBrokerError("the local schema registry has no address before its first start")
        return f"http://{LOOPBACK}:{self._port}{_API}"

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.alive()

    def start(self) -> EmbeddedRegistry:
        """Start, and wait until it answers. Does nothing when it runs already; a second start has the port of the first."""
        if self.running:
            return self
        java, program = find_java(user=REGISTRY.user), fetched_folder(REGISTRY)
        attempts = 1 if self._port else _ATTEMPTS
        for attempt in range(1, attempts + 1):
            port = self._port or free_port()
            if not is_free(port):
                raise PortInUse(port=port)
            try:
                self._start_process(java, program, port)
                self._await_answer(port)
            except PortInUse:
                self.stop()
                if attempt == attempts:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                self._port = port
                break
        return self

    def stop(self) -> None:
        """End the registry, and its schemas with it. Does nothing when stopped."""
        process, self._process = self._process, None
        folder, self._folder = self._folder, None
        try:
            if process is not None and not process.stop(self._stop_timeout):
                raise EmbeddedBrokerError(
                    f"the local schema registry did not stop within {self._stop_timeout:.0f} seconds"
                )
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def kill(self) -> None:
        """End the registry at once (``kill -9``)."""
        if self._process is not None:
            self._process.kill()
        self.stop()

    def __enter__(self) -> EmbeddedRegistry:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_process(self, java: Path, program: Path, port: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="railgun-registry-"))
        self._process = GuardedProcess(
            [
                str(java),
                *_JVM_FLAGS,
                f"-Dquarkus.http.host={LOOPBACK}",
                f"-Dquarkus.http.port={port}",
                f"-Djava.io.tmpdir={self._folder}",
                "-jar",
                str(program / f"apicurio-registry-app-{APICURIO_VERSION}-runner.jar"),
            ],
            log_file=self._folder / "registry.log",
            patience=self._stop_timeout,
            remove_if_orphaned=self._folder,
            environment={
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("QUARKUS_", "APICURIO_"))  # of another registry
            },
        )

    def _await_answer(self, port: int) -> None:
        assert self._folder is not None
        log = self._folder / "registry.log"
        deadline = time.monotonic() + self._start_timeout
        while time.monotonic() < deadline:
            if not self.running:
                lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
                if any(_PORT_TAKEN.search(line) for line in lines):
                    raise PortInUse(port=port)
                raise EmbeddedBrokerError(
                    f"the local schema registry ended while starting: {telling_line(lines)}"
                )
            if _answers(port):
                return
            time.sleep(0.05)
        raise EmbeddedBrokerError(
            f"the local schema registry did not answer within {self._start_timeout:.0f} seconds"
        )


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=2.0)
    try:
        connection.request("GET", f"{_API}/subjects")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
