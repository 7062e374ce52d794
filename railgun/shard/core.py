"""The core of a shard: records in, decisions out. No Kafka, no clock, no threads.

One list of inputs becomes one :class:`~railgun.shard.drain.Drain`. The driver makes it durable and calls
:meth:`ShardCore.committed`, or :meth:`ShardCore.aborted`, after which it is as if :meth:`ShardCore.apply` had never run.
A core whose ``committed`` raised is spent: it decides nothing more, a new one is loaded. Bad input never raises: it is
answered, or kept in ``rejected`` with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

from railgun.model import refusals
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.headers import Headers
from railgun.protocol import avro as wire
from railgun.protocol.avro import WireError
from railgun.protocol.commands import Forward
from railgun.protocol.topics import Names
from railgun.semantics.messages.budget import WorkerMemory
from railgun.shard.clock import ShardClock, lateness
from railgun.shard.consumers.room import ConsumerRoom
from railgun.shard.cursor import Cursor
from railgun.shard.dispatch import Dispatcher
from railgun.shard.drain import AfterCommit, Drain, Given, Input
from railgun.shard.log_bodies import ReadLog
from railgun.shard.long_calls import LongCalls
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.adopting import Adopting
from railgun.shard.streams.captures import Captures
from railgun.shard.streams.owned import REGISTRAR, OwnedStreams
from railgun.shard.streams.publishing import Publishing
from railgun.shard.streams.registrar import Registrar
from railgun.shard.streams.sealing import Sealing
from railgun.shard.streams.sourcing import Sourcing
from railgun.shard.streams.staging import Staging
from railgun.shard.streams.stream_timers import StreamTimers
from railgun.state import keys
from railgun.state.table import Overlay, Reached, Table
from railgun.state.unreadable_entries import decoded, possible

_MILLIS: Final = 1_000_000
_NOTHING_READ: Final[dict[str, Any]] = {"clock": 0, "time": 0, **Cursor().stored()}


def _read_cursor(data: bytes) -> dict[str, Any]:
    return possible(wire.decode("shard_cursor", data))


class ShardCore:
    """Owner of one partition of ``commands`` and of every stream that lives there."""

    def __init__(
        self,
        partition: int,
        partitions: int,
        names: Names,
        limits: ClusterLimits,
        table: Table,
        *,
        test_clock: bool = False,
        hears_time: bool = False,
        read_log: ReadLog | None = None,
        memory: WorkerMemory | None = None,
        quarantined: Mapping[str, str] = MappingProxyType({}),
        origin: Headers = (),
    ) -> None:
        """``hears_time``: :meth:`committed` is told the brokers' time, by which messages age then.
        ``read_log``: how to read messages that are not at hand from their log; None: they cannot be read.

        ``memory``: of the worker, shared with its other shards; None: the shard is alone.
        ``quarantined``: log topics that cannot be written just now, with the reasons: publishes to their streams are refused.
        It belongs to the driver, which never changes it while :meth:`apply` runs.
        ``origin``: the headers that say where a value of a bucket was stored (KV-40).
        """
        self.partition = partition
        self.cursor = Cursor()
        self._spent = False  # a drain is durable that this core has not followed to its end
        self._table = table
        self._overlay = Overlay(table)
        self._clock = ShardClock(adjustable=test_clock, hears=hears_time)
        self._open = OpenDrain(self._clock, 0)
        memory = memory or WorkerMemory()
        self._streams = OwnedStreams(partition, names, limits, self._overlay, memory, self._send, origin)
        self._captures = Captures(self._overlay, partition, partitions, self._send)
        self._registrar = Registrar(self._overlay, partitions, limits, self._captures, self._send)
        self._consumers = ConsumerRoom(partition, partitions, self._streams, limits, self._captures, read_log)
        self._staging = Staging(partition, limits, memory)
        self._publishing = Publishing(
            self._streams, limits, quarantined, read_log, self._staging, self._consumers.batch_abandoned
        )
        self._timers = StreamTimers(self._streams, self._clock)
        self._sourcing = Sourcing(partition, partitions, self._streams, limits, quarantined, read_log)
        self.adopting = Adopting(self._streams, limits, quarantined, read_log)
        self._sealing = Sealing(read_log)
        self._long_calls = LongCalls(self._streams)
        self._dispatcher = Dispatcher(
            partition,
            partitions,
            limits,
            self._overlay,
            self._streams,
            self._registrar,
            self._publishing,
            self._consumers,
            self._captures,
            self._timers,
            self._clock,
            self._long_calls,
            self._sourcing,
            self.adopting,
        )

    # -- life

    def load(self) -> None:
        """Read the state from the table; before the first :meth:`apply`, and after a restore."""
        data = self._overlay.get(keys.CURSOR)
        cursor = _NOTHING_READ if data is None else decoded(keys.CURSOR, _read_cursor, data)
        self.cursor.load(cursor)
        self._clock.load(self._overlay, cursor["clock"], cursor["time"])
        self._read()
        self._consumers.load()
        self._staging.load()
        self._long_calls.load()
        self._sourcing.load()
        self.adopting.load()

    def _read(self) -> None:
        self._streams.load()
        if self.partition == REGISTRAR:
            self._registrar.load()
        self._captures.load()
        self._timers.load()

    def next_deadline(self) -> int | None:
        """The driver's clock, ns, at which :meth:`apply` has something to do even without input."""
        parts = (self._timers, self._consumers, self._staging, self._sourcing, self.adopting)
        by_shard = [part.next for part in parts if part.next is not None]
        if self._streams.sweeping or self._long_calls.waiting or 0 in by_shard:
            return 0
        by_driver = [self._clock.wall_at(due) for due in by_shard]
        if self._consumers.next_presence_check is not None:
            by_driver.append(self._consumers.next_presence_check)
        return min(by_driver, default=None)

    @property
    def time(self) -> int:
        """The shard's time of the last drain, by this owner or a former one, ns."""
        return self._clock.moment

    def last_sequences(self) -> dict[str, int]:
        """The streams that live here, each with its last sequence."""
        return {state.name: state.last_seq for state in self._streams}

    def set_aside(self, incarnation: int, reason: str) -> None:
        """This stream is not served, and nothing of it is removed; before :meth:`load`."""
        self._streams.set_aside(incarnation, reason)

    @property
    def aside(self) -> dict[int, str]:
        """The incarnations of the streams that are set aside, with the reasons."""
        return self._streams.aside.reasons

    def unreadable(self) -> dict[str, str]:
        """Streams, consumers and reservations that are not served because they cannot be read, with the reasons."""
        return self._dispatcher.unreadable()

    @property
    def suspect(self) -> int:
        """The incarnation of the stream that the last drain worked on by itself when it ended or failed; 0: none."""
        return self._open.at

    # -- a drain

    def apply(self, inputs: Sequence[Given], now: int) -> Drain:
        """Decide all ``inputs``, and everything that is due at ``now``: the driver's clock, ns, which never goes back."""
        drain = self._begin(now)
        self._clock.follow(now)
        self._consumers.begin(drain)
        self._timers.run(drain)
        self._sourcing.run(drain)
        self.adopting.run(drain)
        self._consumers.run(drain)
        self._clock.stored(drain.stored_at)
        self._long_calls.go_on(drain)
        for given in inputs:
            if not isinstance(given, Input):
                self.adopting.receive(given, drain)
                self._clock.stored(drain.stored_at)
                continue
            if not self.cursor.decide(given):
                continue  # decided before: it was taken early, or the group's offsets were older than the cursor
            self._clock.receive(given)
            drain.record_time, drain.late = given.time, lateness(given, now)
            try:
                self._dispatcher.receive(given, drain)
            except WireError as error:
                drain.reject(given, str(error))
            self._clock.stored(drain.stored_at)
        self._publishing.batches.run(
            drain
        )  # last: messages of a batch may have waited while the shard could not decide
        if self._streams.sweeping:
            drain.structural = True
            self._streams.sweep(drain.decisions)
        self._consumers.end_drain(drain)
        self._sourcing.end_drain(drain)
        self.adopting.end_drain(drain)
        self._clock.stored(drain.stored_at)
        return self._finished(drain)

    def refuse(self, culprit: Given, reason: str) -> Drain:
        """A drain that does nothing but refuse this one input, which could not be applied."""
        drain = self._begin(self._open.wall)  # which nothing here asks for
        if not isinstance(culprit, Input):
            self.adopting.refuse(culprit, reason, drain)
            return self._finished(drain)
        drain.reject(culprit, reason)
        self.cursor.decide(culprit)
        with suppress(WireError):  # no client to answer: it is in ``rejected``
            self._dispatcher.refuse(culprit, refusals.unavailable(reason), drain)
        return self._finished(drain)

    def _begin(self, wall: int) -> OpenDrain:
        self._must_not_be_spent()
        self.cursor.begin()
        self._clock.begin()
        self._open = OpenDrain(self._clock, wall)
        return self._open

    def committed(
        self, drain: Drain, first_offsets: Mapping[str, int], reached: Reached | None = None
    ) -> None:
        """The drain is durable. After any exception here the core is spent.

        ``first_offsets``: log topic to the offset of the first message of its append; ``reached``: the place in the
        changelog behind the drain's own changes, and the brokers' time when they were written.
        """
        self._spent = True
        if drain.changes:
            self._table.apply(drain.changes, drain.bodies, reached)
        self._overlay.clear()
        self._consumers.committed()
        self._staging.committed()
        self._long_calls.committed()
        self._sourcing.committed()
        for topic, append in drain.appends.items():
            state = self._streams.get(append.stream)
            first = first_offsets.get(topic)
            if state is None or first is None:
                continue
            self._streams.recent.add(append.incarnation, append.sequences, append.headers, append.payloads)
            places = {base: first + number for base, number in append.blocks}
            state.committed(places, first + len(append.sequences))
        if drain.changes and self._clock.hear(0 if reached is None else reached.written * _MILLIS):
            self._timers.load()
        self._spent = False

    def aborted(self) -> None:
        """The last drain never happened: the core goes back to the state of the table."""
        self._must_not_be_spent()
        self._overlay.clear()
        self.cursor.aborted()
        self._clock.aborted(self._overlay)
        self._consumers.aborted()
        self._staging.aborted()
        self._long_calls.aborted()
        self.adopting.stream_changed()
        if self._open.structural:
            self._read()
            self._sourcing.reload()
            return
        self._captures.load()
        if self.partition == REGISTRAR:
            self._registrar.load()
        for name in self._open.looked_at.union(self._open.touched):
            self._streams.reload(name)
            state = self._streams.get(name)
            if state is not None:
                self._timers.watch(state)
                self._sourcing.watch(state)

    def _must_not_be_spent(self) -> None:
        if self._spent:
            raise AfterCommit("a drain is durable that this core did not follow: a new one must be loaded")

    def _finished(self, opened: OpenDrain) -> Drain:
        drain = opened.decisions
        for name, state in opened.touched.items():
            # A stream that goes was sealed when it was deleted; what this drain stored in it is gone with it.
            if not state.deleting:
                self._sealing.seal(state, opened.logs.get(name), drain)
                self._timers.watch(state)
        if self._overlay.changes or not drain.only_answers or opened.asks_the_time:
            times = {"clock": self._clock.received, "time": self._clock.moment}
            self._overlay.put(keys.CURSOR, wire.encode("shard_cursor", self.cursor.stored() | times))
        drain.commands, drain.forwards = self.cursor.commands, self.cursor.forwards
        drain.changes = dict(self._overlay.changes)
        return drain

    def _send(self, partition: int, forward: Forward) -> None:
        self._open.send(partition, forward)
