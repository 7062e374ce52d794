"""A worker whose clock is not the broker's: everything goes on, and the log and the doctor say it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import railgun
from tests.support.cell import Cell
from tests.support.checkout import TOP
from tests.support.commands import invoke
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS, WorkerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

SKEWED = """
import time
_true = time.time_ns
time.time_ns = lambda: _true() + {}
"""


def set_ahead(worker: WorkerProcess, folder: Path, seconds: float) -> None:
    """Python imports ``sitecustomize`` at its start: the worker's clock is wrong from there on."""
    (folder / "sitecustomize.py").write_text(SKEWED.format(int(seconds * 1e9)), encoding="utf-8")
    worker.environment["PYTHONPATH"] = f"{folder}:{TOP}"


@pytest.mark.rule("PUL-04", "RDL-01")
def test_a_worker_that_is_ahead_of_the_broker_starves_nobody(cell: Cell, tmp_path: Path) -> None:
    worker = cell.worker(start=False)
    set_ahead(worker, tmp_path, 2.5)
    worker.start().wait_for(": ready after", times=PARTITIONS)
    with cell.connect() as rg:
        consumer = rg.create_stream("A", subjects=["A.*"]).create_consumer("C", ack_wait=1)
        for _ in range(100):
            rg.publish_soon("A.x", b"")
        rg.flush()
        assert len(consumer.fetch(100, wait=2)) == 100
        assert len(consumer.fetch(100, wait=10)) == 100, "the ack wait is over"
    doctor = invoke("doctor", "--server", cell.bootstrap, "--prefix", cell.prefix)
    assert "s ahead of the broker's clock (4 of 4 shards" in doctor.output


def _only(stream: railgun.Stream, count: int) -> Callable[[], bool]:
    return lambda: stream.info().state.messages == count


@pytest.mark.rule("LIM-15", "TTL-04")
def test_a_worker_whose_clock_was_hours_ahead_ends_no_message_before_its_time(
    cell: Cell, tmp_path: Path
) -> None:
    """By that clock all messages are too old, and each new one at once; and so the shard's time stays afterwards."""
    worker = cell.worker(start=False)
    with ExitStack() as stack:
        for starts, hours in enumerate((0, 2, 0), 1):
            set_ahead(worker, tmp_path, hours * 3_600)
            worker.start().wait_for(": ready after", times=starts * PARTITIONS)
            if starts == 1:
                rg = stack.enter_context(cell.connect())
                aged = rg.create_stream("A", subjects=["A.*"], max_age=3_600)
                ending = rg.create_stream("B", subjects=["B.*"], allow_msg_ttl=True)
            rg.publish("A.x", b"")
            rg.publish("B.x", b"", ttl=600)
            rg.publish("B.soon", b"", ttl=1)
            kept = [one.sequence for one in (ending.get_last("B.x"), aged.get_last("A.x"))]
            assert kept == [2 * starts - 1, starts]
            wait_until(_only(ending, starts), "the messages with a second to live have ended, and no others")
            assert aged.info().state.messages == starts
            worker.stop()
