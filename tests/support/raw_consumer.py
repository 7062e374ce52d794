"""One consumer by raw requests. Every call is answered before it returns, so that the next one sees what it did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from railgun.client.facade.railgun import Railgun
from railgun.model.messages import Reply
from tests.support.consumers import SECOND, about, add, delivered, floor, messages, pull, settle
from tests.support.raw import Refused, ask, refused, statuses

TIMEOUT = (408, "Request Timeout")


class Numbers(NamedTuple):
    """What a report shows of a consumer; pairs are (consumer sequence, stream sequence)."""

    delivered: tuple[int, int]
    floor: tuple[int, int]
    ack_pending: int
    redelivered: int


class RawConsumer:
    """A durable consumer, made on the spot: explicit acks unless told otherwise, durations in nanoseconds."""

    def __init__(self, rg: Railgun, stream: str, name: str = "C", **config: Any) -> None:
        self._rg = rg
        self.stream = stream
        self.name = name
        add(rg, stream, name, **config)

    # ------------------------------------------------------------ getting messages

    def take(self, batch: int = 1) -> list[Reply]:
        """Up to so many messages that are there right now; at the limit max_ack_pending, use ``fetch``."""
        replies = pull(self._rg, self.stream, self.name, {"batch": batch, "no_wait": True})
        assert set(statuses(replies)) <= {(None, None), (404, "No Messages")}, statuses(replies)
        return messages(replies)

    def fetch(self, batch: int = 1, wait: float = 0.3) -> list[Reply]:
        """Up to so many messages that come within the time."""
        body = {"batch": batch, "expires": int(wait * SECOND)}
        replies = pull(self._rg, self.stream, self.name, body)
        assert set(statuses(replies)) <= {(None, None), TIMEOUT}, statuses(replies)
        return messages(replies)

    # ------------------------------------------------------------ acknowledging

    def ack(self, *given: Reply) -> None:
        for message in given:
            settle(self._rg, message)

    def nak(self, *given: Reply, delay: str = "") -> None:
        """``delay`` such as ``60s``."""
        for message in given:
            settle(self._rg, message, f"-NAK {delay}".strip().encode())

    def progress(self, *given: Reply) -> None:
        for message in given:
            settle(self._rg, message, b"+WPI")

    def term(self, *given: Reply, reason: str = "") -> None:
        for message in given:
            settle(self._rg, message, f"+TERM {reason}".strip().encode())

    # ------------------------------------------------------------ the consumer itself

    def info(self) -> dict[str, Any]:
        return about(self._rg, self.stream, self.name)

    def numbers(self) -> Numbers:
        info = self.info()
        return Numbers(delivered(info), floor(info), info["num_ack_pending"], info["num_redelivered"])

    def update(self, **config: Any) -> None:
        """Change it to exactly this."""
        add(self._rg, self.stream, self.name, action="update", **config)

    def delete(self) -> None:
        assert ask(self._rg, f"CONSUMER.DELETE.{self.stream}.{self.name}")["success"] is True

    def delete_refused(self) -> Refused:
        return refused(self._rg, f"CONSUMER.DELETE.{self.stream}.{self.name}")


def bodies(replies: Iterable[Reply]) -> list[bytes]:
    return [reply.body for reply in replies]
