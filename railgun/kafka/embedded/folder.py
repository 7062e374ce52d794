"""A broker's data folder: who uses it, whether it is whole, and its first formatting.

::

    <folder>/
      broker.lock         held by the processes of the running broker only
      broker.json         who runs, where: for a clear message to a second start
      broker.log          the broker's output
      server.properties   written at each start
      log4j2.properties
      kafka/              Kafka's own data; appears by one rename, so it is formatted or absent
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

from railgun.kafka.embedded.errors import BrokerCrashed, DataFolderBroken, DataFolderInUse
from railgun.kafka.embedded.formatted import write_formatted
from railgun.kafka.embedded.server_properties import (
    JVM_FLAGS,
    LOG4J_CONFIGURATION,
    NODE_ID,
    read_properties,
    write_properties,
)
from railgun.kafka.processes import process_alive

_SAYS_WHY = re.compile(r"\b(ERROR|FATAL)\b|^[\w.$]*(Exception|Error)\b|^Caused by:|^Error")
_FORMAT_SECONDS: Final = 60
_ORPHAN_SECONDS: Final = 20
_LARGEST_OLD_LOG: Final = 10 * 1024 * 1024


class DataFolder:
    """One folder on disk. Every method raises :class:`DataFolderBroken` when the disk refuses."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.data = self.path / "kafka"
        self.log_file = self.path / "broker.log"
        self.properties_file = self.path / "server.properties"
        self.log4j_file = self.path / "log4j2.properties"
        self._lock_file = self.path / "broker.lock"
        self._owner_file = self.path / "broker.json"

    def acquire(self) -> int:
        """Lock the folder and return the lock's descriptor, to be inherited by the broker's processes.

        A broker that lost its owner is about to end: it is waited for. Any other is :class:`DataFolderInUse`.
        """
        if "," in str(self.path):  # nothing escapes it
            raise DataFolderBroken(
                folder=self.path, reason="Kafka takes the comma in its path for the beginning of another path"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._broken(error) from error
        deadline = time.monotonic() + _ORPHAN_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return handle
            except BlockingIOError:
                record = self._owner_record()
                owner = record.get("owner")
                orphaned = isinstance(owner, int) and not process_alive(owner)
                if not orphaned or time.monotonic() > deadline:
                    os.close(handle)
                    raise self._in_use(record) from None
                time.sleep(0.1)

    def prepare(self) -> None:
        """Check what is there and write the files that a start needs anew."""
        try:
            self.log4j_file.write_text(LOG4J_CONFIGURATION, encoding="utf-8")
            if self.log_file.exists() and self.log_file.stat().st_size > _LARGEST_OLD_LOG:
                self.log_file.replace(self.log_file.with_suffix(".log.1"))
            self.log_file.touch()
            self.cluster_id()
        except OSError as error:
            raise self._broken(error) from error

    def cluster_id(self) -> str | None:
        """The id that formatting gave to the cluster, or None before it."""
        if not self.data.exists():
            return None
        meta = self.data / "meta.properties"
        if not meta.is_file():
            raise DataFolderBroken(folder=self.path, reason="kafka/meta.properties is missing")
        values = read_properties(meta)
        if not values.get("cluster.id") or values.get("node.id") != str(NODE_ID):
            raise DataFolderBroken(
                folder=self.path, reason="kafka/meta.properties names no cluster or another node"
            )
        return values["cluster.id"]

    def format(self) -> None:
        """Format ``kafka/`` once, for a broker with the usual settings; a formatted folder keeps its data and cluster id."""
        if self.cluster_id() is not None:
            return
        try:
            fresh = self._fresh()
            write_formatted(fresh, _new_cluster_id())
            fresh.rename(self.data)
        except OSError as error:
            raise self._broken(error) from error

    def format_for(
        self, java: Path, class_path: str, properties: Mapping[str, str], extra_arguments: Sequence[str]
    ) -> None:
        """Format with settings of any kind, by Kafka's own tool, which also reports what is wrong with them."""
        if self.cluster_id() is not None:
            return
        file = self.path / "format.properties"
        try:
            fresh = self._fresh()
            write_properties(file, {**properties, "log.dirs": str(fresh)})
            answer = subprocess.run(
                [str(java), *JVM_FLAGS, f"-Dlog4j2.configurationFile={self.log4j_file}", "-cp", class_path,
                 "kafka.tools.StorageTool", "format", "--standalone", "-t", _new_cluster_id(), "-c", str(file),
                 *extra_arguments],
                capture_output=True, text=True, timeout=_FORMAT_SECONDS, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            if answer.returncode != 0:  # mostly a setting that Kafka refuses
                said = (answer.stdout.strip() + "\n" + answer.stderr.strip()).strip() or "no message"
                with self.log_file.open("a", encoding="utf-8") as log:
                    log.write(said + "\n")
                raise BrokerCrashed(last_line=telling_line(said.splitlines()), log_file=self.log_file)
            fresh.rename(self.data)
            file.unlink()
        except subprocess.TimeoutExpired as error:
            raise DataFolderBroken(
                folder=self.path, reason=f"formatting took more than {_FORMAT_SECONDS} s"
            ) from error
        except OSError as error:
            raise self._broken(error) from error

    def _fresh(self) -> Path:
        """The folder to format. The remains of an interrupted formatting there are removed."""
        fresh = self.path / "kafka.formatting"
        shutil.rmtree(fresh, ignore_errors=True)
        return fresh

    def write_settings(self, properties: Mapping[str, str]) -> None:
        """Write ``server.properties`` for the coming start."""
        try:
            write_properties(self.properties_file, properties)
        except OSError as error:
            raise self._broken(error) from error

    def record_owner(self, *, pid: int, bootstrap: str) -> None:
        """Note who runs the broker, for the message to a second start."""
        record = {"owner": os.getpid(), "broker": pid, "bootstrap": bootstrap}
        draft = self._owner_file.with_suffix(".tmp")
        try:
            draft.write_text(json.dumps(record), encoding="utf-8")
            draft.replace(self._owner_file)
        except OSError as error:
            raise self._broken(error) from error

    def log_tail(self, since: int, limit: int = 400) -> list[str]:
        """The last lines of the log that were written after byte ``since``."""
        with self.log_file.open("rb") as log:
            log.seek(since)
            return log.read().decode(errors="replace").splitlines()[-limit:]

    def log_size(self) -> int:
        """The present length of the log, in bytes."""
        return self.log_file.stat().st_size if self.log_file.exists() else 0

    def _owner_record(self) -> dict[str, object]:
        try:
            record = json.loads(self._owner_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # absent, or being written by a start that has just begun
            return {}
        return record if isinstance(record, dict) else {}

    def _in_use(self, record: Mapping[str, object]) -> DataFolderInUse:
        pid, bootstrap = record.get("broker"), record.get("bootstrap")
        return DataFolderInUse(
            folder=self.path,
            pid=pid if isinstance(pid, int) else None,
            bootstrap=bootstrap if isinstance(bootstrap, str) else None,
        )

    def _broken(self, error: OSError) -> DataFolderBroken:
        return DataFolderBroken(folder=self.path, reason=error.strerror or str(error))


def _new_cluster_id() -> str:
    cluster_id = base64.urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()
    return (
        "A" + cluster_id[1:] if cluster_id.startswith("-") else cluster_id
    )  # or the tool takes it for an option


def telling_line(lines: Sequence[str]) -> str:
    """The last line that says why: an error or an exception, else just the last line."""
    reasons = [line.strip() for line in lines if _SAYS_WHY.search(line)] or [
        line.strip() for line in lines[-1:]
    ]
    return reasons[-1] if reasons else "it wrote nothing"
