"""The operations on consumers: for each a request and how its answer is read, and the steps of making, changing and listing."""

from __future__ import annotations

import json
import logging
from typing import Any

from railgun.api.names import ApiName, Operation
from railgun.client.connection.connection import Connection
from railgun.client.operations import flows
from railgun.client.operations.call import Call, parse_done, parse_object
from railgun.client.operations.streams import create_stream, delete_stream, kept_fields, stream_info
from railgun.client.steps import Steps
from railgun.errors import (
    ApiError,
    ConfigError,
    InvalidConsumerConfig,
    InvalidStreamConfig,
    RailgunError,
    StreamNameTaken,
    api_error,
)
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.consumer_info import ConsumerInfo
from railgun.model.messages import Reply, StreamInfo
from railgun.model.refusals import bad_consumer_name
from railgun.model.stream_config import StreamConfig

logger = logging.getLogger(__name__)

CREATE, UPDATE, EITHER = "create", "update", ""  # what a request may do (CON-10)


def create_call(stream: str, config: ConsumerConfig, action: str) -> Call[ConsumerInfo]:
    name = config.name or config.durable_name or ""
    if "." in name:  # in a request, a filter would follow it
        raise api_error(*bad_consumer_name("name"), stream=stream, of_consumer=True)
    body: dict[str, Any] = {"stream_name": stream, "config": config.to_api()}
    if action:
        body["action"] = action
    return Call(ApiName(Operation.CONSUMER_CREATE, stream, name), _info, json.dumps(body).encode("utf-8"))


def consumer_info(stream: str, name: str) -> Call[ConsumerInfo]:
    return Call(ApiName(Operation.CONSUMER_INFO, stream, name), _info)


def delete_consumer(stream: str, name: str) -> Call[None]:
    return Call(ApiName(Operation.CONSUMER_DELETE, stream, name), parse_done)


def list_consumers(stream: str, offset: int) -> Call[tuple[list[ConsumerInfo], int]]:
    """A page of the consumers from this offset on, and the number of all of them."""
    body = json.dumps({"offset": offset}).encode("utf-8")
    return Call(ApiName(Operation.CONSUMER_LIST, stream, ""), _page, body)


def _info(replies: list[Reply]) -> ConsumerInfo:
    return ConsumerInfo.from_api(parse_object(replies, of_consumer=True))


def _page(replies: list[Reply]) -> tuple[list[ConsumerInfo], int]:
    found = parse_object(replies, of_consumer=True)
    return [ConsumerInfo.from_api(one) for one in found.get("consumers") or []], int(found.get("total", 0))


# -- steps


def create(connection: Connection, stream: str, config: ConsumerConfig, action: str) -> Steps[ConsumerInfo]:
    """Make or change a consumer; the stream for its dead letters is made if there is none of that name.

    The stream comes first, so that no dead letter is without a place; it goes again if the consumer is refused.
    """
    asked = create_call(stream, config, action)
    dead = config.dead_letter or ""
    made = bool(dead) and (yield from _make_dead_letter_stream(connection, stream, dead))
    try:
        return (yield from flows.call(connection, asked, connection.timeout))
    except ApiError:  # a refusal; after any other error the consumer may exist
        if made:
            yield from _remove_if_empty(connection, dead)
        raise


def _make_dead_letter_stream(connection: Connection, stream: str, dead: str) -> Steps[bool]:
    """Make the stream unless one of that name exists; whether this very call made it."""
    if connection.stream(dead) is not None:
        return False
    try:
        call = create_stream(dead_letter_stream(dead))
        info: StreamInfo = yield from flows.call(connection, call, connection.timeout)
    except StreamNameTaken:
        return False  # it exists, with a configuration of its own
    except InvalidStreamConfig as error:  # no stream can have that name
        raise InvalidConsumerConfig(error.code, error.err_code, error.description, stream=stream) from error
    return bool(info.raw.get("did_create"))


def _remove_if_empty(connection: Connection, dead: str) -> Steps[None]:
    """Undo :func:`_make_dead_letter_stream`, unless the stream is in use by now. A failure is logged: the caller has an
    error to raise."""
    try:
        info: StreamInfo = yield from flows.call(connection, stream_info(dead), connection.timeout)
        if not info.state.last_seq and not info.state.consumer_count:
            yield from flows.call(connection, delete_stream(dead), connection.timeout)
    except RailgunError as error:
        logger.warning("the dead-letter stream %s stays, although its consumer was refused: %s", dead, error)


def update(
    connection: Connection, stream: str, config: ConsumerConfig | str, fields: dict[str, Any]
) -> Steps[ConsumerInfo]:
    """A configuration replaces the whole one; with a name, only the given fields change."""
    if isinstance(config, ConsumerConfig):
        chosen = consumer_config(config, fields, ephemeral=not config.durable_name)
    else:
        call = consumer_info(stream, config)
        info: ConsumerInfo = yield from flows.call(connection, call, connection.timeout)
        chosen = changed_config(info, {**fields, "name": info.name})
    return (yield from create(connection, stream, chosen, UPDATE))


def list_all(connection: Connection, stream: str) -> Steps[list[ConsumerInfo]]:
    """All consumers of the stream, by name."""
    found: list[ConsumerInfo] = []
    while True:
        call = list_consumers(stream, len(found))
        page, total = yield from flows.call(connection, call, connection.timeout)
        found += page
        if not page or len(found) >= total:
            return sorted(found, key=lambda info: info.name)


# -- arguments


def consumer_config(
    config: ConsumerConfig | str | None, fields: dict[str, Any], *, ephemeral: bool
) -> ConsumerConfig:
    """The configuration that ``create_consumer`` was given: durable if it has a name, explicit ack unless said otherwise.

    Raises ConfigError.
    """
    if isinstance(config, ConsumerConfig):
        if fields:
            raise ConfigError("give a ConsumerConfig or a name and fields, not both")
        chosen = {name: getattr(config, name) for name in config.model_fields_set}
    else:
        chosen = {name: value for name, value in fields.items() if value is not None}
        if config is not None:
            chosen["name"] = config
    chosen.setdefault("ack_policy", "explicit")
    if ephemeral:
        chosen.pop("durable_name", None)
    elif chosen.get("name"):
        chosen.setdefault("durable_name", chosen["name"])
    return _validated(chosen)


def changed_config(info: ConsumerInfo, fields: dict[str, Any]) -> ConsumerConfig:
    """The consumer's configuration with these fields changed. Raises ConfigError."""
    return _validated({**kept_fields(info), **fields})


def dead_letter_stream(name: str) -> StreamConfig:
    """The stream that takes what is given up. Copies are put into it directly; a stream needs a subject all the same."""
    return StreamConfig(name=name, subjects=[name])


def _validated(fields: dict[str, Any]) -> ConsumerConfig:
    try:
        return ConsumerConfig.model_validate(fields)
    except ValueError as error:
        raise ConfigError(f"this is not a valid consumer configuration: {error}") from error
