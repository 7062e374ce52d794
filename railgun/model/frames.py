"""Frames that carry a stored message: as the JSON of a get, or raw as a direct get sends it."""

from __future__ import annotations

import json

from railgun.model.messages import StoredMessage
from railgun.model.wire import Frame, Located

GET_TYPE = "io.nats.jetstream.api.v1.stream_msg_get_response"


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
