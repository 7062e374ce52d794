"""One contract, every backend: ``rg`` (sync), ``arg`` (async) and ``clock`` for a cluster in memory and for a real Kafka.

A contract test talks to the facade only. On Kafka all tests share one cluster, so names come from ``unique``.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import pytest

import railgun
from railgun.client.transports.memory.memory_cluster import forget
from railgun.testing import Clock
from tests.support.streams import Make, Unique
from tests.support.worker_process import WorkerProcess


class Cluster(NamedTuple):
    """A cluster to connect to."""

    address: str
    prefix: str

    def connect(self, **settings: object) -> railgun.Railgun:
        return railgun.connect(self.address, **{"prefix": self.prefix, "timeout": 15.0, **settings})  # type: ignore[arg-type]

    def connect_async(self, **settings: object) -> railgun.client.facade.async_railgun.Connecting:
        return railgun.connect_async(self.address, **{"prefix": self.prefix, "timeout": 15.0, **settings})  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def kafka_cluster(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A worker on a real Kafka, with a prefix of its own, for the whole session. Its command is Faust's."""
    folder = tmp_path_factory.mktemp("worker")
    with WorkerProcess(folder, kafka_bootstrap, node={"test_clock": True}, faust=True) as worker:
        worker.await_ready()
        yield Cluster(kafka_bootstrap, worker.prefix)


@pytest.fixture(scope="session")
def _kafka_facades() -> Iterator[list[railgun.Railgun]]:
    """The facade that tests on Kafka share: connecting anew for each would take longer than most of them."""
    facades: list[railgun.Railgun] = []
    yield facades
    for facade in facades:
        facade.close()


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster of this test: fresh in memory, shared on Kafka."""
    if request.param == "kafka":
        yield request.getfixturevalue("kafka_cluster")
        return
    name = uuid.uuid4().hex
    yield Cluster(f"memory://{name}", "railgun")
    forget(name)


@pytest.fixture
def rg(cluster: Cluster, _kafka_facades: list[railgun.Railgun]) -> Iterator[railgun.Railgun]:
    """A facade of the cluster."""
    if cluster.address.startswith("memory://"):
        with cluster.connect() as facade:
            yield facade
        return
    if not _kafka_facades:
        _kafka_facades.append(cluster.connect())
    yield _kafka_facades[0]


@pytest.fixture
async def arg(cluster: Cluster) -> AsyncIterator[railgun.AsyncRailgun]:
    """An async facade of the cluster; ``rg`` and ``clock`` beside it speak of the same one."""
    async with cluster.connect_async() as facade:
        yield facade


@pytest.fixture
def clock(rg: railgun.Railgun) -> Clock:
    """The clock of the cluster. On Kafka it stays where earlier tests moved it."""
    return Clock(rg)


@pytest.fixture
def unique(rg: railgun.Railgun) -> Iterator[Unique]:
    """``unique("ORDERS")`` is a name that no other test has, for a stream or as the first token of a subject.

    Streams of these names are deleted afterwards, so that a shared broker does not fill up.
    """
    mark = uuid.uuid4().hex[:8]
    given: set[str] = set()

    def name(base: str) -> str:
        given.add(f"{base}_{mark}")
        return f"{base}_{mark}"

    yield name
    for stream in given:
        if rg.connection.registry_view.stream(stream) is not None:
            rg.delete_stream(stream)


@pytest.fixture
def make(rg: railgun.Railgun, unique: Unique) -> Make:
    """``make(max_msgs=3)`` is a new stream that captures ``<its name>.>``."""

    def create(base: str = "NEW", **fields: Any) -> railgun.Stream:
        name = unique(base)
        return rg.create_stream(railgun.StreamConfig(name=name, **{"subjects": [f"{name}.>"], **fields}))

    return create
