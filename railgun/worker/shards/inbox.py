"""The inbox of a shard: filled by the event loop, emptied by the shard's thread, one drain at a time.

Pulls, acknowledgements and presence do not wait behind publishes: a drain takes those that are there, beside what is next in
line. Among themselves they keep their order. They may be decided early because they concern earlier deliveries, and
the cursor (:mod:`railgun.shard.cursor`) knows which of them were.

What readers of adopted topics bring waits in a line of its own: each drain takes a part of both.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from railgun.model import headers as h
from railgun.protocol.columnar.hand_overs import HAND_OVERS
from railgun.protocol.commands import CONSUME, PRESENCE
from railgun.semantics.messages.budget import INBOXES, Pool
from railgun.semantics.streams.adopting.topic_records import TopicFetch, TopicSeen
from railgun.shard.drain import Given, Input, record_bytes

_RECORD_WORK: Final = 200  # a record costs as much as this many bytes of value
DRAIN_BYTES: Final = 8 * 1024 * 1024  # bounds the time of a drain, and so the wait of everyone behind it
DRAIN_RECORDS: Final = 5000
TOPIC_BYTES: Final = 4 * 1024 * 1024  # memory of records of adopted topics, most of which is not their bytes
DRAIN_STREAMS: Final = 30  # every partition that a transaction touches costs 0.4 ms (docs/design/0003)
# While consumers are in use: a client that works on messages waits for two drains at each turn.
SHORT_DRAIN_BYTES: Final = 512 * 1024
_IN_USE_SECONDS: Final = 1.0
EARLY_BYTES: Final = 1024 * 1024
EARLY_RECORDS: Final = 4000  # whose turn has not come yet: the cursor names each of them
_HASTY: Final = frozenset({CONSUME.encode(), HAND_OVERS.encode(), PRESENCE.encode()})


class Inbox:
    """Records in order, bounded by asking the reader to pause: never by dropping. All inboxes of a worker share a pool."""

    def __init__(
        self, pool: Pool | None = None, shard: int = 0, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._pool = pool or Pool(INBOXES, threading.Lock())
        self._holder = (shard, "inbox")
        self._now = now
        self._changed = threading.Condition()
        self._records: deque[Input] = deque()
        self._hasty: deque[Input] = deque()  # those of them that need not wait for their turn
        # Offsets of those that did not: the core passes them over in their turn.
        self._early: set[int] = set()
        # Bounded by their readers, which wait until these are decided.
        self._topics: deque[TopicFetch | TopicSeen] = deque()
        self._calls: list[Callable[[], None]] = []
        self._bytes = 0
        self._short_until = 0.0
        self._closed = False

    def put(self, records: Sequence[Input]) -> bool:
        """Add records; False means: full, pause the reader until ``take`` has made room."""
        with self._changed:
            if self._closed:
                return True
            self._records.extend(records)
            hasty = [record for record in records if _is_hasty(record)]
            if hasty:
                self._hasty.extend(hasty)
                self._short_until = self._now() + _IN_USE_SECONDS
            self._bytes += sum(map(record_bytes, records))
            self._changed.notify()
            return not self._pool.excess(self._holder, self._bytes)

    def put_topics(self, given: Sequence[TopicFetch | TopicSeen]) -> None:
        """Add what the reader of an adopted topic brings."""
        with self._changed:
            if not self._closed:
                self._topics.extend(given)
                self._changed.notify()

    @property
    def has_room(self) -> bool:
        """Whether a reader that was paused may go on: always, once everything is taken."""
        return self._bytes <= self._pool.room(self._holder) // 2

    def call(self, action: Callable[[], None]) -> None:
        """Have the shard's thread run ``action`` between two drains."""
        with self._changed:
            self._calls.append(action)
            self._changed.notify()

    def take(self, timeout: float | None) -> tuple[list[Given], list[Callable[[], None]], bool]:
        """The records of one drain, waiting up to ``timeout`` for the first: all there are, up to its bounds.

        The last value says whether the inbox has room (again).
        """
        with self._changed:
            if not (self._records or self._topics or self._calls or self._closed):
                self._changed.wait(timeout)
            calls, self._calls = self._calls, []
            taken = [*self._take_next(), *self._take_early(), *self._take_topics()]
            self._pool.excess(self._holder, self._bytes)
            return taken, calls, self.has_room

    def _take_next(self) -> list[Input]:
        taken: list[Input] = []
        streams: set[bytes | None] = set()
        size, most = 0, SHORT_DRAIN_BYTES if self._now() < self._short_until else DRAIN_BYTES
        while self._records and size < most and len(taken) < DRAIN_RECORDS:
            record = self._records[0]
            streams.add(record.key)
            if len(streams) > DRAIN_STREAMS:
                break
            taken.append(self._records.popleft())
            size += _work(record)
            self._bytes -= record_bytes(record)
            if self._hasty and self._hasty[0] is record:
                self._hasty.popleft()
            elif self._early and not record.forwarded:
                self._early.discard(record.offset)
        return taken

    def _take_early(self) -> list[Input]:
        """Records that need not wait; they stay in line, where they are passed over."""
        taken: list[Input] = []
        size = 0
        while self._hasty and size < EARLY_BYTES and len(self._early) < EARLY_RECORDS:
            record = self._hasty.popleft()
            self._early.add(record.offset)
            taken.append(record._replace(early=True))
            size += _work(record)
        return taken

    def _take_topics(self) -> list[TopicFetch | TopicSeen]:
        taken: list[TopicFetch | TopicSeen] = []
        size, most = 0, SHORT_DRAIN_BYTES if self._now() < self._short_until else TOPIC_BYTES
        while self._topics and size < most:
            taken.append(self._topics.popleft())
            size += taken[-1].size if isinstance(taken[-1], TopicFetch) else 0
        return taken

    def take_all(self) -> list[Given]:
        """Everything that waits, at once."""
        with self._changed:
            taken: list[Given] = [*self._records, *self._topics]
            self._clear()
            return taken

    def close(self) -> None:
        """All records are dropped and the thread is woken; later records are dropped too: another owner will read them."""
        with self._changed:
            self._closed = True
            self._calls.clear()
            self._clear()
            self._changed.notify()

    def _clear(self) -> None:
        self._records.clear()
        self._topics.clear()
        self._hasty.clear()
        self._early.clear()
        self._bytes = 0
        self._pool.forget(self._holder)


def _is_hasty(record: Input) -> bool:
    return not record.forwarded and h.first(record.headers, h.COMMAND_KIND) in _HASTY


def _work(record: Input) -> int:
    """The work of a drain for the record, in bytes."""
    return len(record.value or b"") + _RECORD_WORK
