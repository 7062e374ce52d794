"""The records of the registry, for everybody who reads it: clients, workers and the doctor.

Keys are ``cluster``, ``stream/<name>`` and ``epoch/<shard>``. Of other keys, which a later version may write, nothing is known, and
fields that a later version adds are ignored.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from railgun.model.subjects import Filter, is_valid
from railgun.protocol import avro as wire
from railgun.protocol.unreadable import Unreadable

CLUSTER_KEY: Final = b"cluster"
STREAM_KEY: Final = b"stream/"
EPOCH_KEY: Final = b"epoch/"
_SHARD: Final = re.compile(rb"\d{1,6}")


class Protected(NamedTuple):
    """The settings that were fixed at the first start: later files may say otherwise, and are not obeyed."""

    name: str
    prefix: str
    partitions: int
    reply_factor: int

    def encode(self) -> bytes:
        return wire.encode("registry_cluster", self._asdict())


class RegisteredStream(NamedTuple):
    """A stream that takes messages."""

    name: str
    incarnation: int
    partition: int
    patterns: tuple[str, ...]
    captures: Filter
    no_ack: bool


class StreamGone(NamedTuple):
    """There is no stream of that name, or it is being deleted."""

    name: str


class ShardOwner(NamedTuple):
    """Who owns a shard: another epoch is another owner, or one that lost what it had only in memory."""

    shard: int
    epoch: int
    node: str


RegistryRecord = Protected | RegisteredStream | StreamGone | ShardOwner


def parse(key: bytes | None, value: bytes | None) -> RegistryRecord | Unreadable | None:
    """What a record says; None for one that says nothing to this version. Never raises."""
    key = key or b""
    if key == CLUSTER_KEY:
        return None if value is None else _cluster(value)
    if key.startswith(STREAM_KEY):
        return _stream(key[len(STREAM_KEY) :], value)
    if key.startswith(EPOCH_KEY):
        return None if value is None else _owner(key[len(EPOCH_KEY) :], value)
    return None


def _cluster(value: bytes) -> Protected | Unreadable:
    try:
        found = Protected(**wire.decode("registry_cluster", value, later=True))
    except wire.WireError as error:
        return Unreadable("registry cluster", str(error))
    if found.partitions < 1 or found.reply_factor < 1:
        return Unreadable("registry cluster", f"{found.partitions} partitions, {found.reply_factor} a reply")
    return found


def _stream(name: bytes, value: bytes | None) -> RegisteredStream | StreamGone | Unreadable:
    try:
        text = name.decode("utf-8")
        if value is None:
            return StreamGone(text)
        record = wire.decode("registry_stream", value, later=True)
        if record["state"] != "active":
            return StreamGone(text)
        config = _json_object(record["config"])
        patterns = config.get("subjects") or []
        if not isinstance(patterns, list) or not all(
            isinstance(one, str) and is_valid(one) for one in patterns
        ):
            return Unreadable("registry stream", "its subjects are not subjects")
        return RegisteredStream(
            text,
            record["incarnation"],
            _not_negative(record["partition"]),
            tuple(patterns),
            Filter(patterns),
            config.get("no_ack") is True,
        )
    except (wire.WireError, ValueError, RecursionError) as error:
        return Unreadable("registry stream", str(error))


def _owner(shard: bytes, value: bytes) -> ShardOwner | Unreadable:
    try:
        if not _SHARD.fullmatch(shard):
            raise ValueError("its key names no shard")
        found = _json_object(value)
        epoch = found.get("epoch")
        if type(epoch) is not int:
            raise ValueError("it has no epoch")
        return ShardOwner(int(shard), epoch, str(found.get("node", "?")))
    except (ValueError, RecursionError) as error:
        return Unreadable("registry owner of a shard", str(error))


def _json_object(text: str | bytes) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"not a JSON object but {type(found).__name__}")
    return found


def _not_negative(number: int) -> int:
    if number < 0:
        raise ValueError(f"{number} is not a partition")
    return number
