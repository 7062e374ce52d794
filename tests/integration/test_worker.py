"""A worker as a process: it answers, it writes exactly once, it hands over, and no bad record or lost topic stops it."""

from __future__ import annotations

import signal
import struct

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from railgun.kafka.topic_admin import Topics
from railgun.model.headers import PLAIN_SUBJECT
from railgun.protocol.routing import partition_of
from tests.support.cell import Cell
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS

pytestmark = pytest.mark.kafka


def sequences(client: RawClient, stream: str) -> list[int]:
    """The sequences of the log as any Kafka reader sees them."""
    found = []
    for record in client.records(client.names.log(stream)):
        headers = dict(record.headers() or [])
        if "Railgun-Sequence" in headers:
            found.append(int(headers["Railgun-Sequence"]))
    return found


def stream_on(partition: int, stem: str = "S") -> str:
    """A stream name that lives on the partition."""
    return next(f"{stem}{n}" for n in range(10_000) if partition_of(f"{stem}{n}", PARTITIONS) == partition)


def stream_on_each(client: RawClient, **config: object) -> list[str]:
    """New streams, one on each partition."""
    names = [stream_on(partition) for partition in range(PARTITIONS)]
    for name in names:
        client.create_stream(name, **config)
    return names


@pytest.mark.rule("CLU-11", "CLU-12")
def test_a_publish_is_answered_logged_and_in_the_changelog(shared_cell: Cell) -> None:
    client = shared_cell.client
    assert client.create_stream("ORDERS")["did_create"] is True
    reply = client.publish("ORDERS", b"a", b"b", b"a again", ids=["1", "2", "1"])
    assert (reply.runs, reply.duplicates, reply.refusals) == ([(0, 2, 1)], [(2, 1)], [])
    records = client.records(client.names.log("ORDERS"))
    assert [(record.key(), record.value()) for record in records] == [
        (b"ORDERS.new", b"a"),
        (b"ORDERS.new", b"b"),
    ]
    headers = dict(records[1].headers() or [])
    assert headers["Railgun-Sequence"] == b"2"
    assert int(headers["Railgun-Time"]) > 1_600_000_000 * 10**9
    assert headers["Railgun-Incarnation"].isdigit()
    changelog = client.records(client.names.changelog, partition_of("ORDERS", PARTITIONS))
    assert {(record.key() or b"")[:1] for record in changelog} >= {b"c", b"s", b"b"}
    assert client.info("ORDERS")["state"]["messages"] == 2
    counts = Topics(AdminClient(client.kafka.admin())).partition_counts()
    assert counts[client.names.log("ORDERS")] == 1


def test_the_end_is_orderly_and_the_worker_finds_its_state_again(cell: Cell) -> None:
    worker = cell.ready_worker()
    client = cell.client
    client.create_stream("ORDERS")
    client.publish("ORDERS", *[b"x"] * 100)
    assert worker.stop() == 0
    worker.log.unlink()
    worker.start()
    worker.wait_for(": ready after", times=PARTITIONS)
    assert worker.text().count("0 records restored") == PARTITIONS
    assert client.publish("ORDERS", b"y").runs == [(0, 1, 101)]


@pytest.mark.rule("CLU-13")
def test_an_empty_disk_is_restored_to_the_same_state(cell: Cell) -> None:
    worker = cell.ready_worker()
    client = cell.client
    names = stream_on_each(client, max_msgs=50)
    for name in names:
        client.publish(name, *[b"x" * 10] * 80, ids=[str(n) for n in range(80)])
        client.request(f"STREAM.MSG.DELETE.{name}", {"seq": 60}, stream=name)
    before = {name: client.info(name) for name in names}
    worker.kill()
    worker.wipe()
    worker.start()
    assert {name: client.info(name)["state"] for name in names} == {
        name: before[name]["state"] for name in names
    }
    again = client.publish(names[0], b"x" * 10, ids=["79"])
    assert again.duplicates == [(0, 80)]


@pytest.mark.rule("CLU-15", "CLU-16")
def test_two_workers_share_and_take_over_after_kill(cell: Cell) -> None:
    first = cell.ready_worker()
    client = cell.client
    names = stream_on_each(client)
    second = cell.worker()
    second.wait_for(": ready after")
    first.wait_for(": ready after", times=PARTITIONS + 1)
    sent: dict[str, list[int]] = {name: [] for name in names}
    for round_ in range(40):
        for name in names:
            sent[name].append(client.send_pack(name, [b"x"] * 25, ids=[f"{round_}-{n}" for n in range(25)]))
        if round_ == 20:
            second.kill()
    for name in names:
        stored = [client.pack_reply(first_request).runs for first_request in sent[name]]
        assert [run for runs in stored for run in runs] == [(0, 25, 1 + 25 * n) for n in range(40)]
        assert sequences(client, name) == list(range(1, 1001))
        assert client.info(name)["state"]["messages"] == 1000
    assert "exit" not in first.text()
    assert first.alive


@pytest.mark.rule("CLU-15")
def test_a_stale_generation_and_a_fenced_producer_write_nothing(shared_cell: Cell) -> None:
    (worker,), client = shared_cell.workers, shared_cell.client
    client.create_stream("FENCED")
    client.publish("FENCED", b"a")
    partition = partition_of("FENCED", PARTITIONS)
    commands = TopicPartition(client.names.commands, partition, 1)
    stale = b"CGMDv2:" + struct.pack("<i", 0) + client.names.group.encode() + b"\0nobody\0\x01"
    intruder = Producer(client.kafka.transactional_producer("intruder-" + shared_cell.prefix))
    intruder.init_transactions(10)
    intruder.begin_transaction()
    intruder.produce(client.names.log("FENCED"), b"stale", b"FENCED.new", 0)
    with pytest.raises(KafkaException, match=r"(?i)member|generation"):
        intruder.send_offsets_to_transaction([commands], stale, 10)
    intruder.abort_transaction(10)
    # Somebody initialises the shard's own transactional id, as a late worker would: the real owner takes it back.
    thief = Producer(client.kafka.transactional_producer(client.names.transactional_id(partition)))
    thief.init_transactions(10)
    assert client.publish("FENCED", b"b").runs == [(0, 1, 2)]
    thief.begin_transaction()
    thief.produce(client.names.log("FENCED"), b"stolen", b"FENCED.new", 0)
    with pytest.raises(KafkaException):
        thief.commit_transaction(10)
    assert [record.value() for record in client.records(client.names.log("FENCED"))] == [b"a", b"b"]
    assert worker.alive


def test_a_worker_that_slept_is_fenced_and_joins_again(cell: Cell) -> None:
    first = cell.ready_worker()
    client = cell.client
    names = stream_on_each(client)
    first.signal(signal.SIGSTOP)
    second = cell.worker()
    second.wait_for(": ready after", times=PARTITIONS, timeout=60)
    for name in names:
        assert client.publish(name, b"second").runs == [(0, 1, 1)]
    first.signal(signal.SIGCONT)
    for number in range(60):
        for name in names:
            assert client.publish(name, b"on").runs == [(0, 1, number + 2)]
    wait_until(
        lambda: first.text().count(": ready after") > PARTITIONS, "the first worker has shards again", 40
    )
    for name in names:
        assert client.publish(name, b"end").runs == [(0, 1, 62)]
        assert sequences(client, name) == list(range(1, 63))


def test_poison_is_kept_in_rejected_and_the_shard_goes_on(shared_cell: Cell) -> None:
    client = shared_cell.client
    client.create_stream("POISONED")
    partition = partition_of("POISONED", PARTITIONS)
    client.send(partition, b"\xff" * 100, b"POISONED", "pack")
    client.send(partition, None, b"POISONED", "pack")
    client.send(partition, b"", b"POISONED", "request")
    client.send(partition, b"{}", b"POISONED", "nonsense")
    client.send(partition, b"plain without a subject", b"POISONED")
    client.send(partition, b"x" * (8 * 1024 * 1024 - 1000), b"POISONED", "pack")
    client.send(
        partition, b"plain", b"POISONED", headers=[(PLAIN_SUBJECT, b"POISONED.plain"), ("Other", None)]
    )
    assert client.publish("POISONED", b"after").runs == [(0, 1, 2)]
    rejected = client.records(client.names.rejected, partition)
    assert len(rejected) == 6
    for record in rejected:
        headers = dict(record.headers() or [])
        assert headers["Railgun-Reason"]
        assert headers["Railgun-Source"].startswith(f"{client.names.commands}/{partition}/".encode())
    assert [record.value() for record in client.records(client.names.log("POISONED"))] == [b"plain", b"after"]


def test_a_lost_log_topic_quarantines_its_stream_only(shared_cell: Cell) -> None:
    (worker,), client = shared_cell.workers, shared_cell.client
    broken, fine = stream_on(1, "B"), stream_on(1, "F")
    for name in (broken, fine):
        client.create_stream(name)
        client.publish(name, b"1")
    Topics(AdminClient(client.kafka.admin())).delete(client.names.log(broken))
    refused = client.publish(broken, b"2")
    assert [refusal.code for _, refusal in refused.refusals] == [503]
    assert client.publish(fine, b"2").runs == [(0, 1, 2)]
    assert worker.alive
    config = client.info(broken)["config"]
    updated = client.request(f"STREAM.UPDATE.{broken}", {**config, "description": "again"})
    assert "error" not in updated
    assert client.publish(broken, b"3").runs == [(0, 1, 2)]


def test_timers_run_without_input(cell: Cell) -> None:
    cell.ready_worker()
    client = cell.client
    client.create_stream("ORDERS", max_age=1_500_000_000)
    client.publish("ORDERS", b"a", b"b")
    log = client.records(client.names.changelog, partition_of("ORDERS", PARTITIONS))
    wait_until(
        lambda: len(client.records(client.names.changelog, partition_of("ORDERS", PARTITIONS))) > len(log),
        "the shard wrote by itself",
    )
    assert client.info("ORDERS")["state"]["messages"] == 0


def test_a_topic_with_other_partitions_refuses_to_start(cell: Cell) -> None:
    cell.ready_worker().stop()
    client = cell.client
    admin = AdminClient(client.kafka.admin())
    Topics(admin).delete(client.names.rejected)
    from confluent_kafka.admin import NewTopic

    admin.create_topics([NewTopic(client.names.rejected, 7, 1)])[client.names.rejected].result(10)
    worker = cell.worker()
    assert worker.await_end() == 1
    assert "has 7 partitions but the cluster was set up with 4" in worker.text()
    assert "Traceback" not in worker.text()


@pytest.mark.rule("CLU-02")
def test_protected_settings_stay_as_at_the_first_start(cell: Cell) -> None:
    cell.ready_worker().stop()
    worker = cell.worker(cluster={"name": "other", "reply_factor": 3, "partitions": 6})
    worker.wait_for(": ready after", times=PARTITIONS)
    assert "cluster.partitions is 6 in the file but was fixed as 4" in worker.text()
    assert "cluster.name is 'other' in the file but was fixed as 'railgun'" in worker.text()
    assert cell.client.create_stream("ORDERS")["did_create"] is True


@pytest.mark.rule("CLU-01")
@pytest.mark.parametrize(
    "text, said",
    [
        ("[cluster]\npartitionz = 3\n", "unknown key 'cluster.partitionz'"),
        ("[nodes]\n", "unknown key 'nodes'"),
        ("[cluster]\npartitions = 0\n", "cluster.partitions"),
        ("[cluster]\nprefix = 'a b'\n", "cluster.prefix"),
        ("[node]\nbootstrap = 3\n", "node.bootstrap"),
        ("[node\n", "is not TOML"),
        ("[node.kafka]\n'transactional.id' = 'mine'\n", "'transactional.id' is railgun's own"),
        ("[node.kafka]\nsecurity.protocol = 'sasl_plaintext'\nsasl.mechanism = 'GSSAPI'\n", "GSSAPI"),
    ],
)
def test_a_faulty_file_is_named_in_one_sentence(cell: Cell, text: str, said: str) -> None:
    worker = cell.worker(start=False)
    worker.config.write_text(text, encoding="utf-8")
    worker.start()
    assert worker.await_end() == 1
    assert said in worker.text()
    assert "Traceback" not in worker.text()


@pytest.mark.rule("CLU-01")
def test_no_broker_is_said_in_words(cell: Cell) -> None:
    worker = cell.worker(start=False)
    worker.config.write_text('[node]\nbootstrap = "127.0.0.1:1"\n', encoding="utf-8")
    worker.start()
    assert worker.await_end(40) == 1
    assert "no broker answers at 127.0.0.1:1" in worker.text()
