"""The local broker as its users meet it: real processes, real files, a real Kafka."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from railgun.kafka.embedded import (
    BrokerCrashed,
    DataFolderBroken,
    DataFolderInUse,
    EmbeddedBroker,
    PortInUse,
    free_port,
)
from railgun.kafka.embedded.folder import DataFolder
from railgun.kafka.embedded.formatted import VOTERS
from railgun.kafka.embedded.jars import kafka_jars
from railgun.kafka.embedded.java import find_java
from railgun.kafka.embedded.server_properties import read_properties, server_properties
from tests.support.waiting import process_gone, wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path_factory.mktemp("broker") / "data") as broker:
        yield broker


class Left(NamedTuple):
    """What a broker left behind that was stopped."""

    folder: Path
    address: str
    cluster: str

    def copy(self, folder: Path) -> Path:
        """All of it once more, to be used or damaged."""
        return shutil.copytree(self.folder, folder / "copy")


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    with EmbeddedBroker(tmp_path_factory.mktemp("left")) as first:
        write_one(first.bootstrap, "kept", b"here")
        return Left(first.data_dir, first.bootstrap, cluster_id(first.bootstrap))


def cluster_id(bootstrap: str) -> str:
    return str(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).cluster_id)


def write_one(bootstrap: str, topic: str, value: bytes) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # must outlive the answer
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(timeout=10)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, value)
    assert producer.flush(10) == 0


def read_one(bootstrap: str, topic: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        record = consumer.poll(10)
        return record.value() if record is not None and record.error() is None else None
    finally:
        consumer.close()


def test_a_restart_keeps_address_cluster_and_records(broker: EmbeddedBroker) -> None:
    bootstrap, before, old_pid = broker.bootstrap, cluster_id(broker.bootstrap), broker.pid
    write_one(bootstrap, "kept-over-restart", b"here")

    broker.restart()

    assert broker.pid != old_pid
    assert broker.bootstrap == bootstrap
    assert cluster_id(bootstrap) == before
    assert read_one(bootstrap, "kept-over-restart") == b"here"


def test_a_kill_is_survived(broker: EmbeddedBroker) -> None:
    write_one(broker.bootstrap, "kept-over-kill", b"still here")

    broker.kill()
    assert not broker.running
    assert broker.pid is None
    broker.start()

    assert read_one(broker.bootstrap, "kept-over-kill") == b"still here"


def test_a_second_start_on_the_folder_is_refused_and_disturbs_nobody(broker: EmbeddedBroker) -> None:
    pid = broker.pid
    with pytest.raises(DataFolderInUse, match="is in use by a broker") as refused:
        EmbeddedBroker(broker.data_dir).start()
    assert broker.bootstrap in str(refused.value)
    assert "\n" not in str(refused.value)

    assert broker.start().pid == pid  # the same broker, alive: nothing to do
    assert cluster_id(broker.bootstrap)


def test_it_listens_on_loopback_only_and_creates_no_topics_by_itself(broker: EmbeddedBroker) -> None:
    assert broker.bootstrap.startswith("127.0.0.1:")
    metadata = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics("never-created", timeout=10)
    assert metadata.topics["never-created"].error is not None
    assert "started" in broker.log_file.read_text()


def test_a_later_owner_finds_the_data_on_another_port(left: Left) -> None:
    with EmbeddedBroker(left.folder, port=free_port()) as second:
        assert second.bootstrap != left.address
        assert cluster_id(second.bootstrap) == left.cluster
        assert read_one(second.bootstrap, "kept") == b"here"


OWNER = """
import sys, time
from pathlib import Path
from railgun.kafka.embedded import EmbeddedBroker
broker = EmbeddedBroker(Path(sys.argv[1]) if len(sys.argv) > 1 else None).start()
print(broker.pid, broker.data_dir, flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_its_owner_however_that_ends(how: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        assert not process_gone(int(pid))
        owner.send_signal(how)
        owner.wait(timeout=20)
        wait_until(lambda: process_gone(int(pid)), "the broker ended after its owner")
        wait_until(lambda: not Path(folder).exists(), "the temporary folder is removed")


def test_the_folder_of_a_killed_owner_can_be_used_at_once(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline()
        owner.kill()
    with EmbeddedBroker(tmp_path) as broker:
        assert cluster_id(broker.bootstrap)


def test_a_busy_port_is_said_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortInUse, match=f"port {port} is in use") as refused:
            EmbeddedBroker(tmp_path / "data", port=port).start()
    assert "\n" not in str(refused.value)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DataFolderBroken, match="cannot be used"):
        EmbeddedBroker(tmp_path / "file").start()
    assert (tmp_path / "file").read_text() == "not a folder"


def test_a_folder_may_have_any_name_but_one_with_a_comma(tmp_path: Path) -> None:
    odd = tmp_path / "Jürgen's müll # 100 % ${x} \\u00e4 😀"
    with EmbeddedBroker(odd) as broker:
        write_one(broker.bootstrap, "kept", b"here")
        assert read_properties(odd / "kafka" / "meta.properties")["cluster.id"] == cluster_id(
            broker.bootstrap
        )
    assert [one.name for one in tmp_path.iterdir()] == [odd.name], "nothing is written beside it"
    with pytest.raises(DataFolderBroken, match="the comma in its path"):
        EmbeddedBroker(tmp_path / "a,b").start()
    assert not (tmp_path / "a,b").exists()


def test_a_folder_without_readable_meta_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    with pytest.raises(DataFolderBroken, match=r"meta\.properties is missing"):
        EmbeddedBroker(tmp_path).start()
    (tmp_path / "kafka" / "meta.properties").write_bytes(os.urandom(200))
    with pytest.raises(DataFolderBroken, match="names no cluster"):
        EmbeddedBroker(tmp_path).start()


def test_a_damaged_metadata_log_is_refused(left: Left, tmp_path: Path) -> None:
    folder = left.copy(tmp_path)
    for file in (folder / "kafka").rglob("*.checkpoint"):
        file.write_bytes(os.urandom(300))
    for file in (folder / "kafka" / "__cluster_metadata-0").glob("*.log"):
        file.write_bytes(os.urandom(300))
    with pytest.raises((DataFolderBroken, BrokerCrashed)) as refused:  # BrokerNotReady: it would wait in vain
        EmbeddedBroker(folder).start()
    assert "\n" not in str(refused.value)


def test_a_setting_that_kafka_refuses_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(BrokerCrashed, match=r"socket\.send\.buffer\.bytes") as refused:
        EmbeddedBroker(tmp_path, properties={"socket.send.buffer.bytes": "many"}).start()
    assert "\n" not in str(refused.value)


def test_a_crash_after_formatting_quotes_the_log(left: Left, tmp_path: Path) -> None:
    with pytest.raises(BrokerCrashed, match=r"socket\.send\.buffer\.bytes"):
        EmbeddedBroker(left.copy(tmp_path), properties={"socket.send.buffer.bytes": "many"}).start()


def formatted(folder: DataFolder) -> tuple[set[str], dict[str, bytes]]:
    """The names in ``meta.properties``, and all else by path, without times, checksums and the folder's own id."""
    meta = read_properties(folder.data / "meta.properties")
    own_id = base64.urlsafe_b64decode(meta["directory.id"] + "==")
    found = {}
    for file in folder.data.rglob("*.checkpoint"):
        content = bytearray(file.read_bytes().replace(own_id, b"id"))
        content[73:81] = bytes(8)  # the time in the header record
        start = 0
        while start < len(content):
            # Of each batch: the length may differ by nothing, the checksum and the times do.
            content[start + 17 : start + 21] = bytes(4)
            content[start + 27 : start + 43] = bytes(16)
            shorter = 14 if start == 0 and b"id" in content else 0  # of the id that was taken out
            start += 12 + int.from_bytes(content[start + 8 : start + 12], "big") - shorter
        found[str(file.relative_to(folder.data))] = bytes(content)
    return set(meta), found


def test_a_folder_is_formatted_as_kafkas_own_tool_does_it(tmp_path: Path) -> None:
    by_us, by_kafka = DataFolder(tmp_path / "us"), DataFolder(tmp_path / "kafka")
    place = VOTERS.index(b"127.0.0.1") + len(b"127.0.0.1")
    properties = server_properties(
        data=by_kafka.data,
        port=free_port(),
        controller_port=int.from_bytes(VOTERS[place : place + 2], "big"),
        extra_listeners={},
        overrides={},
    )
    for folder in (by_us, by_kafka):
        os.close(folder.acquire())
        folder.prepare()
    by_us.format()
    by_kafka.format_for(find_java(), os.pathsep.join(map(str, kafka_jars())), properties, ())
    assert formatted(by_us) == formatted(by_kafka)
    assert by_us.cluster_id() != by_kafka.cluster_id()


def test_what_can_be_done_meanwhile_is_done_once_and_only_where_the_broker_can_start(tmp_path: Path) -> None:
    done: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(PortInUse):
        EmbeddedBroker(tmp_path, port=other.getsockname()[1]).start(lambda: done.append("port"))
    with EmbeddedBroker(tmp_path) as first, pytest.raises(DataFolderInUse):
        EmbeddedBroker(first.data_dir).start(lambda: done.append("folder"))
    assert not done
    with EmbeddedBroker(tmp_path).start(lambda: done.append("started")):
        assert done == ["started"]


def test_what_fails_meanwhile_ends_the_start(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path)
    pids: list[int | None] = []

    def fail() -> None:
        pids.append(broker.pid)
        raise RuntimeError("meanwhile")

    with pytest.raises(RuntimeError, match="meanwhile"):
        broker.start(fail)
    assert not broker.running
    (pid,) = pids
    assert pid is not None
    assert process_gone(pid)
