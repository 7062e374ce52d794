"""Answers without what may differ: moments, what only a cluster of servers has, the order of what has none."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from tests.differ.frames import Frame, header_block

_NEVER: Final = "0001-01-01T00:00:00Z"
_MOMENTS: Final = frozenset({"created", "first_ts", "last_ts", "time"})
_LEFT_OUT: Final = frozenset({"cluster", "did_create", "alternates", "domain"})  # what only servers have
_LEFT_OUT_TOO: Final = frozenset(
    {"ts", "last_active", "_nats.level", "_nats.ver"}
)  # of the moment, of the version
_DEFAULTS: Final = {"compression": "none", "_nats.req.level": "0"}  # said or not, they mean the same
_CONSUMERS: Final = "violates consumers: "
_MOMENT_HEADERS: Final = frozenset({"Nats-Time-Stamp"})


def normal(frames: list[Frame]) -> Any:
    """The answer as plain values that are equal where both systems said the same."""
    return [_frame(frame) for frame in frames]


def _frame(frame: Frame) -> dict[str, Any]:
    found: dict[str, Any] = {"body": _body(frame.body)}
    if frame.status == 503:
        return {"status": "503"}  # nobody answers: what else there is tells where, in one's own words
    if frame.status is not None or frame.description:
        found["status"] = f"{frame.status} {frame.description}".rstrip()
    if frame.headers:
        found["headers"] = [
            [name, "<moment>" if name in _MOMENT_HEADERS else value] for name, value in frame.headers
        ]
    if frame.reply.startswith("$JS.ACK."):
        found |= {"subject": frame.subject, "delivery": _delivery(frame.reply)}
    return found


def _delivery(address: str) -> dict[str, Any]:
    """What the reply address of a delivery says, but for the moment (PUL-13)."""
    stream, consumer, deliveries, sequence, consumer_sequence, _, pending = address.split(".")[2:]
    return {
        "stream": stream,
        "consumer": consumer,
        "deliveries": int(deliveries),
        "sequence": int(sequence),
        "consumer_sequence": int(consumer_sequence),
        "pending": int(pending),
    }


def _body(body: bytes) -> Any:
    try:
        value = json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
    return _plain(value) if isinstance(value, dict) else body.decode()


def _plain(value: Any) -> Any:
    """JSON as its reader takes it: what is left out says the same as an empty value."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, held in value.items():
        if key in _LEFT_OUT or key in _LEFT_OUT_TOO or _DEFAULTS.get(key) == held:
            continue
        if key in _MOMENTS and isinstance(held, str):
            found[key] = "<never>" if held == _NEVER else "<moment>"
        elif key == "description" and _CONSUMERS in str(held):
            text, _, names = str(held).partition(_CONSUMERS)
            found[key] = text + _CONSUMERS + ", ".join(sorted(names.split(", ")))  # in no order
        elif key == "hdrs":
            found[key] = [list(pair) for pair in header_block(base64.b64decode(held))[2]]
        else:
            found[key] = _plain(held)
    return {key: held for key, held in found.items() if held}
