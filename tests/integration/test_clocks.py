"""A worker whose clock is not the broker's: everything goes on, and the log and the doctor say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cell import Cell
from tests.support.checkout import TOP
from tests.support.commands import invoke
from tests.support.worker_process import PARTITIONS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

AHEAD = 2_500_000_000
SKEWED = f"""
import time
_true = time.time_ns
time.time_ns = lambda: _true() + {AHEAD}
"""


@pytest.mark.rule("PUL-04", "RDL-01")
def test_a_worker_that_is_ahead_of_the_broker_starves_nobody(cell: Cell, tmp_path: Path) -> None:
    """Python imports ``sitecustomize`` at its start: the worker's clock is wrong from there on."""
    (tmp_path / "sitecustomize.py").write_text(SKEWED, encoding="utf-8")
    worker = cell.worker(start=False)
    worker.environment["PYTHONPATH"] = f"{tmp_path}:{TOP}"
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
