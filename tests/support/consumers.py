"""Consumers by raw requests: making them, pulling, acknowledging, and what a delivery says of itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

from railgun.client.facade.railgun import Railgun
from railgun.errors import RequestTimeout
from railgun.model.messages import Reply
from tests.support.raw import Refused, ask, refused
from tests.support.waiting import wait_until

SECOND: Final = 1_000_000_000  # in raw requests times are nanoseconds
MILLI: Final = 1_000_000
NOT_FOUND: Final = (10014, 404, "consumer not found")
Status = tuple[int | None, str | None]


class Delivery(NamedTuple):
    """What the reply address of a delivered message carries (PUL-13)."""

    stream: str
    consumer: str
    deliveries: int
    sequence: int
    consumer_sequence: int
    time: int
    pending: int


class Delivered(Protocol):
    """A raw reply, or a message of the facade."""

    @property
    def reply(self) -> str: ...


def creation(stream: str, config: dict[str, Any], action: str | None = None) -> dict[str, Any]:
    """The body of a raw creation."""
    body: dict[str, Any] = {"stream_name": stream, "config": config}
    return body if action is None else body | {"action": action}


def add(
    rg: Railgun, stream: str, name: str = "C", *, action: str | None = None, **config: Any
) -> dict[str, Any]:
    """Create or change a durable consumer, explicit ack unless told otherwise; the info that comes back."""
    fields = {"durable_name": name, "ack_policy": "explicit", **config}
    answer = ask(rg, f"CONSUMER.CREATE.{stream}.{name}", creation(stream, fields, action))
    assert "error" not in answer, answer
    return answer


def add_ephemeral(rg: Railgun, stream: str, **config: Any) -> str:
    """Create an ephemeral consumer; the name that it was given."""
    answer = ask(rg, f"CONSUMER.CREATE.{stream}", creation(stream, {"ack_policy": "explicit", **config}))
    assert "error" not in answer, answer
    name = answer["name"]
    assert isinstance(name, str)
    return name


def add_refused(
    rg: Railgun, stream: str, name: str = "C", *, action: str | None = None, **config: Any
) -> Refused:
    """Why exactly this durable consumer cannot be made, or changed to this."""
    fields = {"durable_name": name, "ack_policy": "explicit", **config}
    return refused(rg, f"CONSUMER.CREATE.{stream}.{name}", creation(stream, fields, action))


def about(rg: Railgun, stream: str, name: str = "C") -> dict[str, Any]:
    """The info of a consumer."""
    answer = ask(rg, f"CONSUMER.INFO.{stream}.{name}")
    assert "error" not in answer, answer
    return answer


def exists(rg: Railgun, stream: str, name: str = "C") -> bool:
    """Whether the consumer is there; any answer but an info or "not found" fails."""
    answer = ask(rg, f"CONSUMER.INFO.{stream}.{name}")
    if "error" not in answer:
        return True
    error = answer["error"]
    assert (error["err_code"], error["code"], error["description"]) == NOT_FOUND
    return False


def floor(info: dict[str, Any]) -> tuple[int, int]:
    """The ack floor: consumer sequence, stream sequence."""
    return info["ack_floor"]["consumer_seq"], info["ack_floor"]["stream_seq"]


def delivered(info: dict[str, Any]) -> tuple[int, int]:
    """The last delivered pair: consumer sequence, stream sequence."""
    return info["delivered"]["consumer_seq"], info["delivered"]["stream_seq"]


# ------------------------------------------------------------ pulling


def pull(
    rg: Railgun,
    stream: str,
    name: str = "C",
    body: dict[str, Any] | bytes = b"",
    timeout: float | None = None,
) -> list[Reply]:
    """All that answers a pull: messages and statuses."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return rg.request(f"CONSUMER.MSG.NEXT.{stream}.{name}", sent, timeout=timeout)


def take(rg: Railgun, stream: str, name: str = "C", batch: int = 1) -> list[Reply]:
    """Up to so many messages that are there right now."""
    return messages(pull(rg, stream, name, {"batch": batch, "no_wait": True}))


def messages(replies: Iterable[Reply]) -> list[Reply]:
    """Those that are messages and not statuses."""
    return [reply for reply in replies if reply.status is None]


def delivery(reply: Delivered) -> Delivery:
    """What the message says of its delivery."""
    prefix, kind, stream, consumer, *numbers = reply.reply.split(".")
    assert (prefix, kind) == ("$JS", "ACK")
    return Delivery(stream, consumer, *map(int, numbers))


def sequences(replies: Iterable[Reply]) -> list[int]:
    """The stream sequences of the messages among the replies."""
    return [delivery(reply).sequence for reply in messages(replies)]


# ------------------------------------------------------------ acknowledging


def settle(rg: Railgun, message: Delivered, body: bytes = b"+ACK") -> None:
    """Acknowledge and wait for the confirmation, which must be empty (ACK-13)."""
    (reply,) = rg.request(message.reply, body)
    assert (reply.body, list(reply.headers)) == (b"", [])


def unconfirmed(rg: Railgun, address: str, body: bytes = b"+ACK") -> bool:
    """Whether an acknowledgement stays without any answer."""
    try:
        rg.request(address, body, timeout=1.0)
    except RequestTimeout:
        return True
    return False


def address(message: Delivered, **changed: Any) -> str:
    """The reply address of a message with some of its parts changed."""
    return "$JS.ACK." + ".".join(map(str, delivery(message)._replace(**changed)))


# ------------------------------------------------------------ waiting


class Waiters:
    """Pulls that wait in threads of their own."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def pull(
        self,
        rg: Railgun,
        stream: str,
        name: str = "C",
        body: dict[str, Any] | bytes = b"",
        *,
        waiting: int,
        timeout: float = 20.0,
    ) -> Future[list[Reply]]:
        """Send a pull and return once the consumer has so many waiting ones."""
        future = self._pool.submit(pull, rg, stream, name, body, timeout)
        await_waiting(rg, stream, name, waiting)
        return future

    def ack_next(self, rg: Railgun, message: Delivered, body: bytes, *, waiting: int) -> Future[list[Reply]]:
        """Send ``+NXT`` and return once the consumer has so many waiting pulls."""
        future = self._pool.submit(rg.request, message.reply, body, timeout=20.0)
        found = delivery(message)
        await_waiting(rg, found.stream, found.consumer, waiting)
        return future


@contextmanager
def waiters() -> Iterator[Waiters]:
    """Room for pulls that wait; every one must have ended before it closes."""
    with ThreadPoolExecutor(8) as pool:
        yield Waiters(pool)


def await_waiting(rg: Railgun, stream: str, name: str, count: int) -> None:
    wait_until(
        lambda: about(rg, stream, name)["num_waiting"] == count, f"{count} waiting pulls at {name}", 20.0
    )
