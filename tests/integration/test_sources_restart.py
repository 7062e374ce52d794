"""Mirrors, sources and counters that add up, on Kafka: workers are killed, lose their disks, share their shards and stay away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import railgun
from railgun.model import headers as h
from railgun.protocol.routing import partition_of
from railgun.protocol.topics import Names
from tests.chaos.copying.logs import read_logs
from tests.support.cell import Cell
from tests.support.sourcing import lag
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS, WorkerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
PATIENCE = 120.0
Source, Transform = railgun.StreamSource, railgun.SubjectTransform


def on(partition: int, stem: str) -> str:
    """A name of a stream in that shard."""
    names = (f"{stem}{number}" for number in range(10_000))
    return next(name for name in names if partition_of(name, PARTITIONS) == partition)


def put_texts(rg: railgun.Railgun, stream: str, first: int, count: int) -> None:
    """Texts that count on, each under an id, so that a publish that was not answered can be repeated."""
    for number in range(first, first + count):
        text = str(number)
        rg.publish_soon(f"{stream}.{number % 3}", text, msg_id=f"{stream} {text}")
    rg.flush(PATIENCE)


def holds(stream: railgun.Stream, count: int) -> None:
    """Wait until so many messages are there, and no more on their way."""
    wait_until(
        lambda: stream.info().state.messages >= count and lag(stream) == 0,
        f"{count} messages in {stream.name}",
        PATIENCE,
    )


def logged(cell: Cell, stream: str) -> list[str]:
    """The payloads in the log of the stream, as a plain consumer of Kafka reads them."""
    topic = Names(cell.prefix).log(stream)
    return [one.payload.decode() for one in read_logs(cell.bootstrap, [topic])[topic]]


@dataclass
class Copies:
    """An upstream in one shard, and streams in others that copy it."""

    cell: Cell
    rg: railgun.Railgun
    origin: str
    source: str
    chained: str
    mirror: str
    sent: int = 0

    @classmethod
    def made(cls, cell: Cell, rg: railgun.Railgun) -> Copies:
        made = cls(cell, rg, on(0, "ORIGIN"), on(1, "SOURCE"), on(2, "CHAINED"), on(3, "MIRROR"))
        rg.create_stream(made.origin, subjects=[f"{made.origin}.*"])
        rg.create_stream(made.source, sources=[Source(name=made.origin)])
        rg.create_stream(made.chained, sources=[Source(name=made.source)])
        rg.create_stream(made.mirror, mirror=Source(name=made.origin))
        return made

    def put(self, count: int) -> None:
        put_texts(self.rg, self.origin, self.sent, count)
        self.sent += count

    def check(self) -> None:
        """Once everything is copied: the same messages everywhere, once and in order."""
        wanted = [str(number) for number in range(self.sent)]
        for name in (self.source, self.chained, self.mirror):
            holds(self.rg.stream(name), self.sent)
            assert logged(self.cell, name) == wanted, name
            told = self.rg.stream(name).info()
            assert [one.error for one in [told.mirror, *(told.sources or [])] if one is not None] == [None]
        assert logged(self.cell, self.origin) == wanted


@dataclass
class Counters:
    """Two streams that count, and one that adds them up and counts itself."""

    cell: Cell
    rg: railgun.Railgun
    upstreams: tuple[str, str]
    target: str
    expected: int = 0

    @classmethod
    def made(cls, cell: Cell, rg: railgun.Railgun) -> Counters:
        made = cls(cell, rg, (on(0, "ONE"), on(1, "TWO")), on(2, "SUM"))
        for name in made.upstreams:
            rg.create_stream(name, subjects=[f"{name}.*"], allow_msg_counter=True)
        added = [
            Source(name=name, subject_transforms=[Transform(src=f"{name}.hits", dest=f"{made.target}.hits")])
            for name in made.upstreams
        ]
        rg.create_stream(made.target, subjects=[f"{made.target}.*"], sources=added, allow_msg_counter=True)
        return made

    def add(self, count: int) -> None:
        for number in range(count):
            for name in (*self.upstreams, self.target):
                self.rg.publish_soon(f"{name}.hits", headers={h.INCREMENT: f"+{number + 1}"})
                self.expected += number + 1
        self.rg.flush(PATIENCE)

    def check(self) -> None:
        """Once everything is added up: the total, the ledger and the sum over the log."""
        subject = f"{self.target}.hits"
        total = self.rg.counter(subject)
        wait_until(lambda: total.value() == self.expected, f"a total of {self.expected}", PATIENCE)
        topic = Names(self.cell.prefix).log(self.target)
        log = read_logs(self.cell.bootstrap, [topic])[topic]
        assert sum(int(one.header(h.INCREMENT)) for one in log) == self.expected
        ledger = json.loads(log[-1].header(h.COUNTER_SOURCES))
        seen = {
            name: {f"{name}.hits": str(self.rg.counter(f"{name}.hits").value())} for name in self.upstreams
        }
        assert ledger == seen


@pytest.fixture
def rg(cell: Cell) -> Iterator[railgun.Railgun]:
    cell.ready_worker()
    with cell.connect(PATIENCE) as facade:
        yield facade


def away(worker: WorkerProcess, *, lost_disk: bool) -> None:
    worker.kill()
    if lost_disk:
        worker.wipe()
    worker.log.unlink()


def back(worker: WorkerProcess) -> None:
    worker.start()
    worker.wait_for(": ready after", times=PARTITIONS)


@pytest.mark.rule("SRC-07", "MIR-01", "CTR-26", "CTR-28", "CLU-13")
def test_copies_go_on_where_they_were(cell: Cell, rg: railgun.Railgun) -> None:
    """First the worker is killed, with messages on their way; then its disk is lost as well."""
    (worker,) = cell.workers
    copies, counters = Copies.made(cell, rg), Counters.made(cell, rg)
    for lost_disk in (False, True):
        copies.put(1_500)
        counters.add(30)
        away(worker, lost_disk=lost_disk)  # what is copied by now is left to chance: any part will do
        back(worker)
        copies.put(100)
        counters.add(10)
        copies.check()
        counters.check()
    before = {name: rg.stream(name).info().state for name in (copies.source, copies.mirror, counters.target)}
    away(worker, lost_disk=True)  # and at rest
    back(worker)
    assert {name: rg.stream(name).info().state for name in before} == before
    copies.put(10)
    counters.add(1)
    copies.check()
    counters.check()


@pytest.mark.rule("SRC-07", "MIR-01", "CTR-26", "CLU-15")
def test_copies_go_on_when_a_second_worker_comes_and_goes(cell: Cell, rg: railgun.Railgun) -> None:
    (first,) = cell.workers
    copies, counters = Copies.made(cell, rg), Counters.made(cell, rg)
    copies.put(1_500)
    counters.add(30)
    second = cell.worker()
    copies.put(300)  # while the shards move
    second.wait_for(": ready after")
    copies.put(300)
    counters.add(10)
    copies.check()
    counters.check()
    copies.put(300)
    counters.add(10)
    second.kill()  # the first takes its shards over, with an older state of its own
    copies.put(300)
    counters.add(10)
    copies.check()
    counters.check()
    assert first.alive


@pytest.mark.rule("SRC-10", "SRC-07", "RET-01")
def test_work_queues_wait_for_the_worker_of_the_stream_that_copies_them(
    cell: Cell, rg: railgun.Railgun
) -> None:
    """One of two workers is killed, with its disk: some queues are on the one, and the streams that copy them on the other."""
    (first,) = cell.workers
    second = cell.worker()
    second.wait_for(": ready after")
    first.wait_for(": ready after", times=PARTITIONS + 1)
    pairs = [(on(shard, "QUEUE"), on((shard + 1) % PARTITIONS, "TARGET")) for shard in range(PARTITIONS)]
    for queue, target in pairs:
        rg.create_stream(queue, subjects=[f"{queue}.*"], retention="workqueue")
        rg.create_stream(target, sources=[Source(name=queue)])

    def put(first: int, count: int) -> None:
        for queue, _ in pairs:
            put_texts(rg, queue, first, count)

    put(0, 200)
    for queue, target in pairs:
        moved(rg, queue, target, 200)
    put(200, 300)
    away(second, lost_disk=True)
    put(500, 300)  # until the group has noticed, nobody copies into its streams
    for queue, target in pairs:
        moved(rg, queue, target, 800)
    second.start()
    put(800, 200)  # while shards move to it
    second.wait_for(": ready after")
    for queue, target in pairs:
        moved(rg, queue, target, 1_000)
        assert logged(cell, target) == [str(number) for number in range(1_000)]
        assert [one.error for one in rg.stream(target).info().sources or []] == [None]


def moved(rg: railgun.Railgun, queue: str, target: str, count: int) -> None:
    """So many messages have left the queue and are in the stream that copies it."""
    holds(rg.stream(target), count)
    wait_until(lambda: rg.stream(queue).info().state.messages == 0, f"an empty {queue}", PATIENCE)
