"""Frames: those that carry a stored message, as the JSON of a get or raw as a direct get sends it; and statuses.

A status is a frame that carries no message. What tells the two apart is the frame, never a header that a publisher may have
set: a raw message that has headers says where it is from, a status does not (GET-08).
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from railgun.model import headers as h
from railgun.model.messages import StoredMessage
from railgun.protocol.avro import Frame, Located

GET_TYPE = "io.nats.jetstream.api.v1.stream_msg_get_response"


def status_frame(code: int, description: str, extra: Iterable[tuple[str, bytes]] = ()) -> Frame:
    """A message that is only a status."""
    return Frame([(h.STATUS, b"%d" % code), (h.DESCRIPTION, description.encode("ascii")), *extra], b"")


NO_RESPONDERS = status_frame(503, "No Responders")  # PUB-05, GET-07, CON-31, ACK-04


def status_of(frame: Frame) -> int | None:
    """The number of a status, None for every other frame."""
    if not frame.headers or frame.headers[0][0] != h.STATUS or h.first(frame.headers, h.STREAM) is not None:
        return None
    return int(frame.headers[0][1])


def get_frame(message: StoredMessage, *, no_headers: bool = False) -> Frame:
    """The answer of a plain get (GET-01)."""
    body = {"type": GET_TYPE, "message": message.to_api(no_headers=no_headers)}
    return Frame([], json.dumps(body).encode("utf-8"))


def direct_frame(message: StoredMessage, *, no_headers: bool = False) -> Frame:
    """The message itself (GET-08); the caller adds the headers that tell where it is from."""
    return Frame([] if no_headers else list(message.headers), message.payload)


def fill(frame: Frame, located: Located, message: StoredMessage) -> Frame:
    """The frame with the message in it that was read from the place it names."""
    make = get_frame if located.form == "get" else direct_frame
    filled = make(message, no_headers=located.no_headers)
    return Frame([*filled.headers, *frame.headers], filled.body)
