"""Everything that runs for a run: one broker, one nats-server, at most one railgun cluster at a time. All of it ends."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import TracebackType

from railgun.kafka.embedded import EmbeddedBroker
from tests.benchmarks.cluster import Cluster
from tests.benchmarks.nats_server import NatsClient, NatsServer


class Arena:
    """A context manager. Parts start when they are first asked for and live in one temporary folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="railgun-bench-"))
        self._broker: EmbeddedBroker | None = None
        self._nats: NatsServer | None = None
        self._clusters: dict[str, Cluster] = {}
        self._done: set[str] = set()

    def __enter__(self) -> Arena:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for cluster in self._clusters.values():
                cluster.stop()
            if self._nats is not None:
                self._nats.stop()
            if self._broker is not None:
                self._broker.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def bootstrap(self) -> str:
        if self._broker is None:
            self._broker = EmbeddedBroker(self.folder / "kafka").start()
        return self._broker.bootstrap

    @property
    def nats(self) -> NatsServer:
        if self._nats is None:
            self._nats = NatsServer(self.folder / "nats").start()
        return self._nats

    def fresh_nats(self) -> None:
        """A server that holds nothing: what earlier rows stored would count in its memory and in its restart."""
        if self._nats is not None:
            self._nats.stop()
        folder = tempfile.mkdtemp(prefix="nats-", dir=self.folder)
        self._nats = NatsServer(Path(folder)).start()

    def nats_client(self) -> closing[NatsClient]:
        return closing(NatsClient(self.nats.url))

    def cluster(self, prefix: str, workers: int = 1) -> Cluster:
        """The cluster of that name, answering. Another one that runs is stopped: idle workers would cost the others."""
        for name, other in self._clusters.items():
            if name != prefix:
                other.stop()
        if prefix not in self._clusters:
            self._clusters[prefix] = Cluster(self.bootstrap, prefix, self.folder / prefix, workers)
        return self._clusters[prefix].start()

    def once(self, what: str, work: Callable[[], None]) -> None:
        """Do it now unless it was done already: for stock that several rows share."""
        if what not in self._done:
            work()
            self._done.add(what)
