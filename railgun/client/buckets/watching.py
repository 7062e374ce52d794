"""Watches of a bucket, as steps: what is there, where that ends, and what comes after (KV-30 … KV-36).

A watch reads by an ordered consumer, which is made anew where it is lost, behind what was seen. Deletes stay in the bucket for
a while only, so a watch that was away for longer starts anew: it delivers what is there once more (KV-20, KV-35).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from railgun.client.buckets.coding import Coding
from railgun.client.buckets.reads import BucketReads
from railgun.client.connection.connection import Connection
from railgun.client.consuming.delivery import Delivery
from railgun.client.operations.ordered_delivery import HEARTBEAT, OrderedDelivery, WatchedBuffer
from railgun.client.settlements import Settlement
from railgun.client.steps import Steps, Until
from railgun.errors import ConfigError, ConnectionLost, NoWorker, RequestTimeout, StreamNotFound
from railgun.model import headers as h
from railgun.model.bucket_config import BucketConfig
from railgun.model.bucket_entry import Entry
from railgun.model.consumer_info import ConsumerInfo
from railgun.model.durations import NANOS, parse_rfc3339, to_nanos

logger = logging.getLogger(__name__)

Mode = Literal["railgun", "nats"]

_DELETES_LIVE: Final = 30 * 60 * NANOS  # KV-20
_MARGIN: Final = 60 * NANOS  # clocks of two workers differ a little


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What a watch delivers. ``mode`` None is that of the bucket."""

    include_history: bool = False
    ignore_deletes: bool = False
    meta_only: bool = False
    updates_only: bool = False
    mode: Mode | None = None


@dataclass(frozen=True, slots=True)
class InitialEnd:
    """The end of what was there when the watch began; an iteration shows it as a None, or does not."""

    shown: bool


class BucketWatch(OrderedDelivery):
    """The entries of one watch: taken from ``items``, from one thread or task at a time; closed from any."""

    def __init__(
        self,
        connection: Connection,
        reads: BucketReads,
        coding: Coding,
        keys: str | Iterable[str] | None,
        options: WatchOptions,
    ) -> None:
        """A watch of these keys and patterns, of all keys if there are none. Raises InvalidKey, ConfigError."""
        if options.include_history and options.updates_only:  # KV-34
            raise ConfigError("a watch with updates_only has no history: leave include_history out")
        if options.mode not in (None, "railgun", "nats"):
            raise ConfigError(f"{options.mode!r} is not a valid mode of a watch: give railgun or nats")
        self._nats = (options.mode or ("nats" if coding.config.nats_mode else "railgun")) == "nats"
        self._whole = keys is None
        policy = "last_per_subject"  # KV-30, KV-33
        if options.updates_only:
            policy = "new"
        elif options.include_history or (self._whole and not self._nats):  # KV-31
            policy = "all"
        fields: dict[str, Any] = {"deliver_policy": policy, "headers_only": options.meta_only}
        if not self._whole or policy == "last_per_subject":  # what is not filtered is read in long runs
            fields["filter_subjects"] = coding.patterns(keys)
        super().__init__(connection, coding.config.stream, Delivery, fields)
        self._reads, self._coding, self._options = reads, coding, options
        self._newest_only = policy == "last_per_subject"
        self._deletes_live = _life_of_deletes(coding.config)
        self._created = ""  # when the stream was made
        self._consumer: ConsumerInfo | None = None
        self._made: tuple[int, WatchedBuffer] | None = None  # by the owner's clock, ns; the last consumer
        self._behind = 0  # the last sequence of the stream when the watch began
        self._skipped = 0  # up to which sequence entries were handed out before
        self._shown = 0  # of what was there
        self.initial = True  # what was there is still being delivered
        self.restarts = 0
        self.items: deque[Entry | InitialEnd] = deque()

    def some(self) -> Steps[bool]:
        """Wait until ``items`` holds something; False once this is closed. Raises BucketNotFound if the bucket is gone."""
        while not self.items:
            if self.closed:
                yield from self._end()  # it may have begun while it was closed
                return False
            for message in (yield from self._survived_round()):
                self._take(message)
            if self.initial and self.idle:  # what was left was removed meanwhile
                self._end_initial()
        return True

    def _survived_round(self) -> Steps[list[Any]]:
        """As :meth:`round`; a watch that has begun waits for a worker that restarts, or a broker (KV-35)."""
        try:
            return (yield from self.round())
        except (NoWorker, ConnectionLost, RequestTimeout) as error:
            if self._made is None:
                raise
            logger.info("the watch of %s waits: %s", self._coding.config.bucket, error)
            yield Until(Settlement(), HEARTBEAT)
            return []

    def abandoned(self) -> None:
        """The user object was garbage-collected without being closed."""
        self.closed = True
        if self._buffer is not None:
            self._buffer.orphaned()

    # -- consumers

    def _begin(self) -> Steps[WatchedBuffer]:
        info = yield from self._reads.info()
        if self._created not in ("", info.created):  # deleted, and made again under its name
            raise self._reads.gone()
        if not self._created:
            self._created, self._behind = info.created, info.state.last_seq
        buffer = yield from self._make_consumer()
        if self._was_away():  # KV-20: deletes came and went meanwhile
            self.restarts += 1
            if not self._options.updates_only:
                yield from self._end()
                self._seen, self._skipped, self._behind = None, 0, info.state.last_seq
                self.initial, self._shown = True, 0
                buffer = yield from self._make_consumer()
        assert self._consumer is not None
        self._made = parse_rfc3339(self._consumer.created), buffer
        nothing_there = self._consumer.num_pending + self._consumer.delivered.consumer_seq == 0  # KV-16
        if self.initial and (nothing_there or self._options.updates_only):
            self._end_initial()
        return buffer

    def _make_consumer(self) -> Steps[WatchedBuffer]:
        self._skipped = max(self._skipped, self._seen or 0)
        try:
            return (yield from super()._begin())
        except StreamNotFound as error:
            raise self._reads.gone() from error

    def begun(self, info: ConsumerInfo) -> None:
        self._consumer = info

    @property
    def _starts_over(self) -> bool:
        """Whether the newest entries are being delivered: behind the last one seen are older ones too, which nobody asked for."""
        return self.initial and self._newest_only

    def _was_away(self) -> bool:
        """Whether the last consumer was heard so long ago that deletes may be gone, by the owner's clock."""
        if self._made is None or self._deletes_live is None or self._consumer is None:
            return False
        made, before = self._made
        heard = made + int((before.heard - before.made) * NANOS)
        return parse_rfc3339(self._consumer.created) - heard >= self._deletes_live

    # -- messages

    def _take(self, message: Any) -> None:
        if self.initial and message.sequence > self._behind:
            self._end_initial()
        if message.sequence > self._skipped and message.subject.startswith(self._coding.prefix):
            entry = self._coding.entry(message, message.pending, with_value=not self._options.meta_only)
            if not self._hides(entry):
                self._shown += 1
                self.items.append(entry)
        if self.initial and message.pending == 0:  # KV-33
            self._end_initial()

    def _hides(self, entry: Entry) -> bool:
        if entry.is_value:
            return False
        if self._options.ignore_deletes:
            return True
        if self._nats or entry.revision > self._behind:
            return False  # KV-22
        # It was deleted before the watch began, and no value of it is shown: there is nothing to tell (KV-30, KV-31).
        return self._newest_only or h.first(entry.headers, h.ROLLUP) is not None

    def _end_initial(self) -> None:
        self.initial = False
        empty = self._whole and self._shown == 0  # KV-32
        self.items.append(InitialEnd(self._nats or self._options.updates_only or empty))


def _life_of_deletes(config: BucketConfig) -> int | None:
    """How long a watch can be away before it misses a delete, ns; None if they stay for good."""
    lives = [_DELETES_LIVE] if config.allow_msg_ttl else []
    if config.limit_marker_ttl:
        lives.append(to_nanos(config.limit_marker_ttl))
    shortest = min(lives, default=None)
    return None if shortest is None else shortest - min(_MARGIN, shortest // 10)
