"""A key that was updated ten million times beside one that never was: what a worker without a disk restores."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final

from tests.benchmarks.arena import Arena
from tests.benchmarks.cluster import Cluster
from tests.benchmarks.contest import RAILGUN, Row, Side
from tests.benchmarks.results import Goal
from tests.benchmarks.scale import PAYLOAD, Scale

_BUCKET: Final = "STATE"
_PORTION: Final = 100_000
_TWO: Final = "railgun after two puts"
_FLUSH_SECONDS: Final = 300.0


class RestartAfterUpdates(Row):
    """From the start of the process, with an empty disk, to the answered get of the key that never changed."""

    key, name, unit = "kv-updates", "restart from an empty disk after 10,000,000 updates of one key", "s"
    goals: ClassVar[Mapping[str, Goal]] = {_TWO: Goal("≤ 1.2 ×", most_ratio=1.2)}
    warm_up = False

    def rounds(self, scale: Scale) -> int:
        return scale.takeovers

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        yield {RAILGUN: _side(arena, "updated", scale.updates), _TWO: _side(arena, "quiet", 0)}


def _side(arena: Arena, prefix: str, updates: int) -> Side:
    def one_round() -> float:
        cluster = arena.cluster(prefix)
        arena.once(prefix, lambda: _fill(cluster, updates))
        (worker,) = cluster.workers
        worker.stop()
        worker.wipe()
        begin = time.perf_counter()
        cluster.start()
        with cluster.connect() as rg:
            found = rg.bucket(_BUCKET).get("fixed")
            taken = time.perf_counter() - begin
            newest = rg.bucket(_BUCKET).get("hot")
        if (found.revision, newest.revision) != (1, updates + 2):
            raise RuntimeError(f"revisions {found.revision} and {newest.revision} are left")
        return taken

    return one_round


def _fill(cluster: Cluster, updates: int) -> None:
    with cluster.connect() as rg:
        bucket = rg.create_bucket(_BUCKET)
        bucket.put("fixed", PAYLOAD)
        bucket.put("hot", PAYLOAD)
        (wildcard,) = rg.stream(f"KV_{_BUCKET}").info().config.subjects
        subject = f"{wildcard[:-1]}hot"
        for start in range(0, updates, _PORTION):
            for _ in range(min(_PORTION, updates - start)):
                rg.publish_soon(subject, PAYLOAD)
            rg.flush(_FLUSH_SECONDS)
