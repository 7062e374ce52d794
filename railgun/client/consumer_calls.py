"""Making, changing and listing consumers, as steps that either driver runs."""

from __future__ import annotations

from typing import Any

from railgun.client import consumer_operations as operations
from railgun.client import session
from railgun.client.connection import Connection
from railgun.client.operations import create_stream
from railgun.client.steps import Steps
from railgun.errors import InvalidConsumerConfig, InvalidStreamConfig, StreamNameTaken
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.consumers import ConsumerInfo


def create(connection: Connection, stream: str, config: ConsumerConfig, action: str) -> Steps[ConsumerInfo]:
    """Make or change a consumer; the stream for its dead letters is made if there is none of that name."""
    dead = config.dead_letter
    if dead and connection.registry_view.stream(dead) is None:
        try:
            call = create_stream(operations.dead_letter_stream(dead))
            yield from session.call(connection, call, connection.timeout)
        except StreamNameTaken:
            pass  # it is there, with a configuration of its own
        except InvalidStreamConfig as error:  # no stream can have that name
            raise InvalidConsumerConfig(
                error.code, error.err_code, error.description, stream=stream
            ) from error
    call_create = operations.create_consumer(stream, config, action)
    return (yield from session.call(connection, call_create, connection.timeout))


def update(
    connection: Connection, stream: str, config: ConsumerConfig | str, fields: dict[str, Any]
) -> Steps[ConsumerInfo]:
    """A configuration replaces the whole one; with a name, only the given fields change."""
    if isinstance(config, ConsumerConfig):
        chosen = operations.consumer_config(config, fields, ephemeral=not config.durable_name)
    else:
        call = operations.consumer_info(stream, config)
        info: ConsumerInfo = yield from session.call(connection, call, connection.timeout)
        chosen = operations.changed_config(info.config, {**fields, "name": info.name})
    return (yield from create(connection, stream, chosen, operations.UPDATE))


def list_all(connection: Connection, stream: str) -> Steps[list[ConsumerInfo]]:
    """All consumers of the stream, by name."""
    found: list[ConsumerInfo] = []
    while True:
        call = operations.list_consumers(stream, len(found))
        page, total = yield from session.call(connection, call, connection.timeout)
        found += page
        if not page or len(found) >= total:
            return sorted(found, key=lambda info: info.name)
