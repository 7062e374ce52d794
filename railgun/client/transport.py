"""The transport: the seam between a connection and what carries its bytes.

A transport knows records, partitions and positions; it knows nothing of publishes, answers or refusals. It reports to one
:class:`Receiver`, from its own threads. A reader of a transport that ends for any reason but ``close`` reports ``failed``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from railgun.errors import RailgunError
from railgun.model.messages import StoredMessage
from railgun.protocol.replies import Located

Delivered = Callable[[RailgunError | None], None]  # None: the broker has it
Send = Callable[[int, bytes, str, bytes, Delivered], None]  # partition, key, kind, value; as Transport.send
TakeAdvisories = Callable[[list[tuple[str, bytes]]], None]  # (subject, JSON) each


class Topology(NamedTuple):
    """The numbers that a cluster fixed at its first start."""

    partitions: int
    reply_factor: int = 1


class Receiver(Protocol):
    """The connection that a transport reports to."""

    def replies(self, batches: Sequence[bytes]) -> None:
        """Answers for this client: Avro ReplyBatch each, in the order of their shard."""

    def registry(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Records of the registry in order; a value of None removes the key."""

    def failed(self, error: RailgunError) -> None:
        """The transport cannot go on: nothing that waits will be answered."""


class Transport(Protocol):
    """Commands go out through it and answers come back. All methods are thread-safe and may block, but for ``send``."""

    def open(self, client: str, receiver: Receiver, timeout: float) -> Topology:
        """Connect and read the registry to its end. Raises ConnectionLost, NotAuthorized, NoWorker, RequestTimeout."""

    def listen(self, shard: int, timeout: float) -> None:
        """Fix the position in the answers of a shard; what it answers to later commands is delivered. Idempotent."""

    def send(self, partition: int, key: bytes, kind: str, value: bytes, delivered: Delivered) -> None:
        """Hand one command over; records of one partition keep their order. ``delivered`` is called once, later or at once."""

    def sync_registry(self, timeout: float) -> bool:
        """Read the registry up to where it ends now; False if that was not possible in time."""

    def read_log(self, places: Sequence[Located], timeout: float) -> list[StoredMessage | None]:
        """The messages at these places; None for one that was removed meanwhile. Raises RequestTimeout."""

    def advisories(self, take: TakeAdvisories) -> Callable[[], None]:
        """Give ``take`` every advisory from now on, from a thread of the transport; the returned function ends it."""

    def workers(self) -> int | None:
        """Number of workers that are alive; None if that cannot be found out."""

    def trouble(self) -> RailgunError | None:
        """What keeps the broker from answering just now, if anything does."""

    def flush(self, timeout: float) -> bool:
        """Wait until the broker has all that was sent; False if it has not in time."""

    def close(self) -> None:
        """End all threads and connections."""
