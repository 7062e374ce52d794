"""A consume-publish pipeline while its workers are killed: every input is in every output once, as a plain consumer of Kafka sees it."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from railgun import Railgun
from railgun.errors import RailgunError
from railgun.model import headers as h
from railgun.protocol.routing import partition_of
from railgun.protocol.topics import Names
from railgun.testing import Clock
from tests.chaos.rounds import SEED
from tests.support.cell import Cell
from tests.support.naming import unique
from tests.support.pipeline import Worked, work_off
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS, WorkerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
KILLS = 4
CLIENTS = 3
ACK_WAIT = 10.0


def committed(cell: Cell, stream: str) -> Counter[str]:
    """How often each text is in the log of the stream."""
    settings = {
        "bootstrap.servers": cell.bootstrap,
        "group.id": unique("audit"),
        "enable.partition.eof": True,
    }
    reader = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
    found: Counter[str] = Counter()
    try:
        reader.assign([TopicPartition(Names(cell.prefix).log(stream), 0, 0)])
        while True:
            record = reader.poll(20)
            assert record is not None, "the log could not be read to its end"
            error = record.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            assert h.LOG_SEQUENCE in dict(record.headers() or [])
            found[(record.value() or b"").decode()] += 1
    finally:
        reader.close()


def restart(worker: WorkerProcess) -> None:
    worker.kill()
    worker.log.unlink()
    worker.start()
    worker.wait_for(": ready after", times=PARTITIONS)


def named_on(partition: int, prefix: str) -> str:
    names = (f"{prefix}{number}" for number in range(1_000))
    return next(name for name in names if partition_of(name, PARTITIONS) == partition)


def feed(rg: Railgun, stream: str, stop: threading.Event, sent: list[str]) -> None:
    """Inputs, ten at a time, until told to stop. Those whose outcome is unknown are sent again, under the same ids."""
    while not stop.is_set():
        texts = [str(len(sent) + more) for more in range(10)]
        wait_until(lambda texts=texts: _published(rg, f"{stream}.x", texts), "a worker takes inputs", 120)  # type: ignore[misc]
        sent += texts


def _published(rg: Railgun, subject: str, texts: list[str]) -> bool:
    try:
        for future in [rg.publish_soon(subject, text, msg_id=text) for text in texts]:
            future.result()
    except RailgunError:
        return False
    return True


@pytest.mark.rule("EXO-08", "EXO-09", "EXO-11")
def test_every_input_is_handed_over_once_though_workers_are_killed(cell: Cell) -> None:
    print(f"seed {SEED}")
    worker, chance = cell.ready_worker(), random.Random(SEED)
    fed, stop = threading.Event(), threading.Event()
    source = named_on(0, "IN")
    targets = [named_on(0, "NEAR"), named_on(1, "FAR")]
    sent: list[str] = []
    worked = [Worked() for _ in range(CLIENTS)]
    with cell.connect(120) as rg:
        jobs = rg.create_stream(source, subjects=[f"{source}.*"])
        outputs = [rg.create_stream(name, subjects=[f"{name}.*"]) for name in targets]
        consumer = jobs.create_consumer("C", ack_wait=ACK_WAIT)
        subjects = [f"{name}.x" for name in targets]
        threads = [threading.Thread(target=feed, args=(rg, source, fed, sent), daemon=True)]
        threads += [
            threading.Thread(
                target=work_off,
                args=(rg, source, "C", subjects, stop, f"{SEED} {number}", one),
                daemon=True,
            )
            for number, one in enumerate(worked)
        ]
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            stop.wait(chance.uniform(0.3, 3.0))  # when it is killed does not matter: any moment will do
            restart(worker)
        fed.set()
        threads[0].join(150)
        assert not threads[0].is_alive()
        clock = Clock(rg)

        def worked_off() -> bool:
            clock.advance(ACK_WAIT)  # what was dropped comes again at once
            info = consumer.info()
            return (info.num_pending, info.num_ack_pending) == (0, 0)

        wait_until(worked_off, "everything is worked off", 120, pause=0.5)
        stop.set()
        for thread in threads:
            thread.join(150)
            assert not thread.is_alive()
        for output in outputs:
            wait_until(
                lambda output=output: output.info().state.messages >= len(sent),  # type: ignore[misc]
                f"{output.name} has everything",
            )

    print(len(sent), worked)
    assert len(sent) > 20, "hardly anything was published"
    assert sum(one.dropped for one in worked) > 0
    expected = Counter(dict.fromkeys(sent, 1))
    for name in targets:
        assert committed(cell, name) == expected, name
    for one in worked:
        assert max(Counter(one.done).values(), default=0) <= 1, "one client was told twice that it was done"
