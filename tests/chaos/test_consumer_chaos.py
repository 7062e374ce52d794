"""Clients compete for messages while they and everything else is hurt; what must be true after each round.

Nothing that was confirmed is delivered again, nothing is lost, messages of one subject come in turn where that was asked
for, a work queue ends empty, and the owner's counts agree: also after all workers lost their disks.
How many rounds there are and what happens in them: see :mod:`tests.chaos.rounds`.
"""

from __future__ import annotations

import pytest

from tests.chaos.consuming import ConsumingCluster
from tests.chaos.rounds import CONSUMER_ROUNDS, SEED, dice_of, turn_of

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
SALT = "competing"
CLUSTER = ConsumingCluster


@pytest.mark.rule("EXO-03", "EXO-04", "EXO-05", "PUL-15", "RET-01")
@pytest.mark.parametrize("number", range(CONSUMER_ROUNDS))
def test_what_was_confirmed_never_comes_again_and_nothing_is_lost(
    cluster: ConsumingCluster, number: int
) -> None:
    action = cluster.torments[turn_of(number, len(cluster.torments), SALT)]
    with cluster.attempt(f"seed {SEED}, consumers, round {number}, {action.__name__}"):
        done = cluster.round(number, action, dice_of(number, SALT))
        wrong = cluster.audit()
        assert not wrong, f"{done}:\n" + "\n".join(wrong)


@pytest.mark.rule("SEQ-16", "CON-02")
def test_consumers_are_the_same_after_a_restore_from_an_empty_disk(cluster: ConsumingCluster) -> None:
    for client in cluster.clients:
        client.stop()  # so that nobody waits
    before = cluster.infos()
    with cluster.attempt(f"seed {SEED}, consumers, the restore after {CONSUMER_ROUNDS} rounds"):
        cluster.restore_from_nothing()
        assert cluster.infos() == before, "the infos differ after the restore"
        wrong = cluster.audit()
        assert not wrong, "\n".join(wrong)
