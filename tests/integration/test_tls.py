"""Over TLS, with certificates on both sides: a worker, a client, and those that are not trusted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import railgun
from railgun.errors import ConnectionLost, NotAuthorized, RailgunError
from railgun.kafka.embedded import EmbeddedBroker, free_port
from tests.support.certificates import Authority
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS, WorkerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

PREFIX = "shop"
SOON = 10.0  # seconds


class Secured(NamedTuple):
    address: str
    authority: Authority


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    address = f"127.0.0.1:{free_port()}"
    with EmbeddedBroker(
        extra_listeners={"SSL": address},
        properties={
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.key_store()),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.trust_store),
            "ssl.client.auth": "required",
        },
    ):
        yield Secured(address, authority)


@pytest.fixture(scope="module")
def worker(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    with WorkerProcess(
        tmp_path_factory.mktemp("worker"),
        secured.address,
        prefix=PREFIX,
        node={"kafka": secured.authority.options("worker")},
    ) as process:
        process.wait_for(": ready after", times=PARTITIONS)
        yield process


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Another authority, which neither side knows."""
    return Authority(tmp_path_factory.mktemp("stranger"))


def test_a_client_publishes_and_reads(secured: Secured, worker: WorkerProcess) -> None:
    options = secured.authority.options("client")
    with railgun.connect(secured.address, prefix=PREFIX, kafka=options) as rg:
        orders = rg.create_stream("ORDERS", subjects=["ORDERS.*"])
        assert rg.publish("ORDERS.new", b"hello", msg_id="1").sequence == 1
        assert rg.publish("ORDERS.new", b"hello", msg_id="1").duplicate
        assert orders.get(1).payload == b"hello"


async def test_so_does_an_asynchronous_one(secured: Secured, worker: WorkerProcess) -> None:
    options = secured.authority.options("client")
    async with railgun.connect_async(secured.address, prefix=PREFIX, kafka=options) as rg:
        await rg.create_stream("PARCELS", subjects=["PARCELS.*"])
        assert (await rg.publish("PARCELS.new", b"x")).sequence == 1


def fault_of(address: str, options: dict[str, str]) -> RailgunError:
    """The error of a facade, which must not wait for its timeout: that is longer than the test's."""
    with pytest.raises(RailgunError) as raised:
        railgun.connect(address, prefix=PREFIX, kafka=options, timeout=1_000.0)
    return raised.value


def test_a_broker_that_is_not_trusted_is_said_in_words(secured: Secured, stranger: Authority) -> None:
    fault = fault_of(secured.address, stranger.options("client"))
    assert isinstance(fault, ConnectionLost)
    assert f"the certificate of Kafka at {secured.address} is not trusted" in str(fault)
    assert "ssl.ca.location" in str(fault)


@pytest.mark.parametrize("certificate", ["none", "of a stranger"])
def test_a_client_that_is_not_trusted_is_told_so(
    secured: Secured, stranger: Authority, certificate: str
) -> None:
    options = secured.authority.options()
    if certificate != "none":
        options = stranger.options("client") | options
    fault = fault_of(secured.address, options)
    assert isinstance(fault, NotAuthorized)
    assert "refused the certificate of this client, or wants one" in str(fault)


def test_who_speaks_plain_text_is_told_what_to_check(secured: Secured) -> None:
    fault = fault_of(secured.address, {})
    assert isinstance(fault, ConnectionLost)
    assert "check security.protocol" in str(fault)


@pytest.mark.parametrize("faust", [False, True])
@pytest.mark.parametrize("trusting", [False, True])
def test_a_worker_says_it_too_and_ends(
    secured: Secured, stranger: Authority, tmp_path: Path, trusting: bool, faust: bool
) -> None:
    options = secured.authority.options() if trusting else stranger.options("worker")
    said = "refused the certificate of this client" if trusting else "is not trusted: name the authority"
    with WorkerProcess(
        tmp_path, secured.address, prefix=PREFIX, node={"kafka": options}, faust=faust
    ) as process:
        process.wait_for(said, timeout=2 * SOON)  # with the start of the process
        wait_until(lambda: not process.alive, "the worker ends", timeout=SOON)
