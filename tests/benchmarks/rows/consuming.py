"""Consuming what is stored: fetch, messages(), push, handlers, competitors, filters, many in flight, idle consumers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import ClassVar, Final

from railgun.protocol.topics import Names
from tests.benchmarks.arena import Arena
from tests.benchmarks.competitor import Competitors, open_nats, open_railgun
from tests.benchmarks.consuming import Wanted
from tests.benchmarks.contest import RAILGUN, Row, Side
from tests.benchmarks.railgun_client import RailgunClient
from tests.benchmarks.raw_kafka import read_in_bulk, read_one_by_one
from tests.benchmarks.results import Goal
from tests.benchmarks.rows.sides import (
    MAIN,
    NATS,
    StreamClient,
    both,
    many_subjects,
    median_ms,
    new_consumer,
    new_stream,
    rate,
    subject_of,
)
from tests.benchmarks.scale import PAYLOAD, Scale

_KINDS: Final = 100  # of subjects where a filter wants one of them
_IDLE: Final = 100
_LOOP: Final = "raw Kafka, poll loop"
_BULK: Final = "raw Kafka, tuned, 10,000 at a time"
_ACK: Final = "railgun, publish to ack"
_WITHOUT: Final = "railgun without them"


class _Consuming(Row):
    """Each round a new consumer works through a stream that both sides filled before."""

    unit = "messages/s"
    wanted: ClassVar[Wanted] = Wanted()

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with both(arena) as clients:
            yield {name: self.side(client, scale) for name, client in clients.items()}

    def side(self, client: StreamClient, scale: Scale) -> Side:
        count = self.count(scale)
        stream = _filled(client, count)
        return with_new_consumer(
            client,
            stream,
            self.wanted,
            lambda name: rate(count, lambda: self.work(client, stream, name, count)),
        )

    def count(self, scale: Scale) -> int:
        return scale.consumed

    @abstractmethod
    def work(self, client: StreamClient, stream: str, name: str, count: int) -> None: ...


class Fetching(_Consuming):
    key, name = "fetch", "fetch(500) + ack"
    goals: ClassVar[Mapping[str, Goal]] = {NATS: Goal("≥ 2 ×", least_ratio=2)}

    def work(self, client: StreamClient, stream: str, name: str, count: int) -> None:
        client.consumers.fetch_and_ack(stream, name, count)


class Iterating(_Consuming):
    """nats-py has no ``messages()``: its side fetches 500 at a time. Raw Kafka reads such a log and decides nothing."""

    key, name = "messages", "messages() + ack"
    goals: ClassVar[Mapping[str, Goal]] = {
        NATS: Goal("≥ 4 ×", least_ratio=4),
        _LOOP: Goal("≥ 0.6 ×", least_ratio=0.6),
    }

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with super().sides(arena, scale) as sides:
            cluster, count, bootstrap = arena.cluster(MAIN), self.count(scale), arena.bootstrap
            with cluster.connect() as rg:
                own = RailgunClient(rg)
                topic = Names(cluster.prefix).log(_filled(own, count))
                sides[_LOOP] = lambda: rate(count, lambda: read_one_by_one(bootstrap, topic, count))
                sides[_BULK] = lambda: rate(count, lambda: read_in_bulk(bootstrap, topic, count))
                yield sides

    def count(self, scale: Scale) -> int:
        return scale.iterated

    def work(self, client: StreamClient, stream: str, name: str, count: int) -> None:
        iterate_or_fetch(client, stream, name, count)


class Pushing(_Consuming):
    key, name = "push", "push to a handler + ack"
    wanted = Wanted(push=True)

    def work(self, client: StreamClient, stream: str, name: str, count: int) -> None:
        client.consumers.handle(stream, name, count)


class InFlight(_Consuming):
    key, name = "in-flight", "10,000 in flight, then acked"

    def count(self, scale: Scale) -> int:
        return scale.in_flight

    def work(self, client: StreamClient, stream: str, name: str, count: int) -> None:
        client.consumers.hold_and_ack(stream, name, count)


class Filtered(_Consuming):
    """The rate is that of the messages that are wanted."""

    key, name = "filtered", "fetch(500) + ack of 1 % of the messages"
    goals: ClassVar[Mapping[str, Goal]] = {NATS: Goal("≥ 1 ×", least_ratio=1)}

    def side(self, client: StreamClient, scale: Scale) -> Side:
        stream = _filled(client, scale.sparse)
        wanted, count = Wanted(filter_subject=subject_of(stream, 7)), scale.sparse // _KINDS
        return with_new_consumer(
            client, stream, wanted, lambda name: rate(count, lambda: self.work(client, stream, name, count))
        )

    def work(self, client: StreamClient, stream: str, name: str, count: int) -> None:
        client.consumers.fetch_and_ack(stream, name, count)


class Competing(Row):
    key, name, unit = "competing", "four competing clients, fetch(500) + ack", "messages/s"

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        cluster = arena.cluster(MAIN)
        openers = {
            RAILGUN: partial(open_railgun, cluster.bootstrap, cluster.prefix),
            NATS: partial(open_nats, arena.nats.url),
        }
        with both(arena) as clients, ExitStack() as stack:
            yield {
                name: self._side(clients[name], stack.enter_context(Competitors(opener)), scale.consumed)
                for name, opener in openers.items()
            }

    @staticmethod
    def _side(client: StreamClient, competitors: Competitors, count: int) -> Side:
        stream = _filled(client, count)
        return with_new_consumer(
            client, stream, Wanted(), lambda name: count / competitors.seconds(stream, name, count)
        )


class Handling(Row):
    """One message at a time, from the call of publish to the call of the handler."""

    key, name, unit = "handler", "publish to handler (median)", "ms"
    goals: ClassVar[Mapping[str, Goal]] = {_ACK: Goal("≤ 2 ×", most_ratio=2)}

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with both(arena) as clients:
            own = clients[RAILGUN]
            subject = subject_of(new_stream(own))
            sides = {name: self._side(client, scale.one_by_one) for name, client in clients.items()}
            sides[_ACK] = lambda: median_ms(own.publish_one_by_one(subject, PAYLOAD, scale.one_by_one))
            yield sides

    @staticmethod
    def _side(client: StreamClient, count: int) -> Side:
        stream = new_stream(client)
        return with_new_consumer(
            client,
            stream,
            Wanted(new_only=True, push=True),
            lambda name: median_ms(
                client.consumers.handled_one_by_one(stream, name, subject_of(stream), PAYLOAD, count)
            ),
        )


class Idle(Row):
    """What a publish pays for consumers that nobody asks for anything."""

    key, name, unit = "idle", "pipelined acked publish beside 100 idle consumers", "messages/s"
    goals: ClassVar[Mapping[str, Goal]] = {_WITHOUT: Goal("≥ 0.8 ×", least_ratio=0.8)}

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with both(arena) as clients:
            own = clients[RAILGUN]
            sides = {name: self._side(client, scale.pipelined, _IDLE) for name, client in clients.items()}
            sides[_WITHOUT] = self._side(own, scale.pipelined, 0)
            yield sides

    @staticmethod
    def _side(client: StreamClient, count: int, consumers: int) -> Side:
        stream = new_stream(client)
        for _ in range(consumers):
            new_consumer(client, stream)
        subjects = many_subjects(stream, count, 1)
        return lambda: rate(count, lambda: client.publish_all(subjects, PAYLOAD))


def with_new_consumer(
    client: StreamClient, stream: str, wanted: Wanted, measured: Callable[[str], float]
) -> Side:
    """Measures with a consumer that has seen nothing yet, each round another."""

    def one_round() -> float:
        name = new_consumer(client, stream, wanted)
        try:
            return measured(name)
        finally:
            client.consumers.delete(stream, name)

    return one_round


def iterate_or_fetch(client: StreamClient, stream: str, name: str, count: int) -> None:
    """The fastest loop over a consumer that the client has."""
    iterate: Callable[[str, str, int], None] = getattr(
        client.consumers, "iterate_and_ack", client.consumers.fetch_and_ack
    )
    iterate(stream, name, count)


def _filled(client: StreamClient, count: int) -> str:
    stream = new_stream(client)
    client.publish_all(many_subjects(stream, count, _KINDS), PAYLOAD)
    return stream
