"""Reads that were sent and are not answered: gets that travelled together, and pages.

They change nothing, so they are sent again to a new owner of their shard: the former one may have had them in hand.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from itertools import repeat
from typing import Final, NamedTuple

from railgun.client.reading.answered import message_at
from railgun.client.settlements import Settlement, Wakeups
from railgun.client.transport import Send
from railgun.errors import RailgunError, RequestTimeout, api_error
from railgun.model.messages import StoredMessage
from railgun.model.refusals import NO_MESSAGE_FOUND, Refusal
from railgun.protocol.columnar.read_records import BY_SEQUENCE, GetPack, ReadReply
from railgun.protocol.replies import Located

MOST_GETS: Final = 1_000  # that travel together
_MOST_BYTES: Final = 500_000
_EACH: Final = 16  # bytes of a get beside its subject


class Record(NamedTuple):
    """What a read travels as."""

    partition: int
    key: bytes
    kind: str
    value: bytes


class UnansweredRead(Settlement[ReadReply]):
    """A read that waits for its answer, or for the last of them."""

    __slots__ = ("deadline", "record", "request")

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self.request = 0
        self.deadline = deadline
        self.record: Record | None = None  # as it was sent

    def take(self, reply: ReadReply) -> bool:
        """Note an answer; whether nothing is missing now."""
        return True

    def overdue(self, seconds: float) -> RequestTimeout:
        return RequestTimeout(f"no answer within {seconds:g} s; nothing was changed: ask again")


class WaitingGets(UnansweredRead):
    """Gets of one stream that are sent and answered together. The outcome of each is (gets, index)."""

    __slots__ = ("_found", "forms", "sequences", "size", "stream", "subjects")

    def __init__(self, stream: str) -> None:
        super().__init__(0.0)
        self.stream = stream
        self.forms = bytearray()
        self.sequences: list[int] = []
        self.subjects: list[str] = []
        self.size = 0
        self._found: dict[int, tuple[ReadReply, int] | Refusal] = {}

    def __len__(self) -> int:
        return len(self.sequences)

    def has_room(self, subject: str) -> bool:
        """Whether a get of the subject may join; one that is too large for any others travels alone."""
        return not len(self) or (len(self) < MOST_GETS and self.size + len(subject) + _EACH <= _MOST_BYTES)

    def add(self, form: int, sequence: int, subject: str, deadline: float) -> int:
        """One more get; its index."""
        self.forms.append(form)
        self.sequences.append(sequence)
        self.subjects.append(subject)
        self.size += len(subject) + _EACH
        self.deadline = max(self.deadline, deadline)
        return len(self.sequences) - 1

    def encode(self, client: str) -> bytes:
        by_subject = any(one != BY_SEQUENCE for one in self.forms)
        forms, subjects = (bytes(self.forms), self.subjects) if by_subject else (b"", [])
        return GetPack(self.stream, client, self.request, forms, self.sequences, subjects).encode()

    def take(self, reply: ReadReply) -> bool:
        self._found.update(
            zip(reply.indexes, zip(repeat(reply), range(len(reply.indexes)), strict=False), strict=True)
        )
        self._found.update(reply.refusals)
        return len(self._found) >= len(self.sequences)

    def outcome(self, index: int) -> StoredMessage | Located:
        """The message, or where it is in the log. Raises its refusal, and the error that ended all."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        found = self._found.get(index)
        if found is None:
            raise RailgunError(f"the answer of stream {self.stream!r} says nothing of this get")
        if isinstance(found, Refusal):
            raise api_error(*found, stream=self.stream)
        return message_at(*found)

    def outcome_or_none(self, index: int) -> StoredMessage | Located | None:
        """As :meth:`outcome`; None for a message that does not exist."""
        return (
            None if self.error is None and self._found.get(index) == NO_MESSAGE_FOUND else self.outcome(index)
        )


class PendingReads:
    """All reads of a connection that have no answer yet, by number. Thread-safe."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._pending: dict[int, UnansweredRead] = {}

    def add(self, read: UnansweredRead) -> None:
        with self._lock:
            self._pending[read.request] = read

    def send(self, read: UnansweredRead, record: Record) -> None:
        """Send a read that was added. One that cannot be delivered ends; raises what keeps it from being sent."""
        read.record = record
        self._send(*record, partial(self._delivered, read))

    def new_owner(self, partition: int) -> None:
        """Send again what the former owner of the shard had and has not answered. An answer that comes twice counts once."""
        for read in self.waiting():
            record = read.record
            if read.delivered and record is not None and record.partition == partition:
                try:
                    self.send(read, record)
                except RailgunError as error:
                    self.end(read, error)

    def _delivered(self, read: UnansweredRead, error: RailgunError | None) -> None:
        read.delivered = error is None
        if error is not None:
            self.end(read, error)

    def answered(self, reply: ReadReply, wakeups: Wakeups) -> None:
        """An answer came. One to a read that is not known (late, ended) is left alone."""
        with self._lock:
            read = self._pending.get(reply.request)
            if read is None or not read.take(reply):
                return
            del self._pending[reply.request]
        read.settle(reply, None, wakeups)

    def end(self, read: UnansweredRead, error: RailgunError) -> None:
        """The read ends with an error."""
        with self._lock:
            self._pending.pop(read.request, None)
        wakeups = Wakeups()
        read.settle(None, error, wakeups)
        wakeups.deliver()

    def waiting(self) -> list[UnansweredRead]:
        with self._lock:
            return list(self._pending.values())

    def end_all(self, error: RailgunError) -> None:
        for read in self.waiting():
            self.end(read, error)

    def abandon(self) -> None:
        """In a forked child: the lock may be held by a thread that does not exist here."""
        self._lock = threading.Lock()
        self._pending = {}


def deadline_in(timeout: float) -> float:
    return time.monotonic() + timeout
