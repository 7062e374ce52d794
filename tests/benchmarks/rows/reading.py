"""Getting single messages: by sequence, and the last of a subject; many at once, and one at a time. Reading in order."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from tests.benchmarks.arena import Arena
from tests.benchmarks.contest import RAILGUN, Row, Side
from tests.benchmarks.results import Goal
from tests.benchmarks.rows.sides import (
    NATS,
    SUBJECTS,
    StreamClient,
    both,
    many_subjects,
    new_stream,
    railgun_client,
    rate,
    subject_of,
)
from tests.benchmarks.rows.stock import STREAM, stocked_cluster, stocked_nats
from tests.benchmarks.scale import AT_ONCE, PAYLOAD, Scale

_STORED = 10_000
_EVENTS = 20
_AS_FAST = {NATS: Goal("≥ 1 ×", least_ratio=1)}
Lookup = Callable[[], None]


def by_sequence(client: StreamClient, stream: str, stored: int, count: int, at_once: int = AT_ONCE) -> Lookup:
    """Gets of sequences drawn at random, the same for every side."""
    draw = random.Random(count)
    sequences = [draw.randint(1, stored) for _ in range(count)]
    return lambda: client.get(stream, sequences, at_once=at_once)


def by_subject(client: StreamClient, stream: str, stored: int, count: int, at_once: int = AT_ONCE) -> Lookup:
    """Gets of the last message of subjects drawn at random, the same for every side."""
    draw = random.Random(count)
    subjects = [subject_of(stream, draw.randrange(min(stored, SUBJECTS))) for _ in range(count)]
    return lambda: client.get_last(stream, subjects, at_once=at_once)


class _Reading(Row):
    at_once: ClassVar[int]

    @staticmethod
    @abstractmethod
    def lookup(client: StreamClient, stream: str, stored: int, count: int, at_once: int) -> Lookup: ...

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with both(arena) as clients:
            yield {name: self._side(client, scale) for name, client in clients.items()}

    def _side(self, client: StreamClient, scale: Scale) -> Side:
        stream = new_stream(client)
        client.publish_all(many_subjects(stream, _STORED), PAYLOAD)
        # One at a time takes long: fewer of them.
        count = scale.gets if self.at_once > 1 else scale.one_by_one
        work = self.lookup(client, stream, _STORED, count, self.at_once)
        if self.unit == "ms":
            return lambda: 1000 / rate(count, work)
        return lambda: rate(count, work)


class GetAtOnce(_Reading):
    key, name, unit = "get", "get by sequence, 256 at once", "messages/s"
    goals: ClassVar[Mapping[str, Goal]] = _AS_FAST
    at_once = AT_ONCE
    lookup = staticmethod(by_sequence)


class LastAtOnce(_Reading):
    key, name, unit = "last", "get last for subject, 256 at once", "messages/s"
    goals: ClassVar[Mapping[str, Goal]] = _AS_FAST
    at_once = AT_ONCE
    lookup = staticmethod(by_subject)


class GetOne(_Reading):
    key, name, unit = "get-one", "get by sequence, one at a time (mean)", "ms"
    at_once = 1
    lookup = staticmethod(by_sequence)


class LastOne(_Reading):
    key, name, unit = "last-one", "get last for subject, one at a time (mean)", "ms"
    at_once = 1
    lookup = staticmethod(by_subject)


class ReadFew(Row):
    key, name, unit = "read-20", "read the 20 messages of a subject, of 20,000", "reads/s"

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with both(arena) as clients:
            yield {name: self._side(client, scale.one_by_one) for name, client in clients.items()}

    @staticmethod
    def _side(client: StreamClient, count: int) -> Side:
        stream = new_stream(client)
        client.publish_all(many_subjects(stream, _EVENTS * SUBJECTS), PAYLOAD)
        draw = random.Random(count)
        subjects = [subject_of(stream, draw.randrange(SUBJECTS)) for _ in range(count)]

        def read() -> None:
            for subject in subjects:
                client.read(stream, subject, _EVENTS)

        return lambda: rate(count, read)


class ReadAll(Row):
    key, name, unit = "read-all", "read 1,000,000 messages in order", "messages/s"
    goals: ClassVar[Mapping[str, Goal]] = _AS_FAST
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
        return lambda: rate(count, lambda: client.read(STREAM, ">", count))
