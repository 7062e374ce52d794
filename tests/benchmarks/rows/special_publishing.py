"""Publishes that ask for more than to be stored: headers, conditions, increments of counters, atomic batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count as numbers
from itertools import cycle, islice
from typing import ClassVar, Final

from tests.benchmarks.arena import Arena
from tests.benchmarks.contest import Row, Side
from tests.benchmarks.results import Goal
from tests.benchmarks.rows.sides import (
    NATS,
    SUBJECTS,
    StreamClient,
    both,
    many_subjects,
    new_stream,
    rate,
    subject_of,
)
from tests.benchmarks.scale import PAYLOAD, Scale

_MOST_AT_ONCE: Final = 48  # nats-server takes 50 of one stream


class _Special(Row):
    """Both clients, each on a stream of its own."""

    unit = "messages/s"

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with both(arena) as clients:
            yield {name: self._side(client, scale.pipelined) for name, client in clients.items()}

    @abstractmethod
    def _side(self, client: StreamClient, count: int) -> Side: ...


class PipelinedHeaders(_Special):
    key, name = "pipelined-headers", "pipelined acked publish with two headers"
    goals: ClassVar[Mapping[str, Goal]] = {NATS: Goal("≥ 1.5 ×", least_ratio=1.5)}

    def _side(self, client: StreamClient, count: int) -> Side:
        subjects = many_subjects(new_stream(client), count, 1)
        headers = [{"Content-Type": "text/plain", "Trace-Id": f"trace-{number}"} for number in range(count)]
        return lambda: rate(count, lambda: client.publish_with_headers(subjects, PAYLOAD, headers))


class PipelinedConditions(_Special):
    key, name = "pipelined-conditions", "pipelined acked publish with a condition, 1,000 subjects"
    goals = PipelinedHeaders.goals

    def _side(self, client: StreamClient, count: int) -> Side:
        subjects = cycle(many_subjects(new_stream(client), SUBJECTS))
        sequences = numbers(1)

        def one_round() -> float:
            """Nobody else publishes, so the last sequence of each subject is known before it is answered."""
            chosen = list(islice(subjects, count))
            expected = [max(0, sequence - SUBJECTS) for sequence in islice(sequences, count)]
            return rate(count, lambda: client.publish_expecting(chosen, PAYLOAD, expected))

        return one_round


class Counting(_Special):
    key, name = "counters", "pipelined increments of one counter"
    goals: ClassVar[Mapping[str, Goal]] = {NATS: Goal("≥ 2 ×", least_ratio=2)}
    kinds = 1

    def _side(self, client: StreamClient, count: int) -> Side:
        stream = new_stream(client, allow_msg_counter=True)
        subjects = cycle([subject_of(stream, number) for number in range(self.kinds)])
        increments = [{"Nats-Incr": "+1"}] * count

        def one_round() -> float:
            chosen = list(islice(subjects, count))
            return rate(count, lambda: client.publish_with_headers(chosen, b"", increments))

        return one_round


class CountingMany(Counting):
    key, name = "counters-many", "pipelined increments, 100,000 counters"
    kinds = 100_000


class BatchesOf100(_Special):
    key, name = "batches", f"atomic batches of 100, {_MOST_AT_ONCE} at once"
    goals: ClassVar[Mapping[str, Goal]] = {NATS: Goal("≥ 3 ×", least_ratio=3)}
    size, at_once = 100, _MOST_AT_ONCE
    # Of a round of less than a second the first and the last batches, when few are on their way, would be a tenth.
    longer: Final = 3

    def _side(self, client: StreamClient, count: int) -> Side:
        subject = subject_of(new_stream(client, allow_atomic=True))
        batches = self.longer * count // self.size

        def one_round() -> float:
            return rate(
                batches * self.size,
                lambda: client.publish_batches(subject, PAYLOAD, self.size, batches, self.at_once),
            )

        return one_round


class FewBatchesOf100(BatchesOf100):
    """A third of that: more of the time goes by between a batch and its ack."""

    key, name = "batches-few", "atomic batches of 100, 16 at once"
    goals: ClassVar[Mapping[str, Goal]] = {}
    at_once = 16


class BatchesOf1000(FewBatchesOf100):
    key, name = "batches-large", "atomic batches of 1,000, 16 at once"
    size = 1_000
