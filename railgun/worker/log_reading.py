"""Reading a log by the shard itself: for the rare dead letters and stragglers whose messages are not at hand."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from railgun.errors import NotAuthorized, RailgunError, RequestTimeout
from railgun.kafka.log_reader import LogReader
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.trouble import Troubles, librdkafka
from railgun.model.messages import StoredMessage
from railgun.protocol.replies import Located
from railgun.shard.log_bodies import LogUnreadable

log = logging.getLogger("railgun.worker")
_SECONDS: Final = 5.0


class LogReading:
    """One reader for all shards of a worker, connected when it is first needed."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._asker: Consumer | None = None
        self._reader: LogReader | None = None

    def read(self, places: Sequence[Located]) -> list[StoredMessage | None]:
        """The messages, None for one that is gone. Raises LogUnreadable while Kafka does not answer."""
        try:
            return self._connected().read(places, _SECONDS)
        except NotAuthorized as error:
            log.error("the log %s cannot be read: %s", places[0].topic, error)
            return [None for _ in places]
        except RailgunError as error:
            raise LogUnreadable(str(error)) from error

    def _connected(self) -> LogReader:
        with self._lock:
            if self._reader is None:
                troubles = Troubles(self._settings.bootstrap)
                config = {**self._settings.consumer(), "error_cb": troubles.told}
                self._asker = Consumer(config, logger=librdkafka)
                self._reader = LogReader(self._settings, troubles, self._end_of)
            return self._reader

    def _end_of(self, topic: str, partition: int, timeout: float) -> int:
        assert self._asker is not None
        bounds = self._asker.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout)
        if bounds is None:
            raise RequestTimeout(f"Kafka did not tell the end of {topic} within {timeout:g} s")
        return int(bounds[1])

    def close(self) -> None:
        with self._lock:
            if self._reader is not None:
                self._reader.close()
            if self._asker is not None:
                self._asker.close()
            self._reader = self._asker = None
