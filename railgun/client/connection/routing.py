"""Routes: the lane of a subject, the shard of a request, and whether a worker is alive to answer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from railgun.api.names import ApiName, Route
from railgun.client.connection.registry import RegistryView
from railgun.client.publishing.packs import Lane
from railgun.client.transport import Transport
from railgun.errors import START_A_WORKER, ConfigError, NoStreamResponse, NoWorker
from railgun.model.subjects import is_literal
from railgun.protocol.registry import RegisteredStream
from railgun.protocol.routing import partition_of

logger = logging.getLogger(__name__)

_TRUST = 3.0  # seconds since the last answer in which a worker is taken to be alive
_MAX_ROUTES = 200_000  # subjects remembered; more and the cache is begun anew


class Routing:
    """The routes of one connection. Thread-safe. ``check`` raises what ended the connection."""

    def __init__(
        self, transport: Transport, registry: RegistryView, check: Callable[[], None], label: str
    ) -> None:
        self.routes: dict[str, Lane] = {}  # by subject; a change of the registry clears it
        self.partitions = 0  # known once the transport is open
        self.heard = 0.0  # when a shard last answered
        self._transport = transport
        self._registry = registry
        self._check = check
        self._label = label
        self._lock = threading.Lock()
        self._lanes: dict[str, Lane] = {}  # by stream
        self._listening: set[int] = set()

    # -- subjects

    def route(self, subject: str, timeout: float) -> Lane:
        """The lane of the stream that captures the subject, ready to be used. Blocks.

        Raises what :meth:`capturing` raises, and NoWorker.
        """
        deadline = time.monotonic() + timeout
        stream = self.capturing(subject, timeout)
        self.prepare((stream.partition,), deadline - time.monotonic())
        routes = self.routes  # before the lane is found: a change meanwhile replaces this very dictionary
        with self._lock:
            lane = self._lanes.get(stream.name)
            if lane is None or lane.partition != stream.partition:
                lane = self._lanes[stream.name] = Lane(stream.name, stream.partition)
            lane.no_ack = stream.no_ack
        if self._registry.stream(stream.name) is stream:
            if len(routes) >= _MAX_ROUTES:
                routes.clear()
            routes[subject] = lane
        return lane

    def capturing(self, subject: str, timeout: float) -> RegisteredStream:
        """The stream that captures the subject. Blocks where this client's copy of the registry has none.

        Raises ConfigError for what no message can be published to (SUB-08), NoStreamResponse after the registry was
        read to its end (PUB-05).
        """
        self._check()
        if not is_literal(subject):
            raise ConfigError(
                f"{subject!r} is not a valid subject to publish to: it is malformed or holds a wildcard"
            )
        stream = self._registry.capturing(subject)
        if stream is None:
            self.sync_registry(timeout)
            stream = self._registry.capturing(subject)
        if stream is None:
            raise NoStreamResponse(subject)
        return stream

    def clear(self) -> None:
        """Forget the routes of all subjects: the registry has changed."""
        self.routes = {}

    def lanes(self) -> list[Lane]:
        """The lanes of all streams that were published to."""
        with self._lock:
            return list(self._lanes.values())

    def sync_registry(self, timeout: float) -> None:
        """Read the registry to its end; what could not be read in time is logged, and the copy used as it is."""
        if not self._transport.sync_registry(max(timeout, 0.05)):
            logger.warning(
                "the registry of %s could not be read to its end within %.1f s", self._label, timeout
            )

    # -- requests

    def shards_of(self, name: ApiName) -> tuple[int, list[int]]:
        """The partition that a request goes to, and those whose answers must be listened to."""
        owner = 0
        if name.stream:
            known = self._registry.stream(name.stream)
            owner = partition_of(name.stream, self.partitions) if known is None else known.partition
        match name.operation.route:
            case Route.OWNER:
                return owner, [owner]
            case Route.REGISTRAR:
                return 0, sorted({0, owner})  # the owner answers what it decides
            case _:
                return 0, [0]

    def unsure_of(self, name: ApiName) -> bool:
        """Whether the stream is missing in this client's copy of the registry: its shard may not be the one of its name."""
        return name.operation.route is Route.OWNER and self._registry.stream(name.stream) is None

    # -- shards and workers

    def prepared(self, shards: Sequence[int]) -> bool:
        """Whether commands to these shards may be sent without :meth:`prepare`. Raises what ended the connection."""
        self._check()
        return self._listening.issuperset(shards) and not self.stale

    @property
    def stale(self) -> bool:
        """Whether the last answer is too old to show that a worker is alive."""
        return time.monotonic() - self.heard > _TRUST

    def prepare(self, shards: Sequence[int], timeout: float) -> None:
        """Listen to these shards, and make sure that a worker is alive. Blocks. Raises NoWorker, ConnectionLost."""
        self._check()
        for shard in shards:
            if shard not in self._listening:
                self._transport.listen(shard, max(timeout, 0.05))
                self._listening.add(shard)
        if self.stale:
            self.require_worker()

    def require_worker(self) -> None:
        """Raises NoWorker if certainly none is alive, ConnectionLost or NotAuthorized if that cannot be found out."""
        alive = self._transport.workers()
        trouble = self._transport.trouble()
        if trouble is not None:
            raise trouble
        if alive == 0:
            raise NoWorker(f"no worker is alive at {self._label}, nothing was sent: {START_A_WORKER}")

    def abandon(self) -> None:
        """In a forked child: the lock may be held by a thread that does not exist here."""
        self._lock = threading.Lock()
        self.clear()
