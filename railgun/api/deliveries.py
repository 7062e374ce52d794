"""Bodies that a consumer gets: those of pull requests and of acknowledgements, and the numbers of an ack subject.

Nothing here raises. A pull that cannot be understood is told why in words; an acknowledgement that cannot be understood is
an unknown one, which resolves nothing.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from railgun.api.bodies import parse_object
from railgun.model.durations import LONGEST, parse_duration
from railgun.model.refusals import Refusal
from railgun.model.stream_config import by_known_names
from railgun.protocol.commands import Pull

NEXT = b"+NXT"  # how an acknowledgement begins that asks for more
_MOST = 2**31 - 1
_WHOLE = re.compile(rb"[+-]?[0-9]{1,18}")
_NUMBERS = re.compile(r"[0-9]{1,19}")
_PULL_FIELDS: dict[str, type[int]] = {
    "batch": int,
    "expires": int,
    "no_wait": bool,
    "max_bytes": int,
    "idle_heartbeat": int,
}


def parse_pull(body: bytes) -> Pull | str:
    """What a pull asks for (PUL-01), or what is wrong with it; the number of the request is the caller's to add."""
    text = body.strip()
    if not text.startswith(b"{"):
        asked = int(text) if _WHOLE.fullmatch(text) else 1
        return Pull(0, min(max(asked, 1), _MOST))
    fields = parse_object(text)
    if isinstance(fields, Refusal):
        return "invalid JSON"
    named = by_known_names(fields, _PULL_FIELDS)
    given: dict[str, Any] = {name: named[name] for name in _PULL_FIELDS if name in named}
    for name, value in given.items():
        if type(value) is not _PULL_FIELDS[name]:
            return f"{name} is not {'true or false' if _PULL_FIELDS[name] is bool else 'a whole number'}"
        if value < 0 and name != "batch":
            return f"{name} can not be negative"
    return Pull(
        0,
        min(max(given.get("batch", 1), 1), _MOST),
        given.get("max_bytes", 0),
        min(given.get("expires", 0), LONGEST),
        given.get("no_wait", False),
        min(given.get("idle_heartbeat", 0), LONGEST),
    )


class Acknowledgement(NamedTuple):
    """What the body of an acknowledgement says; ``kind`` is one of AckRun's, ``next``, or ``unknown``."""

    kind: str
    delay: int = 0
    reason: str = ""
    pull: bytes = b""  # of a +NXT: the body of the pull that follows


def parse_acknowledgement(body: bytes) -> Acknowledgement:
    """The kind of an acknowledgement, which stands at the very beginning of its body (ACK-05); any other is unknown (ACK-12)."""
    if body in (b"", b"+ACK", b"+OK"):
        return Acknowledgement("ack")
    if body == b"+WPI":
        return Acknowledgement("progress")
    if body.startswith(b"-NAK"):
        return Acknowledgement("nak", delay=_delay(body[4:].strip()))
    if body.startswith(NEXT):
        return Acknowledgement("next", pull=body[4:])
    if body.startswith(b"+TERM"):
        return Acknowledgement("term", reason=body[5:].strip().decode("utf-8", "replace"))
    return Acknowledgement("unknown")


def _delay(text: bytes) -> int:
    """The delay of a nak, ns: a text that cannot be understood is none."""
    try:
        if text.startswith(b"{"):
            given = json.loads(text).get("delay", 0)
            nanos = given if type(given) is int else 0
        else:
            nanos = parse_duration(text.decode("utf-8")) if text else 0
    except (ValueError, RecursionError, OverflowError):
        return 0
    return min(max(nanos, 0), LONGEST)


class DeliveryNumbers(NamedTuple):
    """Which delivery an ack subject names."""

    deliveries: int
    sequence: int
    consumer_sequence: int


def parse_delivery(numbers: str) -> DeliveryNumbers | None:
    """The numbers of ``$JS.ACK.<stream>.<consumer>.<numbers>``; None if they are not such (PUL-13)."""
    parts = numbers.split(".")
    if len(parts) != 5 or not all(_NUMBERS.fullmatch(part) for part in parts):
        return None
    deliveries, sequence, consumer_sequence = (int(part) for part in parts[:3])
    if not (0 < deliveries <= _MOST and 0 < sequence < 2**63 and 0 < consumer_sequence < 2**63):
        return None
    return DeliveryNumbers(deliveries, sequence, consumer_sequence)
