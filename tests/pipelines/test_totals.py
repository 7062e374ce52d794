"""Totals: right and written once, in a stream and in a bucket, though a batch comes twice, or nobody answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import railgun
from railgun.errors import ConfigError, NoWorker, RequestTimeout
from tests.pipelines.contents import expected_totals, sold, totals_in
from tests.support.naming import unique
from topologies.pipelines import totals as totals_module
from topologies.pipelines.parts.place import Place
from topologies.pipelines.totals import Target, Totalled, summed, totals

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
AT_ONCE = 0.1  # seconds: a window that helps nobody who comes back


def forget_newest(checkpoint: Path) -> None:
    """As if the driver was killed when the newest batch was written and the checkpoint did not know yet."""
    newest = max(checkpoint.glob("_checkpoint/commits/[0-9]*"), key=lambda file: int(file.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("bucket", [True, False])
def test_totals_are_written_once_though_no_worker_answers_for_a_moment(
    spark: SparkSession,
    at: Place,
    rg: railgun.Railgun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bucket: bool,
) -> None:
    """Nobody answers before the first batch is written, nor when the second one is."""
    name, into = sold(rg, 200), unique("TOTALS")
    if bucket:
        rg.create_bucket(into, dotted_keys=True, history=10)
    else:
        rg.create_stream(into, subjects=[f"{into}.>"], duplicate_window=AT_ONCE)
    target = Target(bucket=into) if bucket else Target(stream=into, subject=into)
    general, calls = totals_module._Batches._write, []

    def write(self: Any, *given: Any, **more: Any) -> int:
        calls.append(more["again"])
        if len(calls) == 1:
            raise NoWorker("no worker is alive")
        stored = general(self, *given, **more)
        if len(calls) == 3:
            raise RequestTimeout("no answer")
        return stored

    monkeypatch.setattr(totals_module._Batches, "_write", write)
    monkeypatch.setattr(totals_module, "_PAUSE", 2 * AT_ONCE)
    totals(spark, at, name, target, str(tmp_path / "totals"), field="price", max_per_batch=100)
    assert calls[:4] == [True, True, False, True]
    log = rg.stream(f"KV_{into}" if bucket else into)
    held = [message.payload for message in log.read()]
    assert len(held) == len(set(held)), "a total is there twice"
    newest = {json.loads(one)["key"]: one for one in held}
    assert totals_in(list(newest.values())) == expected_totals(name, 200)


def test_a_batch_that_comes_twice_is_written_once_also_in_a_bucket_and_for_one_job_alone(
    spark: SparkSession, at: Place, rg: railgun.Railgun, tmp_path: Path
) -> None:
    name, into, bucket = sold(rg, 300), unique("TOTALS"), unique("TOTALS")
    written = rg.create_stream(into, subjects=[f"{into}.>"], duplicate_window=AT_ONCE)
    values = rg.create_bucket(bucket, dotted_keys=True)
    for target in (Target(into, into), Target(bucket=bucket)):
        state = tmp_path / str(target.bucket)
        assert totals(spark, at, name, target, str(state), field="price") == Totalled(1, 3)
        forget_newest(state)
        assert totals(spark, at, name, target, str(state), field="price") == Totalled(1, 0)
    assert (written.info().state.last_seq, values.status().values) == (3, 3)
    assert totals_in(
        [entry.raw for entry in values.get_many(expected_totals(name, 1)).values()]
    ) == expected_totals(name, 300)

    with pytest.raises(ConfigError, match="belongs to another field"):
        totals(spark, at, name, Target(into, into), str(tmp_path / "None"))
    with pytest.raises(ConfigError, match="to a stream or to a bucket"):
        Target(into, into, bucket)
    for beginning in ("a b", "totals.*", "totals."):
        with pytest.raises(ConfigError, match="is not a valid beginning of subjects"):
            Target(into, beginning)
    card = tmp_path / "None" / "_railgun.json"
    card.write_text(
        json.dumps({key: value for key, value in json.loads(card.read_text()).items() if key != "run"})
    )
    card.with_name("._railgun.json.crc").unlink(missing_ok=True)
    with pytest.raises(ConfigError, match="has no 'run'"):
        totals(spark, at, name, Target(into, into), str(tmp_path / "None"), field="price")


def test_a_wrong_argument_spoils_no_folder(
    spark: SparkSession, at: Place, rg: railgun.Railgun, tmp_path: Path
) -> None:
    name, into, state = sold(rg, 3), unique("TOTALS"), str(tmp_path / "state")
    rg.create_stream(into, subjects=[f"{into}.>"])
    for wrong in ({"field": "a'b"}, {"window": "long"}, {"filter": "a..b"}, {"max_per_batch": 0}):
        with pytest.raises(ConfigError, match="is not a valid"):
            totals(spark, at, name, Target(into, into), state, **wrong)
    assert totals(spark, at, name, Target(into, into), state, field="price") == Totalled(1, 3)


def test_numbers_that_are_too_large_for_a_sum_add_nothing(spark: SparkSession) -> None:
    prices = ("9" * 22, "9" * 22, "9" * 32, "9" * 32, "9" * 32, "1e400", "-1e400", "NaN", "0.0000001")
    payloads = [("a", f'{{"price": {price}}}') for price in prices]
    frame = spark.createDataFrame(payloads, "subject string, payload string")
    (row,) = summed(frame, field="price").collect()
    assert json.loads(row["value"]) == {"key": "a", "count": 9, "sum": 2e22}


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_windows_are_the_same_in_every_time_zone(spark: SparkSession, zone: str) -> None:
    """Around the hour that a zone leaves out, and the one that it has twice, too."""
    frame = spark.range(2 * 4 * 24 * 365).selectExpr(
        "timestamp_seconds(1767225600 + id * 900) as time", "'a' as subject", "'' as payload"
    )
    before = [row["key"] for row in summed(frame, window="15 minutes").collect()]
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        found = [row["key"] for row in summed(frame, window="15 minutes").collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert sorted(found) == sorted(before)
    assert (min(found), max(found), len(found)) == ("20260101T000000Z", "20271231T234500Z", 2 * 4 * 24 * 365)


@pytest.mark.parametrize(
    "length", ["", "nonsense", "0 seconds", "1 month", "100 milliseconds", "1500 milliseconds"]
)
def test_a_window_that_is_not_of_whole_seconds_is_refused(spark: SparkSession, length: str) -> None:
    """Its key would be that of its neighbour."""
    frame = spark.sql("select now() as time, 'a' as subject, '' as payload")
    with pytest.raises(ConfigError, match="is not a valid length of time: give one of whole seconds"):
        summed(frame, window=length)


def test_windows_count_what_fell_into_them(
    spark: SparkSession, at: Place, rg: railgun.Railgun, tmp_path: Path
) -> None:
    name, bucket = sold(rg, 50), unique("WINDOWS")
    values = rg.create_bucket(bucket)
    totals(
        spark,
        at,
        name,
        Target(bucket=bucket),
        str(tmp_path / "state"),
        window="10 minutes",
        filter=f"{name}.1",
    )
    found = [values.get(key).value for key in values.keys()]
    assert sum(json.loads(value)["count"] for value in found) == 17
    stored = rg.stream(name).get_last(f"{name}.1").time
    begin = stored.replace(minute=stored.minute // 10 * 10)
    assert f"{begin:%Y%m%dT%H%M00Z}" in set(values.keys())
