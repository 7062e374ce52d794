"""Backfills: each message once, in its order, however often they run and whenever they are killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import railgun
from railgun.errors import ConfigError
from tests.pipelines.conftest import Kill
from tests.pipelines.contents import commands_of, content
from tests.support.naming import unique
from topologies.pipelines.archive import archive
from topologies.pipelines.backfill import Backfilled, backfill
from topologies.pipelines.parts.known_ids import held_ids
from topologies.pipelines.parts.place import Place

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
COUNT = 10_000
AT_ONCE = 0.1  # seconds: a window that helps nobody who comes back


def test_a_backfill_goes_on_after_its_driver_was_killed(
    spark: SparkSession, at: Place, rg: railgun.Railgun, killed: Kill, tmp_path: Path
) -> None:
    origin, copy, folder = unique("ORIGIN"), unique("COPY"), str(tmp_path / "archive")
    rg.create_stream(origin, subjects=[f"{origin}.*"])
    target = rg.create_stream(copy, subjects=[f"{copy}.*"], duplicate_window=AT_ONCE)
    padding = bytes(2_000)
    futures = [
        rg.publish_soon(f"{origin}.{n % 3}", b"%d" % n + padding, msg_id=f"first-{n}", headers={"N": str(n)})
        for n in range(COUNT)
    ]
    for future in futures:
        future.result()
    archive(spark, at, origin, folder)

    with commands_of(at, rg, copy) as sent:
        before = sent()
        killed(
            "backfill", folder, copy, "--replace", f"{origin}.={copy}.", once=lambda: sent() > before + 100
        )
    held = target.info().state.messages
    assert 0 < held < COUNT, "it was killed in the middle"

    done = backfill(spark, at, folder, copy, replace=(f"{origin}.", f"{copy}."))
    assert done == Backfilled(COUNT, held, 0, COUNT - held, 0)
    assert content(rg, copy) == content(rg, origin)
    assert target.get(COUNT).header("Archived-Msg-Id") == f"first-{COUNT - 1}"
    again = backfill(spark, at, folder, copy, replace=(f"{origin}.", f"{copy}."))
    assert again == Backfilled(COUNT, COUNT, 0, 0, 0)


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


def test_what_was_taken_from_a_work_queue_does_not_come_back(
    spark: SparkSession, at: Place, rg: railgun.Railgun, tmp_path: Path
) -> None:
    name, source = unique("JOBS"), str(tmp_path / "rows")
    jobs = rg.create_stream(
        name,
        subjects=[f"{name}.*"],
        retention="workqueue",
        duplicate_window=AT_ONCE,
        max_msgs=3,
        discard="new",
    )
    hands = jobs.create_consumer("HANDS")
    rows = [(f"{name}.{n}", b"%d" % n, n) for n in range(1, 5)]
    spark.createDataFrame(rows, "subject string, payload binary, sequence long").write.parquet(source)
    first = backfill(spark, at, source, name)
    assert (first.stored, first.refused, *first.reasons) == (3, 1, "maximum messages exceeded")
    for message in hands.fetch(3, wait=20):
        message.ack_sync()
    assert backfill(spark, at, source, name) == Backfilled(4, 0, 3, 1, 0), "the refused one, and no other"
    assert [message.payload for message in jobs.read()] == [b"4"]
    for message in hands.fetch(1, wait=20):
        message.ack_sync()
    assert backfill(spark, at, source, name) == Backfilled(4, 0, 4, 0, 0), "refused once, and taken since"


def test_what_was_refused_is_tried_again_behind_its_successors(
    spark: SparkSession, at: Place, rg: railgun.Railgun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, source = unique("REFUSED"), str(tmp_path / "rows")
    stream = rg.create_stream(name, subjects=[f"{name}.*"], duplicate_window=AT_ONCE, max_msg_size=200)
    rg.publish(f"{name}.own", b"", msg_id="not a number")
    large = bytes(300)
    frame = spark.createDataFrame(
        [(f"{name}.a", large, 1, 1), (f"{name}.a", b"small", 2, 2), (f"{name}.b", large, 3, 3)],
        "subject string, payload binary, sequence long, msg_id long",
    )
    frame.write.parquet(source)
    assert backfill(spark, at, source, name).refused == 2
    rg.update_stream(name, max_msg_size=-1)
    assert backfill(spark, at, source, name) == Backfilled(3, 1, 0, 2, 0)
    assert [message.payload for message in stream.read(start=2)] == [b"small", large, large]

    def just_before(*given: Any) -> DataFrame:
        stream.purge()
        return held_ids(*given)

    monkeypatch.setattr("topologies.pipelines.backfill.held_ids", just_before)
    assert backfill(spark, at, source, name) == Backfilled(3, 0, 3, 0, 0), "removed while they were looked up"


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


def test_a_stream_has_had_what_is_in_its_own_archive(
    spark: SparkSession, at: Place, rg: railgun.Railgun, tmp_path: Path
) -> None:
    name, folder = unique("OWN"), str(tmp_path / "archive")
    stream = rg.create_stream(name, subjects=[f"{name}.*", f"copy.{name}.*"])
    for n in range(4):
        rg.publish(f"{name}.{n}", b"%d" % n)
    archive(spark, at, name, folder)
    stream.delete_message(2)
    assert backfill(spark, at, folder, name) == Backfilled(4, 3, 1, 0, 0)
    assert backfill(spark, at, folder, name, replace=(name, f"copy.{name}")).stored == 4
    rg.delete_stream(name)
    rg.create_stream(name, subjects=[f"{name}.*"])
    assert backfill(spark, at, folder, name) == Backfilled(4, 0, 0, 4, 0), "another stream of the name"
