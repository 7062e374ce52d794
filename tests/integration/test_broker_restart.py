"""A broker that restarts under a worker: its idle shards are as quickly back as the busy ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

import railgun
from railgun.kafka.embedded import EmbeddedBroker
from railgun.protocol.routing import partition_of
from railgun.protocol.topics import Names
from tests.support.waiting import wait_until
from tests.support.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
PARTITIONS = 6


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "broker") as own:
        yield own
        own.kill()


def test_shards_that_were_idle_answer_soon_after_the_only_broker_restarted(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    worker = WorkerProcess(tmp_path / "worker", broker.bootstrap, cluster={"partitions": PARTITIONS})
    with worker, _connected(worker) as rg:
        names = [_stream_on(shard) for shard in range(PARTITIONS)]
        for name in names:
            rg.create_stream(name, subjects=[f"{name}.*"])
            rg.publish(f"{name}.a", b"before")
        _await_told_offsets(worker)  # from now on all shards are idle
        broker.restart()
        answers = [rg.publish_soon(f"{name}.a", b"after") for name in names]
        assert [answer.result(60.0).sequence for answer in answers] == [2] * PARTITIONS
        # They need some two seconds; a call that never comes back is noticed after 20 s, and said.
        assert "does not return" not in worker.text(), worker.last_lines()


def _connected(worker: WorkerProcess) -> railgun.Railgun:
    worker.await_ready(90.0)
    return railgun.connect(worker.bootstrap, prefix=worker.prefix, timeout=60.0)


def _stream_on(shard: int) -> str:
    return next(f"S{n}" for n in range(10_000) if partition_of(f"S{n}", PARTITIONS) == shard)


def _await_told_offsets(worker: WorkerProcess) -> None:
    """The group knows that every command was decided: there is no lag, and nothing is under way."""
    names = Names(worker.prefix)
    asker = Consumer({"bootstrap.servers": worker.bootstrap, "group.id": names.group})
    places = [TopicPartition(names.commands, shard) for shard in range(PARTITIONS)]

    def no_lag() -> bool:
        told = {place.partition: place.offset for place in asker.committed(places, 10.0)}
        return all(
            told[place.partition] == asker.get_watermark_offsets(place, timeout=10.0)[1] for place in places
        )

    try:
        wait_until(no_lag, "there is no lag")
    finally:
        asker.close()
