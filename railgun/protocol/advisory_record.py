"""The records of the topic of advisories: the subject is the key, a JSON object with a ``type`` the value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from railgun.model.durations import rfc3339
from railgun.protocol.unreadable import Unreadable

# The subjects; the names of the stream and of the consumer follow.
MAX_DELIVERIES: Final = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES"
MSG_TERMINATED: Final = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED"
MSG_NAKED: Final = "$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED"
CONSUMER_ACK: Final = "$JS.EVENT.METRIC.CONSUMER.ACK"
CONSUMER_CREATED: Final = "$JS.EVENT.ADVISORY.CONSUMER.CREATED"
CONSUMER_DELETED: Final = "$JS.EVENT.ADVISORY.CONSUMER.DELETED"
STREAM_CREATED: Final = "$JS.EVENT.ADVISORY.STREAM.CREATED"
STREAM_UPDATED: Final = "$JS.EVENT.ADVISORY.STREAM.UPDATED"
STREAM_DELETED: Final = "$JS.EVENT.ADVISORY.STREAM.DELETED"
BATCH_ABANDONED: Final = "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED"

_ADVISORY: Final = "io.nats.jetstream.advisory.v1."
#: By the last part of each type, which users know it by.
TYPES: Final = {
    "max_deliver": _ADVISORY + "max_deliver",
    "terminated": _ADVISORY + "terminated",
    "nak": _ADVISORY + "nak",
    "consumer_ack": "io.nats.jetstream.metric.v1.consumer_ack",
    "stream_action": _ADVISORY + "stream_action",
    "consumer_action": _ADVISORY + "consumer_action",
    "batch_abandoned": _ADVISORY + "batch_abandoned",  # C-08
}

_KIND: Final = "advisory"


def encode(kind: str, identity: str, time_ns: int, fields: Mapping[str, Any]) -> bytes:
    """The value of an advisory of one of the :data:`TYPES`."""
    body = {"type": TYPES[kind], "id": identity, "timestamp": rfc3339(time_ns), **fields}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


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
