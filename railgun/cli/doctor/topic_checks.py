"""The topics, checked by ``railgun doctor``: are they there, whole, and open to this user?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.admin._topic import TopicDescription

from railgun.cli.doctor.findings import Finding, note, ok, some, wrong
from railgun.kafka.answers import answer_of
from railgun.kafka.topic_admin import MIN_IN_SYNC

_ASK: Final = 10.0
_HIDDEN: Final = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
_GRANT: Final = "railgun init --print-acls shows the commands to grant it"


class Seen(NamedTuple):
    """The topics that were asked for: those that this user may see, and those that are hidden from it."""

    found: dict[str, TopicDescription]
    hidden: set[str]


def look(admin: AdminClient, names: list[str]) -> Seen:
    """Describe the topics; one that does not exist is in neither part."""
    asked = admin.describe_topics(
        TopicCollection(sorted(set(names))), include_authorized_operations=True, request_timeout=_ASK
    )
    seen = Seen({}, set())
    for name, future in asked.items():
        try:
            seen.found[name] = answer_of(future, _ASK + 2)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                seen.hidden.add(name)
            elif code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return seen


def may(topic: TopicDescription, operation: AclOperation) -> bool:
    """True if this user may do it; brokers without access control allow everything."""
    allowed = topic.authorized_operations
    return operation in allowed or AclOperation.ALL in allowed


def check_topics(seen: Seen, partitions: Mapping[str, int], logs: Mapping[str, str]) -> Iterator[Finding]:
    """Each topic of the cluster with its number of partitions, and the log of each stream."""
    faults = 0
    for name, count in partitions.items():
        topic = seen.found.get(name)
        if topic is None and name not in seen.hidden:
            faults += 1
            yield wrong("topics", f"{name} is missing", "restart a worker: it makes what is missing")
        elif topic is not None and len(topic.partitions) != count:
            faults += 1
            text = f"{name} has {len(topic.partitions)} partitions instead of {count}"
            yield wrong("topics", text, "stop all workers and restore the topic, or choose another --prefix")
    for name, stream in logs.items():
        if name not in seen.found and name not in seen.hidden:
            faults += 1
            yield wrong(
                "topics",
                f"{name} is missing, and with it the messages of stream {stream}",
                f"railgun stream rm {stream}, then add it again",
            )
    headless = [
        f"{name}/{one.id}"
        for name, topic in seen.found.items()
        for one in topic.partitions
        if one.leader.id < 0
    ]
    if headless:
        faults += 1
        yield wrong(
            "topics",
            f"no leader for {some(headless)}",
            "restart the brokers that hold these partitions",
        )
    unseen = sorted(seen.hidden & set(partitions))
    if unseen:
        yield note("topics", f"hidden from this user, as for any client: {', '.join(unseen)}")
    if not faults:
        there = len(partitions) - len(unseen)
        yield ok("topics", f"{there} topics of the cluster and {len(logs)} logs of streams are there")


def check_permissions(seen: Seen, wanted: Mapping[str, AclOperation]) -> Iterator[Finding]:
    """One finding for each topic that this user may not use as a client must."""
    for name, operation in wanted.items():
        topic = seen.found.get(name)
        if name in seen.hidden or (topic is not None and not may(topic, operation)):
            yield wrong("permissions", f"this user may not {operation.name} {name}", _GRANT)


def check_copies(found: Mapping[str, TopicDescription]) -> Finding:
    """The copies of all topics: how many there are, and that all are in sync."""
    fewest = min((len(one.replicas) for topic in found.values() for one in topic.partitions), default=0)
    behind = sorted(
        name
        for name, topic in found.items()
        if any(len(one.isr) < len(one.replicas) for one in topic.partitions)
    )
    if behind:
        return note("copies", f"not all copies are in sync: {some(behind)}", "look at the brokers")
    if fewest < 2:
        return note(
            "copies",
            "topics have a single copy: fine for development, but in production a lost disk loses messages",
            "in production set cluster.replication_factor = 3 before the first start",
        )
    return ok("copies", f"every topic has at least {fewest} copies, all in sync")


def least_in_sync(admin: AdminClient, topics: Iterable[str]) -> dict[str, int]:
    """The copies that must be in sync for a write, by topic; topics whose settings this user may not read are left out."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    found: dict[str, int] = {}
    if not resources:
        return found
    for resource, future in admin.describe_configs(resources, request_timeout=_ASK).items():
        try:
            found[resource.name] = int(answer_of(future, _ASK + 2)[MIN_IN_SYNC].value)
        except KafkaException as error:
            if error.args[0].code() not in _HIDDEN:
                raise
    return found


def check_in_sync(found: Mapping[str, TopicDescription], least: Mapping[str, int]) -> Finding:
    """An acknowledged record must survive the loss of one broker, and that loss must not stop writing."""
    copies = {name: min(len(one.replicas) for one in topic.partitions) for name, topic in found.items()}
    known = {name: (copies[name], least[name]) for name in sorted(copies.keys() & least.keys())}
    frail = [name for name, (have, need) in known.items() if have >= 3 and need < 2]
    stiff = [name for name, (have, need) in known.items() if need > max(1, have - 1)]
    if frail:
        return wrong(
            "in sync",
            f"{MIN_IN_SYNC} is 1 on {some(frail)}: acknowledged messages are lost with one broker",
            f"kafka-configs.sh --alter --topic {frail[0]} --add-config {MIN_IN_SYNC}=2",
        )
    if stiff:
        have, need = known[stiff[0]]
        return wrong(
            "in sync",
            f"{MIN_IN_SYNC} is {need} with {have} copies on {some(stiff)}: one broker that is away stops writing",
            f"kafka-configs.sh --alter --topic {stiff[0]} --add-config {MIN_IN_SYNC}={max(1, have - 1)}",
        )
    if len(known) < len(copies):
        return note("in sync", f"this user may not read {MIN_IN_SYNC} of {len(copies) - len(known)} topics")
    return ok("in sync", f"{MIN_IN_SYNC} fits the number of copies")
