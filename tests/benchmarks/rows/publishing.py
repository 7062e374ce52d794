"""Publishing: pipelined against nats-py and a raw producer, one at a time against the floor."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import ClassVar

from tests.benchmarks.arena import Arena
from tests.benchmarks.contest import RAILGUN, Row, Side
from tests.benchmarks.raw_kafka import AckedProducer, Floor
from tests.benchmarks.results import Goal
from tests.benchmarks.rows.sides import (
    KAFKA,
    NATS,
    StreamClient,
    both,
    many_subjects,
    median_ms,
    new_ids,
    new_stream,
    rate,
    subject_of,
)
from tests.benchmarks.scale import PAYLOAD, Scale

_THREE_TIMES = {NATS: Goal("≥ 3 ×", least_ratio=3)}


class Pipelined(Row):
    key, name, unit = "pipelined", "pipelined acked publish", "messages/s"
    goals = _THREE_TIMES
    kinds = 1  # of subjects
    with_ids = False

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with both(arena) as clients:
            sides = {name: self._side(client, scale.pipelined) for name, client in clients.items()}
            if not self.with_ids:
                producer = AckedProducer(arena.bootstrap)
                subjects = many_subjects("raw", scale.pipelined, self.kinds)
                sides[KAFKA] = lambda: rate(scale.pipelined, lambda: producer.publish_all(subjects, PAYLOAD))
            yield sides

    def _side(self, client: StreamClient, count: int) -> Side:
        subjects = many_subjects(new_stream(client), count, self.kinds)

        def one_round() -> float:
            ids = new_ids(count) if self.with_ids else None
            return rate(count, lambda: client.publish_all(subjects, PAYLOAD, ids))

        return one_round


class PipelinedIds(Pipelined):
    key, name = "pipelined-ids", "pipelined acked publish with message ids"
    with_ids = True


class PipelinedSubjects(Pipelined):
    key, name = "pipelined-subjects", "pipelined acked publish, 1,000 subjects"
    goals: ClassVar[Mapping[str, Goal]] = {}
    kinds = 1_000


class OneAtATime(Row):
    key, name, unit = "one", "one publish at a time (median)", "ms"
    goals: ClassVar[Mapping[str, Goal]] = {KAFKA: Goal("≤ 1.3 ×", most_ratio=1.3)}

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with both(arena) as clients, closing(Floor(arena.bootstrap)) as floor:
            count = scale.one_by_one

            def raw() -> float:
                taken = []
                for _ in range(count):
                    begin = time.perf_counter()
                    floor.publish(PAYLOAD)
                    taken.append(time.perf_counter() - begin)
                return median_ms(taken)

            own, nats = (self._side(client, count) for client in clients.values())
            yield {RAILGUN: own, KAFKA: raw, NATS: nats}

    def _side(self, client: StreamClient, count: int) -> Side:
        subject = subject_of(new_stream(client))
        return lambda: median_ms(client.publish_one_by_one(subject, PAYLOAD, count))
