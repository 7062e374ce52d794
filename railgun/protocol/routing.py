"""Partitions: of a stream, by murmur2 of its name as Kafka's own default partitioner computes it, and of a client's answers."""

from __future__ import annotations

from zlib import crc32

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 (seed 0x9747b28c), as an unsigned number."""
    length = len(data)
    value = (0x9747B28C ^ length) & _MASK
    for start in range(0, length - length % 4, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        value = (value * _M & _MASK) ^ k
    tail = data[length - length % 4 :]
    if tail:
        value = (value ^ int.from_bytes(tail, "little")) * _M & _MASK
    value = (value ^ (value >> 13)) * _M & _MASK
    return value ^ (value >> 15)


def partition_of(stream: str, partitions: int) -> int:
    """The partition of ``commands`` that owns the stream unless the registry says otherwise."""
    return (murmur2(stream.encode("utf-8")) & 0x7FFFFFFF) % partitions


def reply_partition(shard: int, client: str, reply_factor: int) -> int:
    """The partition of ``replies`` in which a shard answers this client."""
    return shard * reply_factor + crc32(client.encode("utf-8")) % reply_factor
