"""Kept bodies: headers, payload and time of a message, as ``message_body.avsc`` has them.

They are written and read by hand, because a bucket has one for each put and each get. Those that are kept under
their subjects have the time, so that a get need not decode a block for it; others, and those of a version before that, end before it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from railgun.model.headers import Headers
from railgun.protocol import avro as wire


class KeptBody(NamedTuple):
    """A message as the table keeps it."""

    headers: Headers
    payload: bytes
    time: int  # ns; 0: only its block tells


class BodyReader:
    """Reads kept bodies. Those that follow each other mostly have the same headers, which are decoded once."""

    def __init__(self) -> None:
        self._head = wire.encode_headers(())
        self._headers: Headers = ()

    def read(self, data: bytes, start: int = 0) -> KeptBody:
        """The body that begins at ``start`` and ends with the data. Raises WireError. Headers may be shared: nobody changes them."""
        if not data.startswith(self._head, start):
            return self._read_headers(data[start:])
        at = start + len(self._head)
        try:
            size = data[at]
            if size > 127:
                size, at = _number(data, at)
            else:
                at += 1
            end = at + (size >> 1)
            if size & 1 or end > len(data):
                raise wire.WireError("not a message_body: a payload that does not fit")
            return KeptBody(self._headers, data[at:end], _time(data[end:]))
        except IndexError as error:
            raise wire.WireError("not a message_body: it ends early") from error

    def _read_headers(self, data: bytes) -> KeptBody:
        """A body whose headers are others than those of the one before."""
        body = wire.decode("message_body", data)
        headers = wire.headers_in(body["headers"])
        head = wire.encode_headers(headers)
        if data.startswith(head):  # not in another of the forms that Avro allows
            self._head, self._headers = head, headers
        return KeptBody(headers, body["payload"], body["time"])


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number as Avro has it, its sign in the lowest bit, and the place behind it."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at
        shift += 7


@lru_cache(4096)
def _time(data: bytes) -> int:
    """The time at the end of a body; many were stored at the same."""
    if not data:
        return 0
    found, end = _number(data, 0)
    if end != len(data):
        raise wire.WireError("not a message_body: its end is not a time")
    return found >> 1 ^ -(found & 1)
