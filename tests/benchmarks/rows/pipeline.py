"""A step of a pipeline, exactly once: take a message, publish its result to another stream, be done with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import railgun
from tests.benchmarks.arena import Arena
from tests.benchmarks.consuming import PATIENCE
from tests.benchmarks.contest import RAILGUN, Row, Side
from tests.benchmarks.nats_server import NatsClient
from tests.benchmarks.railgun_client import RailgunClient
from tests.benchmarks.results import Goal
from tests.benchmarks.rows.sides import (
    MAIN,
    NATS,
    StreamClient,
    many_subjects,
    new_consumer,
    new_stream,
    railgun_client,
    rate,
    subject_of,
)
from tests.benchmarks.scale import AT_ONCE, PAYLOAD, Scale
from tests.support.waiting import wait_until

Work = Callable[[str, str, str, int], None]  # stream, consumer, stream of the results, how many messages


class HandingOver(Row):
    """railgun: a transaction of each message. nats-py: a publish with an id, then a confirmed ack. Both work on 256 at once."""

    key, name, unit = "pipeline", "take, publish a result, ack, exactly once", "messages/s"
    goals: ClassVar[Mapping[str, Goal]] = {NATS: Goal("≥ 1 ×", least_ratio=1)}

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with railgun_client(arena.cluster(MAIN)) as own, arena.nats_client() as nats:
            peer: NatsClient = nats
            yield {
                RAILGUN: _side(own, lambda *given: _in_transactions(own, *given), scale),
                NATS: _side(peer, lambda *given: _with_ids(peer, *given), scale),
            }


def _side(client: StreamClient, work: Work, scale: Scale) -> Side:
    count = scale.consumed
    stream = new_stream(client)
    client.publish_all(many_subjects(stream, count, 1), PAYLOAD)

    def one_round() -> float:
        target, name = new_stream(client), new_consumer(client, stream)
        try:
            return rate(count, lambda: work(stream, name, target, count))
        finally:
            client.consumers.delete(stream, name)

    return one_round


def _in_transactions(client: RailgunClient, stream: str, name: str, target: str, count: int) -> None:
    subject = subject_of(target)

    async def step(message: railgun.AsyncMessage) -> None:
        async with message.transaction() as t:
            t.publish(subject, message.payload)

    async def work() -> None:
        consumer = railgun.AsyncRailgun(client.sync.connection).stream(stream).consumer(name)
        done = 0
        while done < count:
            messages = await consumer.fetch(min(AT_ONCE, count - done), wait=PATIENCE)
            if not messages:
                raise RuntimeError(f"{done} of {count} messages came")
            await asyncio.gather(*map(step, messages))
            done += len(messages)

    asyncio.run(work())
    results = client.sync.stream(target)
    wait_until(lambda: results.info().state.messages == count, "every result is stored", pause=0.002)


def _with_ids(client: NatsClient, stream: str, name: str, target: str, count: int) -> None:
    subject, jetstream = subject_of(target), client.consumers._jetstream

    async def step(message: Any) -> None:
        identity = f"{stream} {message.metadata.sequence.stream}"
        await jetstream.publish(subject, message.data, headers={"Nats-Msg-Id": identity})
        await message.ack_sync(PATIENCE)

    async def work() -> None:
        subscription = await jetstream.pull_subscribe_bind(name, stream)
        done = 0
        while done < count:
            messages = await subscription.fetch(min(AT_ONCE, count - done), timeout=PATIENCE)
            await asyncio.gather(*map(step, messages))
            done += len(messages)
        await subscription.unsubscribe()

    client.consumers._run(work())
