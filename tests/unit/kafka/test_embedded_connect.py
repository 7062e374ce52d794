"""The local Connect, as far as it needs no Kafka: what it refuses, and what it says when it cannot start."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from railgun.errors import EmbeddedBrokerError
from railgun.kafka.embedded import ConnectCrashed, EmbeddedConnect, NotAPort, PortInUse
from railgun.kafka.embedded.connect_jars import AVRO_JARS, JDBC_JARS, PLUGINS, RUNTIME_JARS
from railgun.kafka.embedded.pinned import KAFKA_VERSION, PINNED_JARS

NOWHERE = "127.0.0.1:1"


def test_a_port_that_is_none_is_refused() -> None:
    with pytest.raises(NotAPort):
        EmbeddedConnect(NOWHERE, port=65_536)


def test_it_has_no_address_before_its_start(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedBrokerError, match="no address before"):
        _ = EmbeddedConnect(NOWHERE, tmp_path).url


@pytest.mark.kafka  # fetches the jars if the cache does not hold them
def test_a_port_in_use_is_told_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = EmbeddedConnect(NOWHERE, tmp_path, other.getsockname()[1])
        with pytest.raises(PortInUse):
            taken.begin()
        assert not taken.running


@pytest.mark.kafka
def test_a_setting_that_it_cannot_use_is_told_with_its_reason(tmp_path: Path) -> None:
    wrong = EmbeddedConnect(NOWHERE, tmp_path, properties={"key.converter": "no.such.Converter"})
    with pytest.raises(ConnectCrashed, match=r"no\.such\.Converter"), wrong:
        pass
    assert not wrong.running


def test_its_jars_go_with_those_of_the_broker() -> None:
    def versions(jars: dict[str, str]) -> dict[str, str]:
        return {":".join(one.split(":")[:2]): one.split(":")[2] for one in jars}

    assert not versions(RUNTIME_JARS).keys() & versions(PINNED_JARS).keys(), (
        "a class path has each of them once"
    )
    assert {
        version for name, version in versions(RUNTIME_JARS).items() if name.startswith("org.apache.kafka")
    } == {KAFKA_VERSION}
    assert all(
        len(digest) == 64 for digest in (*RUNTIME_JARS.values(), *JDBC_JARS.values(), *AVRO_JARS.values())
    )
    assert len({plugin.name for plugin in PLUGINS}) == len(PLUGINS)
