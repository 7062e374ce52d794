"""The permissions that clients and workers need on a prefix, as Kafka's own tool grants them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from railgun.kafka.settings import UNUSED_GROUP
from railgun.protocol.topics import Names


class Grant(NamedTuple):
    """Operations on one resource, or on all that begin with its name."""

    resource: Literal["topic", "group", "transactional-id"]
    name: str
    pattern: Literal["literal", "prefixed"]
    operations: tuple[str, ...]


# What consumers that never join a group call theirs: they only ask for its coordinator.
_READERS = Grant("group", UNUSED_GROUP, "literal", ("Describe",))


def client_grants(names: Names) -> list[Grant]:
    """A client writes commands, and reads answers, the registry, advisories and the logs of streams."""
    return [
        Grant("topic", names.commands, "literal", ("Write", "Describe")),
        Grant("topic", names.replies, "literal", ("Read", "Describe")),
        Grant("topic", names.registry, "literal", ("Read", "Describe")),
        Grant("topic", names.advisories, "literal", ("Read", "Describe")),
        Grant("topic", f"{names.prefix}.log.", "prefixed", ("Read", "Describe")),
        Grant("group", names.group, "literal", ("Describe",)),  # is a worker alive?
        _READERS,
    ]


def worker_grants(names: Names) -> list[Grant]:
    """A worker makes, fills, trims and deletes topics of the prefix, in transactions of its own."""
    everything = ("Read", "Write", "Create", "Delete", "Describe", "DescribeConfigs", "Alter", "AlterConfigs")
    return [
        Grant("topic", f"{names.prefix}.", "prefixed", everything),
        Grant("group", names.group, "literal", ("Read", "Describe")),
        _READERS,
        Grant("transactional-id", f"{names.prefix}-", "prefixed", ("Write", "Describe")),
    ]


def commands(bootstrap: str, user: str, grants: list[Grant]) -> Iterator[str]:
    """One line of ``kafka-acls.sh`` a grant."""
    for grant in grants:
        operations = " ".join(f"--operation {operation}" for operation in grant.operations)
        pattern = " --resource-pattern-type prefixed" if grant.pattern == "prefixed" else ""
        yield (
            f"kafka-acls.sh --bootstrap-server {bootstrap} --add --allow-principal User:{user} "
            f"{operations} --{grant.resource} {grant.name}{pattern}"
        )
