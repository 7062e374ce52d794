"""The bytes of a pack with headers, read in three parts: what is before the headers, they themselves, and the payloads.

The general decoder makes a dict of each header, and a text of each name: 3.5 µs for a message with two, this one 2 (seen), and less
where messages differ in one value only, as those with a condition, of a counter or of a batch do. Whatever is
not as clients write it goes the general way, which also says what is wrong with it. A test holds the two to the same.
"""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import fastavro

from railgun.model.headers import BATCH_PLACES, BATCH_SEQUENCE, HeaderList
from railgun.protocol.avro import decode, headers_in, schema

_COLUMN = "headers"
_LONGEST = 64  # bytes: the length of a shorter value is one byte
_AT_ONCE = 256  # messages that are looked for together: what is behind the last of a kind is searched in vain
_WORTH = 8  # fewer that are alike do not pay for the next search
_STEP = 64  # messages of a batch that are compared at once
_NUMBERS = {place: number for number, place in enumerate(BATCH_PLACES)}
# The values of places as bytes, with the end of their message.
_PLACES = [bytes((len(number) << 1,)) + number + b"\0" for _, number in BATCH_PLACES]


class _NotSimple(Exception):
    """The general decoder is to look at it."""


def decode_pack(data: bytes) -> dict[str, Any]:
    """The fields of a ``publish_pack``, its headers as pairs. Raises WireError unless the bytes are exactly one."""
    try:
        return _in_parts(data)
    except (_NotSimple, EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError):
        value = decode("publish_pack", data)
        return value | {_COLUMN: [headers_in(one) for one in value[_COLUMN]]}


@cache
def _parts() -> tuple[Any, Any]:
    """The schema of the fields before the headers, and of those behind them."""
    whole = schema("publish_pack")
    fields = whole["fields"]
    at = [field["name"] for field in fields].index(_COLUMN)
    kept = {"type": "record", "name": "PartOfPack"}
    return (
        fastavro.parse_schema(kept | {"fields": fields[:at]}),
        fastavro.parse_schema(kept | {"fields": fields[at + 1 :]}),
    )


def _in_parts(data: bytes) -> dict[str, Any]:
    before, behind = _parts()
    source = io.BytesIO(data)
    value: Any = fastavro.schemaless_reader(source, before, None)
    value[_COLUMN], end = _headers(data, source.tell())
    source.seek(end)
    value |= fastavro.schemaless_reader(source, behind, None)
    if source.tell() != len(data):
        raise _NotSimple
    return value  # type: ignore[no-any-return]


def _headers(data: bytes, at: int) -> tuple[list[HeaderList], int]:
    """The headers of all messages, which begin there, and where they end. Every step goes on by a byte at least."""
    names: dict[bytes, str] = {}
    found: list[HeaderList] = []
    messages, at = _length(data, at)
    look = True
    while messages:
        start = at
        headers, at, value_at = _of_message(data, at, names)
        found.append(headers)
        messages -= 1
        if look and messages and headers and data.startswith(data[start:value_at], at):
            find = _of_batch if headers[-1][0] == BATCH_SEQUENCE else _alike
            more, at = find(data, at, messages, data[start:value_at], headers)
            found += more
            messages -= len(more)
            look = len(more) >= _WORTH
        if not messages:
            messages, at = _length(data, at)
    return found, at


def _of_message(data: bytes, at: int, names: dict[bytes, str]) -> tuple[HeaderList, int, int]:
    """The headers of one message, where they end, and where the value of the last of them begins, with its length."""
    found: HeaderList = []
    value_at = at
    count, at = _length(data, at)
    while count:
        for _ in range(count):
            size = data[at]
            at += 1
            if size & 0x81:  # negative, or of several bytes
                size, at = _length(data, at - 1)
            else:
                size >>= 1
            text = data[at : at + size]
            at += size
            name = names.get(text)
            if name is None:
                name = names[text] = text.decode("utf-8")
            value_at = at
            size = data[at]
            at += 1
            if size & 0x81:
                size, at = _length(data, at - 1)
            else:
                size >>= 1
            found.append((name, data[at : at + size]))
            at += size
        count, at = _length(data, at)
    return found, at, value_at


def _alike(
    data: bytes, at: int, messages: int, before: bytes, headers: HeaderList
) -> tuple[list[HeaderList], int]:
    """The headers of those of the next messages that differ from the one before in the value of its last header only.

    ``before``: its bytes up to the length of that value. They are the same for all, so the bytes are split there: 0.6 µs for a
    message with two headers instead of 1.6 (seen). A part is what it seems to be if it is as long as its first byte says, and ends where a message ends. The first
    that is not ends the search, so nothing is found here that a reader byte by byte would not find.
    """
    *others, (name, _) = headers
    found: list[HeaderList] = []
    messages = min(messages, _AT_ONCE)
    end = at + messages * (len(before) + _LONGEST + 2)
    for part in data[at + len(before) : end].split(before, messages - 1):
        size = len(part) - 2
        if not 0 <= size < _LONGEST or part[0] != size << 1 or part[-1]:
            break
        found.append([*others, (name, part[1:-1])])
        at += len(before) + len(part)
    return found, at


def _of_batch(
    data: bytes, at: int, messages: int, before: bytes, headers: HeaderList
) -> tuple[list[HeaderList], int]:
    """As :func:`_alike`, of messages of a batch: their last header says which place they have, and the next one has the next place.

    Their bytes are compared with what they would be then, many messages at once: a fifth of the time (seen).
    """
    *others, place = headers
    first = number = _NUMBERS.get(place, len(BATCH_PLACES)) + 1
    last = min(number + messages, len(BATCH_PLACES))
    step = min(_STEP, (len(data) - at) // len(before))  # more there cannot be, whatever the count says
    while step and number < last:
        places = _PLACES[number : min(number + step, last)]
        expected = before.join((b"", *places))
        if data.startswith(expected, at):
            number += len(places)
            at += len(expected)
        else:
            step //= 2
    if number == first:
        return _alike(data, at, messages, before, headers)
    return [[*others, one] for one in BATCH_PLACES[first:number]], at


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A count or a length, and where it ends."""
    byte = data[at]
    at += 1
    value, shift = byte & 0x7F, 7
    while byte & 0x80:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    if value & 1:
        raise _NotSimple  # negative: a block of an array with its size in bytes, or damage
    return value >> 1, at
