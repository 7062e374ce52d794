"""Audits: nothing on a healthy stream, under load too, and exactly what was planted otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import railgun
from tests.support.naming import unique
from topologies import log_facts
from topologies.audit import audit
from topologies.place import Place

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def differences(spark: SparkSession, at: Place, name: str) -> list[tuple[str, str | None, int | None]]:
    found = audit(spark, at, name)
    assert found.notes == []
    return [(one.kind, one.subject, one.sequence) for one in found.differences]


@contextmanager
def meanwhile(action: Callable[[int], object]) -> Iterator[None]:
    """Do something again and again."""
    over, failed = threading.Event(), list[BaseException]()

    def work() -> None:
        number = 0
        try:
            while not over.wait(0.001):
                number += 1
                action(number)
        except BaseException as error:
            failed.append(error)
            raise

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not failed


def test_a_healthy_stream_has_no_differences_while_it_is_written_to(
    spark: SparkSession, at: Place, rg: railgun.Railgun
) -> None:
    name = unique("HEALTHY")
    stream = rg.create_stream(name, subjects=[f"{name}.>"], allow_msg_ttl=True)
    for n in range(200):
        rg.publish_soon(
            f"{name}.{n % 9}", bytes(n), msg_id=str(n), headers=[("A", "é"), ("A", "2")] if n % 2 else None
        )
    for sequence in (1, 7, 8, 200):
        stream.delete_message(sequence)
    with meanwhile(lambda n: rg.publish(f"{name}.{n % 11}", b"%d" % n, msg_id=f"more-{n}")):
        found = audit(spark, at, name)
    assert (found.differences, found.notes) == ([], [])
    assert 196 <= found.messages < stream.info().state.messages
    assert found.subjects >= 9


def test_what_a_stranger_wrote_to_the_log_is_named(
    spark: SparkSession, at: Place, rg: railgun.Railgun
) -> None:
    name = unique("FORGED")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    for n in range(20):
        rg.publish(f"{name}.a", b"%d" % n, msg_id=str(n))
    stream.delete_message(5)
    topic, incarnation = f"{at.prefix}.log.{name}", _incarnation(rg, name)

    def forge(subject: str, sequence: int, **more: str) -> None:
        own = {
            "Railgun-Sequence": sequence,
            "Railgun-Time": stream.get(20).time_ns,
            "Railgun-Incarnation": incarnation,
        }
        headers = [(key, str(value).encode()) for key, value in {**more, **own}.items()]
        producer.produce(topic, key=subject, value=b"forged", headers=headers)

    producer = Producer({"bootstrap.servers": at.server})
    producer.produce(topic, key=f"{name}.plain", value=b"no headers")
    forge(f"{name}.a", 3)
    forge(f"{name}.a", 5)
    forge(f"{name}.b", 999)
    producer.flush(10)
    assert differences(spark, at, name) == [
        ("foreign", f"{name}.plain", None),
        ("sequence twice", f"{name}.a", 3),
        ("beyond the end", f"{name}.b", 999),
        ("order", f"{name}.a", 5),
    ]


def test_a_tombstone_for_a_value_that_lives_and_an_id_that_was_stored_twice_are_named(
    spark: SparkSession, at: Place, rg: railgun.Railgun
) -> None:
    bucket = rg.create_bucket(unique("STRUCK"))
    for key in ("a", "b", "c", "a", "d"):
        bucket.put(key, key)
    bucket.delete("d")
    name = bucket.config.stream
    assert differences(spark, at, name) == []
    subject = rg.stream(name).get(4).subject
    producer = Producer({"bootstrap.servers": at.server})
    producer.produce(f"{at.prefix}.log.{name}", key=subject, value=None)
    producer.flush(10)
    assert differences(spark, at, name) == [("tombstone", subject, 4)]


@pytest.fixture
def counted(rg: railgun.Railgun) -> str:
    """A stream of counters: two subjects, six increments."""
    name = unique("COUNTED")
    rg.create_stream(name, subjects=[f"{name}.*"], allow_msg_counter=True)
    for n in range(6):
        rg.counter(f"{name}.{'ab'[n % 2]}").add(n)
    return name


@pytest.mark.parametrize(
    "changes, planted",
    [
        (
            {
                "kind": "case when sequence = 2 then 'former' else kind end",
                "increment": "case when sequence = 3 then increment + 1 else increment end",
                "digest": "case when sequence = 6 then 'other' else digest end",
            },
            [("missing", None, 2), ("counter", "a", 5), ("value", "b", 6), ("counter", "b", 6)],
        ),
        (
            {
                "size": "case when sequence = 1 then size + 1 else size end",
                "subject": "case when sequence = 4 then replace(subject, '.b', '.a') else subject end",
                "msg_id": "case when sequence > 4 then 'same' end",
                "increment": "case when sequence = 4 then 0 when sequence = 2 then 4 else increment end",
            },
            [("bytes", None, None), ("count", "a", None), ("count", "b", None), ("id twice", "b", 6)],
        ),
    ],
    ids=["holdings and values", "sums"],
)
def test_a_log_that_says_something_else_than_the_owner(
    spark: SparkSession,
    at: Place,
    counted: str,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
    planted: list[tuple[str, str | None, int | None]],
) -> None:
    """Records of Kafka cannot be changed: the rows of the log are, on their way to the comparison."""
    rows_of = log_facts.log_rows

    def changed(*given: Any) -> DataFrame:
        return rows_of(*given).withColumns({name: f.expr(text) for name, text in changes.items()})

    monkeypatch.setattr(log_facts, "log_rows", changed)
    named = [(kind, subject and f"{counted}.{subject}", number) for kind, subject, number in planted]
    assert sorted(differences(spark, at, counted), key=str) == sorted(named, key=str)


def _incarnation(rg: railgun.Railgun, name: str) -> int:
    known = rg.connection.stream(name)
    assert known is not None
    return known.incarnation
