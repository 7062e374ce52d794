"""The end-to-end scenario with clients that are processes, and kill themselves around their double acks."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from railgun.testing import Clock
from tests.chaos import journal
from tests.chaos.client import Settings
from tests.chaos.client_process import ClientProcess
from tests.chaos.rounds import SEED
from tests.support.cell import Cell

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
ACK_WAIT = 30.0
MESSAGES, SENT = 100, 3
KILLED = 128 + 9


@pytest.mark.rule("EXO-07", "EXO-04")
def test_each_body_is_confirmed_exactly_once_though_clients_are_killed(cell: Cell) -> None:
    """No ack wait ends while a client works: the clock moves when all are gone. So no message has two owners."""
    print(f"seed {SEED}")
    cell.ready_worker()
    settings = Settings(
        cell.bootstrap, cell.prefix, [("ORDERS", "DISPATCH")], "", wait=1.0, crashes=0.04, until_silent=True
    )
    clients = [
        ClientProcess(cell.folder / f"client-{number}", replace(settings, seed=f"{SEED} client {number}"))
        for number in range(3)
    ]
    with cell.connect() as rg:
        orders = rg.create_stream("ORDERS", subjects=["ORDERS.*"])
        numbers = list(range(MESSAGES)) * SENT
        random.Random(SEED).shuffle(numbers)
        for number in numbers:
            rg.publish_soon("ORDERS.new", f"order-{number}", msg_id=f"id-{number}")
        rg.flush()
        dispatch = orders.create_consumer("DISPATCH", ack_wait=ACK_WAIT)
        ends: list[int] = []
        while (info := dispatch.info()).num_pending or info.num_ack_pending:
            for client in clients:
                client.start()
            ends += [client.await_end(60.0) for client in clients]
            Clock(rg).advance(ACK_WAIT + 1)
        assert orders.info().state.messages == MESSAGES

    assert set(ends) <= {0, KILLED}, "\n".join(client.last_lines() for client in clients)
    assert KILLED in ends
    entries = journal.read(client.journal for client in clients)
    confirmed = Counter(entry.body for entry in entries if entry.what == journal.CONFIRMED)
    assert confirmed == Counter({f"order-{number}": 1 for number in range(MESSAGES)})
