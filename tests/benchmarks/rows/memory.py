"""Memory of the process that remembers: the worker beside nats-server, both with the same messages and ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

import psutil

from tests.benchmarks.arena import Arena
from tests.benchmarks.contest import RAILGUN, Row, Side
from tests.benchmarks.results import Goal
from tests.benchmarks.rows.stock import stocked_cluster, stocked_nats
from tests.benchmarks.scale import Scale

_SERVER = "nats-server"


class Memory(Row):
    key, name, unit = "memory", "memory, 1,000,000 messages with ids in the window", "MB"
    goals: ClassVar[Mapping[str, Goal]] = {_SERVER: Goal("≤ 600 MB", most=600)}
    warm_up = False

    def rounds(self, scale: Scale) -> int:
        return 1

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        worker = stocked_cluster(arena, scale.many).workers[0]
        stocked_nats(arena, scale.many)
        yield {RAILGUN: lambda: _resident(worker.pid), _SERVER: lambda: _resident(arena.nats.pid)}


def _resident(pid: int) -> float:
    return psutil.Process(pid).memory_info().rss / 1e6
