"""The input and the output of a shard: the seam between the decisions and the driver that carries them.

A shard's core (:mod:`railgun.shard.core`) turns a list of :class:`Input` into one :class:`Drain`. A driver (Kafka, or
the memory transport) makes the drain durable as one transaction, and tells the core whether it was.

The commit divides a drain. Before it everything can be undone, and the same inputs applied again; so everything that can fail and
can be computed beforehand is in the drain when it is decided. After it there is only the way forward: a core that fails
then is dropped, and the state is restored from the changelog (:class:`AfterCommit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from railgun.model.headers import Headers
from railgun.protocol.columnar.read_records import ReadReply
from railgun.protocol.leases import Lease
from railgun.protocol.replies import Answer, PackReply, ReplyBatch
from railgun.semantics.streams.adopting.topic_records import TopicFetch, TopicSeen

_OBJECTS: Final = 450
_HEADER: Final = 200


class AfterCommit(Exception):
    """The drain is durable, and the core did not follow: its inputs must never be applied again from memory."""


class Input(NamedTuple):
    """One record of ``commands`` or ``forwards``, as read from Kafka."""

    forwarded: bool  # read from forwards, not from commands
    offset: int
    time: int  # LogAppendTime, ns
    key: bytes | None
    headers: Headers
    value: bytes | None
    arrived: int = 0  # the driver's clock when the record came to the worker, ns; 0: not known
    newest: int = 0  # the time of the last record that came with it
    early: bool = False  # it is decided before records that came before it

    @property
    def place(self) -> str:
        """The record in words, for whoever reads the log of a worker."""
        return f"the command at offset {self.offset}"

    def parts(self) -> Sequence[Input]:
        """The record itself: it is decided as a whole."""
        return (self,)


Given = Input | TopicFetch | TopicSeen  # everything that a shard decides


class _Record(Protocol):
    """The parts of a record that take memory."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...
    @property
    def value(self) -> bytes | None: ...


def record_bytes(record: _Record) -> int:
    """Memory of a record while it waits, approximately: most of it is not its bytes but the objects around them."""
    return _OBJECTS + len(record.value or b"") + len(record.key or b"") + _HEADER * len(record.headers)


@dataclass(slots=True)
class LogAppend:
    """Records for one stream's log, in order: columns of messages, with tombstones between them."""

    stream: str
    topic: str
    incarnation: int
    sequences: list[int] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)  # the user's, without railgun's own
    times: list[int] = field(default_factory=list)
    tombstones: list[tuple[int, bytes]] = field(default_factory=list)  # (written before message number, key)
    blocks: list[tuple[int, int]] = field(default_factory=list)  # (base, number of its first message)


class TopicChange(NamedTuple):
    """A log topic to create, or whose settings follow a changed configuration, before the transaction."""

    topic: str
    compacted: bool


class Trim(NamedTuple):
    """Records below the offset are no longer needed; after the commit, outside the drain."""

    topic: str
    offset: int


class Rejected(NamedTuple):
    """A record that could not be read or applied, kept in ``rejected`` with the reason."""

    source: Input
    reason: str
    place: str = ""  # topic, partition and offset, where it is not one of the shard's own input


class Advisory(NamedTuple):
    subject: str
    body: bytes


@dataclass(slots=True)
class Replies:
    """Answers for one client."""

    packs: list[PackReply] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    reads: list[ReadReply] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.packs) + len(self.answers) + len(self.leases) + len(self.reads)

    def batch(self, shard: int, epoch: int) -> ReplyBatch:
        """The answers as one record carries them."""
        return ReplyBatch(shard, epoch, self.packs, self.answers, self.leases, self.reads)

    def halves(self) -> tuple[Replies, Replies]:
        """The answers in two parts, neither of them empty if there are at least two answers."""
        middle, first, second, number = len(self) // 2, Replies(), Replies(), 0
        for column in ("packs", "answers", "leases", "reads"):
            for one in getattr(self, column):
                getattr(first if number < middle else second, column).append(one)
                number += 1
        return first, second


@dataclass(slots=True)
class Drain:
    """The decisions of one drain, to be made durable as one transaction, or dropped as one."""

    commands: int = 0  # next offset of commands, 0: none read
    forwards: int = 0
    appends: dict[str, LogAppend] = field(default_factory=dict)  # by topic
    changes: dict[bytes, bytes | None] = field(default_factory=dict)
    bodies: dict[bytes, bytes] = field(default_factory=dict)  # kept beside the changes of the same keys
    replies: dict[str, Replies] = field(default_factory=dict)  # by client
    registry: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    sent: list[tuple[int, bytes]] = field(default_factory=list)  # (partition of forwards, Forward)
    rejected: list[Rejected] = field(default_factory=list)
    topics: list[TopicChange] = field(default_factory=list)
    # Deleted before the transaction; may be gone already.
    doomed_topics: list[str] = field(default_factory=list)
    trims: list[Trim] = field(default_factory=list)
    advisories: list[Advisory] = field(default_factory=list)

    @property
    def only_answers(self) -> bool:
        """Nothing durable was decided: the answers may go out without a transaction."""
        return not (self.appends or self.changes or self.registry or self.sent or self.rejected)
