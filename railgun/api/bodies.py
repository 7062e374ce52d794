"""What a request's body says: JSON taken apart without ever raising.

A body that is not JSON, or has an unknown field or one of a wrong type, is refused with 10025 and a sentence that names the
field (C-41). Names of fields are read without regard to case.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from railgun.model import headers as h
from railgun.model.cluster_limits import API_LEVEL
from railgun.model.durations import parse_rfc3339
from railgun.model.refusals import BAD_REQUEST, NAME_HAS_PATH, STREAM_MISMATCH, Refusal, invalid_json
from railgun.model.stream_config import ConfigModel, StreamConfig, by_known_names
from railgun.semantics.streams.reading.gets import GetRequest
from railgun.semantics.streams.removal import PurgeRequest

_GREATEST = 2**63 - 1
_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number with a fraction",
    str: "a text",
    list: "a list",
    dict: "an object",
}
UNSIGNED = range(_GREATEST)
_STREAM_NUMBERS = {"first_seq": UNSIGNED, "max_msg_size": range(-(2**31), 2**31)}
_SOURCE_NUMBERS = {"opt_start_seq": UNSIGNED}
_GET_FIELDS: dict[str, type] = {
    "seq": int,
    "last_by_subj": str,
    "next_by_subj": str,
    "start_time": str,
    "batch": int,
    "max_bytes": int,
    "multi_last": list,
    "up_to_seq": int,
    "up_to_time": str,
    "no_hdr": bool,
}
_PURGE_FIELDS: dict[str, type] = {"filter": str, "seq": int, "keep": int}
_DELETE_FIELDS: dict[str, type] = {"seq": int, "no_erase": bool}
_INFO_FIELDS: dict[str, type] = {
    "subjects_filter": str,
    "deleted_details": bool,
    "offset": int,
    "tombstones": bool,
}
_PAGE_FIELDS: dict[str, type] = {"offset": int, "subject": str}


def level_too_high(headers: h.Headers) -> bool:
    """CFG-30: the caller needs a newer server than this one."""
    wanted = h.first(headers, h.REQUIRED_API_LEVEL)
    if not wanted:
        return False
    number = wanted.decode("utf-8", "replace").strip()
    return not (number.isascii() and number.isdigit() and len(number) < 9 and int(number) <= API_LEVEL)


class ConfigRequest(NamedTuple):
    """What a create or update asks for; ``pedantic`` refuses what would otherwise be put right."""

    config: StreamConfig
    pedantic: bool


def parse_object(body: bytes) -> dict[str, Any] | Refusal:
    """The JSON object of a body; an empty body is an empty object."""
    if not body.strip():
        return {}
    try:
        value = json.loads(body, parse_int=_whole, parse_constant=_refuse_constant)
        if b"\\u" in body:  # half a surrogate pair is JSON, but no text that could be written anywhere
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        return invalid_json("the text is not valid UTF-8")
    except ValueError as error:
        return invalid_json(str(error))
    except RecursionError:
        return invalid_json("the text is nested too deeply")
    if value is None:
        return {}
    return value if isinstance(value, dict) else invalid_json(f"expected an object, not {_kind_of(value)}")


def is_empty(body: bytes) -> bool:
    """Whether a body says nothing: there is none, or an object without fields."""
    return not body or (body.strip() != b"" and parse_object(body) == {})


def parse_get(body: bytes) -> GetRequest | Refusal:
    fields = _fields(body, _GET_FIELDS)
    if isinstance(fields, Refusal):
        return fields
    try:
        for name in ("start_time", "up_to_time"):
            if name in fields:
                fields[name] = parse_rfc3339(fields[name])
    except (ValueError, OverflowError) as error:
        return invalid_json(str(error))
    patterns = fields.get("multi_last", [])
    if not all(isinstance(pattern, str) for pattern in patterns):
        return invalid_json('field "multi_last": expected a list of texts')
    return GetRequest(**(fields | {"multi_last": tuple(patterns)}))


def parse_purge(body: bytes) -> PurgeRequest | Refusal:
    fields = _fields(body, _PURGE_FIELDS)
    if isinstance(fields, Refusal):
        return fields
    return BAD_REQUEST if fields.get("seq") and fields.get("keep") else PurgeRequest(**fields)


def parse_delete(body: bytes) -> int | Refusal:
    """The sequence to delete. ``no_erase`` is taken and makes no visible difference (DEL-04)."""
    fields = _fields(body, _DELETE_FIELDS)
    if isinstance(fields, Refusal):
        return fields
    sequence: int | None = fields.get("seq")
    return BAD_REQUEST if sequence is None else sequence


def parse_info(body: bytes) -> dict[str, Any] | Refusal:
    """``subjects_filter``, ``deleted_details``, ``offset`` and ``tombstones``, where given."""
    return _fields(body, _INFO_FIELDS)


def parse_advance(body: bytes) -> int | Refusal:
    """How far the test clock is to jump, ns: forward only."""
    fields = _fields(body, {"nanos": int})
    if isinstance(fields, Refusal):
        return fields
    nanos: int = fields.get("nanos", 0)
    return nanos if nanos >= 0 else BAD_REQUEST


def parse_page(body: bytes) -> tuple[int, str] | Refusal:
    """The offset and the subject of a list of streams."""
    fields = _fields(body, _PAGE_FIELDS)
    if isinstance(fields, Refusal):
        return fields
    return fields.get("offset", 0), fields.get("subject", "")


def parse_config(body: bytes) -> ConfigRequest | Refusal:
    """The configuration of a create or update of a stream; the rules have not seen it yet."""
    fields = parse_object(body)
    if isinstance(fields, Refusal):
        return fields
    fields = by_known_names(fields, {"pedantic"})
    pedantic = fields.pop("pedantic", False)
    if type(pedantic) is not bool:
        return invalid_json('field "pedantic": expected true or false')
    try:
        config = StreamConfig.from_api(fields)
    except ValidationError as error:
        return config_refusal(error)
    upstreams = (one for one in (config.mirror, *(config.sources or ())) if one is not None)
    wrong = next((found for one in upstreams if (found := unreadable(one, _SOURCE_NUMBERS))), None)
    wrong = wrong or next((found for one in config.topics or () if (found := unreadable(one, {}))), None)
    return unreadable(config, _STREAM_NUMBERS) or wrong or ConfigRequest(config, pedantic)


def addressed_otherwise(config: StreamConfig, name: str) -> Refusal | None:
    """Why a configuration is not that of the stream which the call addresses (CFG-04)."""
    if config.name != name:
        return STREAM_MISMATCH
    return NAME_HAS_PATH if "/" in name or "\\" in name else None


def unreadable(config: ConfigModel, numbers: Mapping[str, range]) -> Refusal | None:
    """The refusal of a number that NATS has no room for, or of a time that is not valid (C-41)."""
    for name, room in numbers.items():
        value = getattr(config, name)
        if value is not None and value not in room:
            return invalid_json(f'field "{name}": {value} is not between {room[0]} and {room[-1]}')
    for name in ("opt_start_time", "pause_until"):
        try:
            text = getattr(config, name, None)
            if text is not None:
                parse_rfc3339(text)
        except ValueError as error:
            return invalid_json(f'field "{name}": {error}')
    return None


def config_refusal(error: ValidationError) -> Refusal:
    """A configuration with an unknown field, or one of a wrong type: a sentence that names it."""
    return invalid_json(_sentence(error))


def _whole(text: str) -> int:
    number = int(text)
    if abs(number) > _GREATEST:
        raise ValueError(f"{text} does not fit into 64 bits")
    return number


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _fields(body: bytes, known: Mapping[str, type]) -> dict[str, Any] | Refusal:
    """The fields of a request, each of its own type; numbers are not negative, but for an offset, which is 0 then."""
    fields = parse_object(body)
    if isinstance(fields, Refusal):
        return fields
    given = by_known_names(fields, known)
    for name, value in given.items():
        kind = known.get(name)
        if kind is None:
            return invalid_json(f'json: unknown field "{name}"')
        if type(value) is not kind:
            return invalid_json(f'field "{name}": expected {_KINDS[kind]}, not {_kind_of(value)}')
        if isinstance(value, int) and value < 0 and name != "offset":
            return invalid_json(f'field "{name}": the number must not be negative')
    if "offset" in given:
        given["offset"] = max(given["offset"], 0)
    return given


def _kind_of(value: object) -> str:
    return _KINDS.get(type(value), "null")


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "extra_forbidden":
        return f'json: unknown field "{first["loc"][-1]}"'
    field = ".".join(str(part) for part in first["loc"])
    message = first["msg"]
    return f'field "{field}": {message[:1].lower()}{message[1:]}'
