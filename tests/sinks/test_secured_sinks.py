"""A sink on brokers with passwords and permissions: what the page of sinks asks for is enough, and what is missing is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import railgun
from railgun.kafka.embedded import EmbeddedConnect
from railgun.sinks import Connect, FileSink, SinkFailed, dead_letters
from tests.support.secured_broker import SecuredBroker, secured_broker
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS, WorkerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

JSON = "org.apache.kafka.connect.json.JsonConverter"
SCHEMALESS = {"value.converter.schemas.enable": "false"}
PREFIX, WORKER, CLIENT, CONNECT = "shop", "shop-worker", "shop-app", "shop-connect"
_JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="{}";'


class Secured(NamedTuple):
    broker: SecuredBroker
    rg: railgun.Railgun
    connect: Connect


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A Connect whose user may keep its own topics, and nothing of railgun's yet."""
    folder = tmp_path_factory.mktemp("secured")
    with secured_broker(WORKER, CLIENT, CONNECT) as broker:
        broker.grant_what_is_printed(PREFIX, WORKER, CLIENT)
        broker.grant(
            CONNECT, "topic", f"{PREFIX}.connect.", "prefixed", ["Create", "Read", "Write", "DescribeConfigs"]
        )
        broker.grant(CONNECT, "group", f"{PREFIX}-connect", "literal", ["Read"])
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": _JAAS.format(CONNECT, broker.passwords[CONNECT]),
        }
        properties = {
            f"{whose}{name}": value
            for whose in ("", "consumer.", "producer.", "admin.")
            for name, value in login.items()
        }
        options = broker.options(CLIENT)
        with (
            WorkerProcess(
                folder, broker.address, prefix=PREFIX, node={"kafka": broker.options(WORKER)}
            ) as worker,
            EmbeddedConnect(
                broker.address, folder / "connect", prefix=PREFIX, properties=properties
            ) as local,
            Connect(local.url, timeout=60) as connect,
        ):
            worker.wait_for(": ready after", times=PARTITIONS)
            with railgun.connect(broker.address, prefix=PREFIX, kafka=options, timeout=30) as rg:
                yield Secured(broker, rg, connect)


def test_the_permissions_that_the_page_of_sinks_names_are_enough_and_without_them_it_fails(
    secured: Secured, tmp_path: Path
) -> None:
    broker, rg, connect = secured
    rg.create_stream("ORDERS", subjects=["orders.*"])
    rg.create_stream("LETTERS", subjects=["letters.*"])
    out = tmp_path / "orders.txt"
    sink = FileSink(
        name="orders", stream="ORDERS", file=str(out), settings={"value.converter": JSON, **SCHEMALESS}
    )
    with pytest.raises(SinkFailed, match="Authorization"):
        connect.apply(sink, rg)

    broker.grant(CONNECT, "topic", f"{PREFIX}.log.", "prefixed", ["Read"])
    broker.grant(CONNECT, "group", f"{PREFIX}-sink-", "prefixed", ["Read"])
    broker.grant(CONNECT, "topic", f"{PREFIX}.sink.", "prefixed", ["Create", "Write"])
    assert connect.restart("orders").state == "RUNNING"
    for payload in ("1", "this is not JSON", "2"):
        rg.publish("orders.new", payload)
    wait_until(lambda: out.exists() and out.read_text() == "1\n2\n", "the lines of the messages", 40)

    broker.grant(CLIENT, "topic", f"{PREFIX}.sink.", "prefixed", ["Read"])
    broker.grant(CLIENT, "group", f"{PREFIX}-sink-", "prefixed", ["Read"])
    assert dead_letters(rg, "orders", "LETTERS").stored == 1
    (letter,) = rg.stream("LETTERS").read()
    assert letter.payload == b"this is not JSON"
