"""Feeding: the upstream's side of mirrors and sources. A consumer of the upstream reads for the stream that copies.

The consumer is durable, hidden, and acknowledges all below (SRC-10), so retention, filters, start and limits are those of
any consumer. Its leases carry the messages and travel to the shard of the stream that copies in the transaction
that decides them: nothing is lost between two shards, so nothing waits for an answer or a presence.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import pairwise

from railgun.model import refusals
from railgun.model.refusals import Refusal
from railgun.protocol.commands import AckRun, Forward
from railgun.protocol.routing import partition_of
from railgun.protocol.sourcing import SOURCED, SourceCommand, SourceLease
from railgun.semantics.consumers.configuration import start
from railgun.semantics.consumers.configuration.consumer_configuration import queue_conflict
from railgun.semantics.consumers.consumer_state import ConsumerState, Taken
from railgun.semantics.consumers.undo import UndoLog
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.outcomes import Stored
from railgun.semantics.streams.sourcing.hidden_consumers import (
    Feed,
    consumer_name,
    first_wanted,
    hidden_config,
    set_window,
)
from railgun.shard.consumers.demand import ConsumerKey, Demand, key_of
from railgun.shard.consumers.leases import Columns, columns_at_hand
from railgun.shard.log_bodies import ReadLog, find_messages
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams
from railgun.state import keys
from railgun.state.unreadable_entries import UnreadableEntry, decoded

log = logging.getLogger("railgun.shard")

LEASE_MESSAGES = 4_096
LEASE_BYTES = 1024 * 1024  # a larger message travels alone
UNDER_WAY = 16 * 1024 * 1024  # bytes that the stream which copies has not confirmed yet
_WAITED_FOR = 1_000  # streams that do not exist and are remembered, and those that wait for one of them


class Feeding:
    """The consumers of one shard that read for other streams."""

    def __init__(
        self,
        partition: int,
        partitions: int,
        streams: OwnedStreams,
        demand: Demand,
        read_log: ReadLog | None,
        undo: UndoLog,
    ) -> None:
        self._partition = partition
        self._partitions = partitions
        self._streams = streams
        self._demand = demand
        self._read_log = read_log
        self._undo = undo
        self._feeds: dict[ConsumerKey, Feed] = {}
        # Streams that do not exist, and the last word of each that wants them: only to be quick, because they ask again.
        self._missing: dict[str, dict[str, SourceCommand]] = {}

    def load(self) -> None:
        """Read back who reads for whom; all of them may have something to send."""
        self._feeds, self._missing = {}, {}
        for stream in self._streams:
            prefix = keys.all_of(keys.FEED, stream.incarnation)
            for key, data in stream.overlay.scan(prefix):
                consumer = stream.consumers.by_number(keys.sequence_in(key))
                feed = self._read_feed(stream, key, data)
                if consumer is not None and feed is not None:
                    own = key_of(stream, consumer)
                    self._feeds[own] = feed
                    self._demand.want(own, consumer.terms.filter)
                    self._demand.postpone(own)

    def _read_feed(self, stream: OwnedStream, key: bytes, data: bytes) -> Feed | None:
        """The feed in the table; one that cannot be read is left alone until the stream that copies asks again."""
        try:
            return decoded(key, Feed.decode, data)
        except UnreadableEntry as error:
            log.error(
                "shard %d: a stream that copies %s is not known: %s", self._partition, stream.name, error
            )
            return None

    def feeds(self, key: ConsumerKey) -> bool:
        """Whether the consumer reads for another stream."""
        return key in self._feeds

    # -- commands of the streams that copy

    def command(self, command: SourceCommand, drain: OpenDrain) -> None:
        stream = self._streams.get(command.upstream)
        if stream is None:
            self._nothing_there(command, drain)
        elif command.kind == "attach":
            self._attach(command, stream, drain)
        else:
            consumer = stream.consumers.get(consumer_name(command))
            key = None if consumer is None else key_of(stream, consumer)
            feed = None if key is None else self._feeds.get(key)
            if consumer is None or key is None or feed is None:
                return
            if command.kind == "detach":
                self._end(stream, consumer, drain)
            elif feed.session == command.session:
                self._acknowledge(command, stream, consumer, drain)

    def _nothing_there(self, command: SourceCommand, drain: OpenDrain) -> None:
        if command.kind == "detach":
            self._no_longer_wanted(command)
        if command.kind != "attach":
            return
        refused = self._streams.aside.refusal(command.upstream) or refusals.STREAM_NOT_FOUND
        waiting = self._missing.get(command.upstream, {})
        if command.upstream in self._missing or len(self._missing) < _WAITED_FOR:
            waiting = {**waiting, consumer_name(command): command}
            if len(waiting) <= _WAITED_FOR:
                self._undo.put(self._missing, command.upstream, waiting)
        self._refuse(command, refused, drain)

    def _no_longer_wanted(self, command: SourceCommand) -> None:
        """A source is gone before its upstream came: nobody would read for it then, and a queue would wait for ever (SRC-10)."""
        waiting = self._missing.get(command.upstream, {})
        left = {name: other for name, other in waiting.items() if name != consumer_name(command)}
        if left:
            self._undo.put(self._missing, command.upstream, left)
        else:
            self._undo.drop(self._missing, command.upstream)

    def _refuse(
        self, command: SourceCommand, refusal: Refusal, drain: OpenDrain, incarnation: int = 0
    ) -> None:
        lease = SourceLease(
            command.upstream,
            incarnation,
            command.stream,
            command.incarnation,
            command.origin,
            command.session,
        )
        self._send(lease._replace(**refusal._asdict()), drain)

    def _attach(self, command: SourceCommand, stream: OwnedStream, drain: OpenDrain) -> None:
        """Begin, or begin again behind the position: what was under way is void."""
        if command.upstream_incarnation not in (0, stream.incarnation):
            self._refuse(command, refusals.UPSTREAM_ANEW, drain, stream.incarnation)
            return
        consumer = stream.consumers.get(consumer_name(command))
        if consumer is None:
            made = self._made(command, stream, drain)
            if isinstance(made, Refusal):
                self._refuse(command, made, drain)
                return
            consumer = made
        else:
            self._rewind(command, stream, consumer, drain)
        key = key_of(stream, consumer)
        feed = Feed(
            *(command.stream, command.incarnation, command.origin, command.session),
            reached=consumer.position.next - 1,
        )
        self._keep(key, stream, feed)
        self._demand.want(key, consumer.terms.filter)
        drain.touch(stream)
        drain.ready[key] = None
        self._send(feed.lease(stream, consumer)._replace(after=0), drain)

    def _made(self, command: SourceCommand, stream: OwnedStream, drain: OpenDrain) -> ConsumerState | Refusal:
        filters = list(command.filters)
        refused = None
        if stream.config.retention == "workqueue":
            refused = queue_conflict(filters, [one.config for one in stream.consumers])
        if refused is not None:
            return refused
        begins = start.Start(first_wanted(command, stream), [])
        return stream.consumers.create(hidden_config(command), drain.moment, begins)

    def _rewind(
        self, command: SourceCommand, stream: OwnedStream, consumer: ConsumerState, drain: OpenDrain
    ) -> None:
        position = max(command.position, first_wanted(command, stream) - 1)
        self._resolve(consumer, position, drain)
        set_window(consumer, command.window)
        consumer.rewind(position)

    def _acknowledge(
        self, command: SourceCommand, stream: OwnedStream, consumer: ConsumerState, drain: OpenDrain
    ) -> None:
        key = key_of(stream, consumer)
        drain.touch(stream)
        self._resolve(consumer, command.position, drain)
        set_window(consumer, command.window)
        self._keep(key, stream, self._feeds[key]._replace(copied=command.copied))
        drain.ready[key] = None

    @staticmethod
    def _resolve(consumer: ConsumerState, position: int, drain: OpenDrain) -> None:
        """Everything up to the position is copied: a work queue or interest stream may drop it (SRC-10)."""
        last = min(position, consumer.delivered.stream)
        if last > 0:
            consumer.acknowledge(AckRun("ack", last, 1, consumer.delivered.consumer, 0), drain.moment)

    def _end(self, stream: OwnedStream, consumer: ConsumerState, drain: OpenDrain) -> None:
        key = key_of(stream, consumer)
        self._forget(key, stream)
        self._demand.forget(key)
        stream.consumers.delete(consumer)
        drain.touch(stream)

    # -- the upstream

    def stream_changed(self, change: str, stream: OwnedStream, drain: OpenDrain) -> None:
        """A stream came, which may be waited for; or goes, and those who read it are told."""
        if change == "create":
            waiting = self._undo.drop(self._missing, stream.name) or {}
            for command in waiting.values():
                self._attach(command, stream, drain)
        elif change == "update" and stream.config.retention != "limits":
            for key, feed in self._of(
                stream
            ):  # what is copied and not confirmed yet may be kept for it from now on
                consumer = stream.consumers.by_number(key.number)
                if consumer is not None:
                    self._send(feed.lease(stream, consumer), drain)
        elif change == "delete":
            for key, feed in self._of(stream):
                lease = SourceLease(stream.name, 0, feed.stream, feed.incarnation, feed.origin, feed.session)
                self._send(lease._replace(**refusals.STREAM_NOT_FOUND._asdict()), drain)
                self._undo.drop(self._feeds, key)

    def _of(self, stream: OwnedStream) -> list[tuple[ConsumerKey, Feed]]:
        """Those who read the stream."""
        return [one for one in self._feeds.items() if one[0].incarnation == stream.incarnation]

    # -- sending

    def serve(
        self, key: ConsumerKey, stream: OwnedStream, consumer: ConsumerState, drain: OpenDrain, most: int
    ) -> tuple[int, bool]:
        """Send what may be sent now. Returns how many messages, and whether more may be sent at once."""
        feed, given = self._feeds[key], 0
        while given < most:
            room = UNDER_WAY - feed.under_way
            if room <= 0:
                return given, False
            taken = consumer.take(min(most - given, LEASE_MESSAGES), min(room, LEASE_BYTES), drain.moment)
            if not taken.count and taken.stopped == "bytes":
                taken = consumer.take(1, 0, drain.moment)
            if not taken.count:
                return given, taken.stopped == "scan"
            given += taken.count
            lease = feed.lease(stream, consumer)
            feed = feed._replace(sent=feed.sent + taken.size, reached=lease.reached)
            self._keep(key, stream, feed)
            self._send(self._filled(lease, stream, taken, drain), drain)
            if taken.stopped in ("empty", "wall"):
                return given, False
        return given, True

    def _filled(self, lease: SourceLease, stream: OwnedStream, taken: Taken, drain: OpenDrain) -> SourceLease:
        runs = [(run.sequence, run.length) for run in taken.runs]
        columns = columns_at_hand(stream, taken, drain.logs.get(stream.name))
        missing = 0
        if columns is None:
            runs, columns = self._read(stream, runs, drain.logs.get(stream.name))
            missing = taken.count - len(columns.payloads)
        return lease._replace(
            missing=missing,
            sequences=[first for first, _ in runs],
            counts=[count for _, count in runs],
            subjects=columns.subjects,
            headers=columns.headers,
            payloads=columns.payloads,
            times=columns.times,
            size=taken.size,
        )

    def _read(
        self, stream: OwnedStream, runs: Sequence[tuple[int, int]], stored: Stored | None
    ) -> tuple[list[tuple[int, int]], Columns]:
        """Messages that are not all at hand; what the log does not have any more is left out."""
        wanted = [sequence for first, count in runs for sequence in range(first, first + count)]
        found = find_messages(stream, wanted, stored, self._read_log)
        messages = [one for one in found if one is not None]
        columns = Columns(
            [one.subject for one in messages],
            [one.headers for one in messages],
            [one.payload for one in messages],
            [one.time_ns for one in messages],
        )
        return _runs_of([one.sequence for one in messages]), columns

    def _send(self, lease: SourceLease, drain: OpenDrain) -> None:
        forward = Forward(
            self._partition,
            "command",
            lease.stream,
            lease.incarnation,
            command_kind=SOURCED,
            command=lease.encode(),
        )
        drain.send(partition_of(lease.stream, self._partitions), forward)

    # -- being kept

    def _keep(self, key: ConsumerKey, stream: OwnedStream, feed: Feed) -> None:
        self._undo.put(self._feeds, key, feed)
        stored = keys.of(keys.FEED, key.incarnation, key.number)
        stream.overlay.put(stored, feed.encode())

    def _forget(self, key: ConsumerKey, stream: OwnedStream) -> None:
        self._undo.drop(self._feeds, key)
        stream.overlay.delete(keys.of(keys.FEED, key.incarnation, key.number))


def _runs_of(sequences: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for before, sequence in pairwise([0, *sequences]):
        if runs and sequence == before + 1:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((sequence, 1))
    return runs
