"""Frames of streams: exactly what a stream holds, within the bounds that are asked for, whatever else is in its log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import railgun
from railgun.errors import ConfigError
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.topic_admin import Topics
from railgun.protocol.topics import Names
from railgun.spark import places, read, read_stream
from railgun.spark.columns import MADE_ANEW, SCHEMA
from railgun.spark.places import committed_range
from tests.support.cell import Cell
from tests.support.naming import unique
from tests.support.spark import At, held, incarnation_of, own_headers, plant, rows, sequences
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]  # the first test waits for the JVM

# As the settings of every compacted log, in a hurry. The broker looks for something to clean every 15 seconds.
HURRIED = {
    "segment.ms": "500",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}
PUTS = 400
DAY = timedelta(days=1)


@pytest.fixture(scope="module", autouse=True)
def compacted(rg: railgun.Railgun, cell: Cell) -> list[str]:
    """Two streams with a limit per subject, whose logs Kafka compacts while the first tests run."""
    names = []
    for limit in (1, 3):
        name = unique("KEYS")
        rg.create_stream(name, subjects=[f"{name}.*"], max_msgs_per_subject=limit)
        Topics(AdminClient(KafkaSettings(cell.bootstrap).admin()))._alter(
            Names(cell.prefix).log(name), HURRIED
        )
        rg.publish(f"{name}.fixed", b"never changed")
        for number in range(PUTS):
            rg.publish_soon(f"{name}.{number % 7}", b"%d" % number)
        names.append(name)
    rg.flush(60)
    return names


@pytest.fixture(scope="module", autouse=True)
def straggling(rg: railgun.Railgun) -> str:
    """A stream whose log its owner trims past the oldest message, which lives, while the first tests run."""
    name = unique("STRAGGLER")
    stream = rg.create_stream(name, subjects=[f"{name}.>"])
    rg.publish(f"{name}.old", b"lives", headers={"Name": "wert"})
    for _ in range(10_400):
        rg.publish_soon(f"{name}.short", b"")
    rg.publish_soon(f"{name}.new", b"lives too")
    rg.flush(60)
    stream.purge(subject=f"{name}.short")
    return name


# ------------------------------------------------------------ what a stream holds


def test_a_frame_is_what_the_stream_holds(
    spark: SparkSession, rg: railgun.Railgun, cell: Cell, at: At
) -> None:
    name = unique("HELD")
    stream = rg.create_stream(name, subjects=[f"{name}.>"])
    for n in range(1, 31):
        subject = f"{name}.{n % 3}" if n % 2 else f"{name}.{n % 3}.x"
        headers = {"N": str(n), "Größe": "ü"} if n % 5 == 0 else None
        rg.publish(subject, b"" if n == 12 else b"%d\xff" % n, headers=headers, msg_id=f"{name}-{n}")
    stream.purge(sequence=4)
    for removed in (9, 10, 30):
        stream.delete_message(removed)
    live = incarnation_of(rg, name)
    subject = f"{name}.0".encode()
    plant(cell, name, [(subject, b"aborted", own_headers(31, live))], abort=True)
    plant(
        cell,
        name,
        [
            (subject, None, []),
            (subject, b"foreign", []),
            (subject, b"damaged", own_headers("x", live)),
            (subject, b"of a former stream", own_headers(5, live - 1)),
            (subject, None, own_headers(31, live)),
        ],
    )
    rg.publish(f"{name}.0", b"behind all that")

    assert rows(read(spark, name, **at)) == held(stream)
    assert len(held(stream)) == 31 - 3 - 3
    everything = sequences(read(spark, name, all=True, **at))
    assert [n for n in everything if n > 3] == list(range(4, 32))  # 1 to 3 until the log is trimmed
    assert rows(read(spark, name, filter=f"{name}.*.x", **at)) == held(stream, subject=f"{name}.*.x")


def test_bounds_are_sequences_times_or_words(
    spark: SparkSession, rg: railgun.Railgun, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_NEAR", 1)  # so that a search in a short log goes to its end
    name = unique("BOUNDS")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    for n in range(1, 21):
        rg.publish(f"{name}.{n % 2}", b"")
    stream.delete_message(7)
    time = {n: stream.get(n).time for n in (1, 2, 6, 9, 20)}
    long_after = datetime(2200, 1, 1, tzinfo=UTC)
    live = [n for n in range(1, 21) if n != 7]
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({"start": 5, "end": 8}, [5, 6, 8]),
        ({"start": 21, "end": 10**12}, []),
        ({"start": 19, "end": 10**12}, [19, 20]),
        ({"start": 8, "end": 5}, []),
        ({"start": time[6], "end": time[9]}, [6, 8, 9]),
        ({"start": time[9], "end": time[6]}, []),
        ({"start": time[1] - DAY, "end": time[2]}, [1, 2]),
        ({"end": time[1] - DAY}, []),
        ({"start": long_after}, []),
        ({"start": time[20], "end": long_after}, [20]),
        ({"start": datetime.max.replace(tzinfo=UTC)}, []),
        ({"start": datetime.min.replace(tzinfo=UTC), "end": datetime.max.replace(tzinfo=UTC)}, live),
        ({"start": "first", "end": "first"}, [1]),
        ({"start": 18, "end": "new"}, [18, 19, 20]),
        ({"start": "new"}, []),
        ({"start": 3, "end": 9, "filter": f"{name}.0"}, [4, 6, 8]),
    ]
    found = [
        read(spark, name, **case, **at).select(F.lit(number).alias("case"), "sequence")
        for number, (case, _) in enumerate(cases)
    ]
    seen: dict[int, list[int]] = {number: [] for number in range(len(cases))}
    for row in reduce(DataFrame.unionAll, found).orderBy("sequence").collect():
        seen[row.case].append(row.sequence)
    assert seen == {number: wanted for number, (_, wanted) in enumerate(cases)}

    for wrong in (0, -1, 2**63, True, 1.5, "latest", datetime(2026, 1, 1)):  # noqa: DTZ001 - that is what is wrong
        for place in ("start", "end"):
            with pytest.raises(ConfigError, match="is not a valid place in a stream"):
                read(spark, name, **{place: wrong}, **at)


def test_forged_records_neither_hide_nor_double_a_message(
    spark: SparkSession, rg: railgun.Railgun, cell: Cell, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_NEAR", 1)
    name = unique("FORGED")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    live, subject = incarnation_of(rg, name), f"{name}.a".encode()
    forged = [
        (subject, b"forged", own_headers(10**9, live)),
        (subject, b"forged", own_headers(2**63 - 1, live, 2**63 - 1)),
        (subject, b"forged", own_headers(1, live + 1)),
        (subject, b"forged", own_headers(1, 2**63 - 1, 2**63 - 1)),
    ]
    for _ in range(3):  # in front of the first message, between messages, behind the last
        plant(cell, name, forged)
        for n in range(4):
            rg.publish(f"{name}.{n}", b"true")
    plant(cell, name, forged)
    assert rows(read(spark, name, **at)) == held(stream)
    bounded = [read(spark, name, start=n, end=n + 2, **at) for n in range(1, 11)]
    assert [sequences(frame) for frame in bounded] == [[n, n + 1, n + 2] for n in range(1, 11)]


def test_an_empty_stream_has_no_rows_and_all_columns(
    spark: SparkSession, rg: railgun.Railgun, at: At
) -> None:
    name = unique("EMPTY")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    before = read(spark, name, **at)
    for _ in range(3):
        rg.publish(f"{name}.a", b"x")
    stream.purge()
    after = read(spark, name, **at)
    for frame in (before, after):
        assert ", ".join(f"{column} {kind}" for column, kind in frame.dtypes) == SCHEMA
        assert frame.collect() == []
    rg.publish(f"{name}.a", b"x")
    assert sequences(read(spark, name, **at)) == [4]
    with pytest.raises(railgun.StreamNotFound):
        read(spark, unique("NOBODY"), **at)


def test_a_name_that_no_topic_may_have(spark: SparkSession, rg: railgun.Railgun, at: At) -> None:
    name = unique("Läger+ß")
    stream = rg.create_stream(name, subjects=["läger.>"])
    rg.publish("läger.süd", b"1")
    found = rows(read(spark, name, filter="läger.*", **at))
    assert found == held(stream)
    assert [one.subject for one in found] == ["läger.süd"]


# ------------------------------------------------------------ streams that were made anew


def test_a_frame_never_mixes_two_streams_of_a_name(spark: SparkSession, rg: railgun.Railgun, at: At) -> None:
    name = unique("AGAIN")
    rg.create_stream(name, subjects=[f"{name}.*"])
    for _ in range(5):
        rg.publish(f"{name}.a", b"former")
    former = read(spark, name, **at)
    assert former.count() == 5
    rg.delete_stream(name)
    rg.create_stream(name, subjects=[f"{name}.*"])
    for _ in range(7):
        rg.publish(f"{name}.a", b"new")
    assert {bytes(row.payload) for row in read(spark, name, **at).collect()} == {b"new"}
    with pytest.raises(PySparkException, match=MADE_ANEW):
        former.collect()


def test_a_query_ends_when_its_stream_is_made_anew(
    spark: SparkSession, rg: railgun.Railgun, at: At, tmp_path: Path
) -> None:
    name, out = unique("ANEW"), str(tmp_path / "out")
    rg.create_stream(name, subjects=[f"{name}.*"])
    rg.publish(f"{name}.a", b"former")
    query = _into(read_stream(spark, name, **at), tmp_path).start()
    try:
        wait_until(
            lambda: query.lastProgress is not None and query.lastProgress.sources[0].endOffset is not None,
            "the query has begun",
            60,
        )
        rg.delete_stream(name)
        rg.create_stream(name, subjects=[f"{name}.*"])
        for _ in range(9):  # more than the former stream had offsets
            rg.publish(f"{name}.a", b"new")
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(240)
    finally:
        query.stop()
    assert {bytes(row.payload) for row in spark.read.parquet(out).collect()} == {b"former"}


# ------------------------------------------------------------ streaming queries


def _into(frame: DataFrame, folder: Path) -> Any:
    return (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
    )


def test_a_query_goes_on_from_its_checkpoint(
    spark: SparkSession, rg: railgun.Railgun, cell: Cell, at: At, tmp_path: Path
) -> None:
    name = unique("QUERY")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])

    def publish(first: int, last: int) -> None:
        for n in range(first, last + 1):
            rg.publish(f"{name}.{n % 2}", b"%d" % n)

    def drained(**asked: Any) -> list[int]:
        frame = read_stream(spark, name, **asked, **at)
        assert frame.isStreaming
        query = _into(frame, tmp_path).trigger(availableNow=True).start()
        assert query.awaitTermination(240)
        return sequences(spark.read.schema(SCHEMA).parquet(str(tmp_path / "out")))

    publish(1, 40)
    removed = list(range(2, 40, 3))
    assert len(removed) > 8  # more runs than are written into a query
    for n in removed:
        stream.delete_message(n)
    plant(cell, name, [(f"{name}.0".encode(), b"", own_headers(41, incarnation_of(rg, name)))], abort=True)
    first = [n for n in range(3, 41) if n not in removed]
    assert drained(start=3, max_per_batch=25) == first
    publish(41, 45)
    assert drained(start="first") == [*first, *range(41, 46)]  # the checkpoint counts, not the start
    stream.purge()
    assert drained() == [*first, *range(41, 46)]
    publish(46, 46)
    assert drained() == [*first, *range(41, 47)]


def test_a_query_may_begin_with_what_is_new(
    spark: SparkSession, rg: railgun.Railgun, at: At, tmp_path: Path
) -> None:
    name = unique("NEW")
    rg.create_stream(name, subjects=[f"{name}.*"])
    rg.publish(f"{name}.a", b"old")
    frames = [
        read_stream(spark, name, start=start, **at).select(F.lit(label).alias("case"), "sequence")
        for label, start in (("new", "new"), ("future", 3), ("time", datetime.now(UTC) - DAY))
    ]
    for _ in range(3):
        rg.publish(f"{name}.a", b"new")
    query = _into(reduce(DataFrame.unionAll, frames), tmp_path).trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("case", "sequence").collect()
    assert [(row.case, row.sequence) for row in found] == [
        *(("future", n) for n in (3, 4)),
        *(("new", n) for n in (2, 3, 4)),
        *(("time", n) for n in (1, 2, 3, 4)),
    ]
    with pytest.raises(ConfigError, match="is not a valid max_per_batch"):
        read_stream(spark, name, max_per_batch=0, **at)


# ------------------------------------------------------------ logs that lost records


def test_buckets_are_read_as_streams(spark: SparkSession, rg: railgun.Railgun, at: At) -> None:
    name = unique("BUCKET")
    bucket = rg.create_bucket(name, history=2)
    for n in range(5):
        bucket.put("a", b"%d" % n)
    bucket.put("b", b"deleted")
    bucket.delete("b")
    bucket.put("c", b"kept")
    stream = rg.stream(f"KV_{name}")
    assert rows(read(spark, f"KV_{name}", **at)) == held(stream)
    assert {bytes(row.payload) for row in read(spark, f"KV_{name}", filter="*.*.a", **at).collect()} == {
        b"3",
        b"4",
    }


def test_a_compacted_log_gives_what_the_stream_holds(
    spark: SparkSession, rg: railgun.Railgun, cell: Cell, at: At, compacted: list[str]
) -> None:
    settings = KafkaSettings(cell.bootstrap)
    for name in compacted:
        stream = rg.stream(name)
        stream.delete_message(stream.get_last(f"{name}.1").sequence)

        def is_small(name: str = name) -> bool:
            rg.publish(f"{name}.tick", b"")  # the segment before it is closed
            return read(spark, name, all=True, **at).count() < PUTS // 2

        wait_until(is_small, "the log was not compacted", timeout=180, pause=0.5)
        assert rows(read(spark, name, **at)) == held(stream)
        assert committed_range(settings, Names(cell.prefix).log(name), 0)[1] > PUTS


def test_a_message_past_which_the_log_was_trimmed_is_there(
    spark: SparkSession, rg: railgun.Railgun, cell: Cell, at: At, straggling: str
) -> None:
    topic, stream = Names(cell.prefix).log(straggling), rg.stream(straggling)

    def is_trimmed() -> bool:
        rg.publish(f"{straggling}.tick", b"")
        return committed_range(KafkaSettings(cell.bootstrap), topic, 0)[0] > 1

    wait_until(is_trimmed, "the log was not trimmed past its oldest message", timeout=180, pause=0.5)
    frame = read(spark, straggling, **at)
    assert rows(frame) == held(stream)
    (old,) = read(spark, straggling, end=1, **at).collect()
    assert (old.subject, bytes(old.payload), old.headers, old.offset) == (
        f"{straggling}.old",
        b"lives",
        {"Name": "wert"},
        None,
    )
    message = stream.get(1)
    assert old.time_ns == message.time_ns
    assert sequences(read(spark, straggling, filter=f"{straggling}.new", **at)) == [10_402]
    assert sequences(read(spark, straggling, start=2, end=10_402, **at)) == [10_402]


@pytest.fixture(autouse=True)
def _no_query_is_left(spark: SparkSession) -> Iterator[None]:
    yield
    assert not spark.streams.active
