"""The feed reads leased messages from the logs of Kafka: one consumer for all streams of a connection, in a thread of its own.

Only that thread touches the consumer. A lease that goes on where the last one ended needs no jump; jumps serve the parcel that
waits longest. A log that is not read is left after a moment, so that an idle client asks the broker for nothing. What is read
ahead is bounded by librdkafka's queue and by what was leased.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from railgun.client.consuming.parcels import Parcel
from railgun.client.transports.kafka.cursors import Cursor, Track
from railgun.errors import ConnectionClosed, NotAuthorized, RailgunError
from railgun.kafka.log_reader import EndOf
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.trouble import Troubles, in_words, librdkafka

logger = logging.getLogger(__name__)

_POLL = 0.005  # seconds until the thread looks for new leases while it waits for records
_BATCH = 1_000
_QUIET = 0.25  # seconds after which a log that is not read is left
_ASK = 0.1  # seconds between two questions whether a log really ends where it seems to
_SETTLED = 0.2  # seconds for which nothing may come behind the end of a log before it is taken for one
_SILENCE = 2.0  # seconds after which a log of which nothing is heard is looked for
_AHEAD = {
    "fetch_message_max_bytes": 1024 * 1024,
    "queued_min_messages": 10_000,
    "queued_max_messages_kbytes": 16 * 1024,
}
_UNKNOWN = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
)


class KafkaFeed:
    """The log reader of one connection. Its thread begins with the first lease that must be read."""

    def __init__(
        self,
        settings: KafkaSettings,
        troubles: Troubles,
        end_of: EndOf,
        failed: Callable[[RailgunError], None],
    ) -> None:
        self._settings = settings
        self._troubles = troubles
        self._end_of = end_of
        self._failed = failed
        self._lock = threading.Lock()
        self._inbox: deque[Parcel] = deque()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed: RailgunError | None = None
        self._tracks: dict[str, Track] = {}
        self._quiet_since: dict[str, float] = {}
        self._heard: dict[str, float] = {}  # when something came from a log, or it was looked for
        self._asked = 0.0
        self._consumer: Any = None

    def read(self, parcel: Parcel) -> None:
        with self._lock:
            closed = self._closed
            if closed is None:
                self._inbox.append(parcel)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="railgun-feed", daemon=True)
                    self._thread.start()
        if closed is not None:
            parcel.fail(closed)
        self._wake.set()

    def close(self) -> None:
        with self._lock:
            if self._closed is None:
                self._closed = ConnectionClosed("the connection is closed")
            thread = self._thread
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(5.0)

    # -- the thread

    def _run(self) -> None:
        error: RailgunError | None = None
        try:
            config = self._settings.consumer(enable_partition_eof=True, **_AHEAD)
            self._consumer = Consumer({**config, "error_cb": self._troubles.told}, logger=librdkafka)
            while self._closed is None:
                self._turn()
        except Exception as trouble:
            logger.exception("the reader of logs ended")
            error = (
                trouble
                if isinstance(trouble, RailgunError)
                else RailgunError(f"the reader of logs ended: {trouble!r}")
            )
        finally:
            self._end(error)

    def _end(self, error: RailgunError | None) -> None:
        with self._lock:
            self._closed = self._closed or error
            reason = self._closed or ConnectionClosed("the connection is closed")
            left, self._inbox = self._inbox, deque()
        for track in self._tracks.values():
            track.fail(reason)
        for parcel in left:
            parcel.fail(reason)
        if self._consumer is not None:
            self._consumer.close()
        if error is not None:
            self._failed(error)

    def _turn(self) -> None:
        """One look at what came: leases, then records."""
        self._wake.clear()
        while self._inbox:
            parcel = self._inbox.popleft()
            topic = parcel.lease.topic
            track = self._tracks.get(topic)
            if track is None:
                track = self._tracks[topic] = Track(topic)
            track.add(Cursor(parcel))
        now = time.monotonic()
        reading = False
        for track in list(self._tracks.values()):
            if track.cursors:
                reading = True
                self._go_to(track)
                self._quiet_since.pop(track.topic, None)
            else:
                self._leave(track, now)
        if not reading:
            self._wake.wait(_QUIET if self._tracks else None)
            return
        first = self._consumer.poll(_POLL)
        if first is None:
            self._look_for_ends()
            self._look_for_topics()
            return
        most = min(max(sum(track.wanted for track in self._tracks.values()), 1), _BATCH)
        self._sort([first, *self._consumer.consume(most - 1, 0.0)] if most > 1 else [first])

    def _go_to(self, track: Track) -> None:
        offset = track.jump()
        if offset is None:
            return
        place = TopicPartition(track.topic, 0, offset)
        if track.assigned:
            self._consumer.incremental_unassign([TopicPartition(track.topic, 0)])
        self._consumer.incremental_assign([place])
        track.assigned = True
        track.jumped(offset)
        self._heard[track.topic] = time.monotonic()

    def _leave(self, track: Track, now: float) -> None:
        since = self._quiet_since.setdefault(track.topic, now)
        if now - since >= _QUIET:
            if track.assigned:
                self._consumer.incremental_unassign([TopicPartition(track.topic, 0)])
                track.assigned = False
            if now - since >= 100 * _QUIET or len(self._tracks) > 100:
                del self._tracks[track.topic], self._quiet_since[track.topic]
                self._heard.pop(track.topic, None)

    def _sort(self, messages: list[Any]) -> None:
        """Records to the logs they are from, in order."""
        reading = [track for track in self._tracks.values() if track.assigned]
        if len(reading) == 1 and not any([one.error() for one in messages]):  # noqa: C419 - every record pays for it
            self._troubles.worked()
            self._heard[reading[0].topic] = time.monotonic()
            reading[0].take(messages)
            return
        of: dict[str, list[Any]] = {}
        for message in messages:
            error = message.error()
            if error is not None:
                self._give(of)  # what came before it: an end counts only until something comes behind it
                self._told(message, error)
            else:
                topic = message.topic() or ""
                mine = of.get(topic)
                if mine is None:
                    mine = of[topic] = []
                mine.append(message)
        self._give(of)

    def _give(self, records: dict[str, list[Any]]) -> None:
        """The records of each log to those who wait for them; the dictionary is empty then."""
        if records:
            self._troubles.worked()
        while records:
            topic, mine = records.popitem()
            track = self._tracks.get(topic)
            if track is not None and track.assigned:
                self._heard[topic] = time.monotonic()
                track.take(mine)

    def _told(self, message: Message, error: KafkaError) -> None:
        code = error.code()
        track = self._tracks.get(message.topic() or "")
        if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return  # a group is never joined, so no right to one is needed
        if error.fatal():
            raise in_words(error, "reading logs")
        if track is None:
            logger.info("reading logs: %s", error.str())
        elif code == KafkaError._PARTITION_EOF:
            self._heard[track.topic] = time.monotonic()
            track.ended, track.ended_at = message.offset() or 0, time.monotonic()
        elif code in _UNKNOWN:
            logger.info("reading %s: %s", track.topic, error.str())  # see _look_for_topics
        else:
            reason = in_words(error, f"reading {track.topic}")
            if isinstance(reason, NotAuthorized):
                track.fail(reason)
            else:
                logger.warning("reading %s: %s", track.topic, error.str())

    def _look_for_topics(self) -> None:
        """A log of which nothing is heard may be gone with its stream; librdkafka would wait for it for ever."""
        now = time.monotonic()
        for track in self._tracks.values():
            if not track.cursors or now - self._heard.setdefault(track.topic, now) < _SILENCE:
                continue
            self._heard[track.topic] = now
            try:
                error = self._consumer.list_topics(track.topic, timeout=1.0).topics[track.topic].error
            except KafkaException as unanswered:
                logger.info("the topic %s cannot be looked up: %s", track.topic, unanswered)
                continue
            if error is not None and error.code() in _UNKNOWN:
                track.gone()

    def _look_for_ends(self) -> None:
        """Records are committed a moment before they can be read: only an end that is the log's own shows that one is gone."""
        now = time.monotonic()
        waiting = [
            one
            for one in self._tracks.values()
            if one.cursors and one.ended >= 0 and now - one.ended_at >= _SETTLED
        ]
        if not waiting or now - self._asked < _ASK:
            return
        self._asked = now
        for track in waiting:
            try:
                end = self._end_of(track.topic, 0, 1.0)
            except RailgunError as error:
                logger.info("the end of %s cannot be found out: %s", track.topic, error)
                return
            except KafkaException as error:
                logger.info("the end of %s cannot be found out: %s", track.topic, error)
                return
            if track.ended >= end:
                track.end_reached(end)
