"""Columns: what many messages have, as bytes, little-endian on every machine: numbers, bits, headers and payloads.

Headers and payloads as columns are beside the blocks of the index, and in answers. Beside a block they are a copy of what the log holds,
made when a drain is committed. Nothing depends on it: a block without one (another worker stored it, or the disk was lost) is read
from the log.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, pairwise
from operator import itemgetter

from railgun.model.headers import Headers

_LENGTHS = struct.Struct("<6I")
_BETWEEN = "\0"
_NARROW = 0xFFFF  # the largest number in a column of two bytes each


def pack_column(code: str, values: Sequence[int]) -> bytes:
    """The numbers as little-endian bytes of the array type ``code``."""
    column = values if isinstance(values, array) else array(code, values)
    if sys.byteorder == "big":
        column = array(code, column)
        column.byteswap()
    return column.tobytes()


def unpack_column(code: str, data: bytes) -> array[int]:
    """The same again. Raises ValueError unless the bytes are whole numbers."""
    column = array(code)
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column


def pack_bits(places: Iterable[int], count: int) -> bytes:
    """A bit for each of ``count`` messages, set for those at the places; empty if there are none."""
    bits = bytearray((count + 7) // 8)
    for place in places:
        bits[place >> 3] |= 1 << (place & 7)
    return bytes(bits) if any(bits) else b""


def unpack_bits(bits: bytes) -> frozenset[int]:
    """The places of the bits that are set."""
    return frozenset(place for place in range(8 * len(bits)) if bits[place >> 3] >> (place & 7) & 1)


def pack_bodies(
    indexes: Sequence[int], headers: Sequence[Headers], payloads: Sequence[bytes]
) -> bytes | None:
    """The messages as bytes; ``indexes`` are their places in the block, ascending.

    None where they cannot be packed: a header name with NUL in it, which no log can hold whole either.
    """
    flat = list(chain.from_iterable(headers))
    of_each, values = list(map(itemgetter(0), flat)), list(map(itemgetter(1), flat))
    number = {name: place for place, name in enumerate(dict.fromkeys(of_each))}
    names = _BETWEEN.join(number)
    if names.count(_BETWEEN) >= max(1, len(number)):
        return None
    columns = (
        pack_column("H", indexes),
        pack_column("I", list(map(len, payloads))),
        _pack_narrow(list(map(len, headers))) if flat else b"",
        _pack_narrow(list(map(number.__getitem__, of_each))),
        pack_column("I", list(map(len, values))),
        names.encode("utf-8"),
    )
    sizes = _LENGTHS.pack(*map(len, columns))
    return b"".join((sizes, *columns, *values, *payloads))


class PackedBodies:
    """Messages as :func:`pack_bodies` left them. Looking for them in ascending order costs one pass over all."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        lengths = _LENGTHS.unpack_from(data)
        ends = list(accumulate(lengths, initial=_LENGTHS.size))
        indexes, sizes, counts, numbers, value_sizes, names = (data[a:b] for a, b in pairwise(ends))
        self._indexes = unpack_column("H", indexes)
        self._payload_sizes = unpack_column("I", sizes)
        self._value_sizes = unpack_column("I", value_sizes)
        self._counts = _unpack_narrow(counts, len(self._indexes))  # empty if no message has a header
        self._numbers = _unpack_narrow(numbers, len(self._value_sizes))
        self._names = names.decode("utf-8").split(_BETWEEN)
        self._first_value = ends[-1]
        self._first_payload = ends[-1] + sum(self._value_sizes)
        self._begin()

    @property
    def is_whole(self) -> bool:
        """Whether the bytes are as many as the columns say."""
        end: int = self._first_payload + sum(self._payload_sizes)
        counted = not self._counts or len(self._counts) == len(self._indexes)
        return end == len(self._data) and counted and sum(self._counts) == len(self._value_sizes)

    def _begin(self) -> None:
        self._at = self._header = 0  # the message that was found last, and its first header
        self._payload, self._value = self._first_payload, self._first_value  # where in the data they begin

    def find(self, index: int) -> tuple[Headers, bytes] | None:
        """Headers and payload of the message at this place of the block, None if it is not here."""
        at = bisect_left(self._indexes, index)
        if at == len(self._indexes) or self._indexes[at] != index:
            return None
        if at < self._at:
            self._begin()
        self._payload += sum(self._payload_sizes[self._at : at])
        headers: list[tuple[str, bytes]] = []
        if self._counts:
            first = self._header + sum(self._counts[self._at : at])
            self._value += sum(self._value_sizes[self._header : first])
            self._header = first
            start = self._value
            for place in range(first, first + self._counts[at]):
                end = start + self._value_sizes[place]
                headers.append((self._names[self._numbers[place]], self._data[start:end]))
                start = end
        self._at = at
        return headers, self._data[self._payload : self._payload + self._payload_sizes[at]]

    def find_run(self, start: int, stop: int) -> tuple[list[Headers], list[bytes | None]]:
        """Headers and payloads of the places [start, stop) of the block; None for a payload that is not here."""
        at, end = bisect_left(self._indexes, start), bisect_left(self._indexes, stop)
        places = accumulate(
            self._payload_sizes[at:end], initial=self._first_payload + sum(self._payload_sizes[:at])
        )
        payloads = [self._data[a:b] for a, b in pairwise(places)]
        headers = self._headers_of(at, end)
        if end - at == stop - start:
            return headers, list(payloads)
        found = dict(zip(self._indexes[at:end], zip(headers, payloads, strict=True), strict=True))
        whole = [found.get(index) for index in range(start, stop)]
        return [() if one is None else one[0] for one in whole], [
            None if one is None else one[1] for one in whole
        ]

    def _headers_of(self, at: int, end: int) -> list[Headers]:
        if not self._counts:
            return [()] * (end - at)
        first = sum(self._counts[:at])
        start = self._first_value + sum(self._value_sizes[:first])
        found: list[Headers] = []
        for count in self._counts[at:end]:
            of_one: list[tuple[str, bytes]] = []
            for place in range(first, first + count):
                stop = start + self._value_sizes[place]
                of_one.append((self._names[self._numbers[place]], self._data[start:stop]))
                start = stop
            first += count
            found.append(of_one)
        return found


def _pack_narrow(values: Sequence[int]) -> bytes:
    """A column that is two bytes wide wherever its numbers fit, else four."""
    return pack_column("H" if max(values, default=0) <= _NARROW else "I", values)


def _unpack_narrow(data: bytes, count: int) -> array[int]:
    """The same again: how many there are tells how wide they were written."""
    return unpack_column("H" if len(data) <= 2 * count else "I", data)
