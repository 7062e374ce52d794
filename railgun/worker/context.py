"""The context that all shards of a worker share: the cluster, its settings, and the parts of the worker that they use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from railgun.kafka.settings import KafkaSettings
from railgun.kafka.topic_admin import Topics
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.headers import Headers
from railgun.protocol.topics import Names
from railgun.semantics.messages.budget import WorkerMemory
from railgun.shard.clock import SteadyClock
from railgun.shard.log_bodies import ReadLog
from railgun.worker.group.membership import Membership
from railgun.worker.housekeeping import Housekeeping
from railgun.worker.outbox import Outbox


@dataclass(frozen=True)
class ShardContext:
    """Made once, when the worker has looked at the cluster."""

    kafka: KafkaSettings
    names: Names
    partitions: int
    reply_factor: int
    limits: ClusterLimits
    test_clock: bool
    node: str
    origin: Headers  # of values that this worker stores (KV-40)
    folder: Path
    identity: str  # of the changelog topic
    admin: AdminClient
    topics: Topics
    housekeeping: Housekeeping
    outbox: Outbox
    clock: SteadyClock
    memory: WorkerMemory
    read_log: ReadLog
    # Is this, as far as the worker knows, still its place in the group?
    is_current: Callable[[Membership], bool]
    confirmed: Callable[[Membership], bool | None]  # does the group say so, too? None: not known yet
    on_room: Callable[[int], None]  # the inbox of the partition can take more
    on_crash: Callable[[BaseException], None]
