"""A cluster in memory: the very same shards, in the caller's process, with their tables and logs in its memory.

``memory://`` is a fresh private cluster, ``memory://name`` one that the process shares; both vanish with the process.
``?partitions=…`` and the limits of the cluster section may follow. The test clock is on. Time runs by itself: a small
thread applies what is due. Commands are decided in the thread that sends them, or in the one that is deciding already.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl

from railgun.client.transport import Receiver, TakeAdvisories, Topology
from railgun.client.transports.memory.log import MemoryLog
from railgun.errors import ConfigError, RailgunError
from railgun.model import headers as h
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.messages import StoredMessage
from railgun.protocol.registry import CLUSTER_KEY, Protected
from railgun.protocol.replies import Located
from railgun.protocol.topics import Names
from railgun.semantics.messages.budget import WorkerMemory
from railgun.semantics.streams.publishing.origin import origin_headers
from railgun.shard.clock import SteadyClock
from railgun.shard.core import ShardCore
from railgun.shard.drain import Drain, Input
from railgun.state.table import MemoryTable

logger = logging.getLogger(__name__)

PARTITIONS = 4
NAME = "memory"  # of the cluster and of its node
_DRAIN = 512  # commands that one drain takes at most


class MemoryCluster:
    """Shards, logs and registry of one cluster in memory."""

    def __init__(
        self, names: Names, partitions: int = PARTITIONS, limits: ClusterLimits | None = None
    ) -> None:
        self.topology = Topology(partitions)
        self._names = names
        self._limits = limits or ClusterLimits()
        self._memory = WorkerMemory()  # one thread decides at a time: it needs no lock
        self._tables = [MemoryTable() for _ in range(partitions)]
        self._cores = [self._load(number) for number in range(partitions)]
        self._clock = SteadyClock(guard=threading.Lock())  # any thread puts commands
        self._lock = threading.Lock()
        self._due = threading.Condition(self._lock)
        self._inbox: list[deque[Input]] = [deque() for _ in self._cores]
        self._offsets = [[0, 0] for _ in self._cores]  # next offset of commands and of forwards
        self._logs: dict[str, MemoryLog] = {}
        self._registry: dict[bytes, bytes] = {
            CLUSTER_KEY: Protected(NAME, names.prefix, partitions, self.topology.reply_factor).encode()
        }
        self._receivers: dict[str, Receiver] = {}
        self._advised: list[TakeAdvisories] = []
        self._runner = 0  # the thread that is deciding
        self._undecided: list[Input] = []  # what it has taken, until that is in the table
        self._next_due: int | None = None
        self._timer: threading.Thread | None = None

    def _load(self, shard: int) -> ShardCore:
        core = ShardCore(
            shard,
            self.topology.partitions,
            self._names,
            self._limits,
            self._tables[shard],
            test_clock=True,
            read_log=self.read_log,
            memory=self._memory,
            origin=origin_headers(NAME, NAME),
        )
        core.load()
        return core

    # -- clients

    def attach(self, client: str, receiver: Receiver) -> None:
        with self._lock:
            self._receivers[client] = receiver
            receiver.registry(list(self._registry.items()))
            self._start_timer()

    def detach(self, client: str) -> None:
        with self._lock:
            self._receivers.pop(client, None)
            self._due.notify()

    def submit(self, partition: int, key: bytes, kind: str, value: bytes) -> None:
        """Take one command, and decide until nothing is left, unless another thread is doing so."""
        with self._lock:
            self._put(partition, False, key, [(h.COMMAND_KIND, kind.encode("ascii"))], value)
            if self._runner not in (0, threading.get_ident()):
                return
        self._run()

    def _put(self, partition: int, forwarded: bool, key: bytes, headers: h.Headers, value: bytes) -> None:
        offset = self._offsets[partition][forwarded]
        self._offsets[partition][forwarded] += 1
        self._inbox[partition].append(Input(forwarded, offset, self._clock(), key, headers, value))

    # -- deciding

    def _run(self) -> None:
        mine = threading.get_ident()
        while True:
            with self._lock:
                if self._runner not in (0, mine):
                    return
                self._runner = mine
                shard, inputs = self._next_inputs()
                if shard is None:
                    self._runner = 0
                    self._note_deadline()
                    return
                self._undecided = inputs
            try:
                deliveries = self._decide(self._cores[shard], inputs)
            except Exception as error:
                logger.exception("a shard in memory failed")
                self._cores[shard] = self._load(shard)  # nothing was committed: the table has what holds
                with self._lock:
                    self._runner = 0
                    receivers = list(self._receivers.values())
                for receiver in receivers:
                    receiver.failed(RailgunError(f"a shard in memory failed: {error!r}"))
                return
            except BaseException:  # an interrupt of this thread: another one decides it anew
                self._cores[shard] = self._load(shard)
                self._give_way(shard, self._undecided)
                raise
            try:
                for receiver, batch in deliveries:
                    receiver.replies([batch])
            except BaseException:
                self._give_way(shard, [])
                raise

    def _give_way(self, shard: int, inputs: list[Input]) -> None:
        """This thread cannot go on: the one that keeps the time does, with what was not decided."""
        with self._lock:
            self._inbox[shard].extendleft(reversed(inputs))
            self._runner = self._next_due = 0
            self._due.notify()

    def _next_inputs(self) -> tuple[int | None, list[Input]]:
        for shard, inbox in enumerate(self._inbox):
            if inbox:
                return shard, [inbox.popleft() for _ in range(min(len(inbox), _DRAIN))]
        now = self._clock()
        for shard, core in enumerate(self._cores):
            due = core.next_deadline()
            if due is not None and due <= now:
                return shard, []
        return None, []

    def _decide(self, core: ShardCore, inputs: list[Input]) -> list[tuple[Receiver, bytes]]:
        drain = core.apply(inputs, self._clock())
        answers = {
            client: replies.batch(core.partition, 0).encode() for client, replies in drain.replies.items()
        }
        with self._lock:
            first_offsets = self._write(drain)
        self._follow(core, drain, first_offsets)
        with self._lock:
            receivers = list(self._receivers.items())
            advised = list(self._advised) if drain.advisories else []
        for take in advised:
            take([(advisory.subject, advisory.body) for advisory in drain.advisories])
        return [(receiver, answers[client]) for client, receiver in receivers if client in answers]

    def _follow(self, core: ShardCore, drain: Drain, first_offsets: dict[str, int]) -> None:
        """The drain is in the logs: whatever fails from here on, it holds, and is not decided again."""
        self._undecided = []
        try:
            core.committed(drain, first_offsets)
        except BaseException as error:
            self._tables[core.partition].apply(drain.changes)
            self._cores[core.partition] = self._load(core.partition)
            if not isinstance(error, Exception):
                raise
            logger.exception("a shard in memory failed after its commit, and is loaded again")

    def _write(self, drain: Drain) -> dict[str, int]:
        for change in drain.topics:
            self._logs.setdefault(change.topic, MemoryLog())
        first_offsets = {}
        for topic, append in drain.appends.items():
            first = self._logs.setdefault(topic, MemoryLog()).append(append)
            if first is not None:
                first_offsets[topic] = first
        for partition, forward in drain.sent:
            self._put(partition, True, b"", [], forward)
        for key, value in drain.registry:
            self._registry.pop(key, None)
            if value is not None:
                self._registry[key] = value
        if drain.registry:
            for receiver in self._receivers.values():
                receiver.registry(drain.registry)
        for topic in drain.doomed_topics:
            self._logs.pop(topic, None)
        for trim in drain.trims:
            if trim.topic in self._logs:
                self._logs[trim.topic].trim(trim.offset)
        for refused in drain.rejected:
            logger.warning("a command was rejected: %s", refused.reason)
        return first_offsets

    # -- time

    def _note_deadline(self) -> None:
        due = [core.next_deadline() for core in self._cores]
        self._next_due = min((one for one in due if one is not None), default=None)
        self._due.notify()

    def _start_timer(self) -> None:
        if self._timer is None or not self._timer.is_alive():
            self._timer = threading.Thread(target=self._tick, name="railgun-memory-clock", daemon=True)
            self._timer.start()

    def _tick(self) -> None:
        """Wait for the next deadline and apply it; ends when the last client is gone."""
        while True:
            with self._lock:
                if not self._receivers:
                    self._timer = None
                    return
                left = None if self._next_due is None else (self._next_due - self._clock()) / 1e9
                if left is None or left > 0:
                    self._due.wait(None if left is None else min(left, 60.0))
                    continue
                self._next_due = None
            self._run()

    def read_log(self, places: Sequence[Located]) -> list[StoredMessage | None]:
        """The messages at these places; None for one that is gone."""
        with self._lock:
            logs = [self._logs.get(place.topic) for place in places]
            return [None if log is None else log.find(at) for log, at in zip(logs, places, strict=True)]

    def advise(self, take: TakeAdvisories) -> Callable[[], None]:
        """Give all advisories to ``take`` from now on; the returned function ends it."""
        with self._lock:
            self._advised.append(take)

        def end() -> None:
            with self._lock:
                if take in self._advised:
                    self._advised.remove(take)

        return end


_shared: dict[str, MemoryCluster] = {}
_shared_lock = threading.Lock()


def cluster_at(rest: str, names: Names) -> MemoryCluster:
    """The cluster of a memory address without its scheme. Raises ConfigError for an unknown option."""
    name, _, query = rest.partition("?")
    options: dict[str, Any] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in (*ClusterLimits._fields, "partitions") or not value.isdigit():
            raise ConfigError(
                f"{key}={value} is not a valid option of memory://: use partitions or a limit of the cluster, with a number"
            )
        options[key] = int(value)
    partitions = options.pop("partitions", PARTITIONS)
    if partitions < 1:
        raise ConfigError("partitions=0 is not a valid option of memory://: a cluster has at least one")
    make: Callable[[], MemoryCluster] = lambda: MemoryCluster(names, partitions, ClusterLimits(**options))  # noqa: E731
    if not name:
        return make()
    with _shared_lock:
        return _shared.get(name) or _shared.setdefault(name, make())


def forget(name: str) -> None:
    """The shared cluster of that name is gone: the next ``memory://name`` is a fresh one."""
    with _shared_lock:
        _shared.pop(name, None)
