"""What both clients can do with consumers, in the words that the rows use."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

FETCH: Final = 500
IN_FLIGHT: Final = 10_000  # what a consumer may have delivered and not acked
PATIENCE: Final = 20.0  # seconds without a message after which a row has failed
PACE: Final = 0.05
SILENCE: Final = 0.5  # seconds without a message after which a competitor has nothing more to do


class Wanted(NamedTuple):
    """How a consumer differs from one that pulls everything from the beginning, with explicit acks."""

    filter_subject: str | None = None
    new_only: bool = False
    push: bool = False


class Consumers(Protocol):
    """One connection's side. Work ends when the server says that no ack is missing."""

    def create(self, stream: str, name: str, wanted: Wanted = ...) -> None: ...
    def delete(self, stream: str, name: str) -> None: ...
    def fetch_and_ack(self, stream: str, name: str, count: int, batch: int = ...) -> None: ...
    def hold_and_ack(self, stream: str, name: str, count: int) -> None:
        """Fetch them all, then ack them all."""

    def handle(self, stream: str, name: str, count: int) -> None:
        """A handler acks each message."""

    def handled_one_by_one(
        self, stream: str, name: str, subject: str, payload: bytes, count: int
    ) -> list[float]:
        """Seconds from each publish to the handler's call; :data:`PACE` apart, so that none meets the ack before it."""

    def take_until_silence(self, stream: str, name: str) -> tuple[int, float]:
        """Fetch and ack until nothing comes any more: how many came, and the monotonic time of the last ack."""
