"""What ``railgun init --print-acls`` grants is enough for a worker and a client, and what is not granted is said in words."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from typer.testing import CliRunner, Result

from railgun.cli.main import app
from railgun.kafka.embedded import EmbeddedBroker, free_port
from tests.integration.conftest import PARTITIONS, WorkerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(180)]

PREFIX = "shop"
WORKER, CLIENT, STRANGER = "shop-worker", "shop-app", "stranger"


class Secured(NamedTuple):
    """A broker with access control: its address for everybody, its owner's own, and the users' passwords."""

    address: str
    inside: str
    passwords: dict[str, str]

    def options(self, user: str, password: str | None = None) -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password or self.passwords[user],
        }

    def run(self, user: str, *arguments: str, password: str | None = None) -> Result:
        given = [f"--kafka={name}={value}" for name, value in self.options(user, password).items()]
        command = [*arguments, "--server", self.address, "--prefix", PREFIX, "--timeout", "15", *given]
        result = CliRunner().invoke(app, command)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    passwords = {user: secrets.token_hex(8) for user in (WORKER, CLIENT, STRANGER)}
    address = f"127.0.0.1:{free_port()}"
    scram: list[str] = []
    for user, password in passwords.items():
        scram += ["--add-scram", f"SCRAM-SHA-512=[name={user},password={password}]"]
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    broker = EmbeddedBroker(
        extra_listeners={"SASL_PLAINTEXT": address},
        format_arguments=scram,
        properties={
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": module,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",  # the owner, on the plain listener
            "allow.everyone.if.no.acl.found": "false",
        },
    )
    with broker:
        yield Secured(address, broker.bootstrap, passwords)


@pytest.fixture(scope="module")
def worker(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """A worker that has nothing but what was printed."""
    users = ["--user", WORKER, "--client-user", CLIENT]
    printed = CliRunner().invoke(app, ["init", "--print-acls", "--json", "--prefix", PREFIX, *users])
    grant(secured.inside, json.loads(printed.stdout))
    kafka = "".join(f'"{name}" = "{value}"\n' for name, value in secured.options(WORKER).items())
    config = f'[cluster]\nprefix = "{PREFIX}"\npartitions = {PARTITIONS}\n[node.kafka]\n{kafka}\n[node]\n'
    folder: Path = tmp_path_factory.mktemp("secured")
    process = WorkerProcess(0, folder, f'{config}bootstrap = "{secured.address}"\n').start()
    try:
        process.wait_for(": ready after", times=PARTITIONS)
        yield process
    finally:
        if process.running:
            process.kill()


def grant(inside: str, roles: dict[str, Any]) -> None:
    """Do what the printed commands do."""
    kinds = {
        "topic": ResourceType.TOPIC,
        "group": ResourceType.GROUP,
        "transactional-id": ResourceType.TRANSACTIONAL_ID,
    }
    operations = {operation.name.replace("_", "").lower(): operation for operation in AclOperation}
    bindings = [
        AclBinding(
            kinds[one["resource"]],
            one["name"],
            ResourcePatternType[one["pattern"].upper()],
            f"User:{role['user']}",
            "*",
            operations[operation.lower()],
            AclPermissionType.ALLOW,
        )
        for role in roles.values()
        for one in role["grants"]
        for operation in one["operations"]
    ]
    admin = AdminClient({"bootstrap.servers": inside})
    for done in admin.create_acls(bindings).values():
        done.result(20)


def test_what_is_printed_is_enough(secured: Secured, worker: WorkerProcess) -> None:
    for command in (
        ["stream", "add", "ORDERS", "--subjects", "ORDERS.*", "--max-msgs", "3"],
        ["pub", "ORDERS.new", "order {{Count}}", "--count", "5"],
        ["stream", "edit", "ORDERS", "--max-msgs-per-subject", "2"],
        ["stream", "info", "ORDERS"],
        ["stream", "get", "ORDERS", "--last-for", "ORDERS.new"],
        ["stream", "purge", "ORDERS"],
        ["stream", "rm", "ORDERS"],
        ["tour"],
    ):
        result = secured.run(CLIENT, *command)
        assert result.exit_code == 0, (command, result.output, worker.text()[-2000:])
    found = json.loads(secured.run(CLIENT, "doctor", "--json").stdout)
    assert found["healthy"], found
    assert "authoriz" not in worker.text().lower()


def test_a_wrong_password_is_said_within_seconds(secured: Secured, worker: WorkerProcess) -> None:
    for command, stream in ((["pub", "ORDERS.new", "x"], "stderr"), (["doctor"], "stdout")):
        result = secured.run(CLIENT, *command, password="guessed")
        assert result.exit_code == (3 if command[0] == "pub" else 1)
        assert "refused the credentials" in getattr(result, stream)
        assert "guessed" not in result.output


def test_a_user_without_grants_is_told_which_is_missing(secured: Secured, worker: WorkerProcess) -> None:
    refused = secured.run(STRANGER, "pub", "ORDERS.new", "x")
    assert refused.exit_code == 3, refused.output
    assert "permission" in refused.stderr
    examined = secured.run(STRANGER, "doctor")
    assert examined.exit_code == 1
    assert f"this user may not READ {PREFIX}.registry" in examined.stdout
    assert "railgun init --print-acls" in examined.stdout
