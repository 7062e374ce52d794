"""Calls about streams: what the shard that got one asks this room for.

:func:`answer` answers the calls that a stream's owner decides alone. It never raises for what a caller sent; it returns
the frames of the answer.
Creating, updating and deleting is decided by registrar and owner together, with :mod:`~railgun.api.bodies` and
:mod:`~railgun.api.responses`.
"""

from __future__ import annotations

from collections.abc import Callable

from railgun.api.bodies import (
    is_empty,
    level_too_high,
    parse_delete,
    parse_get,
    parse_info,
    parse_purge,
)
from railgun.api.names import ApiName, Operation
from railgun.api.responses import (
    error_response,
    info_response,
    success_response,
)
from railgun.model.refusals import API_LEVEL, BAD_REQUEST, BODY_NOT_EMPTY, STREAM_NOT_FOUND, Refusal
from railgun.protocol.commands import ApiRequest
from railgun.protocol.replies import Frame
from railgun.protocol.statuses import MALFORMED_REQUEST, NO_RESPONDERS, REQUIRED_API_LEVEL, status_frame
from railgun.semantics.steps import Memo, Steps
from railgun.semantics.streams import removal
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.reading import gets

_WITHOUT_BODY = frozenset({Operation.STREAM_DELETE, Operation.CONSUMER_DELETE, Operation.CONSUMER_INFO})


def level_refused(request: ApiRequest, name: ApiName) -> list[Frame] | None:
    """The answer to a call that needs a newer server, None if this one will do."""
    if not level_too_high(request.headers):
        return None
    if name.operation is Operation.DIRECT_GET:
        return [status_frame(REQUIRED_API_LEVEL)]
    return [error_response(name.operation, API_LEVEL)]


def body_refused(request: ApiRequest, name: ApiName) -> list[Frame] | None:
    """The answer to a call that takes no body and has one (C-42), None if all is well."""
    if name.operation not in _WITHOUT_BODY or is_empty(request.body):
        return None
    return [error_response(name.operation, BODY_NOT_EMPTY)]


def answer(
    request: ApiRequest, name: ApiName, stream: OwnedStream | None, memo: Memo, now: int
) -> Steps[list[Frame]]:
    """The frames that answer the call; the stream is None if there is none of that name."""
    if name.operation is Operation.DIRECT_GET:
        return (yield from _direct_get(request.body, name.rest, stream))
    if name.operation is Operation.STREAM_INFO:
        told = yield from _info(request.body, stream, now)
        return [error_response(name.operation, told) if isinstance(told, Refusal) else told]
    handler = _HANDLERS.get(name.operation)
    made = BAD_REQUEST if handler is None else (yield from handler(request.body, stream, memo))
    return [error_response(name.operation, made) if isinstance(made, Refusal) else made]


def _info(body: bytes, stream: OwnedStream | None, now: int) -> Steps[Frame | Refusal]:
    asked = parse_info(body)
    if isinstance(asked, Refusal):
        return asked
    return STREAM_NOT_FOUND if stream is None else (yield from info_response(stream, now, **asked))  # CFG-32


def _get(body: bytes, stream: OwnedStream | None, _memo: Memo) -> Steps[Frame | Refusal]:
    asked = parse_get(body)
    if isinstance(asked, Refusal):
        return asked
    if not asked.fits_plain_get:
        return BAD_REQUEST  # said of a stream that does not exist as well
    return STREAM_NOT_FOUND if stream is None else (yield from gets.plain_get(stream, asked))


def _delete_message(body: bytes, stream: OwnedStream | None, _memo: Memo) -> Steps[Frame | Refusal]:
    yield 1
    sequence = parse_delete(body)
    if isinstance(sequence, Refusal):
        return sequence
    if stream is None:
        return STREAM_NOT_FOUND
    return removal.delete_message(stream, sequence) or success_response(Operation.MSG_DELETE)


def _purge(body: bytes, stream: OwnedStream | None, memo: Memo) -> Steps[Frame | Refusal]:
    asked = parse_purge(body)
    if isinstance(asked, Refusal):
        return asked
    if stream is None:
        return STREAM_NOT_FOUND
    purged = yield from removal.purge(stream, asked, memo)
    if isinstance(purged, Refusal):
        return purged
    return success_response(Operation.STREAM_PURGE, {"success": True, "purged": purged})


_HANDLERS: dict[Operation, Callable[[bytes, OwnedStream | None, Memo], Steps[Frame | Refusal]]] = {
    Operation.MSG_GET: _get,
    Operation.MSG_DELETE: _delete_message,
    Operation.STREAM_PURGE: _purge,
}


def _direct_get(body: bytes, subject: str, stream: OwnedStream | None) -> Steps[list[Frame]]:
    if stream is None or not stream.config.allow_direct:
        return [NO_RESPONDERS]  # GET-07
    asked = parse_get(body)
    if isinstance(asked, Refusal):
        return [status_frame(MALFORMED_REQUEST)]
    if subject:
        return (yield from gets.direct_get_by_subject(stream, subject, asked))
    return (yield from gets.direct_get(stream, asked))
