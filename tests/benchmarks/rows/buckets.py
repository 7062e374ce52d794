"""Key-value buckets: values put, many at once."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from tests.benchmarks.arena import Arena
from tests.benchmarks.contest import Row, Side
from tests.benchmarks.results import Goal
from tests.benchmarks.rows.sides import NATS, StreamClient, both, new_bucket, rate
from tests.benchmarks.scale import AT_ONCE, PAYLOAD, Scale

_OF_A_ROUND = 4  # a fourth of what is published where nobody waits for single answers


class PutAtOnce(Row):
    key, name, unit = "kv-put", "put into a bucket of 1,000 keys, 256 at once", "values/s"
    goals: ClassVar[Mapping[str, Goal]] = {NATS: Goal("≥ 2 ×", least_ratio=2)}
    kinds = 1_000

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with both(arena) as clients:
            yield {
                name: self._side(client, scale.pipelined // _OF_A_ROUND) for name, client in clients.items()
            }

    def _side(self, client: StreamClient, count: int) -> Side:
        """Keys drawn at random, the same for every side."""
        bucket, draw = new_bucket(client), random.Random(count)

        def one_round() -> float:
            keys = [f"key-{draw.randrange(self.kinds)}" for _ in range(count)]
            return rate(count, lambda: client.put_all(bucket, keys, PAYLOAD, AT_ONCE))

        return one_round


class PutMany(PutAtOnce):
    key, name = "kv-put-many", "put into a bucket of 100,000 keys, 256 at once"
    kinds = 100_000
