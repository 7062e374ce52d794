"""Thirty ways to hurt a cluster, and what must be true after each: nothing lost, nothing twice, no gap.

``RAILGUN_CHAOS_ROUNDS`` (3) and ``RAILGUN_CHAOS_SEED`` (a new one each time, printed) choose what happens.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterator

import pytest

from tests.chaos.harness import ChaosCluster

ROUNDS = int(os.environ.get("RAILGUN_CHAOS_ROUNDS", "3"))
SEED = int(os.environ.get("RAILGUN_CHAOS_SEED") or secrets.randbelow(2**31))

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    chaos = ChaosCluster(tmp_path_factory.mktemp("chaos"))
    try:
        chaos.start()
        yield chaos
    finally:
        chaos.stop()


def plan(number: int) -> int:
    """Which torment a round brings: all of them in a shuffled order, then again in another."""
    kinds = 6
    order = list(range(kinds))
    random.Random(f"{SEED}-{number // kinds}").shuffle(order)
    return order[number % kinds]


@pytest.mark.rule("CLU-12", "CLU-15", "DUP-10")
@pytest.mark.parametrize("number", range(ROUNDS))
def test_nothing_is_lost_and_nothing_is_there_twice(cluster: ChaosCluster, number: int) -> None:
    if cluster.broken:
        pytest.skip(f"the cluster is not whole since {cluster.broken}")
    action = cluster.torments[plan(number)]
    where = f"seed {SEED}, round {number}, {action.__name__}"
    print(f"chaos: {where}")
    cluster.broken = where
    try:
        done = cluster.round(number, action, random.Random(f"{SEED}+{number}"))
        wrong = cluster.audit()
    except BaseException as error:
        error.add_note(f"chaos: {where}\n{_logs(cluster)}")
        raise
    assert not wrong, f"{where} ({done}):\n" + "\n".join(wrong)
    cluster.broken = ""


@pytest.mark.rule("CLU-13")
def test_a_restore_from_an_empty_disk_shows_the_same(cluster: ChaosCluster) -> None:
    if cluster.broken:
        pytest.skip(f"the cluster is not whole since {cluster.broken}")
    before = cluster.infos()
    try:
        cluster.restore_from_nothing()
        assert cluster.infos() == before, f"seed {SEED}: the infos differ after the restore"
        wrong = cluster.audit()
    except BaseException as error:
        error.add_note(f"chaos: seed {SEED}, the restore after {ROUNDS} rounds\n{_logs(cluster)}")
        raise
    assert not wrong, f"seed {SEED}, after the restore:\n" + "\n".join(wrong)


def _logs(cluster: ChaosCluster) -> str:
    return "\n".join(f"--- worker {at}\n{worker.last_lines()}" for at, worker in enumerate(cluster.workers))
