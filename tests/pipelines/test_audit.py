"""Audits: nothing on a healthy stream of any kind, under load too, and exactly what was planted otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import railgun
from railgun.errors import StreamNotFound
from tests.support.naming import unique
from tests.support.spark import incarnation_of, own_headers
from tests.support.waiting import wait_until
from topologies.pipelines.audit import Audit, audit
from topologies.pipelines.parts import log_facts
from topologies.pipelines.parts.place import Place

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

Found = tuple[str, str | None, int | None]


def differences(spark: SparkSession, at: Place, name: str) -> list[Found]:
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


# ------------------------------------------------------------ healthy streams


def plain(rg: railgun.Railgun) -> str:
    """Messages with and without headers, ids, life times and roll-ups, in a batch and alone, some of them removed."""
    name = unique("PLAIN")
    options = {"allow_msg_ttl": True, "allow_rollup_hdrs": True, "allow_atomic": True}
    stream = rg.create_stream(name, subjects=[f"{name}.>"], first_seq=10, **options)
    for n in range(60):
        headers = [("A", "é"), ("A", "2"), ("Empty", "")] if n % 2 else None
        rg.publish(f"{name}.ü.{n % 9}", bytes(n), msg_id=str(n), headers=headers)
    with rg.batch() as batch:
        for n in range(5):
            batch.add(f"{name}.batch.{n}", b"together")
    rg.publish(f"{name}.short", b"gone in a second", ttl=1)
    rg.publish(f"{name}.ü.3", b"rolled up", headers={"Nats-Rollup": "sub"})
    for sequence in (10, 16, 17, 41):
        stream.delete_message(sequence)
    stream.purge(subject=f"{name}.ü.8")
    wait_until(lambda: not stream.info(subjects=f"{name}.short").state.subjects, "the short one is gone")
    return name


def values(rg: railgun.Railgun) -> str:
    """A bucket with a history, deletes and purges: its log is compacted, and each message has a key of its own."""
    bucket = rg.create_bucket(unique("VALUES"), history=2)
    for n in range(40):
        bucket.put(f"k{n % 7}", f"value {n}")
    bucket.delete("k1")
    bucket.purge("k2")
    return bucket.config.stream


def work_queue(rg: railgun.Railgun) -> str:
    """A queue whose messages were acknowledged, but for some in the middle."""
    name = unique("QUEUE")
    queue = rg.create_stream(name, subjects=[f"{name}.*"], retention="workqueue")
    hands = queue.create_consumer("HANDS")
    for n in range(30):
        rg.publish(f"{name}.{n % 3}", b"%d" % n)
    for message in hands.fetch(30, wait=20):
        if message.sequence % 5:
            message.ack_sync()
    return name


def mirror(rg: railgun.Railgun) -> str:
    """A filtered mirror, which has the sequences and ids of its upstream."""
    origin, name = unique("ORIGIN"), unique("MIRROR")
    upstream = rg.create_stream(origin, subjects=[f"{origin}.*"], duplicate_window=0.1)
    for n in range(20):
        rg.publish(f"{origin}.{n % 2}", b"%d" % n, msg_id=f"{n}")
    upstream.delete_message(5)
    copy = rg.create_stream(name, mirror=railgun.StreamSource(name=origin, filter_subject=f"{origin}.0"))
    wait_until(lambda: copy.info().state.messages == 9, "everything is copied")
    return name


def sum_of_counters(rg: railgun.Railgun) -> str:
    """Counters that add up those of another stream, of which only the newest were left, beside increments of their own."""
    origin, name = unique("HITS"), unique("SUM")
    rg.create_stream(origin, subjects=[f"{origin}.*"], allow_msg_counter=True, max_msgs_per_subject=1)
    for n in range(8):
        rg.counter(f"{origin}.{n % 2}").add(n - 3)
    rg.create_stream(name, subjects=[f"{name}.*"], allow_msg_counter=True, sources=[origin])
    rg.counter(f"{name}.own").add(2**62)
    rg.counter(f"{name}.own").add(-5)
    wait_until(lambda: rg.stream(name).info().state.messages == 4, "both counters came")
    return name


def made_anew(rg: railgun.Railgun) -> str:
    """A stream that was deleted and made again, in memory, where bytes count in another way; a limit dropped its oldest messages."""
    name = unique("ANEW")
    for n in range(2):
        if n:
            rg.delete_stream(name)
        rg.create_stream(
            name, subjects=[f"{name}.*"], storage="memory", max_msgs=10, max_age=timedelta(hours=1)
        )
        for number in range(25):
            rg.publish(f"{name}.{number % 2}", b"%d" % n, headers={"N": "1"} if number % 2 else None)
    return name


KINDS = [plain, values, work_queue, mirror, sum_of_counters, made_anew]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_healthy_stream_has_no_differences(
    spark: SparkSession, at: Place, rg: railgun.Railgun, kind: Callable[[railgun.Railgun], str]
) -> None:
    name = kind(rg)
    state = rg.stream(name).info().state
    assert audit(spark, at, name) == Audit(name, state.messages, state.num_subjects, state.last_seq)


def test_nothing_is_found_while_messages_come_and_go(
    spark: SparkSession, at: Place, rg: railgun.Railgun
) -> None:
    bucket = rg.create_bucket(unique("BUSY"))
    bucket.put("k0", "first")
    stream = rg.stream(bucket.config.stream)

    def use(n: int) -> None:
        bucket.put(f"k{n % 50}", f"value {n}")
        if not n % 7:
            bucket.delete(f"k{n % 50}")

    with meanwhile(use):
        wait_until(lambda: stream.info().state.last_seq > 100, "it is used")
        found = audit(spark, at, stream.name)
    assert (found.differences, found.notes) == ([], [])
    assert stream.info().state.last_seq > found.last_seq > 100


# ------------------------------------------------------------ what is planted


class Forger:
    """Writes records into a log as only its owner may."""

    def __init__(self, at: Place, rg: railgun.Railgun, stream: str) -> None:
        self._topic = f"{at.prefix}.log.{stream}"
        self._incarnation = incarnation_of(rg, stream)
        self._producer = Producer({"bootstrap.servers": at.server})

    def write(
        self, subject: str, value: bytes | None, sequence: int = 0, time_ns: int = 0, **more: str
    ) -> None:
        """A record: a message where a sequence is given."""
        own = own_headers(sequence, self._incarnation, time_ns) if sequence else []
        headers = [(name, text.encode()) for name, text in more.items()]
        self._producer.produce(self._topic, key=subject, value=value, headers=[*headers, *own])
        assert self._producer.flush(10) == 0


def test_what_a_stranger_wrote_to_the_log_is_named(
    spark: SparkSession, at: Place, rg: railgun.Railgun
) -> None:
    name = unique("FORGED")
    stream = rg.create_stream(name, subjects=[f"{name}.*"], first_seq=5)
    for n in range(10):
        rg.publish(f"{name}.a", b"%d" % n, msg_id=str(n))
    forger, now = Forger(at, rg, name), stream.get(14).time_ns
    forger.write(f"{name}.plain", b"no headers")
    forger.write(f"{name}.plain", b"one header", Name="value")
    forger.write(f"{name}.a", b"forged", 6, now)
    forger.write(f"{name}.a", b"forged", 3, now)
    forger.write(f"{name}.b", b"forged", 999, now)
    forger.write("\0railgun", b"a marker has no value")
    assert differences(spark, at, name) == [
        ("foreign", f"{name}.plain", None),
        ("foreign", f"{name}.plain", None),
        ("foreign", "", None),
        ("sequence twice", f"{name}.a", 6),
        ("beyond the end", f"{name}.b", 999),
        ("order", f"{name}.a", 3),
    ]


def test_a_tombstone_for_a_value_that_lives_is_named(
    spark: SparkSession, at: Place, rg: railgun.Railgun
) -> None:
    bucket = rg.create_bucket(unique("STRUCK"))
    for key in ("a", "b", "c", "a", "d"):
        bucket.put(key, key)
    bucket.delete("d")
    name = bucket.config.stream
    assert differences(spark, at, name) == []
    subject = rg.stream(name).get(4).subject
    Forger(at, rg, name).write(subject, None)
    assert differences(spark, at, name) == [("tombstone", subject, 4)]


def test_numbers_values_and_sums_that_differ_are_named(
    spark: SparkSession, at: Place, rg: railgun.Railgun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forged record in front of the true one of its sequence: the log then says something else than the owner."""
    name = unique("COUNTED")
    stream = rg.create_stream(name, subjects=[f"{name}.*"], allow_msg_counter=True)
    a, b = f"{name}.a", f"{name}.b"
    for n in range(6):
        rg.publish(b if n % 2 else a, headers={"Nats-Incr": str(n)}, msg_id=str(n))
    assert differences(spark, at, name) == []

    now = stream.get(6).time_ns
    Forger(at, rg, name).write(a, b'{"val":"50"}', 7, now, **{"Nats-Incr": "40", "Nats-Msg-Id": "3"})
    rg.counter(b).add(1)
    assert sorted(differences(spark, at, name), key=str) == [
        ("bytes", None, None),
        ("count", a, None),
        ("count", b, None),
        ("counter", a, 7),  # 0 + 2 + 4 + 40
        ("id twice", a, 7),
        ("newest", a, 7),
        ("newest", b, 6),
        ("sequence twice", a, 7),
        ("value", a, 7),
    ]

    # Kafka takes no record away from the middle of a log: it is taken from the rows, on their way to the comparison.
    rows_of = log_facts.log_rows
    monkeypatch.setattr(
        log_facts, "log_rows", lambda *given, **more: rows_of(*given, **more).where("offset <> 2")
    )
    assert ("missing", None, 2) in differences(spark, at, name)


def test_a_stream_that_is_empty_or_not_there(spark: SparkSession, at: Place, rg: railgun.Railgun) -> None:
    name = unique("EMPTIED")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    rg.publish(f"{name}.a", b"gone")
    stream.purge()
    assert audit(spark, at, name) == Audit(name, 0, 0, 1)
    with pytest.raises(StreamNotFound):
        audit(spark, at, "NO_SUCH_STREAM")
