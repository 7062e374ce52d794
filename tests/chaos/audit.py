"""What the logs say, read by a plain consumer that sees only what was committed; and what differs from the acks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, TopicPartition

from railgun.model.headers import LOG_SEQUENCE, MSG_ID
from railgun.model.messages import StreamInfo

_OVERHEAD = 30 + 4


@dataclass
class LogContent:
    """The committed messages of one log topic, in order."""

    sequences: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)


def read_log(bootstrap: str, topic: str, timeout: float = 60.0) -> LogContent:
    """Everything from the first record that is kept to the end as it is now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos-audit",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    content = LogContent()
    try:
        low, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
        consumer.assign([TopicPartition(topic, 0, low)])
        deadline = time.monotonic() + timeout
        # The end of the topic is behind the last marker: reached once the consumer stands there, not before.
        while True:
            if time.monotonic() > deadline:
                raise AssertionError(f"{topic} could not be read to its end {end} within {timeout:.0f} s")
            for message in consumer.consume(1_000, 0.5):
                if message.error() is None:
                    _add(content, message)
                elif message.error().code() != KafkaError._PARTITION_EOF:
                    raise AssertionError(f"{topic}: {message.error()}")
            (place,) = consumer.position([TopicPartition(topic, 0)])
            if place.offset >= end:
                return content
    finally:
        consumer.close()


def _add(content: LogContent, message: object) -> None:
    headers = dict(message.headers() or [])  # type: ignore[attr-defined]
    if message.value() is None and LOG_SEQUENCE not in headers:  # type: ignore[attr-defined]
        return  # a tombstone
    content.sequences.append(int(headers[LOG_SEQUENCE]))
    content.ids.append(headers[MSG_ID].decode())
    block = len(f"{MSG_ID}:\r\n\r\n") + len(headers[MSG_ID])
    subject = message.key().split(b"\0")[0]  # type: ignore[attr-defined]
    content.sizes.append(_OVERHEAD + len(subject) + block + len(message.value()))  # type: ignore[attr-defined]


def differences(content: LogContent, acked: dict[str, int], *, whole: bool) -> list[str]:
    """What is wrong with the log. ``whole``: nothing was ever trimmed, so every acked message must be there."""
    wrong = []
    gaps = [
        (left, right)
        for left, right in zip(content.sequences, content.sequences[1:], strict=False)
        if right != left + 1
    ]
    if gaps:
        wrong.append(f"sequences that do not follow each other: {gaps[:5]}")
    if whole and content.sequences and content.sequences[0] != 1:
        wrong.append(f"the log begins with sequence {content.sequences[0]}")
    twice = (
        sorted({one for one in content.ids if content.ids.count(one) > 1}) if _repeats(content.ids) else []
    )
    if twice:
        wrong.append(f"ids that were stored twice: {twice[:5]}")
    stored = dict(zip(content.ids, content.sequences, strict=True))
    lowest = content.sequences[0] if content.sequences else 1
    lost = [one for one, sequence in acked.items() if one not in stored and (whole or sequence >= lowest)]
    if lost:
        wrong.append(f"{len(lost)} acked messages are not there: {lost[:5]}")
    moved = [
        (one, acked[one], sequence)
        for one, sequence in stored.items()
        if acked.get(one, sequence) != sequence
    ]
    if moved:
        wrong.append(f"acked with another sequence (id, acked, stored): {moved[:5]}")
    strangers = [one for one in stored if one not in acked]
    if strangers:
        wrong.append(f"{len(strangers)} messages that nobody has an ack for: {strangers[:5]}")
    return wrong


def _repeats(ids: list[str]) -> bool:
    return len(set(ids)) != len(ids)


def info_differences(info: StreamInfo, content: LogContent, max_msgs: int) -> list[str]:
    """What the owner says of the stream against what its log holds."""
    kept = slice(-max_msgs, None) if max_msgs > 0 else slice(None)
    sequences, sizes = content.sequences[kept], content.sizes[kept]
    state = info.state
    said = (state.messages, state.bytes, state.first_seq, state.last_seq, state.num_deleted)
    seen = (len(sequences), sum(sizes), sequences[0], sequences[-1], 0) if sequences else (0, 0, 0, 0, 0)
    if said == seen:
        return []
    return [f"info says {said}, the log says {seen} (messages, bytes, first, last, deleted)"]
