"""Headers and payloads of the messages of one block, as columns: what the owner keeps near to answer without the log.

A copy of what the log holds, made when a drain is committed. Nothing depends on it: a block without one (another worker
stored it, or the disk was lost) is read from the log.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from railgun.model.headers import Headers
from railgun.semantics.blocks import pack_column, unpack_column

_LENGTHS = struct.Struct("<6I")


def pack_bodies(indexes: Sequence[int], headers: Sequence[Headers], payloads: Sequence[bytes]) -> bytes:
    """The messages as bytes; ``indexes`` are their places in the block, ascending."""
    flat = [pair for of_one in headers for pair in of_one]
    number: dict[str, int] = {}
    for name, _ in flat:
        number.setdefault(name, len(number))
    columns = (
        pack_column("H", indexes),
        pack_column("I", [len(payload) for payload in payloads]),
        pack_column("H", [len(of_one) for of_one in headers]) if flat else b"",
        pack_column("H", [number[name] for name, _ in flat]),
        pack_column("I", [len(value) for _, value in flat]),
        "\0".join(number).encode("utf-8"),
    )
    sizes = _LENGTHS.pack(*map(len, columns))
    return b"".join((sizes, *columns, *(value for _, value in flat), *payloads))


def find_body(data: bytes, index: int) -> tuple[Headers, bytes] | None:
    """Headers and payload of the message at this place of the block, None if it is not here."""
    columns = _columns(data)
    indexes = unpack_column("H", next(columns))
    try:
        at = indexes.index(index)
    except ValueError:
        return None
    payload_sizes = unpack_column("I", next(columns))
    counts = unpack_column("H", next(columns))
    numbers = unpack_column("H", next(columns))
    value_sizes = unpack_column("I", next(columns))
    names = next(columns).decode("utf-8").split("\0")
    start = len(data) - sum(payload_sizes[at:])
    payload = data[start : start + payload_sizes[at]]
    first = sum(counts[:at])
    value = len(data) - sum(payload_sizes) - sum(value_sizes[first:])
    headers = []
    for place in range(first, first + counts[at]) if counts else ():
        headers.append((names[numbers[place]], data[value : value + value_sizes[place]]))
        value += value_sizes[place]
    return headers, payload


def _columns(data: bytes) -> Iterator[bytes]:
    at = _LENGTHS.size
    for size in _LENGTHS.unpack_from(data):
        yield data[at : at + size]
        at += size
