"""The reader of one adopted topic: a thread with a consumer that is in no group, and commits nothing.

It reads ahead of its shard by a bounded number of bytes, and hands over what it read only once the brokers have said that the topic
is still the same: a fetch goes on at its offset in a topic that was deleted and created anew, and nothing in it would show that (seen).
Whatever it hands over may be dropped, and it may be ended at any time: the position in the shard's table decides.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from railgun.kafka.record_headers import headers_of
from railgun.kafka.trouble import in_words, librdkafka
from railgun.semantics.streams.adopting.topic_records import (
    Adoption,
    TopicFetch,
    TopicOrder,
    TopicRecord,
    TopicSeen,
)
from railgun.shard.drain import record_bytes
from railgun.worker.adopting.topic_sight import described, partitions_seen
from railgun.worker.context import ShardContext

log = logging.getLogger("railgun.worker")

AHEAD_BYTES: Final = 4 * 1024 * 1024  # handed over and not decided yet
FETCH_BYTES: Final = 512 * 1024  # of one input of the shard, approximately
_BATCH: Final = 5_000
_WAIT: Final = 0.1
_LOOK_SECONDS: Final = 3.0
_PAUSE: Final = 1.0  # after an error
_QUIET: Final = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT})

HandOver = Callable[[Sequence[TopicFetch | TopicSeen]], None]


class TopicReader:
    """One adopted topic. ``follow``, ``taken`` and ``stop`` are called by the shard's thread."""

    def __init__(self, of: Adoption, order: TopicOrder, context: ShardContext, hand_over: HandOver) -> None:
        self._of = of
        self._context = context
        self._hand_over = hand_over
        self._changed = threading.Condition()
        self._order = order
        self._ahead = 0
        self._stopping = False
        self._consumer: Consumer | None = None
        self._followed: dict[int, int] = {}  # by partition: the number of its last order
        self._next: dict[int, int] = {}  # the offset behind what was handed over
        self._left: dict[int, int] = {}  # how many records more its order allows
        self._assigned: set[int] = set()
        self._known_partitions = 0
        self._topic_id = ""
        self._resting: dict[int, float] = {}  # partitions that could not be read: when to try again
        self._unreadable: set[int] = set()
        self._trouble = ""  # what reading was refused for
        self._look_at = 0.0
        self._thread = threading.Thread(target=self._main, name=f"railgun-topic-{of.topic}", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------ from the shard

    def follow(self, order: TopicOrder) -> None:
        """Read as the order says from now on."""
        if order is not self._order:
            with self._changed:
                self._order = order
                self._changed.notify()

    def taken(self, size: int) -> None:
        """So many bytes of what was handed over are decided."""
        with self._changed:
            self._ahead = max(0, self._ahead - size)
            self._changed.notify()

    def stop(self) -> None:
        """Read nothing more; the thread ends soon."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    # ------------------------------------------------------------ the thread

    def _main(self) -> None:
        try:
            while not self._stopping:
                try:
                    self._turn()
                except KafkaException as error:
                    self._failed(error)
        except BaseException as error:  # noqa: BLE001 - handed to the worker, which ends
            self._context.on_crash(error)
        finally:
            self._let_go()

    def _turn(self) -> None:
        order = self._order
        if time.monotonic() >= self._look_at:
            self._look(order)
        self._obey(order)
        with self._changed:
            if (
                self._order is order
                and not self._stopping
                and (not self._assigned or self._ahead >= AHEAD_BYTES)
            ):
                self._changed.wait(max(0.01, min(_LOOK_SECONDS, self._look_at - time.monotonic())))
                return
        self._read(order)

    def _failed(self, error: KafkaException) -> None:
        """Tell what is wrong, and begin anew with another consumer after a while."""
        self._tell(TopicSeen(self._of, error=self._in_words(error.args[0])))
        self._let_go()
        self._look_at = time.monotonic() + _PAUSE
        with self._changed:
            if not self._stopping:
                self._changed.wait(_PAUSE)

    def _let_go(self) -> None:
        """The consumer is closed; another one goes on behind what was handed over."""
        consumer, self._consumer = self._consumer, None
        self._assigned.clear()
        if consumer is not None:
            consumer.close()

    def _tell(self, seen: TopicSeen) -> None:
        if not self._stopping:  # another reader may have told something newer by now
            self._hand_over([seen])

    def _connected(self) -> Consumer:
        if self._consumer is None:
            settings = self._context.kafka.consumer(
                enable_partition_eof=True,
                auto_offset_reset="error",
                queued_min_messages=20_000,
                queued_max_messages_kbytes=8 * 1024,
            )
            self._consumer = Consumer(settings, logger=librdkafka)
        return self._consumer

    # ------------------------------------------------------------ looking

    def _look(self, order: TopicOrder) -> None:
        """Tell the shard what the topic is like now."""
        self._look_at = time.monotonic() + _LOOK_SECONDS
        found = described(self._context.admin, self._of.topic)
        if found is None:
            text = (
                f"the topic {self._of.topic} does not exist, or this worker may not see it: "
                "create it, or grant DESCRIBE and READ; it is looked for again"
            )
            self._let_go()
            self._tell(TopicSeen(self._of, error=text))
            return
        if found.partitions != self._known_partitions:
            self._let_go()  # a consumer learns of new partitions only after minutes (seen)
            self._known_partitions = found.partitions
        known, consumer = order.partitions, self._connected()
        try:
            seen = partitions_seen(consumer, order.source, found.partitions, known, self._unreadable)
        except KafkaException as error:
            # A partition has no leader, say: the others are read on.
            self._tell(TopicSeen(self._of, error=self._in_words(error.args[0])))
            return
        self._unreadable.clear()
        self._tell(TopicSeen(self._of, found.topic_id, seen, self._trouble))

    # ------------------------------------------------------------ reading

    def _obey(self, order: TopicOrder) -> None:
        """Partitions whose orders are new are read from where these say, or no more."""
        if order.topic_id != self._topic_id:
            self._let_go()
            self._topic_id = order.topic_id
            for known in (self._followed, self._next, self._left, self._resting):
                known.clear()
        begun = []
        for partition, one in order.partitions.items():
            if self._followed.get(partition) != one.number:
                self._followed[partition] = one.number
                self._resting.pop(partition, None)
                if not one.most or self._next.get(partition) != one.offset:
                    self._leave(partition)
                self._next[partition], self._left[partition] = one.offset, one.most
            rests = time.monotonic() < self._resting.get(partition, 0.0)
            if partition not in self._assigned and self._left[partition] > 0 and not rests:
                self._assigned.add(partition)
                begun.append(TopicPartition(self._of.topic, partition, self._next[partition]))
        if begun:
            self._connected().incremental_assign(begun)

    def _leave(self, partition: int) -> None:
        """The partition is read no more, for now."""
        if partition in self._assigned:
            self._assigned.discard(partition)
            self._connected().incremental_unassign([TopicPartition(self._of.topic, partition)])

    def _read(self, order: TopicOrder) -> None:
        consumer = self._connected()
        messages = consumer.consume(1, _WAIT)
        if messages:
            messages += consumer.consume(_BATCH - 1, 0)
        found: dict[int, list[TopicRecord]] = {}
        ends: dict[int, int] = {}  # where a partition ended, behind its last markers
        for message in messages:
            error, partition = message.error(), message.partition()
            if partition not in self._assigned:
                continue
            if error is None:
                found.setdefault(partition, []).append(_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ends[partition] = message.offset() or 0
            else:
                self._refused(partition, error)
        if found or ends:
            self._trouble = ""
        beyond = {one for one, offset in ends.items() if offset > self._next.get(one, offset)}
        news = (beyond | found.keys()) & self._assigned
        if not news:
            return
        now = described(self._context.admin, self._of.topic)
        if now is None or now.topic_id != order.topic_id:
            self._let_go()  # none of it may be of the topic that was to be read
            self._look_at = 0.0
            return
        for partition in sorted(news):
            self._hand_over_records(order, partition, found.get(partition, []), ends.get(partition, 0))

    def _hand_over_records(
        self, order: TopicOrder, partition: int, records: list[TopicRecord], end: int
    ) -> None:
        consumer, left = self._connected(), self._left[partition]
        behind = [*(record.offset for record in records[1:]), 0]
        behind[-1] = max(end, records[-1].offset + 1) if records else end
        if len(records) > left:
            records, behind = records[:left], behind[:left]
        bounds = consumer.get_watermark_offsets(TopicPartition(self._of.topic, partition), cached=True)
        fetches: list[TopicFetch] = []
        chunk: list[TopicRecord] = []
        size = 0
        for number, reached in enumerate(behind):
            if number < len(records):
                chunk.append(records[number])
                size += record_bytes(records[number])
            if size < FETCH_BYTES and number < len(behind) - 1:
                continue
            after = self._next[partition]
            fetches.append(
                TopicFetch(
                    *(self._of, order.topic_id, partition, after, reached, chunk),
                    *(self._followed[partition], max(bounds[1], reached), size),
                )
            )
            self._next[partition] = reached
            chunk, size = [], 0
        with self._changed:
            self._ahead += sum(fetch.size for fetch in fetches)
        self._hand_over(fetches)
        self._left[partition] = left - len(records)
        if self._left[partition] <= 0:
            self._leave(partition)

    def _refused(self, partition: int, error: KafkaError) -> None:
        """A partition cannot be read: the next look, at once, tells the shard what it needs to know."""
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._unreadable.add(partition)
        elif error.code() not in _QUIET:
            self._trouble = self._in_words(error)
        self._leave(partition)
        self._resting[partition] = time.monotonic() + _PAUSE
        self._look_at = min(self._look_at, time.monotonic() + _WAIT)

    def _in_words(self, error: KafkaError) -> str:
        return str(in_words(error, f"reading the topic {self._of.topic}"))


def _record(message: Any) -> TopicRecord:
    return TopicRecord(
        message.offset(), message.timestamp()[1], message.key(), headers_of(message), message.value()
    )
