"""A broker with passwords and permissions: what a client has is enough to read, and nearly to publish."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import railgun
from railgun.errors import RailgunError
from railgun.spark import Published, publish, read, read_stream
from tests.support.secured_broker import SecuredBroker, secured_broker
from tests.support.spark import sequences
from tests.support.worker_process import PARTITIONS, WorkerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

PREFIX, WORKER, CLIENT = "shop", "shop-worker", "shop-app"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker, and a worker on it; both users have what ``railgun init --print-acls`` prints."""
    with secured_broker(WORKER, CLIENT) as broker:
        broker.grant_what_is_printed(PREFIX, WORKER, CLIENT)
        folder, options = tmp_path_factory.mktemp("secured"), broker.options(WORKER)
        with WorkerProcess(folder, broker.address, prefix=PREFIX, node={"kafka": options}) as worker:
            worker.wait_for(": ready after", times=PARTITIONS)
            yield broker


def test_the_permissions_of_a_client_are_enough_to_read(
    spark: SparkSession, secured: SecuredBroker, tmp_path: Path
) -> None:
    at: dict[str, Any] = {"server": secured.address, "prefix": PREFIX, "kafka": secured.options(CLIENT)}
    with railgun.connect(secured.address, prefix=PREFIX, kafka=secured.options(CLIENT), timeout=30) as rg:
        rg.create_stream("ORDERS", subjects=["orders.*"])
        for _ in range(3):
            rg.publish("orders.new", b"x")
    assert sequences(read(spark, "ORDERS", **at)) == [1, 2, 3]
    query = (
        read_stream(spark, "ORDERS", start=2, **at)
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    assert sequences(spark.read.parquet(str(tmp_path / "out"))) == [2, 3]


def test_to_publish_a_client_must_read_what_is_rejected_too(
    spark: SparkSession, secured: SecuredBroker
) -> None:
    at: dict[str, Any] = {"server": secured.address, "prefix": PREFIX, "kafka": secured.options(CLIENT)}
    with railgun.connect(secured.address, prefix=PREFIX, kafka=secured.options(CLIENT), timeout=30) as rg:
        rg.create_stream("SENT", subjects=["sent.*"], max_msg_size=100)
        rows = [("sent.a", b"1", "a"), ("sent.b", b"2", "b"), ("sent.c", b"x" * 200, "c")]
        frame = spark.createDataFrame(rows, "subject string, payload binary, msg_id string")
        with pytest.raises(RailgunError, match=r"shop\.rejected .*grant Read and Describe"):
            publish(frame, "SENT", **at)
        assert rg.stream("SENT").info().state.last_seq == 0, "nothing was sent"
        secured.grant(CLIENT, "topic", "shop.rejected", "literal", ["Read", "Describe"])
        first, again = (publish(frame, "SENT", **at) for _ in range(2))
        assert (first.sent, first.stored, first.refused) == (3, 2, 1)
        assert list(first.reasons.values()) == [1], "what was refused is read from the rejected records"
        assert again == Published(3, 0, 2, 1, first.reasons)
        assert {message.subject for message in rg.stream("SENT").read()} == {"sent.a", "sent.b"}
