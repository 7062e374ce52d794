"""The committed messages of many logs, read side by side by one plain consumer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from railgun.model.headers import LOG_SEQUENCE


class Record(NamedTuple):
    """A message as its log holds it."""

    sequence: int
    subject: str
    headers: Mapping[str, bytes]
    payload: bytes

    def header(self, name: str) -> str:
        """The value of a header, empty if it is not there."""
        return self.headers.get(name, b"").decode()


def read_logs(bootstrap: str, topics: Iterable[str], timeout: float = 120.0) -> dict[str, list[Record]]:
    """By topic, everything up to the end as it is now. The topics must not have been trimmed."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "chaos-audit", "enable.auto.commit": False}
    reader = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    try:
        found: dict[str, list[Record]] = {topic: [] for topic in topics}
        places = [TopicPartition(topic, 0, 0) for topic in found]
        ends = {place.topic: reader.get_watermark_offsets(place, timeout=20)[1] for place in places}
        reader.assign(places)
        open_topics = {topic for topic, end in ends.items() if end}
        deadline = time.monotonic() + timeout
        while open_topics:
            assert time.monotonic() < deadline, f"{open_topics} could not be read within {timeout:.0f} s"
            for message in reader.consume(500, 0.2):
                error = message.error()
                assert error is None or error.code() == KafkaError._PARTITION_EOF, error
                if error is None:
                    _add(found[message.topic() or ""], message)
            # A topic ends behind its last marker: read to its end once the reader stands there, not before.
            for place in reader.position(places):
                if place.offset >= ends[place.topic]:
                    open_topics.discard(place.topic)
        return found
    finally:
        reader.close()


def _add(records: list[Record], message: object) -> None:
    headers = dict(message.headers() or [])  # type: ignore[attr-defined]
    if LOG_SEQUENCE not in headers:
        return  # a tombstone
    subject = message.key().split(b"\0")[0].decode()  # type: ignore[attr-defined]
    records.append(Record(int(headers[LOG_SEQUENCE]), subject, headers, message.value() or b""))  # type: ignore[attr-defined]
