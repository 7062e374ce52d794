"""Opening a consumer: what it delivers is leased ahead, in a buffer, pulled or pushed as it is configured."""

from __future__ import annotations

from railgun.client.connection.connection import Connection
from railgun.client.consuming.buffer import Buffer
from railgun.client.consuming.delivery import Delivery
from railgun.client.consuming.fetch import prepared
from railgun.client.consuming.listeners import listen
from railgun.client.consuming.pull_buffer import PullBuffer
from railgun.client.consuming.push_buffer import BoundBuffer
from railgun.client.operations import flows
from railgun.client.operations.consumers import consumer_info
from railgun.client.steps import Steps
from railgun.errors import ConsumerBound
from railgun.model.consumer_info import ConsumerInfo

LEAST = 64  # messages that an iteration leases ahead at least


def open_buffer(
    connection: Connection, stream: str, consumer: str, make: type[Delivery], *, least: int = LEAST
) -> Steps[Buffer]:
    """A buffer of what a consumer delivers, pulled or pushed as it is configured. Raises ConsumerNotFound, ConsumerBound (PSH-05)."""
    hub = connection.consuming
    info: ConsumerInfo = yield from flows.call(
        connection, consumer_info(stream, consumer), connection.timeout
    )
    address = yield from prepared(hub, stream, consumer)
    config = info.config
    if config.deliver_subject:
        if info.push_bound and not config.deliver_group:
            raise ConsumerBound(consumer)
        pushed = BoundBuffer(hub, make, address, config)
        yield from listen(hub, pushed)
        return pushed
    pulled = PullBuffer(hub, make, address, config, least=least)
    hub.hold(pulled)
    return pulled
