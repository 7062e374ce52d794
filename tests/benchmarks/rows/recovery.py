"""Coming back: reading a changelog into a table, a worker that lost its disk, an owner that was killed."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer

from railgun.kafka.embedded.guarded import GuardedProcess
from railgun.kafka.records import PartitionReader
from railgun.kafka.settings import KafkaSettings
from railgun.state.restore import restore
from railgun.state.rocks import RocksTable
from railgun.worker.faust_app import SESSION_SECONDS
from tests.benchmarks import group_member, raw_kafka
from tests.benchmarks.arena import Arena
from tests.benchmarks.cluster import PARTITIONS, publish_until_answered
from tests.benchmarks.contest import RAILGUN, Row, Side
from tests.benchmarks.rows.sides import KAFKA, StreamClient, rate, subject_of
from tests.benchmarks.rows.stock import STREAM, stocked_cluster, stocked_nats
from tests.benchmarks.scale import PAYLOAD, Scale
from tests.support.waiting import wait_until

_SECONDS = 60.0


class RestoreRate(Row):
    key, name, unit = "restore", "restore of a table from its changelog", "records/s"

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        bootstrap, count = arena.bootstrap, scale.changelog
        topic = raw_kafka.create_topic(bootstrap, "changelog")
        producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
        )
        for number in range(count):
            producer.produce(topic, PAYLOAD, b"%016x" % (number * 2654435761 % 2**32))
        producer.flush(_SECONDS)
        yield {
            RAILGUN: lambda: rate(count, lambda: _restore(bootstrap, topic, arena.folder, count)),
            KAFKA: lambda: rate(count, lambda: raw_kafka.read_in_bulk(bootstrap, topic, count)),
        }


def _restore(bootstrap: str, topic: str, folder: Path, count: int) -> None:
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        with (
            closing(RocksTable(place, identity=topic, max_age=3600)) as table,
            PartitionReader(KafkaSettings(bootstrap), topic, 0) as reader,
        ):
            restored = restore(table, reader.batches(0, lambda: False), end=count)
        if restored != count:
            raise RuntimeError(f"{restored} of {count} records were restored")
    finally:
        shutil.rmtree(place, ignore_errors=True)


class Restart(Row):
    """From the start of the process to the first answered publish on the large stream."""

    key, name, unit = "restart", "restart from an empty disk, 1,000,000 messages", "s"
    warm_up = False

    def rounds(self, scale: Scale) -> int:
        return scale.takeovers

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        cluster = stocked_cluster(arena, scale.many)
        stocked_nats(arena, scale.many)
        subject = subject_of(STREAM)
        with cluster.connect() as client:

            def own() -> float:
                worker = cluster.workers[0]
                worker.stop()
                worker.wipe()
                worker.start()
                return publish_until_answered(client, subject, PAYLOAD)

            def nats() -> float:
                arena.nats.stop()
                begin = time.perf_counter()
                arena.nats.start()
                with arena.nats_client() as client:
                    _until_published(client, subject)
                return time.perf_counter() - begin

            yield {RAILGUN: own, "nats-server, same disk": nats}


class Takeover(Row):
    """``kill -9`` of the owner while another stands by: until a publish is answered; a plain group: until it has all."""

    key, name, unit = "takeover", "takeover after kill -9 of the owner", "s"
    warm_up = False

    def rounds(self, scale: Scale) -> int:
        return scale.takeovers

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        cluster = arena.cluster("takeover", workers=2)
        with cluster.connect() as client, _Group(arena) as group:
            client.create_stream(STREAM, subjects=[f"{STREAM.lower()}.>"])

            def own() -> float:
                cluster.start()
                wait_until(
                    lambda: len(set(cluster.owners().values())) == 2, "both workers own a share", _SECONDS
                )
                publish_until_answered(client, subject_of(STREAM), PAYLOAD)
                owner = cluster.owner_of(STREAM)
                begin = time.perf_counter()
                owner.kill()
                publish_until_answered(client, subject_of(STREAM), PAYLOAD)
                return time.perf_counter() - begin

            yield {RAILGUN: own, "plain consumer group": group.take_over}


class _Group:
    """A consumer of this process, and one of another process that is killed."""

    def __init__(self, arena: Arena) -> None:
        self._bootstrap, self._folder = arena.bootstrap, arena.folder
        self._topic = raw_kafka.create_topic(self._bootstrap, "group", PARTITIONS)
        self._group = f"raw-{uuid.uuid4().hex[:8]}"

    def __enter__(self) -> _Group:
        self._consumer: Consumer = group_member.member(
            self._bootstrap, self._topic, self._group, SESSION_SECONDS
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def take_over(self) -> float:
        command = [sys.executable, "-m", group_member.__name__, self._bootstrap, self._topic, self._group]
        other = GuardedProcess(
            [*command, str(SESSION_SECONDS)], log_file=self._folder / "member.log", patience=5.0
        )
        try:
            self._poll_until(PARTITIONS // 2)
        finally:
            begin = time.perf_counter()
            other.kill()
        self._poll_until(PARTITIONS)
        return time.perf_counter() - begin

    def _poll_until(self, partitions: int) -> None:
        def has_as_many() -> bool:
            self._consumer.poll(0.02)
            return len(self._consumer.assignment()) == partitions

        wait_until(has_as_many, f"{partitions} partitions are assigned", _SECONDS, pause=0.0)


def _until_published(client: StreamClient, subject: str) -> None:
    """JetStream answers a little later than the server itself."""
    from nats.errors import Error as NatsError

    def published() -> bool:
        try:
            client.publish(subject, PAYLOAD)
        except NatsError:
            return False
        return True

    wait_until(published, "nats-server answers a publish", _SECONDS, pause=0.02)
