"""A few histories of the fuzz; `make fuzz` plays as many as there is time for, from fresh seeds."""

from __future__ import annotations

import pytest

from tests.fuzz.operations import history
from tests.fuzz.player import Difference, Player
from tests.fuzz.shrinking import failure, shortened
from tests.fuzz.worlds import Tight


@pytest.mark.parametrize("seed", range(25))
def test_a_shard_without_room_says_what_one_with_room_says(seed: int) -> None:
    Player().play(history(seed, 120))


@pytest.mark.rule("DLQ-06")
@pytest.mark.parametrize(
    "seed", [248554227456207], ids=["dead letters of a stream that goes in the same drain"]
)
def test_what_once_failed_does_not_again(seed: int) -> None:
    Player().play(history(seed, 150, counting=False))


def test_a_difference_is_found_and_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard that forgets a message when its owner changes does not get through."""

    def restart(world: Tight, partition: int) -> None:
        for key, _ in list(world.tables[partition].scan(b"b"))[:1]:
            world.tables[partition].apply({key: None})
        world.cores[partition] = world._load(partition)

    monkeypatch.setattr(Tight, "restart", restart)
    found = next(one for one in (history(seed, 120) for seed in range(25)) if failure(one) is not None)
    short = shortened(found, seconds=5.0)
    assert len(short) < len(found)
    with pytest.raises((Difference, AssertionError)):
        Player().play(short)
