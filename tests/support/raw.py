"""Raw requests: what a caller of the API by name sends and sees."""

from __future__ import annotations

import json
from typing import Any

from railgun.client.facade.railgun import Railgun
from railgun.model.messages import Reply

Refused = tuple[int, int, str]  # err_code, code, description


def frames(rg: Railgun, name: str, body: dict[str, Any] | bytes = b"", headers: Any = None) -> list[Reply]:
    """All messages of the answer."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode("utf-8")
    return rg.request(name, sent, headers=headers)


def ask(rg: Railgun, name: str, body: dict[str, Any] | bytes = b"", headers: Any = None) -> dict[str, Any]:
    """The one JSON object of the answer."""
    (reply,) = frames(rg, name, body, headers)
    found = reply.json()
    assert isinstance(found, dict)
    return found


def refused(rg: Railgun, name: str, body: dict[str, Any] | bytes = b"", headers: Any = None) -> Refused:
    """The error of the answer; fails if there is none."""
    answer = ask(rg, name, body, headers)
    assert "error" in answer, answer
    error = answer["error"]
    return error["err_code"], error["code"], error["description"]


def create_refused(rg: Railgun, name: str, **fields: Any) -> Refused:
    """Why a stream with these raw fields cannot be created (durations are nanoseconds)."""
    return refused(rg, f"STREAM.CREATE.{name}", {"name": name, **fields})


def update_refused(rg: Railgun, name: str, **fields: Any) -> Refused:
    """Why a stream cannot be changed to exactly these raw fields."""
    return refused(rg, f"STREAM.UPDATE.{name}", {"name": name, **fields})


def statuses(replies: list[Reply]) -> list[tuple[int | None, str | None]]:
    """(status, description) of each message; (None, None) for an ordinary one."""
    return [(reply.status, reply.description) for reply in replies]


def nobody_answers(rg: Railgun, name: str, body: dict[str, Any] | bytes = b"") -> bool:
    """Whether the request has no responder, and is told so: silence until the timeout raises."""
    return statuses(frames(rg, name, body)) == [(503, "No Responders")]
