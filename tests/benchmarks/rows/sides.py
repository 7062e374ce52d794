"""What rows have in common: the two clients on one stream, and the shapes of work that are timed."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final, Protocol

from tests.benchmarks.arena import Arena
from tests.benchmarks.cluster import Cluster
from tests.benchmarks.consuming import Consumers, Wanted
from tests.benchmarks.contest import RAILGUN
from tests.benchmarks.nats_server import NatsClient
from tests.benchmarks.railgun_client import RailgunClient
from tests.benchmarks.scale import AT_ONCE

NATS: Final = "nats-py"
KAFKA: Final = "raw Kafka"
MAIN: Final = "bench"  # the cluster of the rows that store little
SUBJECTS: Final = 1_000

_numbers = itertools.count(1)


class StreamClient(Protocol):
    """What both clients can do."""

    @property
    def consumers(self) -> Consumers: ...
    def create_stream(
        self, name: str, subjects: Sequence[str], *, duplicate_window: float = 120.0, **allowed: bool
    ) -> None: ...
    def publish_all(
        self, subjects: Sequence[str], payload: bytes, ids: Sequence[str] | None = None
    ) -> None: ...
    def publish_with_headers(
        self, subjects: Sequence[str], payload: bytes, headers: Sequence[dict[str, str]]
    ) -> None: ...
    def publish_expecting(
        self, subjects: Sequence[str], payload: bytes, last_sequences: Sequence[int]
    ) -> None: ...
    def publish_batches(
        self, subject: str, payload: bytes, size: int, batches: int, at_once: int
    ) -> None: ...
    def publish(self, subject: str, payload: bytes) -> None: ...
    def publish_one_by_one(self, subject: str, payload: bytes, count: int) -> list[float]: ...
    def get(self, stream: str, sequences: Sequence[int], *, at_once: int = AT_ONCE) -> None: ...
    def read(self, stream: str, subject: str, count: int) -> None: ...
    def get_last(self, stream: str, subjects: Sequence[str], *, at_once: int = AT_ONCE) -> None: ...


@contextmanager
def railgun_client(cluster: Cluster) -> Iterator[RailgunClient]:
    with closing(RailgunClient(cluster.connect())) as client:
        yield client


@contextmanager
def both(arena: Arena) -> Iterator[dict[str, StreamClient]]:
    """railgun on the main cluster, and nats-py."""
    with railgun_client(arena.cluster(MAIN)) as own, arena.nats_client() as nats:
        peer: NatsClient = nats
        yield {RAILGUN: own, NATS: peer}


def new_stream(client: StreamClient, *, duplicate_window: float = 120.0, **allowed: bool) -> str:
    """A stream that nobody has used; it captures everything below its own name in lower case."""
    name = f"S{next(_numbers)}"
    client.create_stream(name, [f"{name.lower()}.>"], duplicate_window=duplicate_window, **allowed)
    return name


def subject_of(stream: str, number: int = 0) -> str:
    return f"{stream.lower()}.orders.{number}"


def many_subjects(stream: str, count: int, kinds: int = SUBJECTS) -> list[str]:
    """So many subjects in turn."""
    names = [subject_of(stream, number) for number in range(kinds)]
    return [names[number % kinds] for number in range(count)]


def new_consumer(client: StreamClient, stream: str, wanted: Wanted = Wanted()) -> str:  # noqa: B008 - a value
    """One that has seen nothing yet."""
    name = f"C{next(_numbers)}"
    client.consumers.create(stream, name, wanted)
    return name


def new_ids(count: int) -> list[str]:
    """Message ids that no other call gives."""
    head = next(_numbers)
    return [f"{head}-{number}" for number in range(count)]


def rate(count: int, work: Callable[[], None]) -> float:
    """How many a second."""
    begin = time.perf_counter()
    work()
    return count / (time.perf_counter() - begin)


def median_ms(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * 1000
