"""One local Kafka Connect worker and its life: start, stop, kill. Its state is in topics of the Kafka that it is given."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from railgun.errors import EmbeddedBrokerError
from railgun.kafka.embedded.connect_jars import connect_jars, plugin_folders
from railgun.kafka.embedded.errors import (
    ConnectCrashed,
    ConnectNotReady,
    DataFolderBroken,
    NotAPort,
    PortInUse,
)
from railgun.kafka.embedded.folder import telling_line
from railgun.kafka.embedded.guarded import GuardedProcess
from railgun.kafka.embedded.java import find_java
from railgun.kafka.embedded.ports import LAST_PORT, LOOPBACK, free_port, is_free
from railgun.kafka.embedded.server_properties import (
    JVM_FLAGS,
    LOG4J_CONFIGURATION,
    MAX_MESSAGE_BYTES,
    write_properties,
)

_MAIN: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
_PROVIDERS: Final = "org.apache.kafka.common.config.provider"
_USER: Final = "the local Kafka Connect"
_TAIL_BYTES: Final = 64 * 1024

_SINGLE_WORKER: Final[dict[str, str]] = {
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
    # What a sink does not say otherwise: messages are bytes, and their headers and subjects are text.
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "header.converter": "org.apache.kafka.connect.storage.StringConverter",
    # Plugins are found by their service files: 3 seconds to the first answer, and 25 with the default.
    "plugin.discovery": "service_load",
    # Sinks read committed records only, which is a setting of their consumers.
    "connector.client.config.override.policy": "All",
    "config.providers": "env,file,dir",
    "config.providers.env.class": f"{_PROVIDERS}.EnvVarConfigProvider",
    "config.providers.file.class": f"{_PROVIDERS}.FileConfigProvider",
    "config.providers.dir.class": f"{_PROVIDERS}.DirectoryConfigProvider",
    # A worker that was killed comes back on this machine or not at all: the default waits five minutes for it.
    "scheduled.rebalance.max.delay.ms": "0",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "consumer.session.timeout.ms": "6000",  # the same of its sinks: the default waits 45 seconds for one that was killed
    "consumer.heartbeat.interval.ms": "1000",
    "offset.flush.interval.ms": "2000",
    "producer.max.request.size": str(MAX_MESSAGE_BYTES),
}
# Avro makes room for as much as a payload claims to hold: a damaged one of a few bytes would end its sink for want of memory, again and again.
_AVRO_LIMITS: Final = tuple(
    f"-Dorg.apache.avro.limits.{what}.maxLength={MAX_MESSAGE_BYTES}"
    for what in ("bytes", "string", "collectionItems")
)


class EmbeddedConnect:
    """A real Kafka Connect in distributed mode, one worker, on the loopback interface. A context manager.

    Guarantees: after :meth:`start`, ``url`` answers and the worker is ready for requests. It ends when its owner ends, also by
    ``kill -9``. What it runs is kept in Kafka, in topics that begin with ``<prefix>.connect.``: a later start goes on with it.
    Every wait is bounded. Failures are :class:`~railgun.errors.EmbeddedBrokerError` with one sentence each.

    ``port`` 0 takes a free one at the first start and keeps it. ``plugins`` are more folders, one for each plugin, beside
    Debezium's JDBC sink, Connect's file connectors and Apicurio's Avro converter. ``environment`` is what ``${env:…}`` finds, beside that of this process.
    ``jvm_flags`` are those of a quick start, which costs sinks half of their speed.
    """

    def __init__(
        self,
        bootstrap: str,
        data_dir: Path | str | None = None,
        port: int = 0,
        *,
        prefix: str = "railgun",
        plugins: Sequence[Path] = (),
        properties: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        jvm_flags: Sequence[str] = JVM_FLAGS,
        start_timeout: float = 90.0,
        stop_timeout: float = 15.0,
    ) -> None:
        if not 0 <= port <= LAST_PORT:
            raise NotAPort(port=port)
        self._bootstrap = bootstrap
        self._temporary = data_dir is None
        self.folder = Path(data_dir or tempfile.mkdtemp(prefix="railgun-connect-")).absolute()
        self.log_file = self.folder / "connect.log"
        self._port = port
        self._prefix = prefix
        self._plugins = tuple(plugins)
        self._properties = dict(properties or {})
        self._environment = None if environment is None else {**os.environ, **environment}
        self._jvm_flags = tuple(jvm_flags)
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._process: GuardedProcess | None = None

    # ------------------------------------------------------------ what it is

    @property
    def url(self) -> str:
        """The address of its REST API; known from the first start on."""
        if not self._port:
            raise EmbeddedBrokerError("the local Kafka Connect has no address before its first start")
        return f"http://{LOOPBACK}:{self._port}"

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.alive()

    # ------------------------------------------------------------ its life

    def start(self) -> EmbeddedConnect:
        """Start and wait until it is ready for requests. Does nothing when it runs already."""
        self.begin()
        self.await_ready()
        return self

    def begin(self) -> None:
        """Start the process and return at once: :meth:`await_ready` is the other half."""
        if self.running:
            return
        self.kill()  # the remains of one that ended by itself
        java, jars, plugins = find_java(user=_USER), connect_jars(), plugin_folders()
        if self._port and not is_free(self._port):
            raise PortInUse(port=self._port)
        self._port = self._port or free_port()
        try:
            self._prepare(plugins)
        except OSError as error:
            raise DataFolderBroken(folder=self.folder, reason=error.strerror or str(error)) from error
        self._process = GuardedProcess(
            [str(java), *_AVRO_LIMITS, *self._jvm_flags, f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
             "-cp", os.pathsep.join(map(str, jars)), _MAIN, str(self.folder / "connect.properties")],
            log_file=self.log_file,
            patience=self._stop_timeout,
            remove_if_orphaned=self.folder if self._temporary else None,
            environment=self._environment,
        )  # fmt: skip

    def await_ready(self) -> None:
        """Wait until it is ready for requests. Raises ConnectCrashed or ConnectNotReady, and then it has ended."""
        deadline = time.monotonic() + self._start_timeout
        while time.monotonic() < deadline:
            if not self.running:
                raise ConnectCrashed(last_line=telling_line(self._last_lines()), log_file=self.log_file)
            if _is_healthy(self.url):
                return
            time.sleep(0.1)
        self.kill()
        raise ConnectNotReady(what="answer", seconds=self._start_timeout, log_file=self.log_file)

    def stop(self) -> None:
        """End it in order and wait for its end; a temporary folder is removed. Does nothing when stopped."""
        process, self._process = self._process, None
        try:
            if process is not None and not process.stop(self._stop_timeout):
                raise ConnectNotReady(what="stop", seconds=self._stop_timeout, log_file=self.log_file)
        finally:
            if self._temporary:
                shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """End it at once (``kill -9``). What it runs stays in Kafka for a later :meth:`start`."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def __enter__(self) -> EmbeddedConnect:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ------------------------------------------------------------ how it starts

    def _prepare(self, plugins: Mapping[str, Path]) -> None:
        """Write the files that a start needs anew. Raises OSError."""
        shelf = self.folder / "plugins"
        shutil.rmtree(shelf, ignore_errors=True)
        shelf.mkdir(parents=True)
        for name, folder in (*plugins.items(), *((own.name, own.absolute()) for own in self._plugins)):
            (shelf / name).symlink_to(folder, target_is_directory=True)
        (self.folder / "log4j2.properties").write_text(LOG4J_CONFIGURATION, encoding="utf-8")
        write_properties(self.folder / "connect.properties", self._settings(shelf))
        self.log_file.write_bytes(b"")  # the log of this run alone

    def _settings(self, shelf: Path) -> dict[str, str]:
        return {
            **_SINGLE_WORKER,
            "bootstrap.servers": self._bootstrap,
            "group.id": f"{self._prefix}-connect",
            **{f"{kind}.storage.topic": f"{self._prefix}.connect.{kind}s" for kind in ("config", "offset")},
            "status.storage.topic": f"{self._prefix}.connect.status",
            "listeners": self.url,
            "rest.advertised.host.name": LOOPBACK,
            "plugin.path": str(shelf),
            **self._properties,
        }

    def _last_lines(self) -> list[str]:
        with self.log_file.open("rb") as log:
            log.seek(max(0, self.log_file.stat().st_size - _TAIL_BYTES))
            return log.read().decode(errors="replace").splitlines()


def _is_healthy(url: str) -> bool:
    """Whether the worker says that it has started; before that it answers with pages of errors, or not at all."""
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({})
    )  # a proxy does not know this machine
    try:
        with direct.open(f"{url}/health", timeout=2.0) as answer:
            return bool(json.load(answer).get("status") == "healthy")
    except (OSError, ValueError, AttributeError):  # refused, an error's page, a page that is not JSON
        return False
