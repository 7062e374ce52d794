"""One connection: the commands that are not answered yet, and how all of them end.

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

from railgun.avro.events import Events
from railgun.client import lifetime
from railgun.client.connection.registry import RegistryView
from railgun.client.connection.routing import Routing
from railgun.client.connection.watchdog import Watchdog
from railgun.client.consuming.hub import ConsumerHub
from railgun.client.consuming.parcels import DirectFeed, Feed
from railgun.client.publishing.packer import Packer
from railgun.client.reading.get_packer import GetPacker
from railgun.client.reading.pending_reads import PendingReads
from railgun.client.requests import Requests
from railgun.client.settlements import Settlement, Wakeups
from railgun.client.steps import LONGEST_WAIT
from railgun.client.transport import Delivered, Topology, Transport
from railgun.errors import ConfigError, ConnectionClosed, RailgunError
from railgun.kafka.skipped import Skipped
from railgun.protocol.leases import Lease
from railgun.protocol.registry import RegisteredStream
from railgun.protocol.replies import parse
from railgun.protocol.unreadable import Unreadable

logger = logging.getLogger(__name__)


class Connection:
    """A connection to one cluster: the core under both facades."""

    def __init__(
        self,
        transport: Transport,
        *,
        timeout: float,
        max_in_flight: int,
        label: str,
        feed: Callable[[Connection], Feed] | None = None,
        events: Events | None = None,
    ) -> None:
        if not 0 < timeout <= LONGEST_WAIT or max_in_flight < 1:
            raise ConfigError(
                f"timeout and max_in_flight must be greater than zero, and timeout at most {LONGEST_WAIT:g} s"
            )
        self.client = uuid.uuid4().hex[:16]
        self.timeout = timeout
        self.label = label  # what the user connected to, for messages
        self.transport = transport
        self.events = events or Events()
        self._lock = threading.RLock()
        self._skipped = Skipped(logger)
        self.requests = Requests(self.client, transport.send, self.check, lambda: self.packer.push())
        self.reads = PendingReads(transport.send)
        self.gets = GetPacker(
            self.client,
            self.requests.numbers,
            self.reads,
            self.check,
            lambda: self.packer.push(),
        )
        self._packer: Packer | None = None  # the transport may fail before there is one
        self._error: RailgunError | None = None
        self._closed = False
        self.consuming = ConsumerHub(
            self, DirectFeed(transport.read_log, timeout) if feed is None else feed(self)
        )
        self.registry_view = RegistryView(self._registry_changed, self._new_owner)
        self.routing = Routing(transport, self.registry_view, self.check, label)
        self.topology: Topology = transport.open(self.client, self, timeout)
        self.routing.partitions = self.topology.partitions
        self._packer = Packer(
            *(self.client, transport.send, self.requests.numbers),
            max_in_flight=max_in_flight,
            timeout=timeout,
            failed=self.failed,
        )
        self._watch = Watchdog(self)
        lifetime.opened(self)

    @property
    def packer(self) -> Packer:
        assert self._packer is not None
        return self._packer

    # -- what the transport reports

    def replies(self, batches: Sequence[bytes]) -> None:
        self.routing.heard = time.monotonic()
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
                self.requests.end(answer.request, answer.frames, None, wakeups)
            for reply in batch.reads:
                self.reads.answered(reply, wakeups)
        if leases:
            self.consuming.distribute(leases)
        wakeups.deliver()

    def registry(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        self.registry_view.apply(records)

    def _registry_changed(self) -> None:
        self.routing.clear()

    def _new_owner(self, partition: int) -> None:
        self.consuming.new_owner(partition)
        self.reads.new_owner(partition)

    def failed(self, error: RailgunError) -> None:
        logger.error("the connection to %s failed: %s", self.label, error)
        self._error = error
        self.consuming.failed(error)
        self._end(error)

    def check(self) -> None:
        """Raises what ended this connection, if anything did."""
        if self._error is not None:
            raise self._error.with_traceback(None)
        if self._closed:
            raise ConnectionClosed("the connection is closed")

    # -- the connection as consumers see it (:class:`~railgun.client.link.Link`)

    @property
    def partitions(self) -> int:
        return self.routing.partitions

    def stream(self, name: str) -> RegisteredStream | None:
        return self.registry_view.stream(name)

    def captured_by(self, subject: str) -> str:
        known = self.registry_view.capturing(subject)
        return "" if known is None else known.name

    def find_capturing(self, subject: str, timeout: float) -> str:
        return self.routing.capturing(subject, timeout).name

    def prepared(self, shards: Sequence[int]) -> bool:
        return self.routing.prepared(shards)

    def prepare(self, shards: Sequence[int], timeout: float) -> None:
        self.routing.prepare(shards, timeout)

    def sync_registry(self, timeout: float) -> None:
        self.routing.sync_registry(timeout)

    def send(self, partition: int, key: bytes, kind: str, value: bytes, delivered: Delivered) -> None:
        self.transport.send(partition, key, kind, value, delivered)

    def waiting(self) -> list[tuple[float, Settlement[Any], Callable[[RailgunError], None]]]:
        """Deadline, settlement and ending of everything that was sent and not answered."""
        found: list[tuple[float, Settlement[Any], Callable[[RailgunError], None]]] = [
            (call.deadline, call, partial(self.requests.end, number, None))
            for number, call in self.requests.pending()
        ]
        found += [
            (pack.deadline, pack, partial(self.packer.finish, pack.first, None))
            for pack in self.packer.pending()
        ]
        found += [(read.deadline, read, partial(self.reads.end, read)) for read in self.reads.waiting()]
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
            self.packer.refuse()  # handlers may have published to their end
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
        if self._packer is not None:
            self._packer.close(self.routing.lanes(), error)
        self.requests.end_all(error)
        self.gets.close(error)
        self.reads.end_all(error)

    def abandon(self) -> None:
        """In a forked child: this connection belongs to the parent, whose threads do not exist here."""
        self._lock = threading.RLock()
        self._error = ConnectionClosed(
            "this connection was opened before a fork: connect again in the child process"
        )
        self._closed = True
        self.requests.abandon()
        self.reads.abandon()
        self.gets.abandon()
        self.consuming.abandon(self._error)
        self.routing.abandon()
        self.packer.abandon(self.routing.lanes(), self._error)
