"""Key-value buckets of both clients, with the few verbs that rows need. Sync outside, asyncio inside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, cast

from nats.js.errors import KeyWrongLastSequenceError

import railgun
from tests.benchmarks.nats_server import NatsClient, always_so_many, in_waves
from tests.benchmarks.railgun_client import RailgunClient
from tests.benchmarks.scale import AT_ONCE

Pair = tuple[str, bytes]


class BucketClient(Protocol):
    """What both can do with a bucket."""

    def create(self, bucket: str) -> None: ...
    def put(self, bucket: str, keys: Sequence[str], value: bytes, at_once: int = AT_ONCE) -> None: ...
    def get(self, bucket: str, keys: Sequence[str], at_once: int = AT_ONCE) -> None: ...
    def count_up(self, bucket: str, key: str, clients: int, each: int) -> None: ...
    def fan_out(self, bucket: str, watchers: int, puts: int, value: bytes) -> float: ...
    def count_keys(self, bucket: str) -> int: ...


class _Watching:
    """Counts what the watchers of one round have seen."""

    def __init__(self, wanted: int) -> None:
        self._left = wanted
        self.all_seen = asyncio.Event()

    def saw(self) -> None:
        self._left -= 1
        if not self._left:
            self.all_seen.set()


async def _count_up(
    read: Callable[[], Awaitable[tuple[int, int]]],
    write: Callable[[int, int], Awaitable[bool]],
    clients: int,
    each: int,
) -> None:
    """So many clients read the number in a key and write the next one, until each was the first so often."""

    async def one(_: int) -> None:
        done = 0
        while done < each:
            number, revision = await read()
            done += await write(number + 1, revision)

    await always_so_many(one, range(clients), clients)
    number, _ = await read()
    if number != clients * each:
        raise RuntimeError(f"the key holds {number} after {clients * each} updates")


class RailgunBuckets:
    def __init__(self, client: RailgunClient) -> None:
        self._client = client
        self._known: dict[str, railgun.AsyncBucket] = {}

    def _bucket(self, name: str) -> railgun.AsyncBucket:
        if name not in self._known:
            self._known[name] = self._client.run(self._client.aio.bucket(name))
        return self._known[name]

    def create(self, bucket: str) -> None:
        self._known[bucket] = self._client.run(self._client.aio.create_bucket(bucket))

    def put(self, bucket: str, keys: Sequence[str], value: bytes, at_once: int = AT_ONCE) -> None:
        chosen = self._bucket(bucket)
        self._client.run(always_so_many(lambda key: chosen.put(key, value), keys, at_once))

    def get(self, bucket: str, keys: Sequence[str], at_once: int = AT_ONCE) -> None:
        self._client.run(always_so_many(self._bucket(bucket).get, keys, at_once))

    def cached_get(self, bucket: str, keys: Sequence[str]) -> float:
        """Seconds of all gets, once the cache is ready."""
        with self._client.sync.bucket(bucket).cached() as cached:
            while not cached.ready:
                time.sleep(0.01)
            begin = time.perf_counter()
            for key in keys:
                cached.get(key)
            return time.perf_counter() - begin

    def count_up(self, bucket: str, key: str, clients: int, each: int) -> None:
        chosen = self._bucket(bucket)

        async def read() -> tuple[int, int]:
            entry = await chosen.get(key)
            return int(entry.value), entry.revision

        async def write(number: int, revision: int) -> bool:
            try:
                await chosen.update(key, b"%d" % number, revision)
            except railgun.KeyWrongLastSequence:
                return False
            return True

        async def work() -> None:
            await chosen.put(key, b"0")
            await _count_up(read, write, clients, each)

        self._client.run(work())

    def fan_out(self, bucket: str, watchers: int, puts: int, value: bytes) -> float:
        """Seconds until every watcher has seen every put."""
        chosen = self._bucket(bucket)

        async def work() -> float:
            watching, ready = _Watching(watchers * puts), _Watching(watchers)
            tasks = [asyncio.create_task(watch(watching, ready)) for _ in range(watchers)]
            await ready.all_seen.wait()
            begin = time.perf_counter()
            await in_waves(lambda number: chosen.put(f"k{number}", value), range(puts), AT_ONCE)
            await watching.all_seen.wait()
            taken = time.perf_counter() - begin
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return taken

        async def watch(watching: _Watching, ready: _Watching) -> None:
            async with chosen.watch_all(updates_only=True) as entries:
                ready.saw()
                async for entry in entries.updates():
                    if entry is not None:
                        watching.saw()

        return self._client.run(work())

    def count_keys(self, bucket: str) -> int:
        return sum(1 for _ in self._client.sync.bucket(bucket).keys())


class NatsBuckets:
    def __init__(self, client: NatsClient) -> None:
        self._client = client
        self._known: dict[str, Any] = {}

    def _bucket(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = self._client.run(self._client.jetstream.key_value(name))
        return self._known[name]

    def create(self, bucket: str) -> None:
        self._known[bucket] = self._client.run(self._client.jetstream.create_key_value(bucket=bucket))

    def put(self, bucket: str, keys: Sequence[str], value: bytes, at_once: int = AT_ONCE) -> None:
        chosen = self._bucket(bucket)
        self._client.run(always_so_many(lambda key: chosen.put(key, value), keys, at_once))

    def get(self, bucket: str, keys: Sequence[str], at_once: int = AT_ONCE) -> None:
        self._client.run(always_so_many(self._bucket(bucket).get, keys, at_once))

    def count_up(self, bucket: str, key: str, clients: int, each: int) -> None:
        chosen = self._bucket(bucket)

        async def read() -> tuple[int, int]:
            entry = await chosen.get(key)
            return int(entry.value), entry.revision

        async def write(number: int, revision: int) -> bool:
            try:
                await chosen.update(key, b"%d" % number, revision)
            except KeyWrongLastSequenceError:
                return False
            return True

        async def work() -> None:
            await chosen.put(key, b"0")
            await _count_up(read, write, clients, each)

        self._client.run(work())

    def fan_out(self, bucket: str, watchers: int, puts: int, value: bytes) -> float:
        chosen = self._bucket(bucket)

        async def work() -> float:
            watching = _Watching(watchers * puts)
            opened = [await chosen.watchall(ignore_deletes=True) for _ in range(watchers)]
            for one in opened:
                while await one.updates(timeout=30) is not None:
                    pass  # what was there before
            tasks = [asyncio.create_task(watch(one, watching)) for one in opened]
            begin = time.perf_counter()
            await in_waves(lambda number: chosen.put(f"k{number}", value), range(puts), AT_ONCE)
            await watching.all_seen.wait()
            taken = time.perf_counter() - begin
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for one in opened:
                await one.stop()
            return taken

        async def watch(one: Any, watching: _Watching) -> None:
            while True:
                if await one.updates(timeout=300) is not None:
                    watching.saw()

        return cast("float", self._client.run(work()))

    def count_keys(self, bucket: str) -> int:
        return len(self._client.run(self._bucket(bucket).keys()))
