"""What ``railgun init --print-acls`` grants is enough for a worker and a client, and what is not granted is said in words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

import railgun
from railgun.errors import NotAuthorized
from railgun.kafka.settings import KafkaSettings
from railgun.worker.group.record_reader import RecordReader
from tests.support.cell import Cell
from tests.support.commands import invoke
from tests.support.secured_broker import SecuredBroker, secured_broker
from tests.support.waiting import wait_until
from tests.support.worker_process import PARTITIONS, WorkerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

PREFIX = "shop"
WORKER, CLIENT, STRANGER, ONLOOKER = "shop-worker", "shop-app", "stranger", "onlooker"
APP, READER = "app", "reader"


def run(secured: SecuredBroker, user: str, *arguments: str, password: str | None = None) -> Result:
    """A command as the user would run it."""
    options = [f"--kafka={name}={value}" for name, value in secured.options(user, password).items()]
    return invoke(*arguments, "--server", secured.address, "--prefix", PREFIX, "--timeout", "15", *options)


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredBroker]:
    with secured_broker(WORKER, CLIENT, STRANGER, ONLOOKER, APP, READER) as broker:
        yield broker


@pytest.fixture(scope="module")
def worker(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """A worker that has nothing but what was printed."""
    secured.grant_what_is_printed(PREFIX, WORKER, CLIENT)
    with WorkerProcess(
        tmp_path_factory.mktemp("secured"),
        secured.address,
        prefix=PREFIX,
        node={"kafka": secured.options(WORKER)},
    ) as process:
        process.wait_for(": ready after", times=PARTITIONS)
        yield process


def test_what_is_printed_is_enough(secured: SecuredBroker, worker: WorkerProcess) -> None:
    for command in (
        ["stream", "add", "ORDERS", "--subjects", "ORDERS.*", "--max-msgs", "3"],
        ["pub", "ORDERS.new", "order {{Count}}", "--count", "5"],
        ["stream", "edit", "ORDERS", "--max-msgs-per-subject", "2"],
        ["stream", "info", "ORDERS"],
        ["stream", "get", "ORDERS", "--last-for", "ORDERS.new"],
        ["stream", "purge", "ORDERS", "--force"],
        ["stream", "rm", "ORDERS", "--force"],
        ["tour"],
    ):
        result = run(secured, CLIENT, *command)
        if result.exit_code != 0:
            pytest.fail(f"{command} ended with {result.exit_code}:\n{result.output}\n{worker.last_lines()}")
    found = json.loads(run(secured, CLIENT, "doctor", "--json").stdout)
    assert found["healthy"], found
    assert "authoriz" not in worker.text().lower()


def test_a_wrong_password_is_said_within_seconds(secured: SecuredBroker, worker: WorkerProcess) -> None:
    for command, stream in ((["pub", "ORDERS.new", "x"], "stderr"), (["doctor"], "stdout")):
        result = run(secured, CLIENT, *command, password="guessed")
        assert result.exit_code == (3 if command[0] == "pub" else 1)
        assert "refused the credentials" in getattr(result, stream)
        assert "guessed" not in result.output


def test_a_user_without_grants_is_told_which_is_missing(
    secured: SecuredBroker, worker: WorkerProcess
) -> None:
    refused = run(secured, STRANGER, "pub", "ORDERS.new", "x")
    assert refused.exit_code == 3, refused.output
    assert "permission" in refused.stderr
    examined = run(secured, STRANGER, "doctor")
    assert examined.exit_code == 1
    assert f"this user may not READ {PREFIX}.registry" in examined.stdout
    assert "railgun init --print-acls" in examined.stdout


async def test_a_reader_of_commands_without_the_right_ends_and_says_why(
    secured: SecuredBroker, worker: WorkerProcess
) -> None:
    failures: list[BaseException] = []
    topic = f"{PREFIX}.commands"
    secured.grant(ONLOOKER, "topic", topic, "literal", ["describe"])  # it sees the topic, and may not read it
    reader = RecordReader(KafkaSettings(secured.address, secured.options(ONLOOKER)), failures.append)
    try:
        reader.assign({(topic, 0): None})
        await asyncio.to_thread(wait_until, lambda: bool(failures), "it gives up")
    finally:
        reader.close()
    (error,) = failures
    assert isinstance(error, NotAuthorized)
    assert "refused the permission while reading commands" in str(error)


def test_passwords_and_permissions(secured: SecuredBroker, tmp_path: Path) -> None:
    def connect(user: str, password: str | None = None) -> railgun.Railgun:
        options = secured.options(user, password)
        return railgun.connect(secured.address, prefix=cell.prefix, kafka=options, timeout=20.0)

    with Cell(secured.inside, tmp_path) as cell:
        cell.ready_worker()
        with pytest.raises(railgun.NotAuthorized, match="refused the credentials"):
            connect(APP, "wrong")
        with pytest.raises(railgun.NotAuthorized, match="permission"):
            connect(APP)
        secured.grant(APP, "topic", cell.prefix, "prefixed", ["Read", "Write", "Describe"])
        secured.grant(READER, "topic", cell.prefix, "prefixed", ["Read", "Describe"])
        with connect(APP) as rg:
            stream = rg.create_stream("S", subjects=["s"])
            assert rg.publish("s", b"x").sequence == 1
            assert stream.get(1).payload == b"x"
        with connect(READER) as rg:
            with pytest.raises(railgun.NotAuthorized, match="permission"):
                rg.publish("s", b"x")
