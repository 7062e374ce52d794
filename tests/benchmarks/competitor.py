"""Clients that compete for one consumer, each a process of its own, all let go at the same moment."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import Final

import railgun
from tests.benchmarks.cluster import CALL_SECONDS
from tests.benchmarks.consuming import Consumers
from tests.benchmarks.nats_server import NatsClient
from tests.benchmarks.railgun_consuming import RailgunConsumers

CLIENTS: Final = 4
_SECONDS: Final = 120.0

Opener = Callable[[], Consumers]

_side: Consumers
_barrier: Barrier


def open_railgun(bootstrap: str, prefix: str) -> Consumers:
    return RailgunConsumers(railgun.connect(bootstrap, prefix=prefix, timeout=CALL_SECONDS))


def open_nats(url: str) -> Consumers:
    return NatsClient(url).consumers


def _begin(opener: Opener, barrier: Barrier) -> None:
    global _side, _barrier
    _side, _barrier = opener(), barrier


def _compete(stream: str, name: str) -> tuple[int, float]:
    _barrier.wait(_SECONDS)
    return _side.take_until_silence(stream, name)


class Competitors:
    """A context manager. ``opener`` connects, in each process."""

    def __init__(self, opener: Opener) -> None:
        context = multiprocessing.get_context("spawn")
        self._barrier = context.Barrier(CLIENTS + 1)
        self._pool = ProcessPoolExecutor(
            CLIENTS, mp_context=context, initializer=_begin, initargs=(opener, self._barrier)
        )

    def __enter__(self) -> Competitors:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def seconds(self, stream: str, name: str, count: int) -> float:
        """From the start to the last ack, when all together have taken so many."""
        futures = [self._pool.submit(_compete, stream, name) for _ in range(CLIENTS)]
        self._barrier.wait(_SECONDS)
        begin = time.monotonic()
        results = [future.result(_SECONDS) for future in futures]
        taken = sum(each for each, _ in results)
        if taken != count:
            raise RuntimeError(f"{taken} messages were taken, {count} are there")
        return max(last for _, last in results) - begin
