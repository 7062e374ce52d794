"""Packs, lanes and the futures of their messages: what travels as one record, and in which order."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from railgun.client.publishing.pack_codec import encode_pack
from railgun.client.settlements import Future, Settlement, Wakeups
from railgun.errors import (
    ConfigError,
    MessageTooLarge,
    NoStreamResponse,
    RailgunError,
    RequestTimeout,
    api_error,
)
from railgun.model.cluster_limits import LARGEST_MESSAGE
from railgun.model.headers import BATCH_COMMIT, BATCH_ID, BATCH_SEQUENCE, HeaderList, block_size, first
from railgun.model.messages import PubAck
from railgun.model.refusals import NO_STREAM, Refusal
from railgun.protocol.commands import PublishPack
from railgun.protocol.replies import STAGED, PackReply, sequence_of

PACK_MESSAGES = 2_000
PACK_BYTES = 1_000_000  # with its frame a pack stays below 1 MiB
_FRAME = 16  # lengths and counts of one message in a pack


def message_size(
    subject: str, payload: bytes, msg_id: str, headers: HeaderList | None, others: int = 0
) -> int:
    """The bytes that the message adds to its pack; ``others``: of headers that it will have beside these.

    Raises MessageTooLarge; and ConfigError for a text that cannot travel, before it is in one record with those of others.
    """
    if type(msg_id) is not str or not msg_id.isascii():
        _check_text(msg_id, "message id")
    if type(subject) is not str or not subject.isascii():
        _check_text(subject, "subject")
    size = len(payload) + len(subject) + len(msg_id) + _FRAME + others
    if headers:
        size += block_size(headers)
    if size > LARGEST_MESSAGE:
        raise MessageTooLarge(
            f"a message of {size} bytes is too large: it may have {LARGEST_MESSAGE} bytes at most"
        )
    return size


def _check_text(given: object, what: str) -> None:
    if not isinstance(given, str):
        raise ConfigError(f"{given!r} is not a valid {what}: give a text")
    try:
        given.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigError(f"{given!r} is not a valid {what}: {error}") from error


class Pack(Settlement[PackReply]):
    """Messages of one stream that are sent, answered or lost together."""

    __slots__ = (
        "_batches", "_others", "_values", "count", "counted", "deadline", "first", "headers", "ids", "patience", "payloads", "silent", "size", "stream", "subjects", "whole",
    )  # fmt: skip

    def __init__(self, stream: str, *, silent: bool = False) -> None:
        super().__init__()
        self.stream = stream
        self.silent = silent  # its callers want no answer
        self.whole = False  # its messages are a batch, or a part of one
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
        self._batches: dict[int, tuple[str, int]] = {}  # by index: id of the batch, and how many it stores

    def encode(self, client: str) -> bytes:
        named = "" if self.silent else client
        return encode_pack(
            PublishPack(self.stream, named, self.first, self.subjects, self.ids, self.headers, self.payloads)
        )

    def settle(self, value: PackReply | None, error: RailgunError | None, wakeups: Wakeups) -> None:
        if not self.done and self.headers:
            # of a whole batch, nobody but its commit has an ack
            self._batches = dict(_batches_of(self.headers, len(self.headers) - 1 if self.whole else 0))
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
                batch, count = self._batches.get(index, (None, None))  # BAT-06
                if sequence == STAGED:
                    return PubAck(self.stream, STAGED, batch=batch or "")
                if not reply.values:
                    return PubAck(self.stream, sequence + index - start, batch=batch, count=count)
                if self._values is None:
                    self._values = dict(reply.values)
                value = self._values.get(index)  # CTR-05
                return PubAck(self.stream, sequence + index - start, value=value, batch=batch, count=count)
        if self._others is None:
            self._others = {**dict(reply.duplicates), **dict(reply.refusals)}
        other = self._others.get(index)
        if isinstance(other, Refusal):
            raise self._refused(index, other)
        if other is None:
            raise RailgunError(f"the answer of stream {self.stream!r} says nothing of this message")
        return PubAck(self.stream, other, True)

    def failure(self) -> RailgunError | None:
        """The error of the first message that was refused, or of all of them; None if there is none."""
        if self.error is not None or self.value is None:
            return self.error
        return min(
            ((index, self._refused(index, refusal)) for index, refusal in self.value.refusals),
            key=lambda found: found[0],
            default=(0, None),
        )[1]

    def overdue(self, seconds: float) -> RequestTimeout:
        if not self.whole:
            return super().overdue(seconds)
        return RequestTimeout(  # all who wait for it wait as long
            f"no answer within {max(seconds, self.patience):g} s; the batch is stored as a whole or not at all, and which of the two is "
            "unknown: look before you send it again"
        )

    def _goes_with(self, other: Pack) -> bool:
        """Whether it may share a record with the other one, which is of a batch."""
        return self.whole and self.silent is other.silent and self.patience == other.patience

    def _refused(self, index: int, refusal: Refusal) -> RailgunError:
        if refusal == NO_STREAM:  # the registry that we read was older than its owner's
            return NoStreamResponse(self.subjects[index])
        return api_error(*refusal, stream=self.stream)


class BatchPacks(Pack):
    """Packs of batches that waited for the same stream, in one record. Each of them is settled by itself.

    Their callers wait for the same time: it is the record that is given up after it.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: list[Pack]) -> None:
        first = parts[0]
        super().__init__(first.stream, silent=first.silent)
        self.whole, self.patience = True, first.patience
        self._parts = [(part, len(part.payloads)) for part in parts]
        for part in parts:
            self.subjects += part.subjects
            self.headers += part.headers
            self.payloads += part.payloads
            self.size += part.size

    @staticmethod
    def taken_from(ready: deque[Pack]) -> Pack:
        """The next pack; one of a batch takes those of batches behind it along, as far as a record can hold them."""
        first = ready.popleft()
        parts, count, size = [first], len(first.payloads), first.size
        while first.whole and ready and ready[0]._goes_with(first):
            count, size = count + len(ready[0].payloads), size + ready[0].size
            if count > PACK_MESSAGES or size > PACK_BYTES:
                break
            parts.append(ready.popleft())
        return first if len(parts) == 1 else BatchPacks(parts)

    def settle(self, value: PackReply | None, error: RailgunError | None, wakeups: Wakeups) -> None:
        if self.done:
            return
        self.headers = []  # no future is one of this pack's own
        super().settle(value, error, wakeups)
        ends = list(accumulate(count for _, count in self._parts))
        replies = [None] * len(ends) if value is None else _replies_of(value, ends)
        for (part, _), reply in zip(self._parts, replies, strict=True):
            part.settle(reply, error, wakeups)

    def abandon(self, error: RailgunError) -> None:
        super().abandon(error)
        for part, _ in self._parts:
            part.abandon(error)


def _replies_of(reply: PackReply, ends: list[int]) -> list[PackReply]:
    """The reply of each part of a pack: what is refused of it, and what became of its last message, the only one that is asked for."""
    last = {end - 1 for end in ends}
    others = {index: sequence for index, sequence in reply.duplicates if index in last}
    values = {index: value for index, value in reply.values if index in last}
    refused: list[list[tuple[int, Refusal]]] = [[] for _ in ends]
    starts = [0, *ends[:-1]]
    for index, refusal in reply.refusals:
        part = bisect_right(ends, index)
        if part < len(ends):  # else it is of no message: nobody must wait for ever because of it
            refused[part].append((index - starts[part], refusal))
    found = []
    for start, end, refusals in zip(starts, ends, refused, strict=True):
        index, place = end - 1, end - 1 - start
        stored = [
            (place, 1, sequence_of(run, index)) for run in reply.runs if run[0] <= index < run[0] + run[1]
        ]
        found.append(
            PackReply(
                *(reply.stream, reply.first_request + start, stored),
                [(place, others[index])] if index in others else [],
                refusals,
                [(place, values[index])] if index in values else [],
            )
        )
    return found


def _batches_of(headers: list[HeaderList], start: int) -> Iterator[tuple[int, tuple[str, int]]]:
    """The messages from ``start`` on that belong to batches, by index: the id, and what the batch stores up to there."""
    asked = headers[start:] if start else headers
    if BATCH_ID not in {name for given in asked for name, _ in given}:
        return
    for index, given in enumerate(asked, start):
        identity = first(given, BATCH_ID)
        if identity is not None:
            number = (first(given, BATCH_SEQUENCE) or b"").strip()
            count = int(number) if number.isdigit() and len(number) < 20 else 0
            not_stored = (first(given, BATCH_COMMIT) or b"").strip() == b"eob"
            yield index, (identity.decode("utf-8", "replace").lstrip(" "), count - not_stored)


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

    __slots__ = (
        "busy", "in_flight", "key", "leaving", "left", "no_ack", "open", "partition", "queued", "ready", "stream",
    )  # fmt: skip

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
        self.left = 0  # messages that were handed over so far
        self.leaving = 0  # of the pack that is being handed over

    @property
    def added(self) -> int:
        """Messages that were put here so far."""
        waiting = len(self.open.payloads) + sum(len(pack.payloads) for pack in self.ready)
        return self.left + self.leaving + waiting

    def handed_over(self) -> None:
        """The pack that was being handed over has left."""
        self.left, self.leaving = self.left + self.leaving, 0

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


def waiting_in(lanes: Iterable[Lane]) -> list[Pack]:
    """The packs that wait to be sent."""
    return [pack for lane in lanes for pack in (*lane.ready, lane.open)]
