"""A worker that resumes after a rebalance, with Faust's own recovery behind it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from faust.tables.recovery import RebalanceAgain, ServiceStopped

from railgun.worker.group.resumption import NoTables, Resumption


@pytest.fixture
async def resumption() -> Resumption:
    app: Any = SimpleNamespace(conf=SimpleNamespace(stream_recovery_delay=0.0))
    return Resumption(app, None, loop=asyncio.get_running_loop())  # type: ignore[arg-type]


async def test_a_seek_that_takes_longer_than_a_request_does_not_end_the_resuming(
    resumption: Resumption,
) -> None:
    """Faust takes the time that is over for the end of the worker, which then never reads again."""
    sought = asyncio.Event()
    waiting = asyncio.ensure_future(resumption._wait(sought.wait(), timeout=0.001))
    await asyncio.wait([waiting], timeout=0.1)
    assert not waiting.done()
    sought.set()
    await waiting


async def test_a_rebalance_and_the_end_of_the_worker_interrupt_the_seek(resumption: Resumption) -> None:
    resumption.signal_recovery_start.set()
    with pytest.raises(RebalanceAgain):
        await resumption._wait(asyncio.Event().wait(), timeout=30.0)
    resumption.signal_recovery_start.clear()
    resumption.set_shutdown()
    resumption._stopped.set()
    with pytest.raises(ServiceStopped):
        await resumption._wait(asyncio.Event().wait(), timeout=30.0)


def test_a_worker_resumes_in_this_way() -> None:
    app: Any = SimpleNamespace(conf=SimpleNamespace(stream_recovery_delay=0.0))
    tables = NoTables.__new__(NoTables)
    tables.app, tables._recovery, tables.beacon, tables._loop = app, None, None, None
    assert isinstance(tables.recovery, Resumption)
