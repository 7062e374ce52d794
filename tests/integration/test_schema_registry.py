"""A real registry: versions, refusals in words, ids that nobody knows, and a registry that is down."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

import railgun
from railgun import avro
from railgun.kafka.embedded import EmbeddedRegistry, free_port
from tests.support.naming import unique

pytestmark = pytest.mark.timeout(600)  # the first test waits for the registry


class Placed(BaseModel):
    id: str
    amount: int


@pytest.fixture(scope="module")
def local() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry() as made:
        yield made


@pytest.fixture
def registry(local: EmbeddedRegistry) -> Iterator[avro.SchemaRegistry]:
    with avro.SchemaRegistry(local.url, timeout=30) as made:
        yield made


def _versions() -> tuple[type[BaseModel], type[BaseModel], type[BaseModel]]:
    """Three versions of a record that no other test has; the third breaks with the others."""
    name = f"shop.{unique('Placed').replace('-', '_')}"

    class First(BaseModel):
        __avro_name__ = name
        id: str
        amount: int

    class Second(BaseModel):
        __avro_name__ = name
        id: str
        amount: int
        note: str | None = None

    class Third(BaseModel):
        __avro_name__ = name
        id: int

    return First, Second, Third


def test_versions_are_registered_once_and_read_both_ways(registry: avro.SchemaRegistry) -> None:
    first, second, third = _versions()
    with railgun.connect("memory://", registry=registry) as rg:
        rg.create_stream("ORDERS", subjects=["orders.>"])
        rg.publish("orders.new", first(id="1", amount=1))
        rg.publish("orders.new", second(id="2", amount=2, note="x"))
        with pytest.raises(avro.IncompatibleSchema, match="string became long") as refused:
            rg.publish("orders.new", third(id=3))
        assert refused.value.record == first.__avro_name__  # type: ignore[attr-defined]
        assert rg.stream("ORDERS").info().state.messages == 2
        earlier, later = rg.stream("ORDERS").create_consumer("C").fetch(2, wait=5)
        assert earlier.as_(second) == second(id="1", amount=1)
        assert later.as_(first) == first(id="2", amount=2)
    assert len(avro.writers(registry, first)) == 2
    avro.Events(registry).use(first)
    assert len(avro.writers(registry, first)) == 2, "an earlier version may go on writing"


def test_confluents_own_deserializer_reads_what_we_write(
    registry: avro.SchemaRegistry, local: EmbeddedRegistry
) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    first, _, _ = _versions()
    events = avro.Events(registry)
    context = SerializationContext("orders", MessageField.VALUE)
    client = SchemaRegistryClient({"url": local.url, "timeout": 30})
    try:
        payload = events.payload(first(id="1", amount=1))
        assert AvroDeserializer(client)(payload, context) == {"id": "1", "amount": 1}
        theirs = AvroSerializer(client, avro.schema_of(first))({"id": "2", "amount": 2}, context)
        assert events.decode(theirs, first) == first(id="2", amount=2)
    finally:
        client.close()


def test_what_the_registry_does_not_have(registry: avro.SchemaRegistry, local: EmbeddedRegistry) -> None:
    first, _, _ = _versions()
    assert registry.schema(2**31 - 1) is None
    assert avro.writers(registry, first) == {}
    with pytest.raises(avro.UnreadableEvent, match="has no schema 2147483647"):
        avro.Events(registry).decode(b"\0\x7f\xff\xff\xffx", first)
    with avro.SchemaRegistry(local.url, register=False, timeout=30) as fixed:
        with pytest.raises(avro.UnknownSchema, match="does not have this schema"):
            avro.Events(fixed).use(first)
    assert avro.writers(registry, first) == {}


def test_an_address_that_is_no_registry(local: EmbeddedRegistry) -> None:
    with avro.SchemaRegistry(local.url.removesuffix("/apis/ccompat/v7"), timeout=30) as wrong:
        with pytest.raises(avro.RegistryUnavailable, match="it answers 40"):
            wrong.use("Placed", {"type": "record", "name": "Placed", "fields": []})
    with pytest.raises(railgun.ConfigError, match="is not a valid address of a registry"):
        avro.SchemaRegistry("localhost:8081")


def _silent() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        yield server.getsockname()[1]


@pytest.mark.parametrize("kind, reason", [("closed", "refused"), ("silent", "does not answer in time")])
def test_a_registry_that_is_down_is_said_in_time_and_nothing_is_sent(kind: str, reason: str) -> None:
    ports = iter([free_port()]) if kind == "closed" else _silent()
    url = f"http://user:secret@127.0.0.1:{next(ports)}"
    with avro.SchemaRegistry(url, timeout=0.6) as down, railgun.connect("memory://", registry=down) as rg:
        rg.create_stream("ORDERS", subjects=["orders.>"], allow_atomic=True)
        begin = time.monotonic()
        with pytest.raises(avro.RegistryUnavailable, match=reason) as failed:
            rg.publish("orders.new", Placed(id="1", amount=1))
        assert time.monotonic() - begin < 20, "it waits for a bounded time"
        assert "secret" not in str(failed.value)
        with pytest.raises(avro.RegistryUnavailable), rg.batch() as batch:  # noqa: PT012 - leaving it raises
            batch.add("orders.new", b"raw")
            batch.add("orders.new", Placed(id="1", amount=1))
        assert rg.stream("ORDERS").info().state.messages == 0
        rg.publish("orders.new", b"raw publishes need no registry")
    list(ports)


def test_a_handler_tries_again_when_the_registry_is_back(registry: avro.SchemaRegistry) -> None:
    """The message is not given up, as one that can never be read would be."""
    first, _, _ = _versions()
    payload = avro.Events(registry).payload(first(id="1", amount=1))

    class Flaky:
        """The registry, which fails the first two times that it is asked for a schema."""

        failures = 2

        def use(self, record: str, schema: object) -> int:
            return registry.use(record, schema)  # type: ignore[arg-type]

        def schema(self, schema_id: int) -> object:
            if self.failures:
                self.failures -= 1
                raise avro.RegistryUnavailable(registry="the test's", reason="it is down")
            return registry.schema(schema_id)

        def versions(self, record: str) -> dict[int, str]:
            return registry.versions(record)

    with railgun.connect("memory://", registry=Flaky()) as rg:
        rg.create_stream("ORDERS", subjects=["orders.>"])
        rg.publish("orders.new", payload)
        seen: list[tuple[BaseModel, int]] = []

        def work(event: BaseModel, message: railgun.Message) -> None:
            seen.append((event, message.deliveries))
            rg.stop()

        work.__annotations__["event"] = first
        rg.handler("ORDERS", "WORK", retry=[0.01, 0.01])(work)
        rg.run()
        assert seen == [(first(id="1", amount=1), 3)]
