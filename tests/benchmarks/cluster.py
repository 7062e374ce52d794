"""A railgun cluster for one run: worker processes on the shared broker, and the facade to reach them."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

from confluent_kafka import KafkaError

import railgun
from railgun.client.facade.readiness import wait_for_workers
from railgun.errors import RailgunError
from railgun.protocol.routing import partition_of
from railgun.protocol.topics import Names
from tests.benchmarks import raw_kafka
from tests.support.worker_process import WorkerProcess

PARTITIONS = 8
_READY_SECONDS = 90.0
CALL_SECONDS = 60.0


class Cluster:
    """Workers under one prefix."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path, workers: int) -> None:
        self.bootstrap, self.prefix = bootstrap, prefix
        names = [f"worker-{number}" for number in range(1, workers + 1)]
        self._by_name = {
            name: WorkerProcess(
                folder / name,
                bootstrap,
                prefix=prefix,
                cluster={"partitions": PARTITIONS},
                node={"name": name},
            )
            for name in names
        }
        self.workers = list(self._by_name.values())

    def start(self) -> Cluster:
        """Start the workers that do not run, and wait until every shard answers."""
        for worker in self.workers:
            if not worker.alive:
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
        found: dict[int, str] = {}
        settings = {"enable.partition.eof": True}
        with closing(raw_kafka.reader(self.bootstrap, Names(self.prefix).registry, **settings)) as consumer:
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

    def owner_of(self, stream: str) -> WorkerProcess:
        return self._by_name[self.owners()[partition_of(stream, PARTITIONS)]]


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
