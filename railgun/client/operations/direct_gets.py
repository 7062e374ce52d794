"""Direct gets: several messages of a stream in one answer (GET-11, GET-15)."""

from __future__ import annotations

from typing import Any, NamedTuple

from railgun.api.names import ApiName, Operation
from railgun.client.operations.call import Call, json_body
from railgun.errors import RailgunError, StreamNotFound
from railgun.model import headers as h
from railgun.model.durations import parse_rfc3339
from railgun.model.messages import Reply, StoredMessage
from railgun.model.refusals import STREAM_NOT_FOUND
from railgun.protocol import statuses

_ADDED = (
    6  # headers that the answer adds to those of a message of a batch: where it is from, and what is left
)


class Found(NamedTuple):
    """The messages of one answer; with ``pending`` more, which follow the last of these."""

    messages: list[StoredMessage]
    pending: int
    up_to: int = 0  # the state of the stream that was looked at


def direct_get(stream: str, **selection: Any) -> Call[Found]:
    """Several messages: ``batch``, or ``multi_last``. Raises StreamNotFound also where the stream allows no direct gets (GET-07)."""
    body = {key: value for key, value in selection.items() if value is not None}
    return Call(ApiName(Operation.DIRECT_GET, stream, ""), _parse, json_body(body))


def _parse(replies: list[Reply]) -> Found:
    *messages, end = replies
    if end.status == statuses.MESSAGE_NOT_FOUND.code:
        return Found([], 0)
    if end.status == statuses.NOBODY_THERE.code:
        raise StreamNotFound(*STREAM_NOT_FOUND)
    if end.status != statuses.END_OF_BATCH.code:
        raise RailgunError(f"the direct get was refused: {end.description} (status {end.status})")
    pending = int(h.first(end.headers, h.NUM_PENDING) or 0)
    up_to = int(h.first(end.headers, h.UP_TO_SEQUENCE) or 0)
    # a message may be gone from the log since the owner answered: then a status stands in its place
    return Found([_message(one) for one in messages if one.status is None], pending, up_to)


def _message(reply: Reply) -> StoredMessage:
    own, added = reply.headers[:-_ADDED], dict(reply.headers[-_ADDED:])
    return StoredMessage(
        added[h.SUBJECT].decode("utf-8"),
        int(added[h.SEQUENCE]),
        reply.body,
        own,
        parse_rfc3339(added[h.TIME_STAMP].decode("ascii")),
    )
