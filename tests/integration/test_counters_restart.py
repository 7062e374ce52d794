"""Counters on Kafka: totals outlive their worker, with its disk or without, and are the sum over the log of the stream."""

from __future__ import annotations

from collections import defaultdict

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from railgun.model import headers as h
from railgun.model.counters import parse_body, parse_number
from railgun.protocol.topics import Names
from tests.support.cell import Cell
from tests.support.naming import unique
from tests.support.worker_process import PARTITIONS, WorkerProcess

pytestmark = pytest.mark.kafka


def restart(worker: WorkerProcess, *, lost_disk: bool) -> None:
    worker.kill()
    if lost_disk:
        worker.wipe()
    worker.log.unlink()
    worker.start()
    worker.wait_for(": ready after", times=PARTITIONS)


def summed_up(cell: Cell, stream: str, last: int) -> tuple[dict[str, int], dict[str, int]]:
    """By a plain consumer of Kafka: the sum of increments of each subject, and the totals in the newest bodies."""
    settings = {"bootstrap.servers": cell.bootstrap, "group.id": unique("sum"), "enable.auto.commit": False}
    reader = Consumer({**settings, "isolation.level": "read_committed"})
    sums: dict[str, int] = defaultdict(int)
    totals: dict[str, int] = {}
    try:
        reader.assign([TopicPartition(Names(cell.prefix).log(stream), 0, OFFSET_BEGINNING)])
        reached = 0
        while reached < last:
            record = reader.poll(20)
            assert record is not None, f"the log ends at {reached}, not at {last}"
            assert record.error() is None, record.error()
            headers = dict(record.headers() or [])
            key, value = record.key(), record.value()
            assert key is not None
            assert value is not None
            reached = int(headers[h.LOG_SEQUENCE])
            sums[key.decode()] += parse_number(headers[h.INCREMENT]) or 0
            totals[key.decode()] = parse_body(value) or 0
    finally:
        reader.close()
    return dict(sums), totals


@pytest.mark.rule("CTR-02", "CTR-16")
@pytest.mark.parametrize("lost_disk", [False, True])
def test_totals_outlive_their_worker(shared_cell: Cell, lost_disk: bool) -> None:
    (worker,) = shared_cell.workers
    with shared_cell.connect() as rg:
        name = unique("COUNTER")
        stream = rg.create_stream(name, subjects=[f"{name}.*"], allow_msg_counter=True)
        subjects = [f"{name}.{number}" for number in range(7)]
        expected: dict[str, int] = defaultdict(int)
        for number in range(300):
            subject, step = subjects[number * number % 7], number % 11 - 4
            expected[subject] += step
            rg.publish_soon(subject, headers={h.INCREMENT: str(step)})
        rg.flush()
        live = {one: rg.counter(one).value() for one in expected}
        assert live == expected
        assert summed_up(shared_cell, name, 300) == (expected, expected)

        restart(worker, lost_disk=lost_disk)
        assert {one: rg.counter(one).add(5) - 5 for one in expected} == expected

        victim = rg.counter(subjects[1])
        before = victim.history()
        stream.delete_message(before[-1].sequence)
        restart(worker, lost_disk=lost_disk)  # which has to read the message before from the log
        assert victim.add(1) == before[-2].total + 1
        stream.purge(subject=subjects[1])
        restart(worker, lost_disk=lost_disk)
        assert victim.add(1) == 1
        rg.delete_stream(name)
