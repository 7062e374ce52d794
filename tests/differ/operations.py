"""What a sequence is made of: operations that any JetStream could be asked for, as plain values that JSON can carry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

API: Final = "$JS.API."
Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the API by name. ``body``: a JSON object, a text that is sent as it is, or None for nothing."""

    name: str
    body: dict[str, Any] | str | None = None
    headers: Headers = ()

    @property
    def payload(self) -> bytes:
        if self.body is None:
            return b""
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()

    @property
    def verb(self) -> str:
        """The name without stream and consumer: ``STREAM.MSG.GET``."""
        return next(verb for verb in VERBS if self.name.startswith(verb))


@dataclass(frozen=True, slots=True)
class Publish:
    """A publish that asks for its ack."""

    subject: str
    payload: str = ""
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledgement of the n-th delivery of the sequence, counted around, that asks to be confirmed."""

    delivery: int
    body: str = "+ACK"


@dataclass(frozen=True, slots=True)
class Wait:
    """Time that passes for both."""

    seconds: float


Operation = Call | Publish | Ack | Wait
VERBS: Final = (  # the longer one first where one begins like another
    "STREAM.MSG.GET",
    "STREAM.MSG.DELETE",
    "STREAM.CREATE",
    "STREAM.UPDATE",
    "STREAM.DELETE",
    "STREAM.INFO",
    "STREAM.PURGE",
    "STREAM.LIST",
    "STREAM.NAMES",
    "DIRECT.GET",
    "CONSUMER.DURABLE.CREATE",
    "CONSUMER.CREATE",
    "CONSUMER.INFO",
    "CONSUMER.DELETE",
    "CONSUMER.LIST",
    "CONSUMER.NAMES",
    "CONSUMER.MSG.NEXT",
    "",
)
READS: Final = frozenset(
    verb for verb in VERBS if verb.endswith((".GET", ".INFO", ".LIST", ".NAMES"))
)  # asked again, they say the same
_KINDS: Final = {"call": Call, "publish": Publish, "ack": Ack, "wait": Wait}


def dumps(sequence: Sequence[Operation]) -> str:
    """The sequence as JSON, one operation on each line."""
    lines = [json.dumps({type(one).__name__.lower(): asdict(one)}, ensure_ascii=False) for one in sequence]
    return "[" + ",\n ".join(lines) + "]"


def loads(text: str) -> list[Operation]:
    """The sequence that :func:`dumps` wrote."""
    found = []
    for entry in json.loads(text):
        ((kind, fields),) = entry.items()
        if "headers" in fields:
            fields["headers"] = tuple((name, value) for name, value in fields["headers"])
        found.append(_KINDS[kind](**fields))
    return found


def shown(operation: Operation) -> str:
    """The operation on one line, for people."""
    match operation:
        case Call(name, _, headers):
            text = f"{name} {operation.payload.decode()}".rstrip()
        case Publish(subject, payload, headers):
            text = f"PUB {subject} {payload!r}"
        case Ack(delivery, body):
            return f"ACK of delivery {delivery}: {body!r}"
        case Wait(seconds):
            return f"WAIT {seconds:g} s"
    return text + "".join(f" [{name}: {value}]" for name, value in headers)


def pulled(operation: Operation) -> tuple[int, bool] | None:
    """How many messages a pull asks for, and whether a status always ends it; None for what is not a pull."""
    if isinstance(operation, Call) and operation.verb == "CONSUMER.MSG.NEXT":
        text = operation.payload.decode()
    elif isinstance(operation, Ack) and operation.body.startswith("+NXT"):
        text = operation.body.removeprefix("+NXT").strip()
    else:
        return None
    if text.isdigit():
        return int(text), False
    try:
        body = json.loads(text)
    except ValueError:
        return 1, False
    if not isinstance(body, dict):
        return 1, False
    batch = body.get("batch", 1)
    return (batch if isinstance(batch, int) and batch > 0 else 1), bool(body.get("max_bytes"))
