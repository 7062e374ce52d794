"""The log of a stream with a limit per subject on Kafka: it is compacted, and holds what the stream holds."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

import railgun
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.topic_admin import Topics
from railgun.model import headers as h
from railgun.protocol.log_record import MARKER_KEY
from railgun.protocol.topics import Names
from tests.support.cell import Cell
from tests.support.naming import unique
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS

pytestmark = pytest.mark.kafka

PUTS, KEYS = 2_000, 20
# As the settings of every such log, in a hurry. The broker looks for something to clean every 15 seconds.
HURRIED = {
    "segment.ms": "500",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


def records(cell: Cell, stream: str) -> list[tuple[bytes, bytes | None, int]]:
    """The log as a plain consumer reads it: keys, values and sequences, 0 for a tombstone."""
    reader = Consumer(
        {
            "bootstrap.servers": cell.bootstrap,
            "group.id": unique("state"),
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: list[tuple[bytes, bytes | None, int]] = []
    try:
        reader.assign([TopicPartition(Names(cell.prefix).log(stream), 0, OFFSET_BEGINNING)])
        while True:
            record = reader.poll(20)
            assert record is not None, "the log has no end"
            if record.error() is not None:
                assert record.error().code() == KafkaError._PARTITION_EOF, record.error()
                return found
            sequence = dict(record.headers() or []).get(h.LOG_SEQUENCE)
            found.append((record.key() or b"", record.value(), int(sequence or 0)))
    finally:
        reader.close()


def state_of(read: list[tuple[bytes, bytes | None, int]]) -> dict[int, bytes]:
    """The newest value of each key: the values that exist, by sequence."""
    newest = {key: (value, sequence) for key, value, sequence in read if key != MARKER_KEY}
    return {sequence: value for value, sequence in newest.values() if value is not None}


@pytest.mark.rule("LIM-07", "CLU-17")
@pytest.mark.parametrize("limit", [1, 3])
def test_what_is_gone_leaves_the_log_and_what_lives_is_read_from_it(shared_cell: Cell, limit: int) -> None:
    (worker,) = shared_cell.workers
    name = unique("KV")
    topics = Topics(AdminClient(KafkaSettings(shared_cell.bootstrap).admin()))
    with shared_cell.connect() as rg:
        stream = rg.create_stream(
            name, subjects=[f"{name}.*"], max_msgs_per_subject=limit, allow_rollup_hdrs=True
        )
        topics._alter(Names(shared_cell.prefix).log(name), HURRIED)
        rg.publish(f"{name}.fixed", b"never changed")
        for number in range(PUTS):
            rg.publish_soon(f"{name}.{number % KEYS}", b"%d" % number)
        rg.flush(60)
        rg.publish(f"{name}.0", b"", headers={h.ROLLUP: "sub"})
        stream.delete_message(stream.get_last(f"{name}.1").sequence)

        ticks = 0

        def is_small() -> bool:
            nonlocal ticks
            ticks += 1
            rg.publish(f"{name}.tick", b"%d" % ticks)  # the segment before it is closed
            return len(records(shared_cell, name)) < PUTS // 4

        wait_until(is_small, "the log was not compacted", timeout=90)
        before = {message.sequence: message.payload for message in everything(rg, name)}
    assert state_of(records(shared_cell, name)) == before
    assert before[1] == b"never changed"
    assert len(before) == (KEYS - 2) * limit + 1 + (limit - 1) + 1 + min(limit, ticks)

    # Without its disk the owner has no bodies but those of the log, and its index says where they are.
    worker.kill()
    worker.wipe()
    worker.log.unlink()
    worker.start()
    worker.wait_for(": ready after", times=PARTITIONS)
    with shared_cell.connect() as rg:
        stream = rg.stream(name)
        assert {sequence: stream.get(sequence).payload for sequence in before} == before
        assert {message.sequence: message.payload for message in everything(rg, name)} == before


def everything(rg: railgun.Railgun, stream: str) -> list[railgun.Message]:
    """All messages of the stream, as a consumer gets them."""
    consumer = rg.stream(stream).create_consumer(ephemeral=True, ack_policy="none")
    left, found = rg.stream(stream).info().state.messages, list[railgun.Message]()
    while left:
        got = consumer.fetch(left, wait=20)
        assert got, f"{left} messages are missing"
        found += got
        left -= len(got)
    return found
