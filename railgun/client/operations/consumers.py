"""The operations on consumers, without any I/O: for each a request and how its answer is read."""

from __future__ import annotations

import json
from typing import Any

from railgun.api.names import ApiName, Operation
from railgun.client.operations.streams import Call, kept_fields, parse_done, parse_object
from railgun.errors import ConfigError, api_error
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.consumer_info import ConsumerInfo
from railgun.model.messages import Reply
from railgun.model.refusals import bad_consumer_name
from railgun.model.stream_config import StreamConfig

CREATE, UPDATE, EITHER = "create", "update", ""  # what a request may do (CON-10)


def create_consumer(stream: str, config: ConsumerConfig, action: str) -> Call[ConsumerInfo]:
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
    """A page of the consumers from this offset on, and how many there are."""
    body = json.dumps({"offset": offset}).encode("utf-8")
    return Call(ApiName(Operation.CONSUMER_LIST, stream, ""), _page, body)


def _info(replies: list[Reply]) -> ConsumerInfo:
    return ConsumerInfo.from_api(parse_object(replies, of_consumer=True))


def _page(replies: list[Reply]) -> tuple[list[ConsumerInfo], int]:
    found = parse_object(replies, of_consumer=True)
    return [ConsumerInfo.from_api(one) for one in found.get("consumers") or []], int(found.get("total", 0))


# -- arguments


def consumer_config(
    config: ConsumerConfig | str | None, fields: dict[str, Any], *, ephemeral: bool
) -> ConsumerConfig:
    """What ``create_consumer`` was given, as a configuration: durable if it has a name, explicit ack unless said otherwise.

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
        raise ConfigError(f"not a consumer configuration: {error}") from error
