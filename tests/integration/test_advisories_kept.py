"""Advisories are kept in a topic of their own, for a day, where any reader of Kafka finds them."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from railgun.protocol.routing import partition_of
from tests.support.cell import Cell
from tests.support.consumers import add, settle, take
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS

pytestmark = pytest.mark.kafka


@pytest.mark.rule("ADV-01")
def test_events_are_kept_for_a_day(cell: Cell) -> None:
    cell.ready_worker()
    client = cell.client
    topic = client.names.advisories
    with cell.connect() as rg:
        rg.create_stream("ORDERS", subjects=["ORDERS.*"])
        rg.publish("ORDERS.new", b"order")
        add(rg, "ORDERS")
        (message,) = take(rg, "ORDERS")
        settle(rg, message, b"+TERM because")
    subject = b"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.ORDERS.C"
    partition = partition_of("ORDERS", PARTITIONS)

    def kept() -> list[bytes]:
        return [
            record.value() or b"" for record in client.records(topic, partition) if record.key() == subject
        ]

    wait_until(lambda: len(kept()) == 1, "the event is in the topic")
    event = json.loads(kept()[0])
    assert (event["stream"], event["consumer"], event["reason"]) == ("ORDERS", "C", "because")
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient(client.kafka.admin())
    settings = admin.describe_configs([resource])[resource].result(10)
    assert settings["retention.ms"].value == "86400000"
    assert settings["cleanup.policy"].value == "delete"
