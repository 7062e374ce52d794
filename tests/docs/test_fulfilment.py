"""The sample application does what its text says: in memory with failures, and on Kafka as a process that is stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict

import pytest

import railgun
from tests.support.cell import Cell
from tests.support.checkout import TOP
from tests.support.waiting import wait_until
from topologies import fulfilment


def _shipped(rg: railgun.Railgun, count: int) -> list[fulfilment.Shipment]:
    reader = rg.stream(fulfilment.SHIPMENTS).create_consumer(ephemeral=True, ack_policy="none")
    return [message.as_(fulfilment.Shipment) for message in reader.fetch(count, wait=30)]


def _is_there(rg: railgun.Railgun) -> bool:
    return fulfilment.SHIPMENTS in [one.config.name for one in rg.streams()]


def test_each_order_is_shipped_once_and_customers_in_order() -> None:
    orders = fulfilment.sample_orders(21)
    wanted = [order.id for order in orders if "unobtainium" not in order.items]
    attempts: Counter[str] = Counter()
    begun: dict[str, list[str]] = defaultdict(list)

    def packing(order: fulfilment.Order) -> int:
        attempts[order.id] += 1
        begun[order.customer].append(order.id)
        if order.id == "order-4" and attempts[order.id] == 1:
            raise ConnectionError("the printer is off")
        return fulfilment.pack(order)

    with railgun.connect("memory://") as rg:
        fulfilment.prepare(rg)
        for order in [*orders, *orders]:
            fulfilment.place(rg, order)
        fulfilment.register(rg, packing, retry=(0.01, 0.01))
        worker = threading.Thread(target=rg.run)
        worker.start()
        shipments = _shipped(rg, len(wanted))
        dead = rg.stream(fulfilment.DEAD).create_consumer("REVIEW").fetch(3, wait=30)
        rg.stop()
        worker.join(30)
        assert not worker.is_alive()

        assert sorted(one.order for one in shipments) == sorted(wanted)
        assert rg.stream(fulfilment.SHIPMENTS).info().state.messages == len(wanted)
        assert rg.stream(fulfilment.ORDERS).info().state.messages == 0
        assert {letter.header("Railgun-Origin-Reason") for letter in dead} == {"out of stock: unobtainium"}
        assert attempts["order-4"] == 2
        for customer in ("ada", "bob", "cyd"):
            mine = [order.id for order in orders if order.customer == customer]
            assert list(dict.fromkeys(begun[customer])) == mine


@pytest.mark.kafka
def test_it_runs_and_ends_well_when_it_is_told_to(cell: Cell) -> None:
    command = [
        sys.executable,
        "-m",
        "topologies.fulfilment",
        "--server",
        cell.bootstrap,
        "--prefix",
        cell.prefix,
    ]
    process = subprocess.Popen([*command, "--sample", "6"], cwd=TOP)
    try:
        with railgun.connect(cell.bootstrap, prefix=cell.prefix) as rg:
            wait_until(lambda: _is_there(rg), "the application makes its streams", 60)
            assert len(_shipped(rg, 6)) == 6
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert rg.stream(fulfilment.ORDERS).info().state.messages == 0
    finally:
        process.kill()
        process.wait()


_SLOW = """
import sys, time
import railgun
from topologies import fulfilment

def slowly(order):
    time.sleep(0.05)
    return fulfilment.pack(order)

with railgun.connect(sys.argv[1], prefix=sys.argv[2]) as rg:
    fulfilment.register(rg, slowly, ack_wait=3)
    rg.run()
"""


@pytest.mark.kafka
def test_of_two_processes_one_is_killed_and_nothing_is_lost_or_shipped_twice(cell: Cell) -> None:
    orders = [
        fulfilment.Order(id=f"kept-{n}", customer=f"customer-{n % 8}", items=["tea"]) for n in range(200)
    ]
    command = [sys.executable, "-c", _SLOW, cell.bootstrap, cell.prefix]
    with railgun.connect(cell.bootstrap, prefix=cell.prefix) as rg:
        fulfilment.prepare(rg)
        shipments = rg.stream(fulfilment.SHIPMENTS).create_consumer(
            ack_policy="none", deliver_policy="new", inactive_threshold=600
        )  # the orders may take their time
        for order in orders:
            fulfilment.place(rg, order)
        processes = [subprocess.Popen(command, cwd=TOP) for _ in range(2)]
        try:
            shipped = [message.as_(fulfilment.Shipment).order for message in shipments.fetch(40, wait=60)]
            processes[0].kill()
            while len(shipped) < len(orders):
                found = shipments.fetch(len(orders) - len(shipped), wait=30)
                assert found, f"{len(shipped)} of {len(orders)} orders are shipped, and no more come"
                shipped += [message.as_(fulfilment.Shipment).order for message in found]
            assert sorted(shipped) == sorted(order.id for order in orders)
            queue = rg.stream(
                fulfilment.ORDERS
            )  # what was shipped by the killed process, and not yet acknowledged
            wait_until(lambda: queue.info().state.messages == 0, "every order is acknowledged", 30)
            assert shipments.fetch(1, wait=0) == []
            processes[1].send_signal(signal.SIGTERM)
            assert processes[1].wait(30) == 0
        finally:
            for process in processes:
                process.kill()
                process.wait()
