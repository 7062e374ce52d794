"""Archives: each message once and as the stream has it, whatever interrupts them, and never of two streams."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

import railgun
from railgun.errors import ConfigError, NoWorker, RailgunError
from tests.pipelines.conftest import Kill, Start, group_is_empty
from tests.pipelines.contents import archived, filled, live, publish, whole_batches
from tests.support.checkout import TOP, environment
from tests.support.naming import unique
from tests.support.waiting import wait_until
from topologies.pipelines.archive import Archived, _dated, archive, summary
from topologies.pipelines.audit import audit
from topologies.pipelines.parts.batches import run_batches
from topologies.pipelines.parts.folder import Folder
from topologies.pipelines.parts.message_files import read_archive
from topologies.pipelines.parts.place import Place

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_an_archive_goes_on_after_a_kill_and_after_ctrl_c(
    spark: SparkSession, at: Place, rg: railgun.Railgun, killed: Kill, started: Start, tmp_path: Path
) -> None:
    name, target = filled(rg, 2_000), tmp_path / "archive"
    second = target / "batch=1"
    killed("archive", name, str(target), "--max-per-batch", "100", once=second.exists)
    before = whole_batches(target)
    assert 0 < before < 20, "it was killed in the middle"

    publish(rg, name, 100)
    with started("archive", name, str(target), "--follow") as process:
        wait_until(lambda: whole_batches(target) > before, "it goes on", 400)
        publish(rg, name, 100)
        process.send_signal(signal.SIGINT)
        assert process.wait(180) == 130
        wait_until(lambda: group_is_empty(process.pid), "nothing of it is left, Spark's Java neither", 60)
    said = (tmp_path / "driver.log").read_text()
    assert "stopped: run it again to go on" in said
    assert "Traceback" not in said

    done = archive(spark, at, name, str(target), max_per_batch=1_000)
    assert archived(spark, target) == live(rg, name)
    assert (done.messages, done.first_seq, done.last_seq) == (2_200, 1, 2_200)


def test_executors_are_processes_of_their_own_on_a_cluster(
    spark: SparkSession, rg: railgun.Railgun, started: Start, tmp_path: Path
) -> None:
    name, target = filled(rg, 300), tmp_path / "archive"
    with started("archive", name, str(target), "--master", "local-cluster[1,1,1024]") as process:
        assert process.wait(400) == 0, (tmp_path / "driver.log").read_text()
    assert archived(spark, target) == live(rg, name)


def test_an_archive_is_kept_up_to_date_while_no_worker_answers(
    spark: SparkSession, at: Place, rg: railgun.Railgun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are read from Kafka, also while the one worker is restarted."""
    name, target = filled(rg, 10), tmp_path / "archive"
    archive(spark, at, name, str(target))
    following = threading.Event()

    def nobody(*_: object, **__: object) -> None:
        raise NoWorker("no worker is alive")

    def batches(*given: Any, follow: bool = False, **more: Any) -> None:
        if follow:
            monkeypatch.setattr("railgun.client.facade.sync.stream.Stream.info", nobody)
            following.set()
        run_batches(*given, follow=follow, **more)

    monkeypatch.setattr("topologies.pipelines.archive.run_batches", batches)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(archive, spark, at, name, str(target), follow=True)
        try:
            wait_until(lambda: running.done() or following.is_set(), "it follows", 120)
            for _ in range(2):
                before = whole_batches(target)
                publish(rg, name, 10)
                wait_until(
                    lambda before=before: running.done() or whole_batches(target) > before,
                    "a batch is written",
                    120,
                )
        finally:
            while not running.done():
                for query in spark.streams.active:
                    query.stop()
                wait([running], 0.5)
    assert running.result().messages == 30


def test_a_batch_that_was_half_written_is_replaced(
    spark: SparkSession, at: Place, rg: railgun.Railgun, tmp_path: Path
) -> None:
    name, target = filled(rg, 300), tmp_path / "batch=9" / "archive"
    assert archive(spark, at, name, str(target), max_per_batch=200).batches == 2
    newest = max(target.glob("_checkpoint/commits/[0-9]*"), key=lambda file: int(file.name))
    batch = target / f"batch={newest.name}"
    newest.unlink()  # as if it was killed while the batch was written: it comes again
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    (batch / "_SUCCESS").unlink()
    before = {file.name for file in batch.rglob("*.parquet")}
    archive(spark, at, name, str(target))
    assert not {file.name for file in batch.rglob("*.parquet")} & before
    assert archived(spark, target) == live(rg, name)


def test_an_empty_stream_odd_messages_and_folders_that_belong_to_others(
    spark: SparkSession, at: Place, rg: railgun.Railgun, tmp_path: Path
) -> None:
    name, target = filled(rg, 0), str(tmp_path / "archive")
    assert archive(spark, at, name, target) == Archived(name, target, 0, 0, None, None)

    producer = Producer({"bootstrap.servers": at.server, "partitioner": "murmur2_random"})
    producer.produce(
        f"{at.prefix}.commands", key=name, value=None, headers=[("Railgun-Subject", f"{name}.null")]
    )
    producer.flush(10)
    rg.publish(f"{name}.empty", b"")
    rg.publish(f"{name}.gone", b"secret")
    rg.stream(name).delete_message(3)
    rg.publish(f"{name}.odd", bytes(range(256)), headers=[("Twice", "a"), ("Twice", "b")])
    done = archive(spark, at, name, target)
    rows = {row["subject"]: row for row in read_archive(spark, target).collect()}
    assert done.messages == len(rows) == 3
    assert [bytes(rows[f"{name}.{one}"]["payload"]) for one in ("null", "empty", "odd")] == [
        b"",
        b"",
        bytes(range(256)),
    ]
    assert rows[f"{name}.odd"]["headers"] == {"Twice": "a"}

    rg.stream(name).purge()
    assert archive(spark, at, name, target) == done, "an archive keeps what an emptied stream has not"

    with pytest.raises(ConfigError, match="belongs to another stream"):
        archive(spark, at, filled(rg, 1), target)
    rg.delete_stream(name)
    rg.create_stream(name, subjects=[f"{name}.*"])
    with pytest.raises(ConfigError, match=r"belongs to the stream .* that was created at"):
        archive(spark, at, name, target)
    assert summary(spark, target) == done


def test_messages_that_the_log_was_trimmed_past_are_archived_once(
    spark: SparkSession, at: Place, rg: railgun.Railgun, tmp_path: Path
) -> None:
    name, target = unique("STRAGGLERS"), tmp_path / "archive"
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    for n in range(3):
        rg.publish(f"{name}.kept", b"%d" % n, headers={"N": str(n)})
    for _ in range(12_000):
        rg.publish_soon(f"{name}.bulk", b"")
    rg.flush()
    stream.purge(subject=f"{name}.bulk")
    rg.publish(f"{name}.new", b"newest")
    reader = Consumer({"bootstrap.servers": at.server, "group.id": "unused"})
    place = TopicPartition(f"{at.prefix}.log.{name}", 0)
    wait_until(lambda: reader.get_watermark_offsets(place, 5)[0] > 3, "the log is trimmed past them", 120)
    reader.close()

    for _ in range(2):
        done = archive(spark, at, name, str(target))
        assert archived(spark, target) == live(rg, name)
        assert (done.messages, done.batches) == (4, 2)
    (target / "batch=-1" / "_SUCCESS").unlink()  # as if it was killed while it was written
    assert archive(spark, at, name, str(target)) == done
    assert archived(spark, target) == live(rg, name)
    assert audit(spark, at, name).differences == []


def test_dates_are_in_utc(spark: SparkSession) -> None:
    frame = spark.sql(f"select {DATES[-1]}L as time_ns, timestamp_micros({DATES[-1]} div 1000) as time")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        (row,) = _dated(frame).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert str(row["date"]) == "2026-01-06"


DATES = [1767225600 * 10**9 + n * 86_400 * 10**9 - 1 for n in range(1, 7)]  # the last moments of six days
LARGE_MESSAGES = f"""
import sys
import railgun.spark
from pyspark.sql import functions as f
from topologies.pipelines.archive import _dated, _store
from topologies.pipelines.parts.batches import run_batches
from topologies.pipelines.parts.folder import Folder

spark = railgun.spark.session("large", master="local[2]", config={{"spark.driver.memory": "512m"}})
rows = spark.range(0, 240, 1, 2).selectExpr(
    "id as sequence", f"element_at(array({", ".join(f"{n}L" for n in DATES)}), cast(id % 120 div 20 as int) + 1) as time_ns"
)
blob = f.lit(open("/dev/urandom", "rb").read(1024 * 1024))
rows = rows.withColumn("payload", f.concat(f.col("sequence").cast("string").cast("binary"), blob))
_store(Folder(spark, sys.argv[1]), _dated(rows), 0)
found = spark.read.parquet(sys.argv[1]).selectExpr("count(distinct sequence)", "count(distinct date)", "sum(length(payload)) > 240 * 1024 * 1024")
print(*found.first())
"""


def test_large_messages_of_many_days_need_little_memory(tmp_path: Path) -> None:
    """Parquet would keep a hundred of each day in memory, in several copies."""
    command = [sys.executable, "-c", LARGE_MESSAGES, str(tmp_path / "archive")]
    done = subprocess.run(command, cwd=TOP, env=environment(), capture_output=True, text=True, timeout=600)
    assert done.stdout.split() == ["240", "6", "True"], done.stderr


def test_a_folder_that_cannot_be_used_is_refused_in_a_sentence(
    spark: SparkSession, at: Place, rg: railgun.Railgun, tmp_path: Path
) -> None:
    name, target = filled(rg, 3), tmp_path / "archive"
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "cat.png").touch()
    with pytest.raises(ConfigError, match=r"is not empty and has no _railgun\.json"):
        archive(spark, at, name, str(photos))
    with pytest.raises(ConfigError, match="cannot be used"):
        archive(spark, at, name, str(photos / "cat.png" / "below a file"))
    with pytest.raises(ConfigError, match=r"cannot be used: .*nosuch"):
        archive(spark, at, name, "nosuch://bucket/folder")
    for pattern in ("", str(tmp_path / "20[26]"), str(tmp_path / "{a,b}"), str(tmp_path / "*")):
        with pytest.raises(ConfigError, match="is not a valid folder"):
            archive(spark, at, name, pattern)

    for wrong in ({"filter": "a..b"}, {"max_per_batch": 0}):
        with pytest.raises(ConfigError, match="is not a valid"):
            archive(spark, at, name, str(target), **wrong)
    assert archive(spark, at, name, str(target)).messages == 3, "a wrong argument spoils no folder"
    card = target / "_railgun.json"
    whole = card.read_text()
    for text, said in (
        ("{", "is not valid JSON"),
        ("{}", "is not a card of format 1"),
        ('{"format": 1, "kind": "archive"}', "has no 'stream'"),
    ):
        card.write_text(text)
        card.with_name("._railgun.json.crc").unlink(missing_ok=True)
        with pytest.raises(ConfigError, match=said):
            archive(spark, at, name, str(target))
    card.write_text(whole)
    for folder in (target, tmp_path / "new"):
        with Folder(spark, str(folder)).alone(), pytest.raises(ConfigError, match="in use by another run"):
            archive(spark, at, name, str(folder))
    assert not list((tmp_path / "new").iterdir()), "another run makes its card now"
    (offsets,) = target.glob("_checkpoint/offsets/0")
    offsets.rename(tmp_path / "lost")  # a new batch 0 would hold more messages, and the old one pass for it
    publish(rg, name, 3)
    with pytest.raises(ConfigError, match="no _checkpoint that knows them"):
        archive(spark, at, name, str(target))
    (tmp_path / "lost").rename(offsets)
    archive(spark, at, name, str(target))
    damaged = next(target.rglob("*.parquet"))
    contents = damaged.read_bytes()
    damaged.with_name(f".{damaged.name}.crc").unlink(missing_ok=True)
    damaged.write_bytes(b"nonsense" * 20)
    with pytest.raises(RailgunError, match=r"^Spark could not do it: .*is not a Parquet file"):
        summary(spark, str(target))
    damaged.write_bytes(contents)
    shutil.rmtree(target / "_checkpoint")
    with pytest.raises(ConfigError, match="holds batches and no _checkpoint"):
        archive(spark, at, name, str(target))
    assert archived(spark, target) == live(rg, name)
