"""Table cases: each field of a configuration with each odd value, at creation and as a change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.differ.operations import Call, Operation, Publish
from tests.differ.spaces import (
    CONSUMER_ODD,
    CONSUMER_USUAL,
    STREAM_ODD,
    STREAM_USUAL,
    WRONG_TYPES,
    Values,
)

_AT_ONCE = (("inactive_threshold", 1),)  # a consumer that is gone by the next call
_STREAM: dict[str, Any] = {"name": "S1", "subjects": ["a.*"]}
_CONSUMERS: tuple[dict[str, Any], ...] = (
    {"durable_name": "C1", "ack_policy": "explicit"},
    {"durable_name": "C1", "ack_policy": "none"},
    {"durable_name": "C1", "ack_policy": "explicit", "deliver_subject": "d.1"},
)


def table_cases() -> Iterator[list[Operation]]:
    """All of them, each a sequence of its own."""
    for field, value in _cells(STREAM_USUAL, STREAM_ODD):
        yield _stream_case(field, value)
    for field, value in _cells(CONSUMER_USUAL, CONSUMER_ODD):
        for base in _CONSUMERS:
            yield _consumer_case(base, field, value)


def _cells(*spaces: Values) -> Iterator[tuple[str, Any]]:
    for space in spaces:
        for field, values in space.items():
            yield from ((field, value) for value in values)
    for field in {**spaces[0], **spaces[1]}:
        yield from ((field, value) for value in WRONG_TYPES if (field, value) not in _AT_ONCE)


def _stream_case(field: str, value: Any) -> list[Operation]:
    """Created so, told about; a plain one changed so, and back."""
    plain = {**_STREAM, "name": "S2", "subjects": ["b.*"]}
    return [
        Call("STREAM.CREATE.S1", _STREAM | {field: value}),
        Call("STREAM.INFO.S1"),
        Call("STREAM.CREATE.S1", _STREAM | {field: value}),
        Call("STREAM.CREATE.S2", plain),
        Call("STREAM.UPDATE.S2", plain | {field: value}),
        Call("STREAM.INFO.S2"),
        Call("STREAM.UPDATE.S2", plain),
        Call("STREAM.LIST"),
    ]


def _consumer_case(base: dict[str, Any], field: str, value: Any) -> list[Operation]:
    """The same for a consumer, on a stream with three messages."""
    other = base | {"durable_name": "C2"}
    if "deliver_subject" in base:
        other["deliver_subject"] = "d.2"
    return [
        Call("STREAM.CREATE.S1", _STREAM),
        *(Publish(f"a.{number}", "x") for number in (1, 2, 1)),
        _consumer("C1", base | {field: value}),
        Call("CONSUMER.INFO.S1.C1"),
        _consumer("C1", base | {field: value}, action="create"),
        _consumer("C2", other),
        _consumer("C2", other | {field: value}, action="update"),
        Call("CONSUMER.INFO.S1.C2"),
        _consumer("C2", other),
        Call("CONSUMER.LIST.S1"),
    ]


def _consumer(name: str, config: dict[str, Any], **more: str) -> Call:
    return Call(f"CONSUMER.CREATE.S1.{name}", {"stream_name": "S1", "config": config, **more})
