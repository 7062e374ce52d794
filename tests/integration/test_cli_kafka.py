"""The commands against a real broker and a real worker, and what the doctor says when one of them is missing."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from typer.testing import Result

from railgun.cli.doctor import transactions
from railgun.kafka.embedded import free_port
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.topic_admin import Topics
from tests.support.cell import Cell
from tests.support.commands import done, invoke
from tests.support.worker_process import PARTITIONS

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(600),
]

Run = Callable[..., Result]


def on(cell: Cell) -> Run:
    def on_cell(*arguments: str) -> Result:
        return invoke(*arguments, "--server", cell.bootstrap, "--prefix", cell.prefix, "--timeout", "15")

    return on_cell


@pytest.fixture
def run(cell: Cell) -> Run:
    return on(cell)


def findings(result: Result) -> dict[str, list[dict[str, str]]]:
    """The doctor's findings by check."""
    found: dict[str, list[dict[str, str]]] = {}
    for one in json.loads(result.stdout)["findings"]:
        found.setdefault(one["check"], []).append(one)
    return found


def test_a_stream_from_its_making_to_its_end(shared_cell: Cell) -> None:
    run = on(shared_cell)
    done(run("stream", "add", "ORDERS", "--subjects", "ORDERS.*"))
    for number in range(1, 5):
        done(run("pub", "-H", "Nats-Msg-Id:1", "ORDERS.new", f"hello{number}"))
    report = done(run("stream", "info", "ORDERS"))
    assert " Messages: 1\n" in report
    assert " Bytes: 67 B\n" in report
    assert done(run("stream", "get", "ORDERS", "--last-for", "ORDERS.new", "--raw")) == "hello1"
    refused = run("pub", "ORDERS.new", "late", "--expect-last-subject-sequence", "0", "--json")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["error"]["err_code"] == 10071
    assert json.loads(done(run("stream", "ls", "--names", "--json"))) == ["ORDERS"]
    done(run("stream", "purge", "ORDERS", "-f"))
    done(run("stream", "rm", "ORDERS", "-f"))
    assert json.loads(done(run("stream", "ls", "--json"))) == []


def test_the_tour_on_kafka_shows_the_topic_too(shared_cell: Cell) -> None:
    run = on(shared_cell)
    shown = done(run("tour"))
    assert "Bytes: 67 B\n" in shown
    assert f"topic {shared_cell.prefix}.log.ORDERS, read with a plain consumer:" in shown
    assert "header  Railgun-Sequence: 1\n" in shown
    assert "Next Message: Consumer sequence: 5 Stream sequence: 3\n" in shown
    assert "[#3] Received on [ORDERS.processed]: 'order 3'\n" in shown
    assert json.loads(done(run("stream", "ls", "--json"))) == []


def test_a_healthy_cluster_and_what_is_missing_afterwards(
    cell: Cell, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = cell.ready_worker()
    done(run("stream", "add", "ORDERS", "--subjects", "ORDERS.*"))
    found = findings(run("doctor", "--json"))
    assert {one["verdict"] for every in found.values() for one in every} <= {"ok", "note"}
    assert found["topics"][0]["text"] == "7 topics of the cluster and 1 logs of streams are there"
    assert found["shards"][0]["text"] == f"all {PARTITIONS} answer"

    log = f"{cell.prefix}.log.ORDERS"
    producer = Producer(KafkaSettings(cell.bootstrap).transactional_producer(f"{cell.prefix}-doctor"))
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(log, b"of a writer that hangs")
    producer.flush(10)
    monkeypatch.setattr(transactions, "HUNG_AFTER", 0.0)
    hung = findings(run("doctor", "--json"))["transactions"]
    producer.abort_transaction(20)
    assert [one["verdict"] for one in hung] == ["wrong"]
    assert hung[0]["text"].startswith(f"{log}/0 is held up at offset ")
    assert f"abort --topic {log} --partition 0 --start-offset " in hung[0]["remedy"]
    assert findings(run("doctor", "--json"))["transactions"][0]["verdict"] == "ok"

    worker.stop()
    Topics(AdminClient({"bootstrap.servers": cell.bootstrap})).delete(log)
    result = run("doctor", "--json")
    found = findings(result)
    assert result.exit_code == 1
    assert found["topics"][0]["text"] == f"{log} is missing, and with it the messages of stream ORDERS"
    assert found["workers"][0]["text"].startswith("no worker runs")
    assert found["workers"][0]["remedy"] == "start one: railgun worker --config railgun.toml"


def test_a_prefix_that_nobody_set_up(cell: Cell, run: Run) -> None:
    result = run("doctor")
    assert result.exit_code == 1
    assert f"nothing is set up under the prefix '{cell.prefix}'" in result.stdout
    refused = run("pub", "ORDERS.new", "hello")
    assert refused.exit_code == 3
    assert "railgun worker" in refused.stderr

    made = json.loads(done(run("init", "--partitions", "2", "--json")))
    assert (made["prefix"], made["partitions"]) == (cell.prefix, 2)
    again = run("init", "--partitions", "3")
    assert again.exit_code == 0
    assert "note: partitions stays 2" in again.stderr
    found = findings(run("doctor", "--json"))
    assert found["topics"][0]["verdict"] == "ok"
    assert found["workers"][0]["verdict"] == "wrong"


def test_a_wrong_address() -> None:
    address = f"127.0.0.1:{free_port()}"
    result = invoke("doctor", "--server", address)
    assert result.exit_code == 1
    assert f"no broker answers at {address}" in result.stdout
    assert "railgun up" in result.stdout
    refused = invoke("stream", "ls", "--server", address, "--json")
    assert refused.exit_code == 3
    assert json.loads(refused.stdout)["error"]["kind"] == "ConnectionLost"
    assert refused.stderr.startswith(f"error: no broker answers at {address}")
