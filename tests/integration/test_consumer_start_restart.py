"""A worker that starts again, with its disk or without: consumers are where they were, and begin nothing anew."""

from __future__ import annotations

import pytest

from railgun import Railgun, Stream
from railgun.model.durations import rfc3339
from tests.support.cell import Cell
from tests.support.consumers import SECOND, about, add, delivered, delivery, floor, sequences, settle, take
from tests.support.worker_process import restart

pytestmark = pytest.mark.kafka


def orders(rg: Railgun, stream: Stream, count: int) -> None:
    for _ in range(count):
        rg.publish(f"{stream.name}.new", b"order")


@pytest.mark.rule("STA-12", "CON-02")
@pytest.mark.parametrize("lost_disk", [False, True])
def test_a_restart_does_not_begin_again(shared_cell: Cell, lost_disk: bool) -> None:
    (worker,) = shared_cell.workers
    with shared_cell.connect() as rg:
        stream = rg.create_stream("ORDERS", subjects=["ORDERS.*"])
        orders(rg, stream, 5)
        soon = rfc3339(stream.get(5).time_ns + 3600 * SECOND)
        add(rg, "ORDERS", "NEW", deliver_policy="new")
        add(rg, "ORDERS", "LAST", deliver_policy="last")
        add(rg, "ORDERS", "TIME", deliver_policy="by_start_time", opt_start_time=soon)
        add(rg, "ORDERS", "SUBJECTS", deliver_policy="last_per_subject", filter_subject="ORDERS.*")
        add(rg, "ORDERS", "SEQUENCE", deliver_policy="by_start_sequence", opt_start_seq=2)
        add(rg, "ORDERS", "WORK")
        one, two, three = take(rg, "ORDERS", "WORK", 3)
        settle(rg, one)
        settle(rg, three)
        settle(rg, two, b"-NAK")
        orders(rg, stream, 3)
        names = ("NEW", "LAST", "TIME", "SUBJECTS", "SEQUENCE", "WORK")
        before = {name: about(rg, "ORDERS", name) for name in names}

        restart(worker, lost_disk=lost_disk)
        orders(rg, stream, 1)

        for name in names:
            after = about(rg, "ORDERS", name)
            assert (delivered(after), floor(after)) == (delivered(before[name]), floor(before[name])), name
            assert after["config"] == before[name]["config"]
            assert after["num_pending"] == before[name]["num_pending"] + 1
            assert after["created"] == before[name]["created"]
        assert sequences(take(rg, "ORDERS", "NEW", 20)) == [6, 7, 8, 9]
        assert sequences(take(rg, "ORDERS", "LAST", 20)) == [5, 6, 7, 8, 9]
        assert sequences(take(rg, "ORDERS", "TIME", 20)) == [6, 7, 8, 9]
        assert sequences(take(rg, "ORDERS", "SUBJECTS", 20)) == [5, 6, 7, 8, 9]
        assert sequences(take(rg, "ORDERS", "SEQUENCE", 20)) == [2, 3, 4, 5, 6, 7, 8, 9]
        work = take(rg, "ORDERS", "WORK", 20)
        assert sequences(work) == [2, 4, 5, 6, 7, 8, 9]
        assert [delivery(one).deliveries for one in work] == [2, 1, 1, 1, 1, 1, 1]
        rg.delete_stream("ORDERS")
