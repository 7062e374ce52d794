"""The judges of a soak: what counts as growth, and what as a lost or doubled job."""

from __future__ import annotations

import pytest

from tests.soak.ledger import Ledger
from tests.soak.verdict import trends


@pytest.mark.parametrize(
    "values,grows",
    [
        ([0, 50, 100, 100, 100, 100, 100, 100], False),  # warming up
        ([0, 0, 9_000, 100, 9_000, 100, 9_000, 100], False),  # compacted now and then
        ([1_000 * step for step in range(16)], True),
        ([10, 20, 30, 40, 50, 60, 70, 80], False),  # too little to matter
    ],
)
def test_growth_is_the_last_quarter_beside_the_second(values: list[float], grows: bool) -> None:
    samples = [{"seconds": 30.0 * at, "table entries": value} for at, value in enumerate(values)]
    (trend,) = trends(samples)
    assert trend.grows == grows


def test_a_job_that_is_published_delivered_and_confirmed_is_done() -> None:
    ledger = Ledger()
    ledger.delivered("a", 1)  # before its publisher has the ack
    ledger.confirmed("a", 1)
    ledger.published("a", 1)
    ledger.close()
    assert (ledger.done, ledger.waiting, ledger.faults) == (1, 0, [])


@pytest.mark.parametrize(
    "sequence,fault", [(1, "delivered after its ack was confirmed"), (2, "stored twice")]
)
def test_a_job_that_comes_again_is_a_fault(sequence: int, fault: str) -> None:
    ledger = Ledger()
    ledger.published("a", 1)
    ledger.confirmed("a", 1)
    ledger.delivered("a", sequence)
    assert fault in ledger.faults[0]


def test_a_job_that_is_not_done_at_the_end_is_lost_or_unanswered() -> None:
    ledger = Ledger()
    ledger.published("lost", 1)
    ledger.confirmed("unanswered", 2)
    ledger.close()
    assert ["acked and never" in fault for fault in ledger.faults] == [True, False]
