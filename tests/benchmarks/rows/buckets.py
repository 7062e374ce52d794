"""Key-value buckets: put and get, the cache, updates that compete, watchers, and a million keys."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import ClassVar

import psutil

from tests.benchmarks.arena import Arena
from tests.benchmarks.buckets import BucketClient, NatsBuckets, RailgunBuckets
from tests.benchmarks.contest import RAILGUN, Row, Side
from tests.benchmarks.results import Goal
from tests.benchmarks.rows.sides import MAIN, NATS, railgun_client, rate
from tests.benchmarks.scale import AT_ONCE, PAYLOAD, Scale

_KEYS = 10_000
_CLIENTS = 8  # that compete for a key
_WATCHERS = 100
_LARGE = "million"  # the cluster of the large bucket
_FULL = "FULL"

_numbers = itertools.count(1)


def key_of(number: int) -> str:
    return f"user-{number}"


def some_keys(count: int, among: int = _KEYS) -> list[str]:
    """Keys drawn at random, the same for every side."""
    draw = random.Random(count)
    return [key_of(draw.randrange(among)) for _ in range(count)]


@contextmanager
def bucket_clients(arena: Arena) -> Iterator[dict[str, BucketClient]]:
    with railgun_client(arena.cluster(MAIN)) as own, arena.nats_client() as nats:
        yield {RAILGUN: RailgunBuckets(own), NATS: NatsBuckets(nats)}


def new_bucket(client: BucketClient, keys: int = _KEYS) -> str:
    """A bucket that holds so many keys."""
    name = f"B{next(_numbers)}"
    client.create(name)
    client.put(name, [key_of(number) for number in range(keys)], PAYLOAD)
    return name


class _BucketRow(Row):
    """Work on a bucket of 10,000 keys, by both clients."""

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with bucket_clients(arena) as clients:
            yield {name: self.side(client, new_bucket(client), scale) for name, client in clients.items()}

    def side(self, client: BucketClient, bucket: str, scale: Scale) -> Side:
        raise NotImplementedError


def _shown(unit: str, count: int, work: Callable[[], None]) -> Side:
    return (lambda: 1000 / rate(count, work)) if unit == "ms" else (lambda: rate(count, work))


class _Putting(_BucketRow):
    at_once: ClassVar[int] = AT_ONCE

    def side(self, client: BucketClient, bucket: str, scale: Scale) -> Side:
        keys = some_keys(scale.puts if self.at_once > 1 else scale.one_by_one)
        return _shown(self.unit, len(keys), lambda: client.put(bucket, keys, PAYLOAD, self.at_once))


class PutAtOnce(_Putting):
    key, name, unit = "kv-put", "KV put, 256 at once", "puts/s"
    goals: ClassVar[Mapping[str, Goal]] = {NATS: Goal("≥ 1.5 ×", least_ratio=1.5)}


class PutOne(_Putting):
    key, name, unit = "kv-put-one", "KV put, one at a time (mean)", "ms"
    at_once = 1


class _Getting(_BucketRow):
    at_once: ClassVar[int] = AT_ONCE

    def side(self, client: BucketClient, bucket: str, scale: Scale) -> Side:
        keys = some_keys(scale.puts if self.at_once > 1 else scale.one_by_one)
        return _shown(self.unit, len(keys), lambda: client.get(bucket, keys, self.at_once))


class KeyGetAtOnce(_Getting):
    key, name, unit = "kv-get", "KV get, 256 at once", "gets/s"
    goals: ClassVar[Mapping[str, Goal]] = {NATS: Goal("≥ 1 ×", least_ratio=1.0)}


class KeyGetOne(_Getting):
    key, name, unit = "kv-get-one", "KV get, one at a time (mean)", "ms"
    at_once = 1


class CachedGet(Row):
    """A get through the cache beside one that asks the owner."""

    key, name, unit = "kv-cached", "KV get from the cache (mean)", "µs"
    goals: ClassVar[Mapping[str, Goal]] = {"not cached": Goal("≤ 5 µs", most=5)}

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with railgun_client(arena.cluster(MAIN)) as client:
            buckets = RailgunBuckets(client)
            bucket, keys = new_bucket(buckets), some_keys(100_000)
            few = keys[: scale.one_by_one]
            yield {
                RAILGUN: lambda: buckets.cached_get(bucket, keys) / len(keys) * 1e6,
                "not cached": lambda: 1e6 / rate(len(few), lambda: buckets.get(bucket, few, 1)),
            }


class Contention(_BucketRow):
    """Eight clients read a number and write the next one, if nobody was faster."""

    key, name, unit = "kv-contention", "updates of one key by 8 clients that compete", "updates/s"

    def side(self, client: BucketClient, bucket: str, scale: Scale) -> Side:
        each = max(scale.one_by_one // _CLIENTS, 1)
        return lambda: rate(
            each * _CLIENTS, lambda: client.count_up(bucket, f"number-{next(_numbers)}", _CLIENTS, each)
        )


class FanOut(_BucketRow):
    """100 watchers of a bucket see every put."""

    key, name, unit = "kv-watch", "puts seen by 100 watchers", "entries/s"

    def rounds(self, scale: Scale) -> int:
        return min(scale.rounds, 2)  # to open 100 watchers takes longer than what is measured

    def side(self, client: BucketClient, bucket: str, scale: Scale) -> Side:
        puts = scale.gets
        return lambda: _WATCHERS * puts / client.fan_out(bucket, _WATCHERS, puts, PAYLOAD)


# -- a million keys


def _filled(arena: Arena, count: int) -> None:
    """The large bucket, on a cluster and on a nats-server that hold nothing else."""

    def fill(client: BucketClient) -> None:
        client.create(_FULL)
        client.put(_FULL, [key_of(number) for number in range(count)], PAYLOAD, 4 * AT_ONCE)

    def own() -> None:
        with railgun_client(arena.cluster(_LARGE)) as client:
            fill(RailgunBuckets(client))

    def nats() -> None:
        arena.fresh_nats()
        with arena.nats_client() as client:
            fill(NatsBuckets(client))

    arena.once("a million keys", own)
    arena.once("a million keys of nats", nats)


class _OfAMillion(Row):
    warm_up = False

    def rounds(self, scale: Scale) -> int:
        return 1


class KeyMemory(_OfAMillion):
    key, name, unit = "kv-memory", "memory, 1,000,000 keys", "MB"
    goals: ClassVar[Mapping[str, Goal]] = {"nats-server": Goal("≤ 600 MB", most=600)}

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        _filled(arena, scale.many)
        worker = arena.cluster(_LARGE).workers[0]
        yield {RAILGUN: lambda: _resident(worker.pid), "nats-server": lambda: _resident(arena.nats.pid)}


def _resident(pid: int) -> float:
    return psutil.Process(pid).memory_info().rss / 1e6


class KeyGrowth(Row):
    key, name, unit = "kv-growth", "KV get, 256 at once, at 1,000,000 keys", "gets/s"
    goals: ClassVar[Mapping[str, Goal]] = {"railgun at 1,000": Goal("≥ 1 / 1.2", least_ratio=1 / 1.2)}

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        _filled(arena, scale.many)
        with railgun_client(arena.cluster(_LARGE)) as client:
            buckets = RailgunBuckets(client)
            small = new_bucket(buckets, 1_000)

            def side(bucket: str, keys: Sequence[str]) -> Side:
                return lambda: rate(len(keys), lambda: buckets.get(bucket, keys))

            yield {
                RAILGUN: side(_FULL, some_keys(scale.puts, scale.many)),
                "railgun at 1,000": side(small, some_keys(scale.puts, 1_000)),
            }


class ListKeys(_OfAMillion):
    key, name, unit = "kv-keys", "keys() of 1,000,000 keys", "keys/s"

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        _filled(arena, scale.many)
        with railgun_client(arena.cluster(_LARGE)) as client, arena.nats_client() as nats:
            sides: dict[str, BucketClient] = {RAILGUN: RailgunBuckets(client), NATS: NatsBuckets(nats)}
            yield {name: partial(self._listed, one) for name, one in sides.items()}

    @staticmethod
    def _listed(client: BucketClient) -> float:
        """Keys a second, of as many as it lists."""
        begin = time.perf_counter()
        return client.count_keys(_FULL) / (time.perf_counter() - begin)


class KeyRestart(_OfAMillion):
    """From the start of the process to the first answered get, with the disk that it had."""

    key, name, unit = "kv-restart", "restart with 1,000,000 keys, same disk", "s"

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        _filled(arena, scale.many)
        cluster = arena.cluster(_LARGE)
        with railgun_client(cluster) as client:
            buckets = RailgunBuckets(client)

            def own() -> float:
                cluster.workers[0].stop()
                begin = time.perf_counter()
                cluster.start()
                buckets.get(_FULL, [key_of(0)], 1)
                return time.perf_counter() - begin

            def nats() -> float:
                arena.nats.stop()
                begin = time.perf_counter()
                arena.nats.start()
                with arena.nats_client() as other:
                    NatsBuckets(other).get(_FULL, [key_of(0)], 1)
                return time.perf_counter() - begin

            yield {RAILGUN: own, "nats-server": nats}
