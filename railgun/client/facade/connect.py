"""From an address to a connection: which transport, which settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from railgun.avro.events import Events
from railgun.avro.registry import Registry
from railgun.client.connection.connection import Connection
from railgun.client.consuming.parcels import Feed
from railgun.client.transport import Transport
from railgun.errors import ConfigError
from railgun.protocol.topics import DEFAULT_PREFIX, Names

DEFAULT_ADDRESS = "localhost:9092"
DEFAULT_TIMEOUT = 5.0
DEFAULT_MAX_IN_FLIGHT = 32_768  # some 0.2 s of full speed: enough to keep every stage of the path busy
MEMORY = "memory://"


def open_connection(
    address: str,
    *,
    prefix: str,
    timeout: float,
    kafka: Mapping[str, Any] | None,
    max_in_flight: int,
    registry: Registry | None = None,
) -> Connection:
    """Connect. Raises ConfigError, ConnectionLost, NotAuthorized, NoWorker within the timeout or soon after."""
    try:
        names = Names(prefix)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    events = Events(registry)
    transport: Transport
    feed: Callable[[Connection], Feed] | None = None
    if address.startswith(MEMORY):
        from railgun.client.transports.memory.memory_cluster import cluster_at
        from railgun.client.transports.memory.memory_transport import MemoryTransport

        transport = MemoryTransport(cluster_at(address.removeprefix(MEMORY), names))
    elif "://" in address:
        raise ConfigError(
            f"{address!r} is not a valid address: give host:port of a Kafka broker, or memory://"
        )
    else:
        from railgun.client.transports.kafka.kafka_transport import KafkaTransport
        from railgun.kafka.settings import KafkaSettings

        kafka_transport = KafkaTransport(KafkaSettings(address, dict(kafka or {})), names)
        transport = kafka_transport
        feed = lambda connection: kafka_transport.feed(connection.failed)  # noqa: E731
    try:
        return Connection(
            transport,
            timeout=timeout,
            max_in_flight=max_in_flight,
            label=address,
            feed=feed,
            events=events,
        )
    except BaseException:
        transport.close()
        raise


__all__ = ["DEFAULT_ADDRESS", "DEFAULT_MAX_IN_FLIGHT", "DEFAULT_PREFIX", "DEFAULT_TIMEOUT", "open_connection"]
