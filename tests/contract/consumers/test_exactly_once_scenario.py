"""From end to end exactly once: ids against a publisher that repeats itself, double acks against consumers that crash."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import railgun
from railgun.testing import Clock
from tests.contract.conftest import Cluster
from tests.support.streams import Make

ACK_WAIT = 30.0
MESSAGES, SENT = 100, 3


@pytest.mark.rule("EXO-07", "EXO-01", "EXO-02", "EXO-03")
@pytest.mark.parametrize("seed", [1, 2])
def test_each_body_is_confirmed_exactly_once(
    cluster: Cluster, rg: railgun.Railgun, make: Make, clock: Clock, seed: int
) -> None:
    dice = random.Random(seed)
    stream = make("ORDERS")
    _publish_repeatedly(rg, stream.name, dice)
    stream.create_consumer("DISPATCH", ack_wait=ACK_WAIT)

    confirmed: Counter[str] = Counter()
    crashes = 0
    while (info := stream.consumer("DISPATCH").info()).num_pending or info.num_ack_pending:
        crashes += 1
        _work_until_the_crash(cluster, stream.name, dice, confirmed)
        clock.advance(ACK_WAIT + 1)

    assert crashes > 5
    assert confirmed == Counter({f"order {number}": 1 for number in range(MESSAGES)})
    assert stream.info().state.messages == MESSAGES
    assert info.ack_floor.stream_seq == MESSAGES


def _publish_repeatedly(rg: railgun.Railgun, stream: str, dice: random.Random) -> None:
    """Every message is sent three times, all of them in any order; each time it has the same sequence."""
    numbers = list(range(MESSAGES)) * SENT
    dice.shuffle(numbers)
    futures = [
        (number, rg.publish_soon(f"{stream}.new", f"order {number}", msg_id=f"id-{number}"))
        for number in numbers
    ]
    sequences = {(number, future.result().sequence) for number, future in futures}
    assert len(sequences) == MESSAGES
    assert sum(future.result().duplicate for _, future in futures) == MESSAGES * (SENT - 1)


def _work_until_the_crash(
    cluster: Cluster, stream: str, dice: random.Random, confirmed: Counter[str]
) -> None:
    """A client of its own: it crashes right before a double ack, right after one, or finds nothing more to do."""
    with cluster.connect() as rg:
        consumer = rg.stream(stream).consumer("DISPATCH")
        while messages := consumer.fetch(dice.randint(1, 10), wait=0.5):
            for message in messages:
                if dice.random() < 0.05:
                    return
                message.ack_sync()
                confirmed[message.text] += 1
                if dice.random() < 0.05:
                    return
