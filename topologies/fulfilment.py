"""A small application: orders come in, shipments go out, each of them once. To run and to copy.

::

    railgun up                                      # a local Kafka and a worker, in another terminal
    python -m topologies.fulfilment --sample 20     # publish some orders, then work until Ctrl-C or SIGTERM

Orders wait in a work queue, one subject for each customer. Orders of one customer are packed one after the other, those of
different customers beside each other, by as many of these processes as you start. A shipment carries an id made of its order, so
an order that is worked on twice is shipped once. What cannot be packed is in ``SHOP_DLQ``: ``railgun dlq ls SHOP_DLQ``.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable

from pydantic import BaseModel, Field

import railgun

ORDERS, SHIPMENTS, DEAD = "SHOP_ORDERS", "SHOP_SHIPMENTS", "SHOP_DLQ"
RETRY = (1.0, 5.0, 30.0)

log = logging.getLogger("fulfilment")


class Order(BaseModel):
    id: str
    customer: str
    items: list[str] = Field(min_length=1)


class Shipment(BaseModel):
    order: str
    parcels: int


class OutOfStock(Exception):
    """No attempt will succeed: the article is not sold any more."""


def pack(order: Order) -> int:
    """The number of parcels of an order: the work goes here. Any exception but OutOfStock is tried again."""
    if "unobtainium" in order.items:
        raise OutOfStock("unobtainium")
    return -(-len(order.items) // 3)


def prepare(rg: railgun.Railgun) -> None:
    """Make the streams; those that are there are left as they are."""
    rg.create_stream(ORDERS, subjects=["shop.orders.*"], retention="workqueue")
    # The window is longer than all retries together, and than most outages: within it nothing is shipped twice.
    rg.create_stream(SHIPMENTS, subjects=["shop.shipments.*"], duplicate_window=24 * 3600)
    rg.create_stream(DEAD, subjects=[DEAD], max_age=30 * 24 * 3600)


def place(rg: railgun.Railgun, order: Order) -> bool:
    """Place an order; whether it is a new one. May be called again whenever the outcome is not known."""
    subject = f"shop.orders.{order.customer}"
    return not rg.publish(subject, order.model_dump_json(), msg_id=order.id).duplicate


def register(
    rg: railgun.Railgun,
    packing: Callable[[Order], int] = pack,
    retry: tuple[float, ...] = RETRY,
    ack_wait: float = 30.0,
) -> None:
    """Have orders packed by ``rg.run()``. What a process that was killed held is packed by another after ``ack_wait``."""

    @rg.handler(
        ORDERS,
        "PACKING",
        concurrency=8,
        retry=retry,
        dead_letter=DEAD,
        ack_wait=ack_wait,
        max_ack_pending_per_subject=1,
    )
    def ship(order: Order, message: railgun.Message) -> None:
        try:
            parcels = packing(order)
        except OutOfStock as error:
            raise railgun.Reject(f"out of stock: {error}") from error
        shipment = Shipment(order=order.id, parcels=parcels)
        rg.publish(f"shop.shipments.{order.customer}", shipment.model_dump_json(), msg_id=order.id)
        message.ack_sync()  # the order is gone for good before the customer's next one is begun
        log.info("order %s of %s: %d parcel(s)", order.id, order.customer, parcels)


def sample_orders(count: int) -> list[Order]:
    """Orders of three customers; every seventh asks for an article that is not sold."""
    customers = ("ada", "bob", "cyd")
    return [
        Order(
            id=f"order-{n}",
            customer=customers[n % 3],
            items=["unobtainium"] if n % 7 == 6 else ["tea"] * (n + 1),
        )
        for n in range(count)
    ]


def main(arguments: list[str] | None = None) -> None:
    """The program: make the streams, publish the samples, work until told to stop."""
    parser = argparse.ArgumentParser(prog="fulfilment", description="Packs orders.")
    parser.add_argument("--server", default="localhost:9092", help="a Kafka broker, host:port")
    parser.add_argument("--prefix", default="railgun", help="of the cluster's topics")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="place so many orders first")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    with railgun.connect(chosen.server, prefix=chosen.prefix) as rg:
        prepare(rg)
        for order in sample_orders(chosen.sample):
            place(rg, order)
        register(rg)
        rg.run()


if __name__ == "__main__":
    main()
