"""Statuses: a code and a description instead of a message. Shards write them, and clients match them by these values.

A status travels as a frame of an answer, or in a lease. A frame is a status by its form, never by a header that a publisher may have
set: a raw message that has headers says which stream it is from, a status does not (GET-08).
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from railgun.model import headers as h
from railgun.model.headers import HeaderList
from railgun.model.refusals import NO_MESSAGE_FOUND
from railgun.protocol.replies import GET_TYPE, Frame, Located


class Status(NamedTuple):
    """A code, a description, and further headers."""

    code: int
    description: str
    headers: HeaderList = []  # noqa: RUF012 - never changed


# of a consumer that pushes, or of a pull that goes on
IDLE_HEARTBEAT: Final = Status(100, "Idle Heartbeat")
FLOW_CONTROL: Final = Status(100, "FlowControl Request")

# the end of a pull
NO_MESSAGES: Final = Status(404, "No Messages")
REQUEST_TIMEOUT: Final = Status(408, "Request Timeout")
MESSAGE_TOO_BIG: Final = Status(409, "Message Size Exceeds MaxBytes")
BATCH_COMPLETED: Final = Status(409, "Batch Completed")

# the refusal of a pull
CONSUMER_DELETED: Final = Status(409, "Consumer Deleted")
PUSH_BASED: Final = Status(409, "Consumer is push based")
EXCEEDED_MAX_WAITING: Final = Status(409, "Exceeded MaxWaiting")
HEARTBEAT_TOO_LARGE: Final = Status(400, "Bad Request - heartbeat value too large")

# the end or the refusal of a direct get
END_OF_BATCH: Final = Status(204, "EOB")
MESSAGE_NOT_FOUND: Final = Status(404, "Message Not Found")
NO_RESULTS: Final = Status(404, "No Results")
EMPTY_REQUEST: Final = Status(408, "Empty Request")
BAD_REQUEST: Final = Status(408, "Bad Request")
MALFORMED_REQUEST: Final = Status(408, "Malformed Request")
TOO_MANY_RESULTS: Final = Status(413, "Too Many Results")

# the refusal of any request
REQUIRED_API_LEVEL: Final = Status(412, "Required Api Level")
NOBODY_THERE: Final = Status(503, "No Responders")


def bad_pull(reason: str) -> Status:
    """The refusal of a pull whose request cannot be read (PUL-12)."""
    return Status(400, f"Bad Request - {reason}")


def exceeded(limit: str, value: int | str) -> Status:
    """The refusal of a pull that asks for more than the consumer allows, such as ``MaxRequestBatch`` (PUL-09)."""
    return Status(409, f"Exceeded {limit} of {value}")


def refuses_pull(code: int, description: str) -> bool:
    """Whether a status refuses a pull; every other status is its ordinary end, or shows that it goes on."""
    ends = (MESSAGE_TOO_BIG.description, BATCH_COMPLETED.description)  # with the code of refusals
    return (
        code not in (IDLE_HEARTBEAT.code, NO_MESSAGES.code, REQUEST_TIMEOUT.code) and description not in ends
    )


def status_frame(status: Status) -> Frame:
    """The frame that carries the status."""
    own = [(h.STATUS, b"%d" % status.code), (h.DESCRIPTION, status.description.encode("ascii"))]
    return Frame([*own, *status.headers], b"")


NO_RESPONDERS: Final = status_frame(NOBODY_THERE)


def not_found(located: Located) -> Frame:
    """The answer to a get whose message was removed before it could be read from the log."""
    if located.form != "get":
        return status_frame(MESSAGE_NOT_FOUND)
    body = {"type": GET_TYPE, "error": NO_MESSAGE_FOUND.as_json()}
    return Frame([], json.dumps(body).encode("utf-8"))


def status_of(frame: Frame) -> int | None:
    """The code of a status, None for every other frame."""
    if not frame.headers or frame.headers[0][0] != h.STATUS or h.first(frame.headers, h.STREAM) is not None:
        return None
    return int(frame.headers[0][1])
