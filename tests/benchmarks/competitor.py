"""Clients that compete for one consumer, each a process of its own, all let go at the same moment."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.synchronize import Event, Semaphore
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
_ready: Semaphore
_go: Event


def open_railgun(bootstrap: str, prefix: str) -> Consumers:
    return RailgunConsumers(railgun.connect(bootstrap, prefix=prefix, timeout=CALL_SECONDS))


def open_nats(url: str) -> Consumers:
    return NatsClient(url).consumers


def _begin(opener: Opener, ready: Semaphore, go: Event) -> None:
    global _side, _ready, _go
    _side, _ready, _go = opener(), ready, go


def _compete(stream: str, name: str) -> tuple[int, float]:
    _ready.release()
    _go.wait(_SECONDS)
    return _side.take_until_silence(stream, name)


class Competitors:
    """A context manager. ``opener`` connects, in each process."""

    def __init__(self, opener: Opener) -> None:
        context = multiprocessing.get_context("spawn")
        self._ready, self._go = context.Semaphore(0), context.Event()
        self._pool = ProcessPoolExecutor(
            CLIENTS, mp_context=context, initializer=_begin, initargs=(opener, self._ready, self._go)
        )

    def __enter__(self) -> Competitors:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def seconds(self, stream: str, name: str, count: int) -> float:
        """From the start to the last ack, when all together have taken so many."""
        self._go.clear()
        futures = [self._pool.submit(_compete, stream, name) for _ in range(CLIENTS)]
        self._await_ready(futures)
        begin = time.monotonic()
        self._go.set()
        results = [future.result(_SECONDS) for future in futures]
        taken = sum(each for each, _ in results)
        if taken != count:
            raise RuntimeError(f"{taken} messages were taken, {count} are there")
        return max(last for _, last in results) - begin

    def _await_ready(self, futures: Sequence[Future[tuple[int, float]]]) -> None:
        ready, deadline = 0, time.monotonic() + _SECONDS
        while ready < CLIENTS:
            ready += self._ready.acquire(timeout=0.5)
            for future in futures:
                if future.done():
                    future.result()  # it could not even begin: raises why
            if time.monotonic() > deadline:
                raise RuntimeError(f"{ready} of {CLIENTS} clients are ready")
