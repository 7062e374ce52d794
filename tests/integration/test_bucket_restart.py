"""A worker that is killed: values of a bucket are there again, and a watch goes on where it was."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.support.cell import Cell
from tests.support.waiting import wait_until
from tests.support.worker_process import restart

pytestmark = pytest.mark.kafka


@pytest.mark.rule("KV-19", "KV-35")
def test_a_watch_survives_the_loss_of_its_worker(shared_cell: Cell) -> None:
    (worker,) = shared_cell.workers
    with shared_cell.connect() as rg:
        bucket = rg.create_bucket("CONFIG", history=3)
        for value in ("1", "2"):
            bucket.put("a", value)
        bucket.put("b", "3")
        bucket.delete("b")
        with bucket.watch_all() as entries:
            assert [one and one.text for one in islice(entries, 2)] == ["1", "2"]
            restart(worker, lost_disk=True)
            assert [one.text for one in bucket.history("a")] == ["1", "2"]
            assert bucket.get("b", None) is None
            bucket.create("b", "4")
            bucket.put("a", "5")
            assert [one and one.text for one in islice(entries, 2)] == ["4", "5"]
            assert entries.restarts == 0


@pytest.mark.rule("KV-51", "KV-52", "KV-53")
def test_a_cache_survives_the_loss_of_its_worker(shared_cell: Cell) -> None:
    (worker,) = shared_cell.workers
    with shared_cell.connect() as rg:
        bucket = rg.create_bucket("CACHED")
        bucket.put("a", "1")
        with bucket.cached() as cache:
            assert cache.wait_ready(30)
            restart(worker, lost_disk=True)
            revision = cache.put("a", "2")
            assert cache.get("a").revision >= revision
            bucket.put("b", "3")
            wait_until(lambda: cache.get("b", None) is not None, "the cache learns of it", 60)
            assert cache.wait_ready(60)
            assert (cache.get("a").text, cache.get("b").text) == ("2", "3")
