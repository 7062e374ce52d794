"""A local broker with users, passwords and permissions."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from railgun.kafka.embedded import EmbeddedBroker, free_port
from tests.support.commands import done, invoke

_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def sasl(user: str, password: str) -> dict[str, str]:
    """The options of librdkafka with which a client shows who it is."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
    }


class SecuredBroker(NamedTuple):
    """At ``address`` a user may do what was granted; at ``inside`` everybody may do everything."""

    address: str
    inside: str
    passwords: dict[str, str]

    def options(self, user: str, password: str | None = None) -> dict[str, str]:
        return sasl(user, password or self.passwords[user])

    def grant(self, user: str, resource: str, name: str, pattern: str, operations: Iterable[str]) -> None:
        """Allow it, in the words of ``railgun init --print-acls --json``."""
        known = {operation.name.replace("_", "").lower(): operation for operation in AclOperation}
        bindings = [
            AclBinding(
                ResourceType[resource.replace("-", "_").upper()],
                name,
                ResourcePatternType[pattern.upper()],
                f"User:{user}",
                "*",
                known[operation.lower()],
                AclPermissionType.ALLOW,
            )
            for operation in operations
        ]
        admin = AdminClient({"bootstrap.servers": self.inside})
        for created in admin.create_acls(bindings).values():
            created.result(20)

    def grant_what_is_printed(self, prefix: str, worker: str, client: str) -> None:
        """The users of worker and clients get what ``railgun init --print-acls`` prints."""
        users = ["--user", worker, "--client-user", client]
        for role in json.loads(
            done(invoke("init", "--print-acls", "--json", "--prefix", prefix, *users))
        ).values():
            for one in role["grants"]:
                self.grant(role["user"], one["resource"], one["name"], one["pattern"], one["operations"])


@contextmanager
def secured_broker(*users: str) -> Iterator[SecuredBroker]:
    """A broker that knows these users and grants them nothing yet."""
    address = f"127.0.0.1:{free_port()}"
    passwords = {user: secrets.token_hex(8) for user in users}
    scram: list[str] = []
    for user, password in passwords.items():
        scram += ["--add-scram", f"SCRAM-SHA-512=[name={user},password={password}]"]
    broker = EmbeddedBroker(
        extra_listeners={"SASL_PLAINTEXT": address},
        format_arguments=scram,
        properties={
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": _LOGIN,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",  # whoever comes by the plain listener
            "allow.everyone.if.no.acl.found": "false",
        },
    )
    with broker:
        yield SecuredBroker(address, broker.bootstrap, passwords)
