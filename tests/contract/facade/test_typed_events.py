"""Typed events through the facade, on every backend: published in every way, fetched, handled, and refused."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

import railgun
from railgun import avro
from tests.support.streams import Make

if TYPE_CHECKING:
    from tests.contract.conftest import Cluster


class Placed(BaseModel):
    __avro_name__ = "shop.Placed"
    id: str
    amount: int


class PlacedLater(BaseModel):
    __avro_name__ = "shop.Placed"
    id: str
    amount: int
    note: str | None = None


class Paid(BaseModel):
    id: str


class Broken(BaseModel):
    __avro_name__ = "shop.Placed"
    id: int
    why: str


@pytest.fixture
def registry(tmp_path: Path) -> avro.SchemaFolder:
    return avro.SchemaFolder(tmp_path)


@pytest.fixture
def typed(cluster: Cluster, registry: avro.SchemaFolder) -> Iterator[railgun.Railgun]:
    """A facade with a registry; ``rg`` beside it has none."""
    with cluster.connect(registry=registry) as facade:
        yield facade


def _fetched(rg: railgun.Railgun, stream: str, count: int) -> list[railgun.Message]:
    return rg.stream(stream).create_consumer(ephemeral=True, ack_policy="none").fetch(count, wait=15)


def test_every_way_to_publish_takes_a_model(typed: railgun.Railgun, make: Make) -> None:
    stream = make("TYPED", allow_atomic=True)
    typed.publish(f"{stream.name}.a", Placed(id="1", amount=1), headers={"X": "y"})
    typed.publish_soon(f"{stream.name}.a", Placed(id="2", amount=2)).result(15)
    with typed.batch() as batch:
        batch.add(f"{stream.name}.a", PlacedLater(id="3", amount=3, note="in a batch"))
    (first, *_) = typed.stream(stream.name).create_consumer("C").fetch(1, wait=15)
    with first.transaction() as transaction:
        transaction.publish(f"{stream.name}.b", Paid(id="4"))
    messages = _fetched(typed, stream.name, 4)
    assert [message.as_(PlacedLater).amount for message in messages[:3]] == [1, 2, 3]
    assert messages[3].as_(Paid) == Paid(id="4")
    assert [message.header("Content-Type") for message in messages] == [
        "application/avro; record=shop.Placed",
        "application/avro; record=shop.Placed",
        "application/avro; record=shop.Placed",
        "application/avro; record=Paid",
    ]
    assert messages[0].header("X") == "y"


def test_versions_are_read_both_ways(typed: railgun.Railgun, make: Make) -> None:
    stream = make("TYPED")
    typed.publish(f"{stream.name}.a", Placed(id="1", amount=1))
    typed.publish(f"{stream.name}.a", PlacedLater(id="2", amount=2, note="x"))
    earlier, later = _fetched(typed, stream.name, 2)
    assert earlier.as_(PlacedLater) == PlacedLater(id="1", amount=1, note=None)
    assert later.as_(Placed) == Placed(id="2", amount=2)


def test_what_is_incompatible_is_refused_before_anything_is_sent(typed: railgun.Railgun, make: Make) -> None:
    stream = make("TYPED", allow_atomic=True)
    typed.publish(f"{stream.name}.a", Placed(id="1", amount=1))
    broken = Broken(id=1, why="x")
    with pytest.raises(avro.IncompatibleSchema, match="string became long"):
        typed.publish(f"{stream.name}.a", broken)
    with pytest.raises(avro.IncompatibleSchema):
        typed.publish_soon(f"{stream.name}.a", broken)
    with pytest.raises(avro.IncompatibleSchema), typed.batch() as batch:  # noqa: PT012 - leaving the block raises
        batch.add(f"{stream.name}.a", Placed(id="2", amount=2))
        batch.add(f"{stream.name}.a", broken)
    (message,) = typed.stream(stream.name).create_consumer("C").fetch(1, wait=15)
    with pytest.raises(avro.IncompatibleSchema), message.transaction() as transaction:
        transaction.publish(f"{stream.name}.a", broken)
    assert not message.acknowledged
    assert typed.stream(stream.name).info().state.messages == 1


async def test_tasks_publish_models_without_waiting(
    cluster: Cluster, registry: avro.SchemaFolder, make: Make, rg: railgun.Railgun
) -> None:
    stream = make("TYPED", allow_atomic=True)
    async with cluster.connect_async(registry=registry) as typed:
        futures = [typed.publish_soon(f"{stream.name}.a", Placed(id=str(n), amount=n)) for n in range(5)]
        assert [(await future).sequence for future in futures] == [1, 2, 3, 4, 5]
        await typed.publish(f"{stream.name}.a", Paid(id="paid"))
        async with typed.batch() as batch:
            batch.add(f"{stream.name}.a", PlacedLater(id="b", amount=6))
        refused = typed.publish_soon(f"{stream.name}.a", Broken(id=1, why="x"))
        with pytest.raises(avro.IncompatibleSchema):
            await refused
        consumer = await typed.stream(stream.name).create_consumer(ephemeral=True, ack_policy="none")
        messages = await consumer.fetch(7, wait=15)
        assert [message.as_(Placed).amount for message in messages[:5]] == [0, 1, 2, 3, 4]
        assert messages[5].as_(Paid) == Paid(id="paid")
        assert rg.stream(stream.name).info().state.messages == 7


def test_without_a_registry_models_are_json(rg: railgun.Railgun, typed: railgun.Railgun, make: Make) -> None:
    stream = make("TYPED")
    rg.publish(f"{stream.name}.a", Placed(id="1", amount=1))
    typed.publish(f"{stream.name}.a", Placed(id="2", amount=2))
    bare, framed = _fetched(rg, stream.name, 2)
    assert bare.json() == {"id": "1", "amount": 1}
    assert bare.as_(Placed) == Placed(id="1", amount=1)
    with pytest.raises(avro.UnreadableEvent, match="this connection has none"):
        framed.as_(Placed)
    stored = rg.stream(stream.name).get(2)
    with pytest.raises(railgun.EventError, match=r"rg\.events\.decode"):
        stored.as_(Placed)
    assert typed.events.decode(stored.payload, Placed) == Placed(id="2", amount=2)


def test_handlers_get_events_and_what_is_unreadable_is_a_dead_letter(
    typed: railgun.Railgun, make: Make
) -> None:
    dead = make("DEAD")
    stream = make("TYPED")
    subject = f"{stream.name}.a"
    good = typed.publish(subject, Placed(id="1", amount=1))
    typed.publish(subject, json.dumps({"id": "2", "amount": 2}))
    typed.publish(subject, Paid(id="3"))
    framed = typed.stream(stream.name).get(good.sequence).payload
    for bad in (b"\0\0", b"\0\0\0\0\7x", framed + b"x", framed[:6], b"{}"):
        typed.publish(subject, bad)
    seen: list[Any] = []

    @typed.handler(stream.name, "WORK", dead_letter=dead.name, retry=[])
    def work(event: Placed | Paid) -> None:
        seen.append(event)

    worker = threading.Thread(target=typed.run)
    worker.start()
    try:
        letters = typed.stream(dead.name).create_consumer("REVIEW").fetch(5, wait=30)
    finally:
        typed.stop()
        worker.join(30)
    assert seen == [Placed(id="1", amount=1), Placed(id="2", amount=2), Paid(id="3")]
    reasons = [letter.header("Railgun-Origin-Reason") or "" for letter in letters]
    for reason, part in zip(
        reasons,
        ("too short", "no schema 7", "1 bytes more", "is not what its schema", "not a valid"),
        strict=True,
    ):
        assert part in reason
    assert letters[2].payload == framed + b"x", "nothing is lost"


class _Lagging:
    """A registry that does not know a schema the first times that it is asked for it."""

    def __init__(self, registry: avro.SchemaFolder, unknown: int) -> None:
        self.registry, self.unknown = registry, unknown

    def use(self, record: str, schema: Mapping[str, Any]) -> int:
        return self.registry.use(record, schema)

    def schema(self, schema_id: int) -> Any:
        self.unknown -= 1
        return None if self.unknown >= 0 else self.registry.schema(schema_id)

    def versions(self, record: str) -> dict[int, str]:
        return self.registry.versions(record)


@pytest.mark.parametrize("unknown, deliveries", [(2, 3), (9, None)])
def test_a_schema_that_the_registry_does_not_know_yet_is_asked_for_again(
    cluster: Cluster, registry: avro.SchemaFolder, make: Make, unknown: int, deliveries: int | None
) -> None:
    """Until the delays of the handler are used up: then it is a dead letter, and says why."""
    dead, stream = make("DEAD"), make("TYPED")
    payload = avro.Events(registry).payload(Placed(id="1", amount=1))
    seen: list[int] = []
    with cluster.connect(registry=_Lagging(registry, unknown)) as late:
        late.publish(f"{stream.name}.a", payload)

        @late.handler(stream.name, "WORK", dead_letter=dead.name, retry=[0.01, 0.01])
        def work(event: Placed, message: railgun.Message) -> None:
            seen.append(message.deliveries)
            late.stop()

        worker = threading.Thread(target=late.run)
        worker.start()
        try:
            if deliveries is None:
                (letter,) = late.stream(dead.name).create_consumer("REVIEW").fetch(1, wait=30)
                assert "has no schema" in (letter.header("Railgun-Origin-Reason") or "")
                assert letter.header("Railgun-Origin-Deliveries") == "3"
            else:
                worker.join(30)
        finally:
            late.stop()
            worker.join(30)
    assert seen == ([] if deliveries is None else [deliveries])


async def test_a_coroutine_gets_events(cluster: Cluster, registry: avro.SchemaFolder, make: Make) -> None:
    stream = make("TYPED")
    seen: list[Placed] = []
    async with cluster.connect_async(registry=registry) as typed:
        await typed.publish(f"{stream.name}.a", Placed(id="1", amount=1))

        @typed.handler(stream.name, "WORK")
        async def work(event: Placed) -> None:
            seen.append(event)
            typed.stop()

        await asyncio.wait_for(typed.run(), 30)
    assert seen == [Placed(id="1", amount=1)]


def test_a_handler_of_a_model_that_avro_lacks_is_refused_when_it_is_registered(
    typed: railgun.Railgun,
) -> None:
    class Odd(BaseModel):
        anything: Any

    def work(event: Odd) -> None: ...

    work.__annotations__["event"] = Odd
    with pytest.raises(avro.InvalidModel, match=r"Odd\.anything is not a valid field"):
        typed.handler("TYPED", "WORK")(work)


def test_a_payload_that_is_no_model_and_no_bytes_is_refused(typed: railgun.Railgun) -> None:
    with pytest.raises(railgun.ConfigError, match="dict is not a valid payload"):
        typed.publish("any", {"id": 1})  # type: ignore[call-overload]
