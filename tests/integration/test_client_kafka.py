"""The facade and a real Kafka: what is missing is said in words, and what the broker has is carried out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

import railgun
from railgun.client.liveness import wait_for_workers
from railgun.kafka.embedded import EmbeddedBroker, free_port
from railgun.testing import Clock
from tests.integration.conftest import Cell
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka
_ROOT = Path(__file__).parents[2]


def test_no_broker_is_said_in_words() -> None:
    with pytest.raises(railgun.ConnectionLost, match=r"no broker answers at 127\.0\.0\.1:1"):
        railgun.connect("127.0.0.1:1")


def test_a_prefix_that_nobody_set_up_names_the_command(kafka_bootstrap: str) -> None:
    with pytest.raises(railgun.NoWorker, match="railgun worker"):
        railgun.connect(kafka_bootstrap, prefix="nobody-was-here")
    with pytest.raises(railgun.NoWorker):
        wait_for_workers(kafka_bootstrap, "nobody-was-here", timeout=0.5)


def test_credentials_that_the_broker_does_not_take(kafka_bootstrap: str) -> None:
    with pytest.raises(railgun.NotAuthorized, match="refused the credentials"):
        railgun.connect(kafka_bootstrap, kafka=_sasl("app", "wrong"))


def test_without_a_worker_nothing_is_sent_and_a_new_one_serves_again(cell: Cell) -> None:
    worker = cell.worker()
    wait_for_workers(cell.bootstrap, cell.prefix)
    with railgun.connect(cell.bootstrap, prefix=cell.prefix, timeout=20.0) as rg:
        rg.create_stream("S", subjects=["s"])
        assert rg.publish("s", b"1").sequence == 1
        worker.stop()
        with railgun.connect(cell.bootstrap, prefix=cell.prefix) as other:
            with pytest.raises(railgun.NoWorker, match="faust -A railgun worker"):
                other.publish("s", b"never sent")
        worker.start()
        wait_for_workers(cell.bootstrap, cell.prefix)
        assert rg.publish("s", b"2").sequence == 2


def test_a_worker_that_does_not_answer_leaves_the_outcome_open(cell: Cell) -> None:
    worker = cell.worker()
    wait_for_workers(cell.bootstrap, cell.prefix)
    with railgun.connect(cell.bootstrap, prefix=cell.prefix, timeout=20.0) as rg:
        stream = rg.create_stream("S", subjects=["s"])
        rg.publish("s", b"1")
        worker.signal(signal.SIGSTOP)
        try:
            with pytest.raises(railgun.RequestTimeout, match="stored and its outcome is unknown"):
                rg.publish("s", b"2", msg_id="2", timeout=1.0)
        finally:
            worker.signal(signal.SIGCONT)
        assert rg.publish("s", b"2", msg_id="2") == railgun.PubAck("S", 2, duplicate=True)
        assert stream.info().state.messages == 2


def test_a_program_that_ends_without_closing_loses_nothing(cell: Cell) -> None:
    cell.worker()
    wait_for_workers(cell.bootstrap, cell.prefix)
    with railgun.connect(cell.bootstrap, prefix=cell.prefix, timeout=20.0) as rg:
        stream = rg.create_stream("S", subjects=["s"])
        code = (
            "import railgun, sys\n"
            "rg = railgun.connect(sys.argv[1], prefix=sys.argv[2], timeout=20.0)\n"
            "futures = [rg.publish_soon('s', b'x') for _ in range(5000)]\n"
        )
        subprocess.run(
            [sys.executable, "-c", code, cell.bootstrap, cell.prefix],
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            check=True,
            timeout=60,
        )
        assert stream.info().state.messages == 5_000


def test_messages_are_read_from_the_log_across_gaps(cell: Cell) -> None:
    cell.worker()
    wait_for_workers(cell.bootstrap, cell.prefix)
    with railgun.connect(cell.bootstrap, prefix=cell.prefix, timeout=20.0) as rg:
        stream = rg.create_stream("S", subjects=["s.*"], max_msgs_per_subject=2)
        for number in range(30):
            rg.publish(f"s.{number % 3}", str(number), headers={"N": str(number)})
        stream.delete_message(29)
        assert [stream.get(sequence).text for sequence in (25, 26, 27, 28, 30)] == [
            "24",
            "25",
            "26",
            "27",
            "29",
        ]
        assert stream.get(30).subject == "s.2"
        assert stream.get_last("s.1").text == "25"
        for sequence in (1, 24, 29, 31):
            with pytest.raises(railgun.MessageNotFound):
                stream.get(sequence)
        Clock(rg).advance(1)


# -- a broker with users and permissions


def _sasl(user: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
    }


class Secured:
    """Its plain listener may do everything, its SASL listener only what rules allow."""

    def __init__(self, broker: EmbeddedBroker, sasl: str) -> None:
        self.bootstrap = broker.bootstrap
        self.sasl = sasl

    def allow(self, user: str, prefix: str, *operations: AclOperation) -> None:
        rules = [
            AclBinding(
                ResourceType.TOPIC,
                prefix,
                ResourcePatternType.PREFIXED,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for operation in operations
        ]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_acls(rules).values():
            future.result(10)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    sasl = f"127.0.0.1:{free_port()}"
    users = [f"SCRAM-SHA-512=[name={user},password=right]" for user in ("app", "reader")]
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    broker = EmbeddedBroker(
        tmp_path_factory.mktemp("secured"),
        extra_listeners={"SASL_PLAINTEXT": sasl},
        properties={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "false",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": login,
        },
        format_arguments=[part for user in users for part in ("--add-scram", user)],
    )
    with broker:
        yield Secured(broker, sasl)


def test_passwords_and_permissions(secured: Secured, tmp_path: Path) -> None:
    cell = Cell(secured.bootstrap, tmp_path)
    try:
        cell.worker()
        wait_for_workers(cell.bootstrap, cell.prefix)
        with pytest.raises(railgun.NotAuthorized, match="refused the credentials"):
            railgun.connect(secured.sasl, prefix=cell.prefix, kafka=_sasl("app", "wrong"))
        with pytest.raises(railgun.NotAuthorized, match="permission"):
            railgun.connect(secured.sasl, prefix=cell.prefix, kafka=_sasl("app", "right"))
        secured.allow("app", cell.prefix, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
        secured.allow("reader", cell.prefix, AclOperation.READ, AclOperation.DESCRIBE)
        with railgun.connect(
            secured.sasl, prefix=cell.prefix, kafka=_sasl("app", "right"), timeout=20.0
        ) as rg:
            stream = rg.create_stream("S", subjects=["s"])
            assert rg.publish("s", b"x").sequence == 1
            assert stream.get(1).payload == b"x"
        with railgun.connect(secured.sasl, prefix=cell.prefix, kafka=_sasl("reader", "right")) as rg:
            with pytest.raises(railgun.NotAuthorized, match="permission"):
                rg.publish("s", b"x")
    finally:
        cell.close()


def test_a_broker_that_goes_away_is_said_and_comes_back(tmp_path: Path) -> None:
    port = free_port()
    folder = tmp_path / "broker"
    with EmbeddedBroker(folder, port) as broker:
        cell = Cell(broker.bootstrap, tmp_path / "cell")
        try:
            cell.worker()
            wait_for_workers(cell.bootstrap, cell.prefix)
            rg = railgun.connect(cell.bootstrap, prefix=cell.prefix, timeout=4.0)
            rg.create_stream("S", subjects=["s"])
            assert rg.publish("s", b"1").sequence == 1
            broker.stop()
            with pytest.raises((railgun.ConnectionLost, railgun.RequestTimeout)):
                rg.publish("s", b"2", msg_id="2")
            broker.start()
            wait_until(lambda: _stored(rg), "the broker takes commands again", timeout=60.0)
            rg.close()
        finally:
            cell.close()


def _stored(rg: railgun.Railgun) -> bool:
    """Whether the broker took the command; when the worker is back as well is not the client's affair."""
    try:
        return rg.publish("s", b"2", msg_id="2").stream == "S"
    except railgun.RequestTimeout as error:
        return "stored" in str(error)
    except (railgun.ConnectionLost, railgun.NoWorker):
        return False
