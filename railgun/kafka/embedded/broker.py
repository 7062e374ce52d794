"""One local Kafka broker and its life: start, stop, restart, kill."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from railgun.errors import EmbeddedBrokerError
from railgun.kafka.embedded.errors import BrokerCrashed, BrokerNotReady, DataFolderBroken, NotAPort, PortInUse
from railgun.kafka.embedded.folder import DataFolder, telling_line
from railgun.kafka.embedded.guarded import GuardedProcess
from railgun.kafka.embedded.jars import kafka_jars
from railgun.kafka.embedded.java import find_java
from railgun.kafka.embedded.ports import LAST_PORT, LOOPBACK, answers, free_port, is_free
from railgun.kafka.embedded.server_properties import JVM_FLAGS, server_properties

_PORT_TAKEN = re.compile(r"Address already in use|Socket server failed to bind")
_DATA_DAMAGED = re.compile(
    r"meta\.properties|KafkaStorageException|CorruptRecordException|InconsistentClusterId|No readable meta|"
    r"__cluster_metadata|No `?meta\.properties"
)
_FREE_PORT_ATTEMPTS: Final = 3


class EmbeddedBroker:
    """A real, single-node Kafka on the loopback interface. A context manager; usable from one thread at a time.

    Guarantees: after :meth:`start`, ``bootstrap`` answers metadata requests. The broker ends when its owner ends, also
    by ``kill -9``. A restart on the same ``data_dir`` keeps topics, records and cluster id; without a ``data_dir``
    everything is in a temporary folder that goes with :meth:`stop`. Every wait is bounded by ``start_timeout`` and
    ``stop_timeout``. Failures are :class:`~railgun.errors.EmbeddedBrokerError` with one sentence each.

    ``port`` 0 takes a free one at the first start and keeps it; one above 65535 is refused here. ``properties`` override any broker setting;
    ``extra_listeners`` (``{"SASL_SSL": "127.0.0.1:9094"}``) and ``format_arguments`` (``["--add-scram", …]``) serve
    secured set-ups, in which the plain listener stays for the owner.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        port: int = 0,
        *,
        properties: Mapping[str, str] | None = None,
        extra_listeners: Mapping[str, str] | None = None,
        format_arguments: Sequence[str] = (),
        start_timeout: float = 60.0,
        stop_timeout: float = 15.0,
    ) -> None:
        if not 0 <= port <= LAST_PORT:
            raise NotAPort(port=port)
        self._wanted_dir = Path(data_dir) if data_dir is not None else None
        self._wanted_port = port
        self._properties = dict(properties or {})
        self._extra_listeners = dict(extra_listeners or {})
        self._format_arguments = tuple(format_arguments)
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._folder: DataFolder | None = None
        self._ports: tuple[int, int] | None = None
        self._process: GuardedProcess | None = None

    # ------------------------------------------------------------ what it is

    @property
    def bootstrap(self) -> str:
        """The address for clients, ``127.0.0.1:<port>``; known from the first start on."""
        if self._ports is None:
            raise EmbeddedBrokerError("the local Kafka broker has no address before its first start")
        return f"{LOOPBACK}:{self._ports[0]}"

    @property
    def data_dir(self) -> Path:
        """The folder that holds everything of this broker; known from the first start on."""
        return self._known_folder().path

    @property
    def log_file(self) -> Path:
        """The broker's own log."""
        return self._known_folder().log_file

    @property
    def pid(self) -> int | None:
        """The process id of the JVM, or None when it does not run."""
        return self._process.pid if self.running and self._process is not None else None

    @property
    def running(self) -> bool:
        """Whether the broker's process lives."""
        return self._process is not None and self._process.alive()

    # ------------------------------------------------------------ its life

    def start(self, meanwhile: Callable[[], None] | None = None) -> EmbeddedBroker:
        """Start and wait until a metadata request is answered. Does nothing when it runs already.

        ``meanwhile`` is called once, when the folder is ours, the port was free and the broker's process is under way.
        What it raises ends the start.
        """
        if self.running:
            return self
        self.kill()  # the remains of a broker that ended by itself
        java, class_path = find_java(), os.pathsep.join(str(jar) for jar in kafka_jars())
        folder = self._folder = self._folder or self._open_folder()
        try:
            lock = folder.acquire()
            try:
                folder.prepare()
                self._start_on_some_port(folder, java, class_path, lock, meanwhile)
            finally:
                os.close(lock)  # the guard and the JVM hold their own copies while they live
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the broker in order and wait for its end; a temporary folder is removed. Does nothing when stopped."""
        process, self._process = self._process, None
        try:
            if process is not None and not process.stop(self._stop_timeout):
                raise BrokerNotReady(what="stop", seconds=self._stop_timeout, log_file=self.log_file)
        finally:
            if self._wanted_dir is None and self._folder is not None:
                shutil.rmtree(self._folder.path, ignore_errors=True)
                self._folder = None

    def kill(self) -> None:
        """End the broker at once, as a power cut would (``kill -9``). The data stay for a later :meth:`start`."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def restart(self) -> EmbeddedBroker:
        """Stop in order and start again: same ports, same data."""
        process, self._process = self._process, None
        if process is not None and not process.stop(self._stop_timeout):
            raise BrokerNotReady(what="stop", seconds=self._stop_timeout, log_file=self.log_file)
        return self.start()

    def __enter__(self) -> EmbeddedBroker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ------------------------------------------------------------ how it starts

    def _known_folder(self) -> DataFolder:
        if self._folder is None:
            raise EmbeddedBrokerError("the local Kafka broker has no data folder before its first start")
        return self._folder

    def _open_folder(self) -> DataFolder:
        return DataFolder(self._wanted_dir or Path(tempfile.mkdtemp(prefix="railgun-broker-")))

    def _start_on_some_port(
        self,
        folder: DataFolder,
        java: Path,
        class_path: str,
        lock: int,
        meanwhile: Callable[[], None] | None,
    ) -> None:
        attempts = _FREE_PORT_ATTEMPTS if self._wanted_port == 0 and self._ports is None else 1
        for attempt in range(1, attempts + 1):
            ports = self._ports or (self._wanted_port or free_port(), free_port())
            if not is_free(ports[0]):
                raise PortInUse(port=ports[0])
            if not is_free(ports[1]):
                ports = (ports[0], free_port())
            try:
                log_start = self._start_process(folder, java, class_path, lock, ports)
                if meanwhile is not None:
                    todo, meanwhile = meanwhile, None
                    todo()
                self._await_answer(folder, ports[0], log_start)
            except PortInUse:  # another process took the port that was free
                if attempt == attempts:
                    raise
            else:
                self._ports = ports
                return

    def _start_process(
        self, folder: DataFolder, java: Path, class_path: str, lock: int, ports: tuple[int, int]
    ) -> int:
        """Start the JVM; where its log begins."""
        port, controller_port = ports
        properties = server_properties(
            data=folder.data,
            port=port,
            controller_port=controller_port,
            extra_listeners=self._extra_listeners,
            overrides=self._properties,
        )
        if self._properties or self._extra_listeners or self._format_arguments:
            folder.format_for(java, class_path, properties, self._format_arguments)
        else:
            folder.format()
        folder.write_settings(properties)
        log_start = folder.log_size()
        self._process = GuardedProcess(
            [str(java), *JVM_FLAGS, f"-Dlog4j2.configurationFile={folder.log4j_file}", "-cp", class_path,
             "kafka.Kafka", str(folder.properties_file)],
            log_file=folder.log_file,
            lock=lock,
            patience=self._stop_timeout,
            remove_if_orphaned=folder.path if self._wanted_dir is None else None,
        )  # fmt: skip
        folder.record_owner(pid=self._process.pid, bootstrap=f"{LOOPBACK}:{port}")
        return log_start

    def _await_answer(self, folder: DataFolder, port: int, log_start: int) -> None:
        deadline = time.monotonic() + self._start_timeout
        while time.monotonic() < deadline:
            if not self.running:
                raise _why_it_ended(folder, port, folder.log_tail(log_start))
            if answers(port) and _answers_metadata(port):
                return
            time.sleep(0.05)
        self.kill()
        raise BrokerNotReady(what="answer", seconds=self._start_timeout, log_file=folder.log_file)


def _answers_metadata(port: int) -> bool:
    # log_level 0: connection attempts that fail while the broker starts are expected.
    admin = AdminClient({"bootstrap.servers": f"{LOOPBACK}:{port}", "log_level": 0})
    try:
        return bool(admin.list_topics(timeout=2.0).brokers)
    except KafkaException:
        return False


def _why_it_ended(folder: DataFolder, port: int, lines: list[str]) -> EmbeddedBrokerError:
    text = "\n".join(lines)
    if _PORT_TAKEN.search(text):
        return PortInUse(port=port)
    last_line = telling_line(lines)
    if _DATA_DAMAGED.search(last_line):
        return DataFolderBroken(folder=folder.path, reason=last_line)
    return BrokerCrashed(last_line=last_line, log_file=folder.log_file)
