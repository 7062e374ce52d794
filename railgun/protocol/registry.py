"""The records of the registry: written by workers, read by clients, workers and the doctor.

Keys are ``cluster``, ``stream/<name>``, ``epoch/<shard>`` and ``unfinished/<shard>``, of which the last never has a value. Keys that a
later version may write are not known and skipped, and fields that a later version adds are ignored.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from railgun.model.subjects import Filter, is_valid
from railgun.protocol import avro as wire
from railgun.protocol.unreadable import Unreadable

CLUSTER_KEY: Final = b"cluster"
STREAM_KEY: Final = b"stream/"  # and the name of the stream
EPOCH_KEY: Final = b"epoch/"  # and the number of the shard
UNFINISHED_KEY: Final = b"unfinished/"  # and the number of the shard
_SHARD: Final = re.compile(rb"\d{1,6}")


class Protected(NamedTuple):
    """The settings that were fixed at the first start. Configuration files that differ later are not obeyed."""

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
    """A stream that does not exist any more, or is being deleted."""

    name: str


class ShardOwner(NamedTuple):
    """The owner of a shard. Another epoch is another owner, or one that lost what it had only in memory."""

    shard: int
    epoch: int
    node: str


def stream_key(name: str) -> bytes:
    """The key of a stream's record."""
    return STREAM_KEY + name.encode("utf-8")


def stream_record(
    name: str, *, incarnation: int, partition: int, deleting: bool, config: str, created: int
) -> bytes:
    """The value of a stream's record; ``config`` is JSON, ``created`` a time in ns."""
    return wire.encode(
        "registry_stream",
        {
            "name": name,
            "incarnation": incarnation,
            "partition": partition,
            "state": "deleting" if deleting else "active",
            "config": config,
            "created": created,
        },
    )


def epoch_key(shard: int) -> bytes:
    """The key of the record that names the owner of a shard."""
    return EPOCH_KEY + b"%d" % shard


def epoch_record(epoch: int, node: str, time_ns: int) -> bytes:
    """The value of the record that names the owner of a shard."""
    return json.dumps({"epoch": epoch, "node": node, "time": time_ns}).encode("utf-8")


def unfinished_key(shard: int) -> bytes:
    """The key of a record without a value, whose transaction ends one of this shard that Kafka left undecided."""
    return UNFINISHED_KEY + b"%d" % shard


RegistryRecord = Protected | RegisteredStream | StreamGone | ShardOwner


def parse(key: bytes | None, value: bytes | None) -> RegistryRecord | Unreadable | None:
    """The content of a record; None for a key that this version does not know, or one without a value. Never raises."""
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
