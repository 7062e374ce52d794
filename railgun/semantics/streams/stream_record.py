"""The record of a stream in the table: what it says, how it is read back and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railgun.protocol import avro as wire
from railgun.state import keys
from railgun.state.table import Overlay
from railgun.state.unreadable_entries import decoded, possible

if TYPE_CHECKING:
    from railgun.semantics.streams.owned_stream import OwnedStream

RECORDED = (  # fields that are stored as the stream has them
    "deleting",
    "first_seq",
    "last_seq",
    "messages",
    "bytes",
    "last_time",
    "last_msg_id",
    "log_end",
    "crowded",
    "copied_below",
)


def read_record(overlay: Overlay, incarnation: int) -> dict[str, Any]:
    """What the table says of the stream itself. Raises Unreadable."""
    key = keys.stream(incarnation)
    data = overlay.get(key)
    assert data is not None, f"no stream {incarnation} in the table"
    return decoded(key, _checked, incarnation, data)


def _checked(incarnation: int, data: bytes) -> dict[str, Any]:
    record = possible(wire.decode("stream_record", data))
    if record["incarnation"] != incarnation:
        raise ValueError(f"the record of incarnation {record['incarnation']}")
    if record["messages"] and not 0 < record["messages"] <= record["last_seq"] - record["first_seq"] + 1:
        raise ValueError(f"{record['messages']} messages from {record['first_seq']} to {record['last_seq']}")
    return record


def write_record(stream: OwnedStream) -> None:
    """Put the stream as it is now into its overlay."""
    record = {
        "name": stream.name,
        "incarnation": stream.incarnation,
        "config": stream.config_json,
        "created": stream.created,
        "unneeded": [one._asdict() for one in stream.unneeded],
        "compacted": stream.log_keys.compacted,
        "own_keys_from": stream.log_keys.own_from,
        "values_from": stream.log_keys.values_from,
        "newest_from": stream.log_keys.newest_from,
    } | {field: getattr(stream, field) for field in RECORDED}
    stream.overlay.put(keys.stream(stream.incarnation), wire.encode("stream_record", record))
