"""The operations on streams, without any I/O: for each a request and how its answer is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from railgun.api.names import ApiName, Operation
from railgun.client.operations.call import Call, json_body, parse_done, parse_object
from railgun.errors import ConfigError
from railgun.model.cluster_limits import LIST_PAGE
from railgun.model.consumer_info import ConsumerInfo
from railgun.model.messages import Reply, StreamInfo
from railgun.model.stream_config import StreamConfig


def create_stream(config: StreamConfig) -> Call[StreamInfo]:
    name = ApiName(Operation.STREAM_CREATE, config.name, "")
    return Call(name, parse_info, json_body(config.to_api()), changes_registry=True)


def update_stream(config: StreamConfig) -> Call[StreamInfo]:
    name = ApiName(Operation.STREAM_UPDATE, config.name, "")
    return Call(name, parse_info, json_body(config.to_api()), changes_registry=True)


def delete_stream(name: str) -> Call[None]:
    return Call(ApiName(Operation.STREAM_DELETE, name, ""), parse_done, changes_registry=True)


def stream_info(
    name: str, *, subjects: str | None = None, deleted: bool = False, tombstones: bool = False
) -> Call[StreamInfo]:
    body: dict[str, Any] = {}
    if subjects is not None:
        body["subjects_filter"] = subjects
    if deleted:
        body["deleted_details"] = True
    if tombstones:
        body["tombstones"] = True
    return Call(ApiName(Operation.STREAM_INFO, name, ""), parse_info, json_body(body) if body else b"")


def list_streams(subject: str | None = None) -> Call[list[StreamInfo]]:
    body = json_body({"subject": subject}) if subject else b""
    return Call(ApiName(Operation.STREAM_LIST, "", ""), parse_list, body)


def delete_message(stream: str, sequence: int, *, erase: bool) -> Call[None]:
    body = {"seq": sequence} if erase else {"seq": sequence, "no_erase": True}
    return Call(ApiName(Operation.MSG_DELETE, stream, ""), parse_done, json_body(body))


def purge(stream: str, *, subject: str | None, sequence: int | None, keep: int | None) -> Call[int]:
    given = {"filter": subject, "seq": sequence, "keep": keep}
    body = {key: value for key, value in given.items() if value is not None}
    return Call(ApiName(Operation.STREAM_PURGE, stream, ""), parse_purged, json_body(body) if body else b"")


# -- reading answers


def parse_info(replies: list[Reply]) -> StreamInfo:
    return StreamInfo.from_api(parse_object(replies))


def parse_list(replies: list[Reply]) -> list[StreamInfo]:
    return [StreamInfo.from_api(one) for one in parse_object(replies)["streams"] or []]


def parse_purged(replies: list[Reply]) -> int:
    return int(parse_object(replies)["purged"])


# -- INFO and STREAM.LIST: every shard answers for its own streams


def merge_accounts(answers: Sequence[Reply]) -> Reply:
    """One answer of all shards' answers: the streams and consumers of the whole cluster."""
    parts = [answer.json() for answer in answers]
    counts = {name: sum(part.get(name, 0) for part in parts) for name in ("streams", "consumers")}
    return Reply(json_body(_refused(parts) or {**parts[0], **counts}))


def list_body(body: bytes, offset: int) -> bytes:
    """The request as each shard gets it: from this offset of its own."""
    fields = _list_fields(body)
    return body if fields is None else json_body({**fields, "offset": offset})


def merge_lists(body: bytes, answers: Sequence[Reply], *, paged: bool) -> Reply:
    """One answer of all shards' answers: sorted by name, a page from the offset that was asked for (CFG-31)."""
    parts = [answer.json() for answer in answers]
    refused = _refused(parts)
    if refused is not None:
        return Reply(json_body(refused))
    streams = sorted((one for part in parts for one in part.get("streams") or []), key=_config_name)
    asked = int((_list_fields(body) or {}).get("offset") or 0) if paged else 0
    offset = min(max(asked, 0), len(streams))
    page = streams[offset : offset + LIST_PAGE] if paged else streams
    merged = {**parts[0], "total": len(streams), "offset": offset, "limit": LIST_PAGE, "streams": page}
    return Reply(json_body(merged))


def _refused(parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The answer of a shard that refuses, if one does."""
    return next((part for part in parts if "error" in part), None)


def _list_fields(body: bytes) -> dict[str, Any] | None:
    """The fields of a list request; None if the body is not valid, which the shards refuse."""
    if not body:
        return {}
    try:
        fields = json.loads(body)
    except ValueError:
        return None
    if not isinstance(fields, dict) or not isinstance(fields.get("offset") or 0, int):
        return None
    return fields


def _config_name(info: dict[str, Any]) -> str:
    return str(info["config"]["name"])


# -- arguments


def stream_config(config: StreamConfig | str, fields: dict[str, Any]) -> StreamConfig:
    """The configuration that ``create_stream`` was given. Raises ConfigError."""
    if isinstance(config, StreamConfig):
        if fields:
            raise ConfigError("give a StreamConfig or a name and fields, not both")
        return config
    return _validated({**fields, "name": config})


def changed_config(info: StreamInfo, fields: dict[str, Any]) -> StreamConfig:
    """The stream's configuration with these fields changed. Raises ConfigError."""
    return _validated({**kept_fields(info), **fields, "name": info.config.name})


def kept_fields(info: StreamInfo | ConsumerInfo) -> dict[str, Any]:
    """The fields that are set in a configuration. Raises ConfigError where a later version set what this one would drop."""
    config = info.config
    unknown = sorted(set(info.raw["config"]) - set(type(config).model_fields))
    if unknown:
        raise ConfigError(
            f"{', '.join(unknown)} was set by a later version of railgun, and would be lost: change it with that version"
        )
    return {name: getattr(config, name) for name in config.model_fields_set}


def _validated(fields: dict[str, Any]) -> StreamConfig:
    try:
        return StreamConfig.model_validate(fields)
    except ValueError as error:
        raise ConfigError(f"this is not a valid stream configuration: {error}") from error
