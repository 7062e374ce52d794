"""Consumers of a very long stream: working through all of it, and what a fetch costs with all that around it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final

from tests.benchmarks.arena import Arena
from tests.benchmarks.consuming import Wanted
from tests.benchmarks.contest import RAILGUN, Row, Side
from tests.benchmarks.railgun_client import RailgunClient
from tests.benchmarks.results import Goal
from tests.benchmarks.rows.consuming import iterate_or_fetch, with_new_consumer
from tests.benchmarks.rows.growth import SMALL, WITHIN, small_stream
from tests.benchmarks.rows.sides import (
    NATS,
    StreamClient,
    many_subjects,
    new_consumer,
    railgun_client,
    rate,
)
from tests.benchmarks.rows.stock import STREAM, stocked_cluster, stocked_nats
from tests.benchmarks.scale import PAYLOAD, Scale

_BATCH: Final = 10
_BEHIND: Final = "BEHIND"  # a consumer that has done everything


class CatchUp(Row):
    key, name, unit = "catch-up", "catch-up over 1,000,000 messages", "messages/s"
    warm_up = False

    def rounds(self, scale: Scale) -> int:
        return min(scale.rounds, 2)

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        stocked_nats(arena, scale.many)
        with railgun_client(stocked_cluster(arena, scale.many)) as own, arena.nats_client() as nats:
            clients: dict[str, StreamClient] = {RAILGUN: own, NATS: nats}
            yield {name: self._side(client, scale.many) for name, client in clients.items()}

    @staticmethod
    def _side(client: StreamClient, count: int) -> Side:
        return with_new_consumer(
            client,
            STREAM,
            Wanted(),
            lambda name: rate(count, lambda: iterate_or_fetch(client, STREAM, name, count)),
        )


class _FetchGrowth(Row):
    """Few messages are published, then fetched ten at a time; the time of the fetches and acks counts."""

    unit = "fetches/s"
    goals: ClassVar[Mapping[str, Goal]] = {SMALL: WITHIN}

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with railgun_client(stocked_cluster(arena, scale.many)) as client:
            large = self.consumer(arena, client, scale)

            def at_few() -> float:
                stream = small_stream(client, scale.few)
                return _fetches(client, stream, new_consumer(client, stream, Wanted(new_only=True)), scale)

            yield {RAILGUN: lambda: _fetches(client, STREAM, large, scale), SMALL: at_few}

    @abstractmethod
    def consumer(self, arena: Arena, client: RailgunClient, scale: Scale) -> str: ...


class FetchGrowth(_FetchGrowth):
    key, name = "growth-fetch", "fetch(10) + ack at 1,000,000 stored"

    def consumer(self, arena: Arena, client: RailgunClient, scale: Scale) -> str:
        return new_consumer(client, STREAM, Wanted(new_only=True))


class FloorGrowth(_FetchGrowth):
    key, name = "growth-floor", "fetch(10) + ack with 1,000,000 behind the floor"

    def consumer(self, arena: Arena, client: RailgunClient, scale: Scale) -> str:
        arena.once(_BEHIND, lambda: client.consumers.create(STREAM, _BEHIND))
        left = client.sync.stream(STREAM).consumer(_BEHIND).info().num_pending
        if left:
            client.consumers.iterate_and_ack(STREAM, _BEHIND, left)
        return _BEHIND


def _fetches(client: StreamClient, stream: str, name: str, scale: Scale) -> float:
    count = scale.fetches * _BATCH
    client.publish_all(many_subjects(stream, count), PAYLOAD)
    return rate(scale.fetches, lambda: client.consumers.fetch_and_ack(stream, name, count, _BATCH))
