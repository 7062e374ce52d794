"""Sources: what one costs a publisher, how fast it copies, what is there already and what comes, and how soon a copy is there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final, NamedTuple

from tests.benchmarks.arena import Arena
from tests.benchmarks.contest import RAILGUN, Row, Side
from tests.benchmarks.copier import Copier, NatsCopier, RailgunCopier
from tests.benchmarks.results import Goal
from tests.benchmarks.rows.sides import (
    MAIN,
    NATS,
    StreamClient,
    many_subjects,
    median_ms,
    new_stream,
    railgun_client,
    rate,
    subject_of,
)
from tests.benchmarks.scale import PAYLOAD, Scale

_WITHOUT: Final = "railgun without it"
_PUBLISH: Final = "railgun, publish alone"
_RATE: Final = 30_000  # messages a second
_SLICE: Final = _RATE // 20  # published at once


class _Peer(NamedTuple):
    client: StreamClient
    copier: Copier


@contextmanager
def _both(arena: Arena) -> Iterator[dict[str, _Peer]]:
    with railgun_client(arena.cluster(MAIN)) as own, arena.nats_client() as nats:
        yield {RAILGUN: _Peer(own, RailgunCopier(own.sync)), NATS: _Peer(nats, NatsCopier(nats))}


@contextmanager
def _sourced(peer: _Peer) -> Iterator[tuple[str, str]]:
    """An upstream and a stream that copies it, both new; afterwards they are gone."""
    upstream = new_stream(peer.client)
    name = f"{upstream}COPY"
    peer.copier.create(name, upstream)
    try:
        yield upstream, name
    finally:
        peer.copier.delete(name)
        peer.copier.delete(upstream)


def _alone(peer: _Peer, count: int) -> float:
    """The rate of publishes to a stream that nobody copies."""
    upstream = new_stream(peer.client)
    try:
        subjects = many_subjects(upstream, count, 1)
        return rate(count, lambda: peer.client.publish_all(subjects, PAYLOAD))
    finally:
        peer.copier.delete(upstream)


class SourcedPublish(Row):
    """Acks only; the copies may come later."""

    key, name, unit = "sourced-publish", "pipelined acked publish to a stream with a source", "messages/s"

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with _both(arena) as peers:
            count = scale.pipelined
            sides: dict[str, Side] = {name: _side(peer, count) for name, peer in peers.items()}
            sides[_WITHOUT] = lambda: _alone(peers[RAILGUN], count)
            yield sides


def _side(peer: _Peer, count: int) -> Side:
    def one_round() -> float:
        with _sourced(peer) as (upstream, copy):
            subjects = many_subjects(upstream, count, 1)
            found = rate(count, lambda: peer.client.publish_all(subjects, PAYLOAD))
            peer.copier.await_messages(copy, count)  # else it would go on beside the next round
            return found

    return one_round


class Copying(Row):
    """From the first publish until the source holds the last message."""

    key, name, unit = "source", "pipelined publish until a source holds all", "messages/s"

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with _both(arena) as peers:
            count = scale.pipelined
            sides: dict[str, Side] = {name: self._side(peer, count) for name, peer in peers.items()}
            sides[_PUBLISH] = lambda: _alone(peers[RAILGUN], count)
            yield sides

    @staticmethod
    def _side(peer: _Peer, count: int) -> Side:
        def one_round() -> float:
            with _sourced(peer) as (upstream, copy):
                subjects = many_subjects(upstream, count, 1)
                begin = time.perf_counter()
                peer.client.publish_all(subjects, PAYLOAD)
                peer.copier.await_messages(copy, count)
                return count / (time.perf_counter() - begin)

        return one_round


class Following(Row):
    """Published at a steady rate, which the publisher has to reach; from the last ack until the source holds all.

    A source that were slower by a tenth would be late by a tenth of the time that it took.
    """

    key, name, unit = "source-follow", f"lag of a source behind {_RATE:,} publishes a second", "ms"
    goals: ClassVar[Mapping[str, Goal]] = {NATS: Goal("≤ 250 ms", most=250)}

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with _both(arena) as peers:
            count = scale.iterated
            yield {
                RAILGUN: self._side(peers[RAILGUN], count, least_rate=0.95 * _RATE),
                NATS: self._side(peers[NATS], count),
            }

    @staticmethod
    def _side(peer: _Peer, count: int, least_rate: float = 0.0) -> Side:
        def one_round() -> float:
            with _sourced(peer) as (upstream, copy):
                subjects = many_subjects(upstream, _SLICE, 1)
                begin = time.perf_counter()
                for sent in range(0, count, _SLICE):
                    time.sleep(max(0.0, begin + sent / _RATE - time.perf_counter()))
                    peer.client.publish_all(subjects[: count - sent], PAYLOAD)
                acked = time.perf_counter()
                reached = count / (acked - begin)
                if reached < least_rate:
                    raise RuntimeError(f"published {reached:,.0f} messages a second, {_RATE:,} were due")
                peer.copier.await_messages(copy, count)
                return 1e3 * (time.perf_counter() - acked)

        return one_round


class Backfill(Row):
    """A source that is created when everything is there."""

    key, name, unit = "backfill", "backfill of a new source", "messages/s"

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with _both(arena) as peers:
            yield {name: self._side(peer, scale.iterated) for name, peer in peers.items()}

    @staticmethod
    def _side(peer: _Peer, count: int) -> Side:
        upstream = new_stream(peer.client)
        peer.client.publish_all(many_subjects(upstream, count, 1), PAYLOAD)
        name = f"{upstream}COPY"

        def one_round() -> float:
            begin = time.perf_counter()
            peer.copier.create(name, upstream)
            peer.copier.await_messages(name, count)
            found = count / (time.perf_counter() - begin)
            peer.copier.delete(name)
            return found

        return one_round


class CopyLag(Row):
    """A message at a time, from its ack until a get of the source returns the copy."""

    key, name, unit = "source-lag", "ack of a publish to its readable copy (median)", "ms"

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        with _both(arena) as peers:
            yield {name: self._side(peer, scale.one_by_one) for name, peer in peers.items()}

    @staticmethod
    def _side(peer: _Peer, count: int) -> Side:
        def one_round() -> float:
            with _sourced(peer) as (upstream, copy):
                return median_ms(peer.copier.readable_after(copy, subject_of(upstream), PAYLOAD, count))

        return one_round
