"""The interface that the consumers' side of a client needs of its connection.

Consuming knows a :class:`Link` and never a connection, so that the connection can be built on top of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from railgun.avro.events import Events
from railgun.client.requests import Requests
from railgun.client.transport import Delivered
from railgun.errors import RailgunError
from railgun.protocol.registry import RegisteredStream


class Link(Protocol):
    """A connection, as consumers see it. Thread-safe."""

    client: str  # how shards know this client
    timeout: float  # seconds that a caller waits for an answer, unless it says otherwise
    requests: Requests
    events: Events

    @property
    def partitions(self) -> int:
        """Number of shards of the cluster."""

    def stream(self, name: str) -> RegisteredStream | None:
        """The stream of that name, as this client's copy of the registry has it."""

    def captured_by(self, subject: str) -> str:
        """The name of the stream that captures the subject, as this client's copy of the registry has it; empty: none."""

    def find_capturing(self, subject: str, timeout: float) -> str:
        """As :meth:`captured_by`, after the registry was read to its end. Blocks. Raises NoStreamResponse."""

    def check(self) -> None:
        """Raises what ended the connection, if anything did."""

    def prepared(self, shards: Sequence[int]) -> bool:
        """Whether commands to these shards may be sent without :meth:`prepare`."""

    def prepare(self, shards: Sequence[int], timeout: float) -> None:
        """Listen to these shards, and make sure that a worker is alive. Blocks. Raises NoWorker, ConnectionLost."""

    def sync_registry(self, timeout: float) -> None:
        """Read the registry to its end. Blocks; a registry that could not be read in time is logged."""

    def send(self, partition: int, key: bytes, kind: str, value: bytes, delivered: Delivered) -> None:
        """Hand one command to the transport. Commands of one partition keep their order."""

    def failed(self, error: RailgunError) -> None:
        """End the connection: a part of it cannot go on."""
