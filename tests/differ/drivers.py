"""The two systems behind one door: a subject, a payload and headers go in, the frames of the answer come out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, Protocol

import railgun
from railgun.errors import RailgunError, RequestTimeout
from railgun.model.messages import Reply
from tests.differ.frames import Frame
from tests.differ.operations import API, Ack, Call, Operation, Publish, pulled
from tests.differ.wire import NatsWire

NOBODY_ASKED: Final = [Frame(description="there is no delivery to acknowledge")]
_ANSWER_SECONDS: Final = 5.0  # for what is always answered, within a few milliseconds on a calm machine
_QUIET_SECONDS: Final = 0.5  # for what may be answered by silence
_PULL_SECONDS: Final = 0.3  # for a pull that may wait: one short ack wait passes (200 ms), a second does not


class Driver(Protocol):
    """A system under comparison."""

    name: str

    def fresh(self) -> None:
        """Forget everything: no stream is left."""

    def send(self, operation: Operation) -> list[Frame]:
        """Carry out one operation. An empty answer is silence until the time is over."""

    def close(self) -> None: ...


class Addresses:
    """Reply addresses of the deliveries of one sequence, which its acknowledgements refer to by number."""

    def __init__(self) -> None:
        self._known: list[str] = []

    def note(self, frames: list[Frame]) -> None:
        self._known += [frame.reply for frame in frames if frame.reply.startswith("$JS.ACK.")]

    def of(self, ack: Ack) -> str | None:
        return self._known[ack.delivery % len(self._known)] if self._known else None


class NatsDriver:
    """A nats-server that many sequences share; each finds it empty."""

    name = "nats-server"

    def __init__(self, url: str) -> None:
        self._wire = NatsWire(url)
        self._addresses = Addresses()

    def fresh(self) -> None:
        self._addresses = Addresses()
        while names := self._streams():
            for name in names:
                self.send(Call(f"STREAM.DELETE.{name}"))

    def _streams(self) -> list[str]:
        (frame,) = self.send(Call("STREAM.NAMES"))
        return json.loads(frame.body)["streams"] or []

    def send(self, operation: Operation) -> list[Frame]:
        asked = _request(operation, self._addresses)
        if asked is None:
            return NOBODY_ASKED
        frames = self._wire.request(*asked, completion(operation), patience(operation))
        self._addresses.note(frames)
        return frames

    def close(self) -> None:
        self._wire.close()


class MemoryDriver:
    """railgun in memory, a new cluster for each sequence."""

    name = "railgun"

    def __init__(self) -> None:
        self._addresses = Addresses()
        self._railgun = railgun.connect("memory://")

    def fresh(self) -> None:
        self._addresses = Addresses()
        self._railgun.close()
        self._railgun = railgun.connect("memory://")

    def send(self, operation: Operation) -> list[Frame]:
        asked = _request(operation, self._addresses)
        if asked is None:
            return NOBODY_ASKED
        subject, payload, headers = asked
        try:
            replies = self._railgun.request(subject, payload, headers, timeout=patience(operation))
        except RequestTimeout:
            return []
        except (RailgunError, ValueError) as error:
            return [Frame(description=f"raised {error!r}")]
        frames = [_frame(reply) for reply in replies]
        self._addresses.note(frames)
        return frames

    def close(self) -> None:
        self._railgun.close()


def _request(operation: Operation, addresses: Addresses) -> tuple[str, bytes, list[tuple[str, str]]] | None:
    """Subject, payload and headers; None for an acknowledgement without a delivery."""
    match operation:
        case Call(name, _, headers):
            return API + name, operation.payload, list(headers)
        case Publish(subject, payload, headers):
            return subject, payload.encode(), list(headers)
        case Ack(_, body):
            address = addresses.of(operation)
            return None if address is None else (address, body.encode(), [])
    raise TypeError(f"{operation} is not a request")


def _frame(reply: Reply) -> Frame:
    own = ("Status", "Description") if reply.status is not None else ()
    headers = [
        (name, value.decode("utf-8", "replace").strip()) for name, value in reply.headers if name not in own
    ]
    return Frame(reply.body, headers, reply.status, reply.description or "", reply.subject, reply.reply)


def patience(operation: Operation) -> float:
    """Seconds that both systems have for their answer. The same for both: what comes while a pull waits depends on it."""
    if pulled(operation) is not None:
        return _PULL_SECONDS
    return _QUIET_SECONDS if isinstance(operation, Publish | Ack) else _ANSWER_SECONDS


def completion(operation: Operation) -> Callable[[list[Frame]], bool]:
    """When an answer is complete: after one frame, or at the end of a batch."""
    pull = pulled(operation)
    if pull is not None:
        batch, ended_by_status = pull

        def pull_is_over(frames: list[Frame]) -> bool:
            messages = sum(frame.status is None for frame in frames)
            ended = any(frame.status not in (None, 100) for frame in frames)
            return ended or (messages >= batch and not ended_by_status)

        return pull_is_over
    if isinstance(operation, Call) and _is_batch(operation):
        return lambda frames: any(frame.status is not None for frame in frames)
    return lambda frames: bool(frames)


def _is_batch(call: Call) -> bool:
    """Whether a direct get is answered with several messages and a status behind them (GET-11, GET-15)."""
    body = call.body if call.verb == "DIRECT.GET" and isinstance(call.body, dict) else {}
    return bool(body.get("batch") or body.get("multi_last"))
