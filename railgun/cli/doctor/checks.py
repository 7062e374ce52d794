"""The checks of ``railgun doctor``, from the machine to the shards. Each is bounded in time and changes nothing.

A check that makes later ones pointless (no broker, no topics) ends the examination.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation

from railgun.cli.doctor.clock_checks import check_clocks
from railgun.cli.doctor.findings import Finding, note, ok, some, wrong
from railgun.cli.doctor.input_checks import check_inputs
from railgun.cli.doctor.topic_checks import (
    check_copies,
    check_in_sync,
    check_permissions,
    check_topics,
    least_in_sync,
    look,
    may,
)
from railgun.cli.doctor.transactions import hung_transactions, records_in
from railgun.cli.options.cluster import Cluster
from railgun.client.operations.shards import Pong, ping
from railgun.errors import NotAuthorized, RailgunError
from railgun.kafka.answers import answer_of
from railgun.kafka.cluster_record import read_registry
from railgun.kafka.embedded.java import find_java, java_version
from railgun.kafka.settings import KafkaSettings
from railgun.kafka.topic_admin import cell_topics
from railgun.kafka.trouble import Troubles, in_words, librdkafka
from railgun.protocol.registry import Protected, RegisteredStream, ShardOwner, StreamGone, parse
from railgun.protocol.topics import Names
from railgun.protocol.unreadable import Unreadable

_START: Final = "railgun worker --config railgun.toml"
_ASK: Final = 10.0


def examine(cluster: Cluster) -> Iterator[Finding]:
    """All checks in order."""
    yield check_java()
    if cluster.in_memory:
        yield ok("broker", f"{cluster.address} lives in this process and needs none")
        return
    settings, names = cluster.settings(), cluster.names
    troubles = Troubles(settings.bootstrap)
    callback: dict[str, Any] = {"error_cb": troubles.told}
    admin = AdminClient({**settings.admin(), **callback}, logger=librdkafka)
    broker = check_broker(admin, settings.bootstrap, troubles, cluster.timeout)
    yield broker
    if broker.verdict == "wrong":
        return
    try:
        yield from _examine_cell(cluster, admin, settings, names)
    except (RailgunError, KafkaException) as error:
        reason = error if isinstance(error, RailgunError) else in_words(error, "examining the cluster")
        yield wrong("doctor", f"could not go on: {reason}", "mend this first, then run railgun doctor again")


def _examine_cell(
    cluster: Cluster, admin: AdminClient, settings: KafkaSettings, names: Names
) -> Iterator[Finding]:
    registry = Registry()
    seen = look(admin, [names.registry])
    refused = list(check_permissions(seen, {names.registry: AclOperation.READ}))
    if refused:
        yield from refused
        return
    if names.registry in seen.found:
        read_registry(settings, names, registry.visit)
    if registry.cluster is None:
        yield wrong(
            "topics",
            f"nothing is set up under the prefix {names.prefix!r}",
            f"railgun init --server {settings.bootstrap} --prefix {names.prefix}, or start a worker: {_START}",
        )
        return
    if registry.unreadable:
        key, why = next(iter(registry.unreadable.items()))
        yield note(
            "registry",
            f"{len(registry.unreadable)} record(s) of {names.registry} cannot be read and are skipped by all readers, such as "
            f"{key[:100]!r}: {why.reason}",
            "find out who writes there; workers write their records again when they change",
        )
    plans = cell_topics(names, registry.cluster.partitions, registry.cluster.reply_factor)
    logs = {names.log(stream): stream for stream in registry.streams}
    seen = look(admin, [*(plan.name for plan in plans), *logs])
    yield from check_topics(seen, {plan.name: plan.partitions for plan in plans}, logs)
    wanted = {names.commands: AclOperation.WRITE, names.replies: AclOperation.READ}
    refused = list(check_permissions(seen, {**wanted, **dict.fromkeys(logs, AclOperation.READ)}))
    yield from refused or [ok("permissions", "this user may do what a client does")]
    yield check_copies(seen.found)
    yield check_in_sync(seen.found, least_in_sync(admin, seen.found))
    workers = check_workers(admin, names, registry.cluster.partitions)
    yield workers
    if workers.verdict != "wrong":
        yield from check_shards(cluster, registry)
    yield from check_inputs(admin, names.group, {names.commands, names.forwards} & seen.found.keys())
    readable = {name: len(one.partitions) for name, one in seen.found.items() if may(one, AclOperation.READ)}
    yield from hung_transactions(admin, settings, readable)
    if names.rejected in readable:
        yield from _check_rejected(admin, names.rejected, readable[names.rejected])


class Registry:
    """The part of the registry that the checks need."""

    def __init__(self) -> None:
        self.cluster: Protected | None = None
        self.streams: dict[str, int] = {}  # active streams and their partitions
        self.nodes: dict[int, str] = {}  # shard -> the node that last announced itself as its owner
        self.unreadable: dict[bytes, Unreadable] = {}  # by key, the records that all readers skip

    def visit(self, key: bytes, value: bytes | None) -> None:
        match parse(key, value):
            case Protected() as cluster:
                self.cluster = self.cluster or cluster
            case RegisteredStream() as stream:
                self.streams[stream.name] = stream.partition
            case StreamGone(name):
                self.streams.pop(name, None)
            case ShardOwner(shard, _, node):
                self.nodes[shard] = node
            case Unreadable() as why:
                self.unreadable.setdefault(key, why)


def check_java() -> Finding:
    """Java is needed by the local broker only."""
    try:
        java = find_java()
    except RailgunError as error:
        return note(
            "java", str(error), "only `railgun up` needs a Java: pip install 'railgun[embedded]' brings one"
        )
    return ok("java", f"{java} is version {java_version(java)} (for the local broker)")


def check_broker(admin: AdminClient, bootstrap: str, troubles: Troubles, timeout: float) -> Finding:
    deadline = time.monotonic() + timeout
    while True:
        try:
            found = admin.list_topics(timeout=0.5)
        except KafkaException as error:
            admin.poll(0)  # lets the callback tell what it knows
            reason = troubles.lasting(1.0)
            if reason is None and time.monotonic() > deadline:
                reason = troubles.now() or in_words(error, f"connecting to {bootstrap}")
            if reason is None:
                continue
            if isinstance(reason, NotAuthorized):
                return wrong(
                    "broker",
                    str(reason),
                    "check user, password, mechanism or certificate given with --kafka or --kafka-config",
                )
            return wrong(
                "broker", str(reason), "check --server and the network, or start a local one: railgun up"
            )
        return ok(
            "broker", f"{bootstrap} answers: cluster {found.cluster_id}, {len(found.brokers)} broker(s)"
        )


def check_workers(admin: AdminClient, names: Names, partitions: int) -> Finding:
    """The workers of the group must own every partition."""
    try:
        asked = admin.describe_consumer_groups([names.group], request_timeout=_ASK)
        group = answer_of(asked[names.group], _ASK + 2)
    except KafkaException as error:
        reason = in_words(error, f"asking for the group {names.group}")
        if isinstance(reason, NotAuthorized):
            return note("workers", str(reason), "grant DESCRIBE on the group: railgun init --print-acls")
        return wrong("workers", f"no worker runs: {reason}", f"start one: {_START}")
    members = group.members
    if not members:
        return wrong("workers", f"no worker runs in the group {names.group}", f"start one: {_START}")
    owned = {
        place.partition
        for member in members
        for place in (member.assignment.topic_partitions if member.assignment else ())
        if place.topic == names.commands
    }
    hosts = ", ".join(sorted({member.host for member in members}))
    if len(owned) < partitions:
        text = f"{len(members)} worker(s) at {hosts}, but {partitions - len(owned)} of {partitions} partitions have no owner"
        return wrong("workers", text, "wait for the rebalance to end; then look at the workers' logs")
    return ok("workers", f"{len(members)} worker(s) at {hosts} own all {partitions} partitions")


def check_shards(cluster: Cluster, registry: Registry) -> Iterator[Finding]:
    """Each shard must answer (an owner that restores, hangs or waits for a broker does not), by a clock that is right."""
    patience = max(cluster.timeout, 2.0)
    pongs: list[tuple[int, Pong, float]] = []

    def answers(shard: int) -> str:
        started = time.monotonic()
        try:
            pong = rg.call(ping(shard), timeout=patience)
        except RailgunError as error:
            return str(error)
        pongs.append((shard, pong, time.monotonic() - started))
        return ""

    with cluster.connect() as rg:
        count = rg.connection.topology.partitions
        with ThreadPoolExecutor(max_workers=min(count, 16)) as pool:
            silent = {shard: reason for shard, reason in enumerate(pool.map(answers, range(count))) if reason}
    if pongs:
        yield check_clocks(pongs)
        yield from check_unreadable(pongs)
    if not silent:
        yield ok("shards", f"all {count} answer")
        return
    listed = some([f"{shard} (last owner {registry.nodes.get(shard, 'unknown')})" for shard in silent])
    yield wrong(
        "shards",
        f"{len(silent)} of {count} do not answer within {patience:g} s: {listed}",
        "a shard that restores its tables answers later; else look at its worker's log, then restart that worker",
    )


def check_unreadable(pongs: list[tuple[int, Pong, float]]) -> Iterator[Finding]:
    """Streams and consumers that owners have set aside because of records that cannot be read."""
    for shard, pong, _ in pongs:
        for what, reason in pong.unreadable.items():
            yield wrong(
                "records",
                f"{what} (shard {shard}) is set aside: {reason}",
                "the others are served and nothing was removed; if a newer version wrote it, update this worker",
            )


def _check_rejected(admin: AdminClient, topic: str, partitions: int) -> Iterator[Finding]:
    count = records_in(admin, topic, partitions)
    if count:
        yield note(
            "rejected",
            f"{topic} holds about {count:,} commands that could not be read or applied",
            "read them with any Kafka consumer: the header Railgun-Reason says why",
        )
