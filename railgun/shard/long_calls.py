"""Calls that may take longer than one drain: looking through a long stream, purging millions of messages.

Messages that a stream has left to remove go on in the same way, with or without a client that waits for it.

A call is answered in the drain that brings it if that takes no more than a slice. Otherwise it goes on in the next drains, a
slice in each, while everything else goes on too, and is answered when it ends. Calls under way are in memory only: with
a new owner they end unanswered, and their clients ask again.

A drain that is aborted takes back what it did: calls that remove messages go on from what they had noted before, and calls
that only read start again if their stream was loaded again. So do searches by subject if the stream has built its index by
subject anew: places in the old one say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from railgun.protocol.columnar.read_records import ReadReply
from railgun.protocol.replies import Frame
from railgun.semantics.consumers.undo import UndoLog
from railgun.semantics.steps import Memo, Steps
from railgun.semantics.streams import backlog
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams

SLICE = 25_000  # messages read in one drain by the calls that go on, and as many by those that begin: some 30 ms each
LEAST = 2_000  # messages that each call may read at once, however many begin with it
AT_ONCE = 1_000  # calls under way; more are refused


@dataclass(slots=True)
class Turn:
    """The drain in which a call goes on; and what the call has noted so far, in case it must start again."""

    drain: OpenDrain
    memo: Memo = field(default_factory=dict)


Answer = list[Frame] | ReadReply
Begin = Callable[[OwnedStream | None, Turn], Steps[Answer]]


class Call(NamedTuple):
    """The client that waits for an answer, and how to come to the answer."""

    client: str
    request: int
    stream: str
    incarnation: int
    changes: bool  # the stream is touched whenever it goes on
    begin: Begin
    # The answer where too many are under way; None: never refused, because its change is decided already.
    refused: Answer | None
    memo: Mapping[str, int] = MappingProxyType({})


class _Running(NamedTuple):
    """A call that has begun, and what it began with."""

    stream: OwnedStream | None
    subjects: int  # which index by subject
    turn: Turn
    steps: Steps[Answer]

    def is_of(self, stream: OwnedStream | None) -> bool:
        """Whether it can go on: nothing that it reads was replaced."""
        return self.stream is stream and (stream is None or self.subjects == stream.subjects_built)


class LongCalls:
    """The calls of one shard that are under way."""

    def __init__(self, streams: OwnedStreams) -> None:
        self._streams = streams
        self._undo = UndoLog()
        self._calls: dict[int, Call] = {}  # by number, in the order of their turns
        self._running: dict[int, _Running] = {}
        self._number = 0
        self._left = SLICE

    @property
    def waiting(self) -> bool:
        """Whether some call or stream has to go on."""
        return bool(self._calls or self._streams.behind())

    @property
    def _is_full(self) -> bool:
        return len(self._calls) >= AT_ONCE

    def load(self) -> None:
        """A new owner knows of none."""
        self._calls.clear()
        self._running.clear()
        self._undo.clear()

    def committed(self) -> None:
        self._undo.clear()

    def aborted(self) -> None:
        self._undo.undo()
        left = {number for number, call in self._calls.items() if not call.changes}
        self._running = {number: running for number, running in self._running.items() if number in left}

    # -- a drain

    def go_on(self, drain: OpenDrain) -> None:
        """A slice for the calls under way, in turn, then for streams that are behind. At the beginning of a drain."""
        self._left = SLICE
        for number in list(self._calls):
            if self._left <= 0:
                break
            if self._run(number, self._calls[number], drain, self._left):
                self._undo.drop(self._calls, number)
        left = max(self._left, LEAST)
        for stream in self._streams.behind():
            drain.touch(stream)
            steps = backlog.catch_up(stream)
            while left > 0 and (cost := next(steps, None)) is not None:
                left -= cost
        self._left = SLICE

    def start(self, call: Call, drain: OpenDrain) -> None:
        """A call that has just come: answered at once, or under way from now on."""
        self._number += 1
        if call.changes and call.refused is not None and self._is_full:
            # Not even its first half: there may be no room for the second.
            drain.answer(call.client, call.request, call.refused)
        else:
            self._run(self._number, call, drain, max(self._left, LEAST))

    def _run(self, number: int, call: Call, drain: OpenDrain, limit: int) -> bool:
        """Let the call do so much. Returns whether it is answered."""
        stream = self._streams.get(call.stream)
        if stream is not None and stream.incarnation != call.incarnation:
            stream = None  # another one of the same name
        running = self._running.pop(number, None)
        if running is None or not running.is_of(stream):
            own = Turn(drain, dict(call.memo))
            built = 0 if stream is None else stream.subjects_built
            running = _Running(stream, built, own, call.begin(stream, own))
        own, steps = running.turn, running.steps
        own.drain = drain
        if call.changes and stream is not None:
            drain.touch(stream)
        try:
            while limit > 0:
                cost = next(steps)
                limit -= cost
                self._left -= cost
        except StopIteration as done:
            drain.answer(call.client, call.request, done.value)
            return True
        if number not in self._calls and call.refused is not None and self._is_full:
            drain.answer(call.client, call.request, call.refused)
            return True
        self._running[number] = running
        self._undo.drop(self._calls, number)
        self._undo.put(self._calls, number, call._replace(memo=dict(own.memo)))  # at the end of the line
        return False
