"""The record of a consumer in the table. What is pending and given up has records of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railgun.model.consumer_config import ConsumerConfig
from railgun.protocol import avro as wire
from railgun.protocol.avro import WireError
from railgun.state import keys

if TYPE_CHECKING:
    from railgun.semantics.consumers.consumer_state import ConsumerState


def consumer_name(data: bytes) -> str:
    """The name in a consumer's record; empty where that cannot be read."""
    try:
        return ConsumerConfig.from_json(wire.decode("consumer_record", data)["config"]).name or ""
    except (ValueError, TypeError, WireError):
        return ""


def write_record(consumer: ConsumerState) -> None:
    """Put the consumer as it is now into the overlay of its stream."""
    record = {
        "name": consumer.name,
        "config": consumer.config_json,
        "created": consumer.created,
        "delivered_consumer": consumer.delivered.consumer,
        "delivered_stream": consumer.delivered.stream,
        "floor_consumer": consumer.covered.consumer,
        "floor_stream": consumer.covered.stream,
        "next": consumer.position.next,
        "given_up": [],  # where older versions kept it
    }
    key = keys.of(keys.CONSUMER, consumer.stream.incarnation, consumer.number)
    consumer.stream.overlay.put(key, wire.encode("consumer_record", record))
