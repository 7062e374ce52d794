"""One connection: what was sent and not yet answered, who answers what, and how it all ends.

Usable from any thread. Everything that is begun here ends: with its answer, at its deadline, when no worker is left, when
the transport fails, or at :meth:`Connection.close`. Commands are durable once the broker has them, so a new owner of a
shard answers them too: nothing is sent twice.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from railgun.api.names import ApiName, Route
from railgun.client import lifetime
from railgun.client.connection.registry import RegistryView
from railgun.client.connection.watchdog import START_A_WORKER, Watchdog
from railgun.client.consuming.hub import ConsumerHub
from railgun.client.consuming.parcels import DirectFeed, Feed
from railgun.client.publishing.packer import Packer
from railgun.client.publishing.packs import Lane
from railgun.client.requests import Requests
from railgun.client.settlements import Settlement, Wakeups
from railgun.client.steps import LONGEST_WAIT
from railgun.client.transport import Topology, Transport
from railgun.errors import (
    ConfigError,
    ConnectionClosed,
    NoStreamResponse,
    NoWorker,
    RailgunError,
)
from railgun.model.subjects import is_literal
from railgun.protocol.leases import Lease
from railgun.protocol.replies import parse
from railgun.protocol.routing import partition_of
from railgun.protocol.unreadable import Skipped, Unreadable

logger = logging.getLogger(__name__)

_TRUST = 3.0  # a worker that was heard of so many seconds ago is taken to be alive
_MAX_ROUTES = 200_000  # subjects remembered; more and the cache is begun anew


class Connection:
    """The core under both facades."""

    def __init__(
        self,
        transport: Transport,
        *,
        timeout: float,
        max_in_flight: int,
        label: str,
        feed: Callable[[Connection], Feed] | None = None,
    ) -> None:
        if not 0 < timeout <= LONGEST_WAIT or max_in_flight < 1:
            raise ConfigError(
                f"timeout and max_in_flight must be greater than zero, and timeout at most {LONGEST_WAIT:g} s"
            )
        self.client = uuid.uuid4().hex[:16]
        self.timeout = timeout
        self.label = label  # what the user connected to, for messages
        self.transport = transport
        self.heard = 0.0  # when a shard last answered
        self.routes: dict[str, Lane] = {}  # by subject; a change of the registry clears it
        self._lanes: dict[str, Lane] = {}  # by stream
        self._lock = threading.RLock()
        self._listening: set[int] = set()
        self._skipped = Skipped(logger)
        self.requests = Requests(self)
        self._packer: Packer | None = None  # the transport may fail before there is one
        self._error: RailgunError | None = None
        self._closed = False
        self.consuming = ConsumerHub(
            self, DirectFeed(transport.read_log, timeout) if feed is None else feed(self)
        )
        self.registry_view = RegistryView(self._registry_changed, self.consuming.new_owner)
        self.topology: Topology = transport.open(self.client, self, timeout)
        self._packer = Packer(self.client, transport.send, max_in_flight=max_in_flight, timeout=timeout)
        self._watch = Watchdog(self)
        lifetime.opened(self)

    @property
    def packer(self) -> Packer:
        assert self._packer is not None
        return self._packer

    # -- what the transport reports

    def replies(self, batches: Sequence[bytes]) -> None:
        self.heard = time.monotonic()
        wakeups = Wakeups()
        leases: list[Lease] = []
        for data in batches:
            batch = parse(data)
            if isinstance(batch, Unreadable):
                self._skipped.add("replies", f"{len(data)} bytes", batch)
                continue
            leases += batch.leases
            for pack in batch.packs:
                self.packer.finish(pack.first_request, pack, None, wakeups)
            for answer in batch.answers:
                self.requests.calls.end(answer.request, answer.frames, None, wakeups)
        if leases:
            self.consuming.take(leases)
        wakeups.deliver()

    def registry(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        self.registry_view.apply(records)

    def _registry_changed(self) -> None:
        self.routes = {}

    def failed(self, error: RailgunError) -> None:
        logger.error("the connection to %s failed: %s", self.label, error)
        self._error = error
        self.consuming.failed(error)
        self._end(error)

    # -- who answers

    def check(self) -> None:
        """Raises what ended this connection, if anything did."""
        if self._error is not None:
            raise self._error.with_traceback(None)
        if self._closed:
            raise ConnectionClosed("the connection is closed")

    def route(self, subject: str, timeout: float) -> Lane:
        """The lane of the stream that captures the subject, ready to be used. Blocks.

        Raises ConfigError for what no message can be published to (SUB-08), NoStreamResponse after the registry was
        read to its end (PUB-05), NoWorker.
        """
        self.check()
        if not is_literal(subject):
            raise ConfigError(f"{subject!r} is no subject to publish to: it is malformed or holds a wildcard")
        deadline = time.monotonic() + timeout
        stream = self.registry_view.capturing(subject)
        if stream is None:
            self.sync_registry(timeout)
            stream = self.registry_view.capturing(subject)
        if stream is None:
            raise NoStreamResponse(subject)
        self.prepare((stream.partition,), deadline - time.monotonic())
        routes = self.routes  # before the lane is found: a change meanwhile replaces this very dictionary
        with self._lock:
            lane = self._lanes.get(stream.name)
            if lane is None or lane.partition != stream.partition:
                lane = self._lanes[stream.name] = Lane(stream.name, stream.partition)
            lane.no_ack = stream.no_ack
        if self.registry_view.stream(stream.name) is stream:
            if len(routes) >= _MAX_ROUTES:
                routes.clear()
            routes[subject] = lane
        return lane

    def sync_registry(self, timeout: float) -> None:
        """Read the registry to its end; what could not be read in time is logged, and the copy used as it is."""
        if not self.transport.sync_registry(max(timeout, 0.05)):
            logger.warning(
                "the registry of %s could not be read to its end within %.1f s", self.label, timeout
            )

    def shards_of(self, name: ApiName) -> tuple[int, list[int]]:
        """The partition that a request goes to, and those whose answers must be listened to."""
        owner = 0
        if name.stream:
            known = self.registry_view.stream(name.stream)
            owner = partition_of(name.stream, self.topology.partitions) if known is None else known.partition
        match name.operation.route:
            case Route.OWNER:
                return owner, [owner]
            case Route.REGISTRAR:
                return 0, sorted({0, owner})  # the owner answers what it decides
            case _:
                return 0, [0]

    def unsure_of(self, name: ApiName) -> bool:
        """The stream is not in our copy of the registry: it may live elsewhere than its name alone would put it."""
        return name.operation.route is Route.OWNER and self.registry_view.stream(name.stream) is None

    def prepared(self, shards: Sequence[int]) -> bool:
        """Whether commands to these shards may be sent without asking anybody first."""
        self.check()
        return self._listening.issuperset(shards) and not self.stale

    @property
    def stale(self) -> bool:
        """Nothing was heard for so long that it is not known whether a worker is alive."""
        return time.monotonic() - self.heard > _TRUST

    def prepare(self, shards: Sequence[int], timeout: float) -> None:
        """Listen to these shards, and make sure that a worker is alive. Blocks. Raises NoWorker, ConnectionLost."""
        self.check()
        for shard in shards:
            if shard not in self._listening:
                self.transport.listen(shard, max(timeout, 0.05))
                self._listening.add(shard)
        if self.stale:
            self.require_worker()

    def require_worker(self) -> None:
        """Raises NoWorker if it is certain that none is alive, ConnectionLost or NotAuthorized if nobody can tell."""
        alive = self.transport.workers()
        trouble = self.transport.trouble()
        if trouble is not None:
            raise trouble
        if alive == 0:
            raise NoWorker(f"no worker is alive at {self.label}, nothing was sent: {START_A_WORKER}")

    def waiting(self) -> list[tuple[float, Settlement[Any], Callable[[RailgunError], None]]]:
        """Deadline, settlement and ending of everything that was sent and not answered."""
        found: list[tuple[float, Settlement[Any], Callable[[RailgunError], None]]] = [
            (call.deadline, call, partial(self.requests.calls.end, number, None))
            for number, call in self.requests.calls.items()
        ]
        found += [
            (pack.deadline, pack, partial(self.packer.finish, pack.first, None))
            for pack in self.packer.pending()
        ]
        return found + self.consuming.waiting()

    # -- the end

    def flush(self, timeout: float) -> bool:
        """Whether everything that was published has been answered within the time."""
        self.check()
        return self.packer.wait_empty(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Send what waits, wait for its answers, end everything. The second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        limit = self.timeout if timeout is None else timeout
        if self._error is None:
            self.consuming.close(limit)
            if not self.packer.wait_empty(limit):
                logger.warning("closed with %d publishes unanswered", self.packer.unanswered)
            if not self.transport.flush(limit):
                logger.error("closed before the broker had all that was sent")
            self.consuming.report()
        self._end(
            ConnectionClosed("the connection was closed before the answer came: the outcome is unknown")
        )
        self._watch.stop()
        self.transport.close()
        lifetime.closed(self)

    def _end(self, error: RailgunError) -> None:
        with self._lock:
            lanes = list(self._lanes.values())
        if self._packer is not None:
            self._packer.close(lanes, error)
        self.requests.calls.end_all(error)

    def abandon(self) -> None:
        """In a forked child: this connection belongs to the parent, whose threads do not exist here."""
        self._lock = threading.RLock()
        self._error = ConnectionClosed(
            "this connection was opened before a fork: connect again in the child process"
        )
        self._closed = True
        self.requests.calls.abandon()
        self.consuming.abandon(self._error)
        self.packer.abandon(self._error)
        self.routes = {}
