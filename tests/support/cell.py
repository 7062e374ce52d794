"""A small cluster of a test's own on a shared broker: a prefix, its workers and a client of the wire format."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import railgun
from tests.support.raw_client import RawClient
from tests.support.worker_process import PARTITIONS, WorkerProcess


class Cell:
    """A context manager; at its end every worker is gone."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.prefix = f"test-{secrets.token_hex(4)}"
        self.folder = folder
        self.workers: list[WorkerProcess] = []
        self._client: RawClient | None = None

    def __enter__(self) -> Cell:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()
        for worker in self.workers:
            worker.kill()

    def worker(
        self, *, start: bool = True, cluster: Mapping[str, Any] | None = None, **options: Any
    ) -> WorkerProcess:
        """One more worker, with a clock that tests may move."""
        worker = WorkerProcess(
            self.folder / f"worker-{len(self.workers)}",
            self.bootstrap,
            prefix=self.prefix,
            cluster=cluster,
            node={"test_clock": True},
            **options,
        )
        self.workers.append(worker)
        return worker.start() if start else worker

    def ready_worker(self) -> WorkerProcess:
        """The first worker, once it serves every shard."""
        worker = self.worker()
        worker.wait_for(": ready after", times=PARTITIONS)
        return worker

    def connect(self, timeout: float = 20.0) -> railgun.Railgun:
        return railgun.connect(self.bootstrap, prefix=self.prefix, timeout=timeout)

    @property
    def client(self) -> RawClient:
        """Once a worker has created the topics."""
        if self._client is None:
            self._client = RawClient(self.bootstrap, self.prefix, PARTITIONS)
        return self._client
