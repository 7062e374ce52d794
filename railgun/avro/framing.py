"""The frame of a payload that a schema registry knows: a zero byte, the id of the writer's schema in four bytes, the record.

It is the frame of Confluent's serializers, so that any client with a registry reads what railgun writes. JSON never begins with a zero
byte: the frame alone tells both apart.
"""

from __future__ import annotations

from typing import Final

MAGIC: Final = b"\0"
SIZE: Final = 5
UNKNOWN: Final = bytes(SIZE)  # keeps the place of a frame whose id is not known yet


def frame(schema_id: int) -> bytes:
    """The first five bytes of payloads of this schema."""
    return MAGIC + schema_id.to_bytes(4, "big")


def schema_id(payload: bytes) -> int | None:
    """The id in the frame; None for a payload without one."""
    if len(payload) < SIZE or payload[:1] != MAGIC:
        return None
    return int.from_bytes(payload[1:SIZE], "big")
