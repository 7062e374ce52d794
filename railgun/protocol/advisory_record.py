"""The records of the topic of advisories: the subject is the key, a JSON object with a ``type`` the value."""

from __future__ import annotations

import json

from railgun.protocol.unreadable import Unreadable

_KIND = "advisory"


def parse(key: bytes | None, value: bytes | None) -> tuple[str, bytes] | Unreadable:
    """Subject and body of an advisory. Never raises."""
    try:
        subject = (key or b"").decode("utf-8")
        body = json.loads(value or b"")
    except (ValueError, RecursionError) as error:
        return Unreadable(_KIND, str(error))
    if not subject:
        return Unreadable(_KIND, "it has no subject")
    if not isinstance(body, dict) or not isinstance(body.get("type"), str):
        return Unreadable(_KIND, "its body is not a JSON object with a type")
    return subject, value or b""
