"""The cluster that a module of rounds hurts: of the class that the module calls ``CLUSTER``, one for all of its tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.buckets.bucket_cluster import BucketCluster
from tests.chaos.consuming import ConsumingCluster
from tests.chaos.copying.copying_cluster import CopyingCluster
from tests.chaos.harness import ChaosCluster

Hurt = ChaosCluster | ConsumingCluster | CopyingCluster | BucketCluster


@pytest.fixture(scope="module")
def _hurt_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hurt]:
    kind: type[Hurt] = request.module.CLUSTER
    chaos = kind(tmp_path_factory.mktemp(kind.__name__.lower()))
    try:
        chaos.start()
        yield chaos
    finally:
        chaos.stop()


@pytest.fixture
def cluster(_hurt_cluster: Hurt) -> Hurt:
    """The cluster, if the tests before left it whole."""
    if _hurt_cluster.broken:
        pytest.skip(f"the cluster is not whole since {_hurt_cluster.broken}")
    return _hurt_cluster
