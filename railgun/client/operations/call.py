"""A call: a request of the API, and how its answer is read.

Answers that carry an ``error`` raise the :class:`~railgun.errors.ApiError` of its number.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from railgun.api.names import ApiName
from railgun.errors import RailgunError, api_error
from railgun.model.headers import HeaderList
from railgun.model.messages import Reply
from railgun.protocol import statuses
from railgun.protocol.replies import Frame
from railgun.protocol.statuses import status_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request of the API and the reader of its answer."""

    name: ApiName
    parse: Callable[[list[Reply]], T]
    body: bytes = b""
    headers: HeaderList | None = None
    partition: int | None = None  # only where it is not the name that decides
    changes_registry: bool = False  # the next lookup of the caller must see what it did

    def value(self, replies: list[Reply]) -> T:
        """The value of the answer. Raises its error, and RailgunError for an answer that cannot be read."""
        try:
            return self.parse(replies)
        except RailgunError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise RailgunError(f"the answer to {self.name.text} cannot be read: {error!r:.500}") from error


def as_reply(frame: Frame) -> Reply:
    """One frame of an answer as callers of raw requests see it."""
    return Reply(frame.body, frame.headers, status=status_of(frame))


NO_RESPONDERS = as_reply(statuses.NO_RESPONDERS)


def parse_object(replies: list[Reply], *, of_consumer: bool = False) -> dict[str, Any]:
    """The one JSON object of an answer. Raises its error, as that of a stream or of a consumer."""
    if len(replies) != 1 or replies[0].status is not None:
        status = replies[0].status if replies else None
        raise RailgunError(f"no service answers this request (status {status})")
    found = replies[0].json()
    if not isinstance(found, dict):
        raise RailgunError("the answer is not a JSON object")
    error = found.get("error")
    if error is not None:
        number, text = error.get("err_code", 0), error.get("description", "")
        raise api_error(error.get("code", 0), number, text, of_consumer=of_consumer)
    return found


def parse_done(replies: list[Reply]) -> None:
    parse_object(replies)


def json_body(value: dict[str, Any]) -> bytes:
    """The body of a request."""
    return json.dumps(value, separators=(",", ":")).encode("utf-8")
