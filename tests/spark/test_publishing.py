"""Rows published into streams: each once, however often it is tried, and none where some cannot be sent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import railgun
from railgun.errors import ConfigError
from railgun.kafka.settings import KafkaSettings
from railgun.model.subjects import is_literal
from railgun.protocol.topics import Names
from railgun.spark import Published, publish, read, submit_args
from railgun.spark.places import committed_range
from railgun.spark.rows import checked_columns, refuse_wrong_rows
from tests.support.cell import Cell
from tests.support.checkout import TOP, environment
from tests.support.naming import unique
from tests.support.spark import At, held, rows
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]  # the first test waits for the JVM

ROWS = "subject string, payload binary, headers map<string,string>, msg_id string"


def _commands(cell: Cell) -> list[int]:
    """Where the commands of each shard end."""
    at = KafkaSettings(cell.bootstrap)
    return [committed_range(at, Names(cell.prefix).commands, n)[1] for n in range(PARTITIONS)]


def _numbered(spark: SparkSession, name: str, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).select(
        F.concat(F.lit(f"{name}."), F.col("id") % 5).alias("subject"),
        F.col("id").cast("string").alias("payload"),
        F.concat(F.lit("row-"), F.col("id")).alias("msg_id"),
    )


def test_rows_become_messages_and_come_back_as_rows(spark: SparkSession, rg: railgun.Railgun, at: At) -> None:
    name = unique("ROWS")
    stream = rg.create_stream(name, subjects=[f"{name}.>", "ü.*"], max_msg_size=100)
    given: list[tuple[str, bytes | None, dict[str, str] | None, str]] = [
        (f"{name}.a", b"\x00\xff", {"A": "1", "Größe": "ü"}, "1"),
        ("ü.ß", b"text", None, "2"),
        (f"{name}.null", None, {}, "3"),
        (f"{name}.own", b"", {"Nats-Msg-Id": "not this one", "Railgun-Kind": "pack", "B": "2"}, "4"),
        ("elsewhere.a", b"not captured", None, "5"),
        (f"{name}.large", bytes(101), None, "6"),
    ]
    told: list[tuple[int, int]] = []
    frame = spark.createDataFrame(given, ROWS).coalesce(1)
    done = publish(frame, name, progress=lambda *step: told.append(step), **at)
    assert (done.sent, done.stored, done.duplicates, done.refused) == (6, 4, 0, 2)
    assert sum(done.reasons.values()) == 2
    assert len(done.reasons) == 2
    assert told[0] == (0, 6)
    assert told[-1] == (6, 6)
    found = held(stream)
    assert [(one.subject, one.payload, one.headers) for one in found] == [
        (f"{name}.a", b"\x00\xff", {"Nats-Msg-Id": "1", "A": "1", "Größe": "ü"}),
        ("ü.ß", b"text", {"Nats-Msg-Id": "2"}),
        (f"{name}.null", b"", {"Nats-Msg-Id": "3"}),
        (f"{name}.own", b"", {"Nats-Msg-Id": "4", "B": "2"}),
    ]
    assert rows(read(spark, name, **at)) == found


def test_what_is_published_twice_is_stored_once(spark: SparkSession, rg: railgun.Railgun, at: At) -> None:
    name = unique("TWICE")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    frame = _numbered(spark, name, 40)
    rg.publish(f"{name}.0", b"0", msg_id="row-0")
    assert publish(frame, name, **at) == Published(40, 39, 1, 0)
    assert publish(frame, name, **at) == Published(40, 0, 40, 0)
    assert sorted(one.payload for one in held(stream)) == sorted(b"%d" % n for n in range(40))
    dotted = frame.withColumnRenamed("msg_id", "my.`id")
    assert publish(dotted, name, ids="my.`id", **at) == Published(40, 0, 40, 0)
    assert publish(frame.limit(3), name, ids=None, progress=True, **at) == Published(3, 3, 0, 0)
    assert publish(frame.limit(0), name, **at) == Published(0, 0, 0, 0)
    assert stream.info().state.messages == 43


def test_nothing_is_sent_where_a_row_cannot_be(
    spark: SparkSession, rg: railgun.Railgun, cell: Cell, at: At
) -> None:
    name = unique("BAD")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    good = _numbered(spark, name, 3)
    first = F.col("msg_id") == "row-0"

    def spoiled(column: str, value: Any) -> DataFrame:
        return good.withColumn(column, F.when(first, value).otherwise(F.col(column)))

    before = _commands(cell)
    cases: list[tuple[DataFrame, str]] = [
        (
            spoiled("subject", F.lit("a..b")),
            r"1 of 3 rows have no valid subject .* 'a\.\.b'.*nothing was sent",
        ),
        (spoiled("subject", F.lit(None)), "1 of 3 rows have no valid subject .* 'null'.*nothing was sent"),
        (spoiled("msg_id", F.lit(None)), "1 of 3 rows have no id.*nothing was sent"),
        (spoiled("msg_id", F.lit("")), "1 of 3 rows have no id.*nothing was sent"),
        (
            spoiled("payload", F.expr("repeat('x', 9000000)")),
            "1 of 3 rows are larger than .*nothing was sent",
        ),
        (spoiled("msg_id", F.expr("repeat('x', 9000000)")), "1 of 3 rows are larger than .*nothing was sent"),
        (good.drop("subject"), "no column 'subject'"),
        (good.drop("payload"), "no column 'payload'"),
        (good.drop("msg_id"), r"no column 'msg_id': add it \(or ids=None"),
        (good.withColumn("payload", F.lit(1)), "must be binary, or of strings"),
        (good.withColumn("subject", F.lit(1)), "must be of strings"),
        (good.withColumn("headers", F.lit("a")), "must be a map of strings"),
    ]
    for frame, says in cases:
        with pytest.raises(ConfigError, match=says):
            publish(frame, name, **at)
    with pytest.raises(railgun.StreamNotFound):
        publish(good, unique("NOBODY"), **at)
    sent = [after - begin for after, begin in zip(_commands(cell), before, strict=True)]
    assert max(sent) <= 2 * len(cases) + 4  # the questions of each call, and no row
    assert stream.info().state.last_seq == 0


_TOKENS = st.sampled_from(
    ["a", "", "*", ">", "*a", "a>", "a b", "\t", "a\n", "\0", "ü", "\u00a0", "\u2028", "$"]
)


@settings(max_examples=1, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(
    subjects=st.lists(st.lists(_TOKENS, max_size=3).map(".".join), min_size=200, max_size=200, unique=True)
)
def test_subjects_are_refused_as_everywhere(spark: SparkSession, subjects: list[str]) -> None:
    frame = spark.createDataFrame([(one, b"") for one in subjects], "subject string, payload binary")
    wrong = sum(not is_literal(one) for one in subjects)
    assert 0 < wrong < len(subjects)
    with pytest.raises(ConfigError, match=f"^{wrong} of {len(subjects)} rows have no valid subject"):
        refuse_wrong_rows(checked_columns(frame, None), "ANY")
    right = checked_columns(
        frame.where(F.col("subject").isin([one for one in subjects if is_literal(one)])), None
    )
    assert refuse_wrong_rows(right, "ANY") == len(subjects) - wrong


# ------------------------------------------------------------ a driver of its own, with spark-submit

MANY, TASKS = 3_000, 100  # tasks of few rows each: the job lasts long enough to be killed in its middle
JOB = f"""
import sys
import railgun.spark
from pyspark.sql import functions as F

server, prefix, source, target, out = sys.argv[1:]
at = {{"server": server, "prefix": prefix}}
spark = railgun.spark.session("killed")
assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
rows = railgun.spark.read(spark, source, **at)
with open(out, "w") as file:
    file.write(f"{{rows.count()}} rows on {{spark.sparkContext.master}}")
frame = spark.range(0, {MANY}, 1, {TASKS}).select(
    F.lit(target + ".a").alias("subject"), F.col("id").cast("string").alias("payload"), F.col("id").alias("msg_id")
)
railgun.spark.publish(frame, target, **at)
"""


@pytest.mark.timeout(900)
def test_a_submitted_driver_is_killed_and_its_rows_are_there_once(
    spark: SparkSession, rg: railgun.Railgun, cell: Cell, at: At, tmp_path: Path
) -> None:
    source, target = unique("SOURCE"), unique("TARGET")
    rg.create_stream(source, subjects=[f"{source}.*"])
    for _ in range(3):
        rg.publish(f"{source}.a", b"x")
    stream = rg.create_stream(target, subjects=[f"{target}.*"])
    job, out, log = tmp_path / "job.py", tmp_path / "out", tmp_path / "log"
    job.write_text(JOB, encoding="utf-8")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    arguments = [cell.bootstrap, cell.prefix, source, target, str(out)]
    with log.open("wb") as told:
        driver = subprocess.Popen(
            [submit, "--master", "local[1]", *submit_args(), job, *arguments],
            env={
                **environment(),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # it is over soon
            },
            cwd=TOP,
            stdout=told,
            stderr=told,
            start_new_session=True,
        )
        try:
            wait_until(
                lambda: driver.poll() is not None or stream.info().state.messages > 0,
                "the driver publishes",
                400,
                pause=0.01,
            )
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait(60)
    assert out.read_text() == "3 rows on local[1]", log.read_text()
    before = stream.info().state.messages
    assert 0 < before < MANY, log.read_text()
    said = [line for line in log.read_text().splitlines() if "incubator modules" not in line]  # Java's own
    assert said == []

    frame = spark.range(0, MANY, 1, 2).select(
        F.lit(f"{target}.a").alias("subject"),
        F.col("id").cast("string").alias("payload"),
        F.col("id").alias("msg_id"),
    )
    done = publish(frame, target, **at)
    assert (done.sent, done.refused, done.stored + done.duplicates) == (MANY, 0, MANY)
    assert done.duplicates >= before
    assert sorted(int(one.payload) for one in held(stream)) == list(range(MANY))


@pytest.mark.parametrize("again", [True, False])
def test_rows_for_a_stream_that_is_deleted_or_made_anew_are_not_told_as_stored(
    again: bool, spark: SparkSession, rg: railgun.Railgun, at: At
) -> None:
    name = unique("ANEW")
    rg.create_stream(name, subjects=[f"{name}.*"])
    told: list[int] = []

    def changed(done: int, total: int) -> None:
        told.append(done)
        if len(told) == 1:  # before anything is sent
            rg.delete_stream(name)
            if again:
                rg.create_stream(name, subjects=[f"{name}.*"])

    with pytest.raises(railgun.RailgunError, match="was deleted or made again meanwhile"):
        publish(_numbered(spark, name, 3), name, progress=changed, **at)


def test_an_error_of_the_progress_is_raised(spark: SparkSession, rg: railgun.Railgun, at: At) -> None:
    name = unique("PROGRESS")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])

    def broken(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        publish(_numbered(spark, name, 3), name, progress=broken, **at)
    assert stream.info().state.messages == 0
