"""Columns without Kafka: records that are messages and those that are not, wildcards, and framed Avro."""

from __future__ import annotations

import io
import json
import struct
import time
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from railgun.errors import ConfigError
from railgun.model.subjects import is_literal, is_valid, matches
from railgun.protocol import log_record
from railgun.spark import from_avro, subject_filter
from railgun.spark.columns import MADE_ANEW, messages
from railgun.spark.gaps import runs_of, without
from railgun.spark.rows import checked_columns, refuse_wrong_rows
from tests.support.spark import Headers, own_headers

pytestmark = pytest.mark.timeout(600)  # the first test waits for the JVM

RECORDS = "key binary, value binary, headers array<struct<key:string,value:binary>>, offset bigint"
GOOD = own_headers(7, 3)
LARGEST = 2**63 - 1


def _frame(spark: SparkSession, records: list[tuple[bytes | None, bytes | None, Headers | None]]) -> Any:
    given = [
        (
            None if key is None else bytearray(key),
            None if value is None else bytearray(value),
            None if headers is None else [(n, None if v is None else bytearray(v)) for n, v in headers],
            offset,
        )
        for offset, (key, value, headers) in enumerate(records)
    ]
    return spark.createDataFrame(given, RECORDS)


def test_a_record_is_a_message_where_railguns_own_reader_says_so(spark: SparkSession) -> None:
    numbers = [
        "1",
        str(LARGEST),
        "007",
        "0",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1\n",
        "1.0",
        "1e3",
        "",
        "x",
        "٣",
        str(2**63),
        "1" * 20,
    ]
    records: list[tuple[bytes | None, bytes | None, Headers | None]] = [
        *((b"a.b", b"", own_headers(number, 3)) for number in numbers),
        *((b"a.b", b"", own_headers(5, number)) for number in ("3", "2", "1", "0", "")),
        (b"a.b", b"", None),
        (b"a.b", b"", []),
        (b"a.b", b"", GOOD[1:]),
        (b"a.b", b"", GOOD[::-1]),
        (b"a.b", b"", [*GOOD, ("X", b"behind")]),
        (b"a.b", b"", [("Railgun-Sequence", None), *GOOD[1:]]),
        (b"a.b", b"", [("X", b"1"), *GOOD]),
    ]
    wanted = [
        (offset, log_record.identity(headers)[1])
        for offset, (_, _, headers) in enumerate(records)
        if log_record.identity(headers)[0] == 3
    ]
    assert [sequence for _, sequence in wanted] == [1, LARGEST, 7, 5, 7]

    not_messages: list[tuple[bytes | None, bytes | None, Headers | None]] = [
        (b"a.b", None, []),  # a tombstone
        (b"\0railgun", None, []),
        (b"a.b", None, GOOD),
        (None, b"", GOOD),
        (b"", b"", GOOD),
        (b"\0railgun", b"", GOOD),
        (b"a.\xff", b"", GOOD),
        (b"a.b", b"", own_headers(7, 3, "late")),
    ]
    found = messages(_frame(spark, records + not_messages), 3).select("offset", "sequence").collect()
    assert sorted((row.offset, row.sequence) for row in found) == wanted


def test_a_message_of_a_later_stream_ends_the_query(spark: SparkSession) -> None:
    asked = time.time_ns()
    later = _frame(spark, [(b"a.b", b"", own_headers(7, 3)), (b"a.b", b"", own_headers(7, 12, asked))])
    with pytest.raises(PySparkException, match=MADE_ANEW):
        messages(later, 3, asked=asked).collect()
    assert [row.offset for row in messages(later, 12).collect()] == [1]


def test_a_forged_message_of_a_later_stream_does_not_end_the_query_for_ever(spark: SparkSession) -> None:
    asked = time.time_ns()
    times = (asked - 1, asked + 3 * 86_400 * 10**9, LARGEST, 0, "", "late")
    forged = [(b"a.b", b"", own_headers(7, 12, time_ns)) for time_ns in times]
    planted = _frame(spark, [(b"a.b", b"", GOOD), *forged, (b"a.b", b"", own_headers(7, 12)[2:])])
    assert [row.offset for row in messages(planted, 3, asked=asked).collect()] == [0]


def test_micro_batches_share_their_code(spark: SparkSession, tmp_path: Path) -> None:
    """What differs from one to the next, as the time does, would have each compiled anew."""
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    at: list[int] = []
    folder = tmp_path / "records"
    _frame(spark, [(b"a.b", b"", GOOD)]).repartition(1).write.parquet(str(folder))
    (file,) = folder.glob("*.parquet")
    for number in range(2):
        (folder / f"more-{number}.parquet").write_bytes(file.read_bytes())
    records = (
        spark.readStream.schema(_frame(spark, []).schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    )

    def store(rows: DataFrame, number: int) -> None:
        rows.write.format("noop").mode("overwrite").save()
        at.append(compiled.getCount())

    messages(records, 3).writeStream.foreachBatch(store).trigger(availableNow=True).start().awaitTermination(
        60
    )
    assert len(at) == 3
    assert at[2] == at[1], "the third micro-batch was compiled anew"


def test_the_columns_of_a_message(spark: SparkSession) -> None:
    published: Headers = [("A", b"1"), ("A", b"2"), ("B", b"\xff!"), ("C", None), ("D", "ü".encode())]
    time = 1_700_000_000_123_456_789
    frame = messages(
        _frame(
            spark,
            [
                (b"a.b\x0012", b"\x00\xff", [*published, *own_headers(12, 3, time)]),
                ("ä.b".encode(), b"", own_headers(13, 3, time)),
                (b"a.one", b"", [("A", b"\xff"), *own_headers(14, 3, time)]),
                (b"a.null", b"", [("A", None), *own_headers(15, 3, time)]),
                (b"a.two", b"", [("A", b"1"), ("B", "ü".encode()), *own_headers(16, 3, time)]),
                (b"a.twice", b"", [("A", b"1"), ("A", b"2"), *own_headers(17, 3, time)]),
                (b"a.split", b"", [("A", b"\xc3"), ("B", b"\xbc"), *own_headers(18, 3, time)]),
                (b"a.null", b"", [("A", b"1"), ("B", None), *own_headers(19, 3, time)]),
            ],
        ),
        3,
    )
    assert ", ".join(f"{name} {kind}" for name, kind in frame.dtypes) == (
        "sequence bigint, subject string, time timestamp, time_ns bigint, headers map<string,string>, payload binary, offset bigint"
    )
    slotted, plain, *others = frame.withColumn("micros", F.unix_micros("time")).orderBy("sequence").collect()
    assert (slotted.subject, bytes(slotted.payload), slotted.offset) == ("a.b", b"\x00\xff", 0)
    assert (slotted.time_ns, slotted.micros) == (time, time // 1000)
    assert slotted.headers == {"A": "1", "B": "\ufffd!", "C": "", "D": "ü"}
    assert (plain.subject, bytes(plain.payload), plain.headers) == ("ä.b", b"", {})
    assert [one.headers for one in others] == [
        {"A": "\ufffd"},
        {"A": ""},
        {"A": "1", "B": "ü"},
        {"A": "1"},
        {"A": "\ufffd", "B": "\ufffd"},
        {"A": "1", "B": ""},
    ]


_TOKENS = st.sampled_from(["a", "b", "ab", "*", ">", "*a", "a>", "a+b", "[a]", "\\E", "$", "ü", "😀"])
_SUBJECTS = st.lists(_TOKENS, min_size=1, max_size=4).map(".".join)


@settings(
    max_examples=3, derandomize=True, database=None, suppress_health_check=list(HealthCheck), deadline=None
)
@given(
    filters=st.lists(_SUBJECTS.filter(is_valid), min_size=40, max_size=60, unique=True),
    subjects=st.lists(_SUBJECTS.filter(is_literal), min_size=100, max_size=200, unique=True),
)
def test_filters_match_what_they_match_elsewhere(
    spark: SparkSession, filters: list[str], subjects: list[str]
) -> None:
    frame = spark.createDataFrame([(one,) for one in subjects], "subject string")
    passing = F.array(*[F.when(subject_filter("subject", one), F.lit(n)) for n, one in enumerate(filters)])
    found = frame.select("subject", F.array_compact(passing).alias("passing")).collect()
    assert {row.subject: row.passing for row in found} == {
        subject: [n for n, one in enumerate(filters) if matches(one, subject)] for subject in subjects
    }


def test_a_subject_of_very_many_tokens_ends_nothing(spark: SparkSession) -> None:
    """Java's stack has no room for each of them, and when it is full the JVM ends."""
    long = ".".join("a" * 50_000)
    frame = spark.createDataFrame([(long, b""), (f"b.{long}", b"")], "subject string, payload binary")
    found = frame.where(subject_filter("subject", "a.>") | subject_filter("subject", "*.a.>"))
    assert [row.subject for row in found.select("subject").collect()] == [long, f"b.{long}"]
    assert refuse_wrong_rows(checked_columns(frame, None), "ANY") == 2
    assert spark.range(3).count() == 3, "it runs on"


@pytest.mark.parametrize("wrong", ["", "a..b", ".a", "a.>.b", "a b", "a.\n"])
def test_what_is_not_a_filter_is_refused(spark: SparkSession, wrong: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid subject filter"):
        subject_filter("subject", wrong)


def test_any_number_of_runs_is_left_out(spark: SparkSession) -> None:
    numbers = range(1, 3001)
    gone = [n for n in numbers if n % 3 == 0 or 700 <= n < 1500]
    few = [n for n in numbers if n < 10 or n > 2990]
    frame = spark.range(1, 3001).withColumnRenamed("id", "sequence")
    assert len(runs_of(gone)) > 700
    for missing in (gone, few, []):
        left = without(frame, runs_of(missing)).collect()
        assert sorted(row.sequence for row in left) == sorted(set(numbers) - set(missing))


# ------------------------------------------------------------ Avro

OLD = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
NEW = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string", "default": "tea"}],
    }
)


def _framed(number: int, schema: str, record: dict[str, Any]) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(json.loads(schema)), record)
    return b"\0" + struct.pack(">I", number) + body.getvalue()


def test_framed_avro_is_read_by_the_schema_of_its_writer(spark: SparkSession) -> None:
    payloads = [
        _framed(1, OLD, {"id": 41}),
        _framed(200_000, NEW, {"id": 42, "item": "milk"}),
        _framed(3, OLD, {"id": 43}),  # an id that is not given
        b"\1" + _framed(1, OLD, {"id": 44})[1:],  # another first byte
        b"\0\0\0",
        b"",
        b"\0\0\0\0\1",  # framed, without data
        None,
    ]
    frame = spark.createDataFrame([(n, p) for n, p in enumerate(payloads)], "n int, payload binary")
    writers = {1: OLD, 200_000: NEW}
    rows = frame.select("n", from_avro("payload", writers, NEW).alias("order")).orderBy("n").collect()
    found = [
        None if row.order is None or row.order.id is None else (row.order.id, row.order.item) for row in rows
    ]
    assert found == [(41, "tea"), (42, "milk"), None, None, None, None, None, None]

    for place, says in ((2, "no schema is given of the writer 3"), (3, "not framed"), (4, "not framed")):
        with pytest.raises(PySparkException, match=says):
            frame.where(f"n = {place}").select(from_avro("payload", writers, NEW, "FAILFAST")).collect()
    fine = frame.where("n < 2").select(from_avro("payload", writers, NEW, "FAILFAST").alias("order"))
    assert sorted(row.order.id for row in fine.collect()) == [41, 42]


def test_wrong_arguments_of_from_avro_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="writer 1 is not a valid Avro schema"):
        from_avro("payload", {1: "{}"})
    with pytest.raises(ConfigError, match="is not a valid mode"):
        from_avro("payload", {1: OLD}, mode="DROPMALFORMED")
    with pytest.raises(ConfigError, match="at least one writer"):
        from_avro("payload", {})
    kids = {"name": "kids", "type": {"type": "array", "items": "Node"}, "default": []}
    node = {"type": "record", "name": "Node", "fields": [{"name": "id", "type": "long"}, kids]}
    for schemas in ({"writers": {1: json.dumps(node)}}, {"writers": {1: OLD}, "reader": json.dumps(node)}):
        with pytest.raises(ConfigError, match="has a record that holds itself, for which Spark has no type"):
            from_avro("payload", **schemas)
    leaf = json.dumps({**node, "fields": node["fields"][:1]})
    frame = spark.createDataFrame([(b"\0\0\0\0\1\x54\0",)], "payload binary")
    (row,) = frame.select(from_avro("payload", {1: json.dumps(node)}, reader=leaf).alias("node")).collect()
    assert row.node.asDict() == {"id": 42}
