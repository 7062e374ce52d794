"""Kafka Connect, killed (``kill -9``) at any moment, once or twice while it writes: every message is one row.

How many rounds there are, and their seed: see :mod:`tests.chaos.rounds`.
"""

from __future__ import annotations

import pytest

from tests.chaos.rounds import SEED, SINK_ROUNDS, any_moment_behind, dice_of
from tests.support.sink_parts import SinkParts
from tests.support.waiting import wait_until

pytestmark = [
    *(pytest.mark.chaos(alone=False), pytest.mark.kafka, pytest.mark.slow),
    pytest.mark.timeout(600),
]
MESSAGES = 12_000


@pytest.mark.parametrize("number", range(SINK_ROUNDS))
def test_each_message_is_one_row_whenever_connect_is_killed(parts: SinkParts, number: int) -> None:
    dice = dice_of(number, "sink")
    stream = parts.stream()
    sink = parts.jdbc(stream, settings={"batch.size": "100", "consumer.override.max.poll.records": "100"})
    parts.connect.apply(sink, parts.rg)
    parts.publish(stream, MESSAGES)

    def held() -> int:
        return parts.postgres.count(sink.table)

    for _ in range(dice.randint(1, 2)):
        enough = held() + dice.randrange(MESSAGES // 4)
        kill_now = any_moment_behind(lambda enough=enough: held() > enough, dice)
        wait_until(lambda: held() == MESSAGES or kill_now(), "more rows", 60, pause=0.005)  # noqa: B023
        parts.local.kill()
        parts.plant_aborted(stream, 5)
        parts.local.start()
    parts.publish(stream, 100, "after")
    parts.await_rows(sink.table, MESSAGES + 100, 90)
    assert parts.rows(sink.table) == parts.stored(stream), f"seed {SEED}, sink, round {number}"
