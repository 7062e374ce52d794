"""Typed events beside the same bytes without a type: what models cost a publisher and a consumer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import ClassVar, Final

from pydantic import BaseModel

import railgun
from railgun import avro
from tests.benchmarks.arena import Arena
from tests.benchmarks.consuming import FETCH, IN_FLIGHT, PATIENCE
from tests.benchmarks.contest import RAILGUN, Row, Side
from tests.benchmarks.results import Goal
from tests.benchmarks.rows.sides import MAIN, rate
from tests.benchmarks.scale import Scale
from tests.support.naming import unique

RAW: Final = "railgun, bytes"


class Placed(BaseModel):
    """An event of some 128 bytes in Avro."""

    id: str
    customer: str
    amount: int
    weight: float
    at: datetime
    note: str | None = None


def _event(number: int) -> Placed:
    return Placed(
        id=f"order-{number:09}",
        customer="somebody who orders".ljust(80, "."),
        amount=number,
        weight=1.5,
        at=datetime(2026, 1, 1, tzinfo=UTC),
    )


class _Typed(Row):
    """Both sides have connections and streams of their own; the events are made before the clock runs."""

    unit = "messages/s"

    @contextmanager
    def sides(self, arena: Arena, scale: Scale) -> Iterator[dict[str, Side]]:
        cluster = arena.cluster(MAIN)
        with tempfile.TemporaryDirectory() as folder:
            registry = avro.SchemaFolder(folder)
            with (
                railgun.connect(
                    cluster.bootstrap, prefix=cluster.prefix, timeout=60, registry=registry
                ) as typed,
                cluster.connect() as raw,
            ):
                events = [_event(number) for number in range(self.count(scale))]
                payloads = [typed.events.payload(event) for event in events]
                yield {RAILGUN: self.side(typed, events), RAW: self.side(raw, payloads)}

    def count(self, scale: Scale) -> int:
        raise NotImplementedError

    def side(self, rg: railgun.Railgun, given: Sequence[BaseModel | bytes]) -> Side:
        raise NotImplementedError


class TypedPublish(_Typed):
    key, name = "typed-publish", "pipelined acked publish of typed events"
    goals: ClassVar[Mapping[str, Goal]] = {RAW: Goal("≥ 0.5 ×", least_ratio=0.5)}

    def count(self, scale: Scale) -> int:
        return scale.pipelined

    def side(self, rg: railgun.Railgun, given: Sequence[BaseModel | bytes]) -> Side:
        stream = _new_stream(rg)
        return lambda: rate(len(given), lambda: _publish(rg, stream, given))


class TypedFetch(_Typed):
    key, name = "typed-fetch", "fetch(500) of typed events + ack"

    def count(self, scale: Scale) -> int:
        return scale.consumed

    def side(self, rg: railgun.Railgun, given: Sequence[BaseModel | bytes]) -> Side:
        stream = _new_stream(rg)
        _publish(rg, stream, given)
        typed = isinstance(given[0], BaseModel)

        def one_round() -> float:
            consumer = rg.stream(stream).create_consumer(unique("C"), max_ack_pending=IN_FLIGHT)

            def work() -> None:
                left = len(given)
                while left:
                    messages = consumer.fetch(min(FETCH, left), wait=PATIENCE)
                    if not messages:
                        raise RuntimeError(f"{len(given) - left} of {len(given)} messages came")
                    for message in messages:
                        if typed:
                            message.as_(Placed)
                        message.ack()
                    left -= len(messages)

            return rate(len(given), work)

        return one_round


def _new_stream(rg: railgun.Railgun) -> str:
    name = unique("TYPED")
    rg.create_stream(name, subjects=[f"{name}.>"])
    return name


def _publish(rg: railgun.Railgun, stream: str, given: Sequence[BaseModel | bytes]) -> None:
    subject = f"{stream}.a"
    futures = [rg.publish_soon(subject, one) for one in given]
    rg.flush(300)
    for future in futures:
        future.result(0)
