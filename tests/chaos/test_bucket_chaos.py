"""Keys of a bucket are written, read and watched while everything is hurt.

The calls on each key could have happened one after the other; a watch that was opened once gives every write, in order; a cache gives
nothing that is older than what its own client wrote. All of it also after all workers lost their disks. How many rounds there are and
what happens in them: see :mod:`tests.chaos.rounds`.
"""

from __future__ import annotations

import pytest

from tests.chaos.buckets.bucket_cluster import BucketCluster
from tests.chaos.rounds import BUCKET_ROUNDS, SEED, dice_of, turn_of

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]
SALT = "keys"
CLUSTER = BucketCluster


@pytest.mark.rule("KV-13", "KV-18", "KV-19", "KV-35", "KV-52")
@pytest.mark.parametrize("number", range(BUCKET_ROUNDS))
def test_calls_on_a_key_happen_one_after_the_other(cluster: BucketCluster, number: int) -> None:
    action = cluster.torments[turn_of(number, len(cluster.torments), SALT)]
    with cluster.attempt(f"seed {SEED}, buckets, round {number}, {action.__name__}"):
        done = cluster.round(number, action, dice_of(number, SALT))
        wrong = cluster.audit()
        assert not wrong, f"{done}:\n" + "\n".join(wrong)


@pytest.mark.rule("KV-28", "KV-29", "CLU-13")
def test_a_bucket_is_the_same_after_a_restore_from_an_empty_disk(cluster: BucketCluster) -> None:
    before = cluster.infos()
    with cluster.attempt(f"seed {SEED}, buckets, the restore after {BUCKET_ROUNDS} rounds"):
        cluster.restore_from_nothing()
        assert cluster.infos() == before, "the bucket differs after the restore"
