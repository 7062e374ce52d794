"""Cost must not grow with what is stored: the same work on a stream with few and on one with very many messages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final

from tests.benchmarks.arena import Arena
from tests.benchmarks.contest import RAILGUN, Row, Side
from tests.benchmarks.results import Goal
from tests.benchmarks.rows.reading import by_sequence, by_subject
from tests.benchmarks.rows.sides import (
    StreamClient,
    many_subjects,
    new_ids,
    new_stream,
    railgun_client,
    rate,
)
from tests.benchmarks.rows.stock import STREAM, stocked_cluster
from tests.benchmarks.scale import PAYLOAD, Scale

SMALL: Final = "railgun at 1,000"
WITHIN = Goal("≥ 1 / 1.2", least_ratio=1 / 1.2)


class _Growth(Row):
    unit = "messages/s"
    goals: ClassVar[Mapping[str, Goal]] = {SMALL: WITHIN}

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with railgun_client(stocked_cluster(arena, scale.many)) as client:
            yield {
                RAILGUN: lambda: self.work(client, STREAM, scale.many, scale),
                SMALL: lambda: self.work(client, small_stream(client, scale.few), scale.few, scale),
            }

    @abstractmethod
    def work(self, client: StreamClient, stream: str, stored: int, scale: Scale) -> float: ...


class PublishGrowth(_Growth):
    key, name = "growth-publish", "pipelined publish with ids at 1,000,000 stored"

    def work(self, client: StreamClient, stream: str, stored: int, scale: Scale) -> float:
        count = scale.pipelined
        subjects, ids = many_subjects(stream, count), new_ids(count)
        return rate(count, lambda: client.publish_all(subjects, PAYLOAD, ids))


class GetGrowth(_Growth):
    key, name = "growth-get", "get by sequence at 1,000,000 stored"

    def work(self, client: StreamClient, stream: str, stored: int, scale: Scale) -> float:
        return rate(scale.gets, by_sequence(client, stream, stored, scale.gets))


class LastGrowth(_Growth):
    key, name = "growth-last", "get last for subject at 1,000,000 stored"

    def work(self, client: StreamClient, stream: str, stored: int, scale: Scale) -> float:
        return rate(scale.gets, by_subject(client, stream, stored, scale.gets))


def small_stream(client: StreamClient, count: int) -> str:
    """A fresh one each round: publishing would make an old one large."""
    stream = new_stream(client, duplicate_window=24 * 3600.0)
    client.publish_all(many_subjects(stream, count), PAYLOAD, new_ids(count))
    return stream
