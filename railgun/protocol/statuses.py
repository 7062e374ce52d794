"""Statuses: frames that carry no message, only a code and a description.

A frame is a status by its form, never by a header that a publisher may have set: a raw message that has headers says which
stream it is from, a status does not (GET-08).
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from railgun.model import headers as h
from railgun.model.refusals import NO_MESSAGE_FOUND
from railgun.protocol.replies import GET_TYPE, Frame, Located


def status_frame(code: int, description: str, extra: Iterable[tuple[str, bytes]] = ()) -> Frame:
    """A message that is only a status."""
    return Frame([(h.STATUS, b"%d" % code), (h.DESCRIPTION, description.encode("ascii")), *extra], b"")


NO_RESPONDERS = status_frame(503, "No Responders")  # PUB-05, GET-07, CON-31, ACK-04


def not_found(located: Located) -> Frame:
    """The answer to a get whose message was removed before it could be read from the log."""
    if located.form != "get":
        return status_frame(404, "Message Not Found")
    body = {"type": GET_TYPE, "error": NO_MESSAGE_FOUND.as_json()}
    return Frame([], json.dumps(body).encode("utf-8"))


def status_of(frame: Frame) -> int | None:
    """The number of a status, None for every other frame."""
    if not frame.headers or frame.headers[0][0] != h.STATUS or h.first(frame.headers, h.STREAM) is not None:
        return None
    return int(frame.headers[0][1])
