"""A railgun cluster for one run: worker processes on the shared broker, and the facade to reach them."""

from __future__ import annotations

import json
import shutil
import sys
import time
from contextlib import closing
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

import railgun
from railgun.client.liveness import wait_for_workers
from railgun.errors import RailgunError
from railgun.kafka.embedded.guarded import GuardedProcess
from railgun.model.names import Names
from railgun.model.partitioning import partition_of

PARTITIONS = 8
_READY_SECONDS = 90.0
_STOP_SECONDS = 20.0
CALL_SECONDS = 60.0


class Worker:
    """One worker process; it ends with this process at the latest."""

    def __init__(self, name: str, bootstrap: str, prefix: str, folder: Path) -> None:
        self.name = name
        self._state = folder / name
        self._config = folder / f"{name}.toml"
        self._log = folder / f"{name}.log"
        self._process: GuardedProcess | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._config.write_text(
            f'[cluster]\nprefix = "{prefix}"\npartitions = {PARTITIONS}\n\n'
            f'[node]\nname = "{name}"\nbootstrap = "{bootstrap}"\ndata_dir = "{self._state}"\n'
        )

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.name} does not run")
        return self._process.pid

    def start(self) -> None:
        if self._process is None:
            command = [sys.executable, "-m", "railgun.cli.main", "worker", "--config", str(self._config)]
            self._process = GuardedProcess(command, log_file=self._log, patience=_STOP_SECONDS)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.stop(_STOP_SECONDS)

    def kill(self) -> None:
        """``kill -9``."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def forget(self) -> None:
        """Stop, and lose the disk."""
        self.stop()
        shutil.rmtree(self._state, ignore_errors=True)


class Cluster:
    """Workers under one prefix."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path, workers: int) -> None:
        self.bootstrap, self.prefix = bootstrap, prefix
        self.workers = [
            Worker(f"worker-{number}", bootstrap, prefix, folder) for number in range(1, workers + 1)
        ]

    def start(self) -> Cluster:
        """Start the workers that do not run, and wait until every shard answers."""
        for worker in self.workers:
            worker.start()
        wait_for_workers(self.bootstrap, self.prefix, _READY_SECONDS)
        return self

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()

    def connect(self, timeout: float = CALL_SECONDS) -> railgun.Railgun:
        return railgun.connect(self.bootstrap, prefix=self.prefix, timeout=timeout)

    def owners(self) -> dict[int, str]:
        """Which worker announced itself last for each shard."""
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        found: dict[int, str] = {}
        with closing(Consumer(settings)) as consumer:
            consumer.assign([TopicPartition(Names(self.prefix).registry, 0, 0)])
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    break
                kind, _, number = (message.key() or b"").decode().partition("/")
                if kind == "epoch" and message.value():
                    found[int(number)] = json.loads(message.value())["node"]
        return found

    def owner_of(self, stream: str) -> Worker:
        name = self.owners()[partition_of(stream, PARTITIONS)]
        return next(worker for worker in self.workers if worker.name == name)


def publish_until_answered(
    client: railgun.Railgun, subject: str, payload: bytes, patience: float = 90.0
) -> float:
    """Seconds until a publish was answered."""
    begin = time.perf_counter()
    while True:
        try:
            client.publish(subject, payload, timeout=1.0)
        except RailgunError:
            if time.perf_counter() - begin > patience:
                raise
            time.sleep(0.02)
        else:
            return time.perf_counter() - begin
