"""Making, changing and listing consumers, as steps that either driver runs."""

from __future__ import annotations

import logging
from typing import Any

from railgun.client.connection.connection import Connection
from railgun.client.operations import consumers as operations
from railgun.client.operations import flows as session
from railgun.client.operations.streams import create_stream, delete_stream, stream_info
from railgun.client.steps import Steps
from railgun.errors import ApiError, InvalidConsumerConfig, InvalidStreamConfig, RailgunError, StreamNameTaken
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.consumer_info import ConsumerInfo
from railgun.model.messages import StreamInfo

logger = logging.getLogger(__name__)


def create(connection: Connection, stream: str, config: ConsumerConfig, action: str) -> Steps[ConsumerInfo]:
    """Make or change a consumer; the stream for its dead letters is made if there is none of that name.

    The stream comes first, so that no dead letter is without a place; it goes again if the consumer is refused.
    """
    asked = operations.create_consumer(stream, config, action)
    dead = config.dead_letter or ""
    made = bool(dead) and (yield from _make_dead_letter_stream(connection, stream, dead))
    try:
        return (yield from session.call(connection, asked, connection.timeout))
    except ApiError:  # a refusal; after any other error the consumer may exist
        if made:
            yield from _remove_if_empty(connection, dead)
        raise


def _make_dead_letter_stream(connection: Connection, stream: str, dead: str) -> Steps[bool]:
    """Make the stream unless one of that name exists; whether this very call made it."""
    if connection.registry_view.stream(dead) is not None:
        return False
    try:
        call = create_stream(operations.dead_letter_stream(dead))
        info: StreamInfo = yield from session.call(connection, call, connection.timeout)
    except StreamNameTaken:
        return False  # it exists, with a configuration of its own
    except InvalidStreamConfig as error:  # no stream can have that name
        raise InvalidConsumerConfig(error.code, error.err_code, error.description, stream=stream) from error
    return bool(info.raw.get("did_create"))


def _remove_if_empty(connection: Connection, dead: str) -> Steps[None]:
    """Undo :func:`_make_dead_letter_stream`, unless somebody uses the stream by now. What fails is logged: the caller has an
    error to raise."""
    try:
        info: StreamInfo = yield from session.call(connection, stream_info(dead), connection.timeout)
        if not info.state.last_seq and not info.state.consumer_count:
            yield from session.call(connection, delete_stream(dead), connection.timeout)
    except RailgunError as error:
        logger.warning("the dead-letter stream %s stays, although its consumer was refused: %s", dead, error)


def update(
    connection: Connection, stream: str, config: ConsumerConfig | str, fields: dict[str, Any]
) -> Steps[ConsumerInfo]:
    """A configuration replaces the whole one; with a name, only the given fields change."""
    if isinstance(config, ConsumerConfig):
        chosen = operations.consumer_config(config, fields, ephemeral=not config.durable_name)
    else:
        call = operations.consumer_info(stream, config)
        info: ConsumerInfo = yield from session.call(connection, call, connection.timeout)
        chosen = operations.changed_config(info, {**fields, "name": info.name})
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
