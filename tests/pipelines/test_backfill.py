"""Backfills: each message once, in its order, however often they run and whenever they are killed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import railgun
from railgun.errors import ConfigError
from tests.pipelines.conftest import Kill
from tests.support.naming import unique
from topologies.archive import archive
from topologies.backfill import Backfilled, backfill
from topologies.place import Place

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
AT_ONCE = 0.1  # seconds: a window that helps nobody who comes back


def content(rg: railgun.Railgun, name: str) -> list[tuple[str, str]]:
    """Subject, without its first token, and hash of what a stream holds, in order."""
    return [
        (one.subject.partition(".")[2], hashlib.sha256(one.payload).hexdigest())
        for one in rg.stream(name).read()
    ]


def test_a_backfill_goes_on_after_its_driver_was_killed(
    spark: SparkSession, at: Place, rg: railgun.Railgun, killed: Kill, tmp_path: Path
) -> None:
    origin, copy, folder = unique("ORIGIN"), unique("COPY"), str(tmp_path / "archive")
    rg.create_stream(origin, subjects=[f"{origin}.*"])
    target = rg.create_stream(copy, subjects=[f"{copy}.*"], duplicate_window=AT_ONCE)
    padding = bytes(1_000)
    futures = [
        rg.publish_soon(f"{origin}.{n % 3}", b"%d" % n + padding, msg_id=f"first-{n}", headers={"N": str(n)})
        for n in range(8_000)
    ]
    for future in futures:
        future.result()
    archive(spark, at, origin, folder)

    renamed = f"{origin}.={copy}."
    killed("backfill", folder, copy, "--replace", renamed, once=lambda: target.info().state.messages > 0)
    held = target.info().state.messages
    assert held > 0

    done = backfill(spark, at, folder, copy, replace=(f"{origin}.", f"{copy}."))
    assert done == Backfilled(8_000, held, 0, 8_000 - held, 0)
    assert content(rg, copy) == content(rg, origin)
    assert target.get(8_000).header("Archived-Msg-Id") == "first-7999"
    again = backfill(spark, at, folder, copy, replace=(f"{origin}.", f"{copy}."))
    assert again == Backfilled(8_000, 8_000, 0, 0, 0)


def test_what_a_limit_removed_does_not_come_back_over_its_successor(
    spark: SparkSession, at: Place, rg: railgun.Railgun, tmp_path: Path
) -> None:
    name = unique("STATE")
    state = rg.create_stream(name, subjects=[f"{name}.*"], max_msgs_per_subject=1, duplicate_window=AT_ONCE)
    rows = [(f"{name}.a", b"old", 1), (f"{name}.b", b"only", 2), (f"{name}.a", b"new", 3)]
    source = str(tmp_path / "rows")
    frame = spark.createDataFrame(
        [(subject, payload, number, f"row-{number}") for subject, payload, number in rows],
        "subject string, payload binary, sequence long, msg_id string",
    )
    frame.write.parquet(source)
    assert backfill(spark, at, source, name) == Backfilled(3, 0, 0, 3, 0)
    assert backfill(spark, at, source, name) == Backfilled(3, 2, 1, 0, 0)
    assert state.get_last(f"{name}.a").payload == b"new"
    assert state.info().state.last_seq == 3


def test_rows_without_ids_are_known_by_their_content_and_other_folders_refused(
    spark: SparkSession, at: Place, rg: railgun.Railgun, tmp_path: Path
) -> None:
    name, source = unique("PLAIN"), str(tmp_path / "rows")
    stream = rg.create_stream(name, subjects=[f"{name}.*"], duplicate_window=AT_ONCE)
    rows = [(f"{name}.a", b"same"), (f"{name}.a", b"same"), (f"{name}.a", None), (f"{name}.b", b"same")]
    spark.createDataFrame(rows, "subject string, payload binary").write.parquet(source)
    assert backfill(spark, at, source, name).stored == 4
    spark.createDataFrame([(f"{name}.a", b"same")], "subject string, payload binary").write.mode(
        "append"
    ).parquet(source)
    assert backfill(spark, at, source, name) == Backfilled(5, 4, 0, 1, 0)
    assert sorted(one.payload for one in stream.read()) == [b"", b"same", b"same", b"same", b"same"]

    with pytest.raises(ConfigError, match="there is no folder"):
        backfill(spark, at, str(tmp_path / "nothing"), name)
    spark.createDataFrame([(1,)], "number int").write.parquet(str(tmp_path / "numbers"))
    with pytest.raises(ConfigError, match="no column 'subject'"):
        backfill(spark, at, str(tmp_path / "numbers"), name)
