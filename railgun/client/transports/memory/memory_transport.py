"""The memory transport: commands go to a cluster in the same process, and answers come back in the thread that decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from railgun.client.transport import Delivered, Receiver, TakeAdvisories, Topology
from railgun.client.transports.memory.memory_cluster import MemoryCluster
from railgun.errors import RailgunError, RequestTimeout
from railgun.model.messages import StoredMessage
from railgun.protocol.replies import Located


class MemoryTransport:
    """Carries commands to a cluster in memory."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._client = ""

    def open(self, client: str, receiver: Receiver, timeout: float) -> Topology:
        self._client = client
        self._cluster.attach(client, receiver)
        return self._cluster.topology

    def listen(self, shard: int, timeout: float) -> None:
        """Answers come by themselves."""

    def send(self, partition: int, key: bytes, kind: str, value: bytes, delivered: Delivered) -> None:
        delivered(None)
        self._cluster.submit(partition, key, kind, value)

    def sync_registry(self, timeout: float) -> bool:
        return True  # it is pushed before the answer to the request that changed it

    def read_log(self, places: Sequence[Located], timeout: float) -> list[StoredMessage | None]:
        if timeout <= 0:
            raise RequestTimeout("no time was left to read the log")
        return self._cluster.read_log(places)

    def advisories(self, take: TakeAdvisories) -> Callable[[], None]:
        return self._cluster.advise(take)

    def workers(self) -> int | None:
        return 1

    def trouble(self) -> RailgunError | None:
        return None

    def flush(self, timeout: float) -> bool:
        return True

    def close(self) -> None:
        self._cluster.detach(self._client)
