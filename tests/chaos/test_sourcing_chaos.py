"""Streams copy, add up and hand on while everything is hurt; what must be true when they have come to rest.

A chain of sources holds what its beginning holds, once and in order; a mirror is its upstream; the totals of a counter are
those of its twenty upstreams and its own increments; two pipelines have put each message into their outputs once. All of it also
after all workers lost their disks. How many rounds there are and what happens in them: see :mod:`tests.chaos.rounds`.
"""

from __future__ import annotations

import pytest

from tests.chaos.copying.copying_cluster import CopyingCluster
from tests.chaos.rounds import SEED, SOURCING_ROUNDS, dice_of, turn_of

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]
SALT = "flowing"
CLUSTER = CopyingCluster


@pytest.mark.rule("SRC-07", "MIR-01", "CTR-28", "EXO-05", "EXO-08")
@pytest.mark.parametrize("number", range(SOURCING_ROUNDS))
def test_every_message_is_copied_once_and_in_order(cluster: CopyingCluster, number: int) -> None:
    action = cluster.torments[turn_of(number, len(cluster.torments), SALT)]
    with cluster.attempt(f"seed {SEED}, sourcing, round {number}, {action.__name__}"):
        done = cluster.round(number, action, dice_of(number, SALT))
        wrong = cluster.audit()
        assert not wrong, f"{done}:\n" + "\n".join(wrong)


@pytest.mark.rule("SRC-07", "CTR-26", "CLU-13")
def test_copies_are_the_same_after_a_restore_from_an_empty_disk(cluster: CopyingCluster) -> None:
    before = cluster.infos()
    with cluster.attempt(f"seed {SEED}, sourcing, the restore after {SOURCING_ROUNDS} rounds"):
        cluster.restore_from_nothing()
        assert cluster.infos() == before, "the infos differ after the restore"
        wrong = cluster.audit()
        assert not wrong, "\n".join(wrong)
