"""Packs, lanes and the futures of their messages: what travels as one record, and in which order."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Any

from railgun.client.publishing.pack_codec import encode_pack
from railgun.client.settlements import Future, Settlement, Wakeups
from railgun.errors import MessageTooLarge, NoStreamResponse, RailgunError, api_error
from railgun.model.cluster_limits import LARGEST_MESSAGE
from railgun.model.headers import HeaderList, block_size
from railgun.model.messages import PubAck
from railgun.model.refusals import NO_STREAM, Refusal
from railgun.protocol.commands import PublishPack
from railgun.protocol.replies import PackReply

PACK_MESSAGES = 2_000
PACK_BYTES = 1_000_000  # with its frame a pack stays below 1 MiB
_FRAME = 16  # lengths and counts of one message in a pack


def message_size(subject: str, payload: bytes, msg_id: str, headers: HeaderList | None) -> int:
    """The bytes that the message adds to its pack. Raises MessageTooLarge."""
    size = len(payload) + len(subject) + len(msg_id) + _FRAME
    if headers:
        size += block_size(headers)
    if size > LARGEST_MESSAGE:
        raise MessageTooLarge(
            f"a message of {size} bytes is too large: it may have {LARGEST_MESSAGE} bytes at most"
        )
    return size


class Pack(Settlement[PackReply]):
    """Messages of one stream that are sent, answered or lost together."""

    __slots__ = (
        "_others", "_values", "count", "counted", "deadline", "first", "headers", "ids", "patience", "payloads", "silent", "size", "stream", "subjects",
    )  # fmt: skip

    def __init__(self, stream: str, *, silent: bool = False) -> None:
        super().__init__()
        self.stream = stream
        self.silent = silent  # its callers want no answer
        self.subjects: list[str] = []
        self.ids: list[str] = []
        self.headers: list[HeaderList] = []
        self.payloads: list[bytes] = []
        self.size = 0
        self.count = 0  # fixed when it is sent
        self.counted = True  # towards what is unanswered
        self.first = 0
        self.patience = 0.0  # the longest time that one of its callers waits
        self.deadline = 0.0
        self._others: dict[int, int | Refusal] | None = (
            None  # by index: sequence of the original, or the refusal
        )
        self._values: dict[int, int] | None = None  # by index: the total with this increment

    def encode(self, client: str) -> bytes:
        named = "" if self.silent else client
        return encode_pack(
            PublishPack(self.stream, named, self.first, self.subjects, self.ids, self.headers, self.payloads)
        )

    def settle(self, value: PackReply | None, error: RailgunError | None, wakeups: Wakeups) -> None:
        super().settle(value, error, wakeups)
        self.ids, self.headers, self.payloads = [], [], []  # a future that is kept must not keep the payloads

    def outcome(self, index: int) -> PubAck:
        """The ack of one message. Raises its refusal."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        reply = self.value
        assert reply is not None
        runs = reply.runs
        if runs:
            at = bisect_right(runs, index, key=_start) - 1 if len(runs) > 1 else 0
            start, length, sequence = runs[
                at
            ]  # before the first run: the last one, which does not hold it either
            if start <= index < start + length:
                if not reply.values:
                    return PubAck(self.stream, sequence + index - start)
                if self._values is None:
                    self._values = dict(reply.values)
                return PubAck(self.stream, sequence + index - start, value=self._values.get(index))  # CTR-05
        if self._others is None:
            self._others = {**dict(reply.duplicates), **dict(reply.refusals)}
        other = self._others.get(index)
        if isinstance(other, Refusal):
            raise self._refused(index, other)
        if other is None:
            raise RailgunError(f"the answer of stream {self.stream!r} says nothing of this message")
        return PubAck(self.stream, other, True)

    def _refused(self, index: int, refusal: Refusal) -> RailgunError:
        if refusal == NO_STREAM:  # the registry that we read was older than its owner's
            return NoStreamResponse(self.subjects[index])
        return api_error(*refusal, stream=self.stream)


def _start(run: tuple[int, int, int]) -> int:
    return run[0]


class PublishFuture(Future[PubAck]):
    """The future of one publish: its place in the pack that carries it."""

    __slots__ = ("_index",)

    def __init__(self, pack: Settlement[Any], index: int) -> None:
        self._settlement = pack
        self._index = index

    def _outcome(self) -> PubAck:
        pack: Pack = self._settlement  # type: ignore[assignment]
        return pack.outcome(self._index)


class Lane:
    """The publishes that wait for one stream."""

    __slots__ = ("busy", "in_flight", "key", "no_ack", "open", "partition", "queued", "ready", "stream")

    def __init__(self, stream: str, partition: int) -> None:
        self.stream = stream
        self.partition = partition
        self.key = stream.encode("utf-8")
        self.no_ack = (
            False  # the stream never answers (PUB-03): nothing of it is waited for once it is stored
        )
        self.open = Pack(stream)
        self.ready: deque[Pack] = deque()
        self.busy = False  # some thread is emptying it
        self.queued = False  # the sender knows of it
        self.in_flight = 0  # packs that were sent and not answered

    @property
    def alone(self) -> bool:
        """Whether nothing of the stream waits or is on its way: a message may leave at once."""
        return not (self.in_flight or self.open.payloads or self.ready)

    def close_pack(self, *, silent: bool = False) -> Pack:
        """Put the open pack among the ready ones, and begin a new one."""
        if self.open.payloads:
            self.ready.append(self.open)
        self.open = Pack(self.stream, silent=silent)
        return self.open
