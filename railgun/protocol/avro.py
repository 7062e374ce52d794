"""Avro bodies: one codec per schema of ``schemas/``, and the values that commands carry.

What consumers and their clients tell each other is in :mod:`railgun.protocol.leases`, the batches of answers in
:mod:`railgun.protocol.replies`.

Codecs are strict: bytes that do not decode to the end raise :class:`WireError`, which the shard turns into a record in
``rejected``. Values on the hot path (packs) are NamedTuples of columns, not one object a message.
"""

from __future__ import annotations

import io
import json
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import fastavro

from railgun.errors import RailgunError

HeaderList = list[tuple[str, bytes]]


class WireError(RailgunError):
    """Bytes that are not what their schema says."""


def schema_folder() -> Path:
    """Where the schemas are: inside an installed package, or beside it in a checkout."""
    installed = Path(__file__).parent.parent / "_schemas"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "schemas"


@cache
def schema(name: str) -> Any:
    """The parsed schema ``schemas/<name>.avsc``."""
    return fastavro.parse_schema(json.loads((schema_folder() / f"{name}.avsc").read_text("utf-8")))


def encode(name: str, value: dict[str, Any]) -> bytes:
    """The value as the Avro bytes of schema ``name``."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema(name), value)
    return out.getvalue()


@cache
def _older(name: str) -> list[tuple[Any, dict[str, Any]]]:
    """The schema as it was before its last fields were added, newest first, with the defaults of those that it lacked."""
    written = json.loads((schema_folder() / f"{name}.avsc").read_text("utf-8"))
    fields, lacking, found = written["fields"], {}, []
    while fields and "default" in fields[-1]:
        lacking[fields[-1]["name"]] = fields[-1]["default"]
        fields = fields[:-1]
        found.append((fastavro.parse_schema(written | {"fields": fields}), dict(lacking)))
    return found


def decode(name: str, data: bytes, *, later: bool = False) -> dict[str, Any]:
    """The value of Avro bytes of schema ``name``. Raises WireError unless they are exactly one such value.

    A schema may grow at its end, by fields with a default: bytes from before then have the default. ``later``: they may also be
    from a later version, whose new fields are left out.
    """
    try:
        return _decode(name, schema(name), data, later=later)
    except WireError as error:
        for shape, defaults in _older(name) if error.__cause__ is not None else ():
            with suppress(WireError):
                return _decode(name, shape, data) | deepcopy(defaults)
        raise


def _decode(name: str, shape: Any, data: bytes, *, later: bool = False) -> dict[str, Any]:
    source = io.BytesIO(data)
    try:
        value = fastavro.schemaless_reader(source, shape, None)
    except (
        EOFError,
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        OverflowError,
        MemoryError,
        UnicodeDecodeError,
    ) as error:
        raise WireError(f"not a {name}: {str(error) or type(error).__name__}") from error
    if source.tell() != len(data) and not later:
        raise WireError(f"not a {name}: {len(data) - source.tell()} bytes too many")
    assert isinstance(value, dict)
    return value


def headers_out(headers: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in headers]


def headers_in(fields: list[dict[str, Any]]) -> HeaderList:
    return [(field["name"], field["value"]) for field in fields]


class PublishPack(NamedTuple):
    """Publishes to one stream as columns; ``ids`` and ``headers`` are empty lists when no message has any."""

    stream: str
    client: str
    first_request: int
    subjects: list[str]
    ids: list[str]
    headers: list[HeaderList]
    payloads: list[bytes]

    def encode(self) -> bytes:
        return encode(
            "publish_pack",
            {
                "stream": self.stream,
                "client": self.client,
                "first_request": self.first_request,
                "subjects": self.subjects,
                "ids": self.ids,
                "headers": [headers_out(one) for one in self.headers],
                "payloads": self.payloads,
            },
        )

    @classmethod
    def decode(cls, data: bytes) -> PublishPack:
        value = decode("publish_pack", data)
        count = len(value["payloads"])
        headers = [headers_in(one) for one in value["headers"]]
        for column in (value["ids"], headers):
            if column and len(column) != count:
                raise WireError(f"not a publish_pack: a column of {len(column)} beside {count} payloads")
        if len(value["subjects"]) != count:
            raise WireError(f"not a publish_pack: {len(value['subjects'])} subjects beside {count} payloads")
        return cls(
            value["stream"],
            value["client"],
            value["first_request"],
            value["subjects"],
            value["ids"],
            headers,
            value["payloads"],
        )


class ApiRequest(NamedTuple):
    """A call of the API by name."""

    client: str
    request: int
    api: str
    stream: str
    headers: HeaderList
    body: bytes

    def encode(self) -> bytes:
        return encode("api_request", self._asdict() | {"headers": headers_out(self.headers)})

    @classmethod
    def decode(cls, data: bytes) -> ApiRequest:
        value = decode("api_request", data)
        return cls(**(value | {"headers": headers_in(value["headers"])}))


class Forward(NamedTuple):
    """A command from shard to shard."""

    origin: int
    kind: str  # command | create | update | delete | released | nothing
    stream: str
    incarnation: int = 0
    config: str = ""
    client: str = ""
    request: int = 0
    time: int = 0
    command_kind: str = ""
    command: bytes = b""
    outcome: str = "none"  # none | active | unchanged | gone

    def encode(self) -> bytes:
        return encode("forward", self._asdict())

    @classmethod
    def decode(cls, data: bytes) -> Forward:
        return cls(**decode("forward", data))


class Located(NamedTuple):
    """Where a message is that the reader of the reply puts into the frame."""

    form: str  # get | direct
    topic: str
    offset: int
    sequence: int
    incarnation: int
    no_headers: bool


class Frame(NamedTuple):
    """One message of an answer: headers and body, or a place in the log to take them from."""

    headers: HeaderList
    body: bytes
    located: Located | None = None
