"""One contract, every backend: ``rg`` (sync), ``arg`` (async) and ``clock`` for a cluster in memory and for a real Kafka.

A contract test talks to the facade only. On Kafka all tests share one cluster, so names come from ``unique``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import railgun
from railgun.client.liveness import wait_for_workers
from railgun.client.memory import forget
from railgun.testing import Clock

_ROOT = Path(__file__).parents[2]
_PARTITIONS = 4


class Cluster(NamedTuple):
    """What to connect to."""

    address: str
    prefix: str

    def connect(self, **settings: object) -> railgun.Railgun:
        return railgun.connect(self.address, **{"prefix": self.prefix, "timeout": 15.0, **settings})  # type: ignore[arg-type]

    def connect_async(self, **settings: object) -> railgun.client.async_facade.Connecting:
        return railgun.connect_async(self.address, **{"prefix": self.prefix, "timeout": 15.0, **settings})  # type: ignore[arg-type]


def start_worker(folder: Path, bootstrap: str, prefix: str) -> subprocess.Popen[bytes]:
    """A worker as a user would start one, in a folder with its own configuration, state and log."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "railgun.toml").write_text(
        f'[cluster]\nprefix = "{prefix}"\npartitions = {_PARTITIONS}\n\n'
        f'[node]\nbootstrap = "{bootstrap}"\ndata_dir = "{folder / "state"}"\ntest_clock = true\n',
        encoding="utf-8",
    )
    with (folder / "worker.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "faust", "-A", "railgun", "worker", "--loglevel", "info"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def stop_worker(worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    try:
        worker.wait(20)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait(10)


@pytest.fixture(scope="session")
def kafka_cluster(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A worker on a real Kafka, with a prefix of its own, for the whole session."""
    prefix = f"contract-{uuid.uuid4().hex[:8]}"
    folder = tmp_path_factory.mktemp("worker")
    worker = start_worker(folder, kafka_bootstrap, prefix)
    try:
        try:
            wait_for_workers(kafka_bootstrap, prefix, timeout=60.0)
        except railgun.RailgunError as error:
            log = (folder / "worker.log").read_text(encoding="utf-8", errors="replace")
            pytest.fail(f"the worker did not become ready: {error}\n{log[-4000:]}")
        yield Cluster(kafka_bootstrap, prefix)
    finally:
        stop_worker(worker)


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
def unique(rg: railgun.Railgun) -> Iterator[Callable[[str], str]]:
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
