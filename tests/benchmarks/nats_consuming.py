"""nats-py's side of the consumer rows: coroutines on a JetStream context, run by the client's own loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from tests.benchmarks.consuming import FETCH, IN_FLIGHT, PACE, PATIENCE, SILENCE, Wanted


class NatsConsumers:
    """See :class:`tests.benchmarks.consuming.Consumers`."""

    def __init__(self, jetstream: Any, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._jetstream, self._run = jetstream, run

    def create(self, stream: str, name: str, wanted: Wanted = Wanted()) -> None:  # noqa: B008 - a value
        config = ConsumerConfig(
            durable_name=name,
            ack_policy=AckPolicy.EXPLICIT,
            max_ack_pending=IN_FLIGHT,
            filter_subject=wanted.filter_subject,
            deliver_policy=DeliverPolicy.NEW if wanted.new_only else DeliverPolicy.ALL,
            deliver_subject=f"deliver.{name}" if wanted.push else None,
        )
        self._run(self._jetstream.add_consumer(stream, config))

    def delete(self, stream: str, name: str) -> None:
        self._run(self._jetstream.delete_consumer(stream, name))

    def fetch_and_ack(self, stream: str, name: str, count: int, batch: int = FETCH) -> None:
        async def work() -> None:
            subscription = await self._pull(stream, name)
            taken = 0
            while taken < count:
                messages = await subscription.fetch(min(batch, count - taken), timeout=PATIENCE)
                for message in messages:
                    await message.ack()
                taken += len(messages)
            await self._acked(stream, name)
            await subscription.unsubscribe()

        self._run(work())

    def hold_and_ack(self, stream: str, name: str, count: int) -> None:
        async def work() -> None:
            subscription = await self._pull(stream, name)
            held: list[Any] = []
            while len(held) < count:
                held += await subscription.fetch(min(FETCH, count - len(held)), timeout=PATIENCE)
            for message in held:
                await message.ack()
            await self._acked(stream, name)
            await subscription.unsubscribe()

        self._run(work())

    def handle(self, stream: str, name: str, count: int) -> None:
        async def work() -> None:
            taken, done = 0, asyncio.Event()

            async def handler(message: Any) -> None:
                nonlocal taken
                await message.ack()
                taken += 1
                if taken == count:
                    done.set()

            subscription = await self._pushed(stream, name, handler)
            await asyncio.wait_for(done.wait(), PATIENCE + count / 1_000)
            await self._acked(stream, name)
            await subscription.unsubscribe()

        self._run(work())

    def handled_one_by_one(
        self, stream: str, name: str, subject: str, payload: bytes, count: int
    ) -> list[float]:
        async def work() -> list[float]:
            handled: list[float] = []
            called = asyncio.Event()

            async def handler(message: Any) -> None:
                handled.append(time.perf_counter())
                called.set()
                await message.ack()

            subscription = await self._pushed(stream, name, handler)
            taken = []
            for _ in range(count):
                called.clear()
                begin = time.perf_counter()
                await self._jetstream.publish(subject, payload)
                await asyncio.wait_for(called.wait(), PATIENCE)
                taken.append(handled[-1] - begin)
                await asyncio.sleep(PACE)
            await subscription.unsubscribe()
            return taken

        return self._run(work())  # type: ignore[no-any-return]

    def take_until_silence(self, stream: str, name: str) -> tuple[int, float]:
        async def work() -> tuple[int, float]:
            subscription = await self._pull(stream, name)
            taken, last = 0, time.monotonic()
            while True:
                try:
                    messages = await subscription.fetch(FETCH, timeout=SILENCE)
                except TimeoutError:
                    await subscription.unsubscribe()
                    return taken, last
                for message in messages:
                    await message.ack()
                taken, last = taken + len(messages), time.monotonic()

        return self._run(work())  # type: ignore[no-any-return]

    async def _pull(self, stream: str, name: str) -> Any:
        return await self._jetstream.pull_subscribe_bind(name, stream)

    async def _pushed(self, stream: str, name: str, handler: Callable[[Any], Any]) -> Any:
        info = await self._jetstream.consumer_info(stream, name)
        return await self._jetstream.subscribe_bind(stream, info.config, name, cb=handler, manual_ack=True)

    async def _acked(self, stream: str, name: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while (await self._jetstream.consumer_info(stream, name)).num_ack_pending:
            if time.monotonic() > deadline:
                raise RuntimeError("not every ack has arrived")
            await asyncio.sleep(0.002)
