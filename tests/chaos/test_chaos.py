"""Thirty ways to hurt a cluster, and what must be true after each: nothing lost, nothing twice, no gap.

How many rounds there are and what happens in them: see :mod:`tests.chaos.rounds`.
"""

from __future__ import annotations

import pytest

from tests.chaos.harness import ChaosCluster
from tests.chaos.rounds import ROUNDS, SEED, dice_of, turn_of

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
CLUSTER = ChaosCluster


@pytest.mark.rule("CLU-12", "CLU-15", "DUP-10")
@pytest.mark.parametrize("number", range(ROUNDS))
def test_nothing_is_lost_and_nothing_is_there_twice(cluster: ChaosCluster, number: int) -> None:
    action = cluster.torments[turn_of(number, len(cluster.torments))]
    with cluster.attempt(f"seed {SEED}, round {number}, {action.__name__}"):
        done = cluster.round(number, action, dice_of(number))
        wrong = cluster.audit()
        assert not wrong, f"{done}:\n" + "\n".join(wrong)


@pytest.mark.rule("CLU-13")
def test_a_restore_from_an_empty_disk_shows_the_same(cluster: ChaosCluster) -> None:
    before = cluster.infos()
    with cluster.attempt(f"seed {SEED}, the restore after {ROUNDS} rounds"):
        cluster.restore_from_nothing()
        assert cluster.infos() == before, "the infos differ after the restore"
        wrong = cluster.audit()
        assert not wrong, "\n".join(wrong)
