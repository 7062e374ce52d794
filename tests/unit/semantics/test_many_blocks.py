"""Messages published one by one: each drain makes a block of its own, and nothing may depend on how many there are."""

from __future__ import annotations

import sys

import pytest

from railgun.client.facade.railgun import Railgun
from railgun.testing import Clock

MESSAGES = sys.getrecursionlimit() + 100


@pytest.mark.rule("RDL-01", "RDL-03")
def test_what_was_published_one_by_one_is_delivered_again(rg: Railgun, clock: Clock) -> None:
    stream = rg.create_stream("ORDERS", subjects=["orders.>"])
    for number in range(MESSAGES):
        rg.publish("orders.new", b"%d" % number)
    consumer = stream.create_consumer("C", max_ack_pending=-1, ack_wait=30)
    first = consumer.fetch(MESSAGES, wait=1)
    assert len(first) == MESSAGES
    clock.advance(31)
    again = consumer.fetch(MESSAGES, wait=1)
    assert [one.payload for one in again] == [b"%d" % number for number in range(MESSAGES)]
