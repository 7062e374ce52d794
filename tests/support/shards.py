"""Cores of shards under the test's own hand: drains of any size, committed, aborted or loaded again, and a log to read."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from railgun.model import headers as h
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.messages import StoredMessage
from railgun.model.refusals import Refusal
from railgun.protocol.columnar.read_records import GetPack, ReadReply, ReadRequest
from railgun.protocol.commands import ApiRequest, ConsumerCommand, Presence, PublishPack
from railgun.protocol.leases import Lease
from railgun.protocol.log_record import subject_of
from railgun.protocol.replies import Frame, Located, sequence_of
from railgun.protocol.routing import partition_of
from railgun.protocol.topics import Names
from railgun.semantics.messages.budget import WorkerMemory
from railgun.semantics.streams.reading.gets import located
from railgun.shard.core import ShardCore
from railgun.shard.drain import Drain, Input, LogAppend, Rejected, Replies
from railgun.state.table import MemoryTable, Reached

NAMES = Names()
CLIENT = "client"
MILLI = 1_000_000


@dataclass
class Log:
    """One log topic: offset to (key, sequence or None for a tombstone, payload). Markers and aborted records leave gaps."""

    end: int = 0
    records: dict[int, tuple[bytes, int | None, bytes]] = field(default_factory=dict)

    def append(self, append: LogAppend) -> int | None:
        first = None
        stones = sorted(append.tombstones, key=lambda stone: stone[0])
        for place in range(len(append.sequences) + 1):
            while stones and stones[0][0] == place:
                self._write(stones.pop(0)[1], None, b"")
            if place < len(append.sequences):
                first = self.end if first is None else first
                self._write(append.keys[place], append.sequences[place], append.payloads[place])
        assert not stones
        self.end += 1  # the marker of the transaction
        return first

    def _write(self, key: bytes, sequence: int | None, payload: bytes) -> None:
        self.records[self.end] = (key, sequence, payload)
        self.end += 1

    def trim(self, offset: int) -> None:
        """Records below the offset are gone."""
        self.records = {at: record for at, record in self.records.items() if at >= offset}

    def compact(self) -> None:
        """The newest record of each key stays; a tombstone goes with what it buried."""
        newest = {record[0]: at for at, record in sorted(self.records.items())}
        kept = {at for at in newest.values() if self.records[at][1] is not None}
        self.records = {at: record for at, record in self.records.items() if at in kept}

    def payload_of(self, sequence: int, start: int) -> bytes | None:
        """What a reader finds that begins at ``start`` and stops behind the sequence."""
        offsets = sorted(self.records)
        for offset in offsets[bisect_left(offsets, start) :]:
            _, found, payload = self.records[offset]
            if found is not None and found >= sequence:
                return payload if found == sequence else None
        return None


class Shards:
    """All shards of a cluster. Commands wait in inboxes until :meth:`step` or :meth:`settle` decides them."""

    def __init__(
        self,
        partitions: int = 2,
        limits: ClusterLimits | None = None,
        *,
        test_clock: bool = True,
        memory: WorkerMemory | None = None,
        hears_time: bool = False,
    ) -> None:
        """``memory``: what all shards share, as those of one worker do; without it each has its own.

        ``hears_time``: they are told the broker's time with each commit, as on Kafka.
        """
        self.partitions = partitions
        self._limits = limits or ClusterLimits()
        self._test_clock = test_clock
        self._memory = memory
        self._hears_time = hears_time
        self.quarantined: dict[str, str] = {}  # log topics that are gone
        self.tables = [MemoryTable(scratch=MemoryTable()) for _ in range(partitions)]
        self.cores = [self._load(number) for number in range(partitions)]
        self.inboxes: list[deque[Input]] = [deque() for _ in range(partitions)]
        self._offsets = [[0, 0] for _ in range(partitions)]
        self.now = 1_700_000_000_000 * MILLI
        self.broker_ahead = 0  # ns, of the workers' clock
        self.logs: dict[str, Log] = {}
        # Everything that was ever written to a log, by topic and sequence.
        self.written: dict[tuple[str, int], StoredMessage] = {}
        self.registry: dict[bytes, bytes] = {}
        self.outcomes: dict[
            int, int | Refusal
        ] = {}  # of publishes, by request: the sequence, minus it for a duplicate
        self.answers: dict[int, list[Frame]] = {}
        self.leases: dict[str, list[Lease]] = {}  # by client
        self.reads: dict[int, list[ReadReply]] = {}  # by request
        self.rejected: list[Rejected] = []
        self.drains: list[Drain] = []
        self._request = 0

    def _load(self, number: int) -> ShardCore:
        core = ShardCore(
            number,
            self.partitions,
            NAMES,
            self._limits,
            self.tables[number],
            test_clock=self._test_clock,
            hears_time=self._hears_time,
            read_log=self._read_log,
            quarantined=self.quarantined,
            memory=self._memory,
        )
        core.load()
        return core

    def _read_log(self, places: Sequence[Located]) -> list[StoredMessage | None]:
        """As a shard reads logs."""
        found: list[StoredMessage | None] = []
        for place in places:
            payload = self.logs[place.topic].payload_of(place.sequence, place.offset)
            found.append(None if payload is None else self.written[place.topic, place.sequence])
        return found

    # -- sending

    def record(
        self,
        partition: int,
        value: bytes | None,
        kind: str | None = None,
        *,
        key: bytes | None = None,
        headers: h.Headers = (),
        forwarded: bool = False,
    ) -> Input:
        """One record, as a producer that we do not know may have written it."""
        own = [] if kind is None else [(h.COMMAND_KIND, kind.encode())]
        offset = self._offsets[partition][forwarded]
        self._offsets[partition][forwarded] += 1
        given = Input(
            forwarded, offset, self.now + self.broker_ahead, key, [*headers, *own], value, arrived=self.now
        )
        self.inboxes[partition].append(given)
        return given

    def publish(
        self,
        stream: str,
        subjects: list[str],
        *,
        ids: list[str] | None = None,
        headers: list[list[tuple[str, bytes]]] | None = None,
        payloads: list[bytes] | None = None,
    ) -> int:
        """Send a pack; the request of its first message."""
        first = self._request + 1
        self._request += len(subjects)
        pack = PublishPack(
            stream, CLIENT, first, subjects, ids or [], headers or [], payloads or [b"x"] * len(subjects)
        )
        self.record(partition_of(stream, self.partitions), pack.encode(), "pack")
        return first

    def command(self, stream: str, consumer: str, *, client: str = CLIENT, **fields: Any) -> None:
        """Tell a consumer something: acks, a pull, pulls that are called off."""
        command = ConsumerCommand(stream, 0, consumer, 0, client)._replace(**fields)
        self.record(partition_of(stream, self.partitions), command.encode(), "consume")

    def presence(self, client: str, *listens: tuple[str, str], leaving: bool = False) -> None:
        """A client says to all shards that it is there."""
        for partition in range(self.partitions):
            self.record(partition, Presence(client, leaving, list(listens)).encode(), "presence")

    def request(
        self,
        api: str,
        body: dict[str, Any] | bytes = b"",
        *,
        partition: int | None = None,
        stream: str = "",
        client: str = CLIENT,
    ) -> int:
        self._request += 1
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        stream = stream or api.rsplit(".", 1)[-1]
        changes = api.startswith(("STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.NAMES"))
        home = 0 if changes else partition_of(stream, self.partitions)
        request = ApiRequest(client, self._request, api, stream, [], data)
        self.record(home if partition is None else partition, request.encode(), "request")
        return self._request

    def gets(self, stream: str, *gets: tuple[int, int, str]) -> int:
        """Send a pack of gets, each a form, a sequence and a subject."""
        self._request += 1
        forms, sequences, subjects = zip(*gets, strict=True)
        pack = GetPack(stream, CLIENT, self._request, bytes(forms), list(sequences), list(subjects))
        self.record(partition_of(stream, self.partitions), pack.encode(), "gets")
        return self._request

    def page(self, asked: ReadRequest) -> int:
        """Ask for a page."""
        self._request += 1
        asked = asked._replace(client=CLIENT, request=self._request)
        self.record(partition_of(asked.stream, self.partitions), asked.encode(), "read")
        return self._request

    # -- deciding

    def step(self, partition: int, count: int = 1_000, *, abort: bool = False) -> Drain:
        """One drain of a shard, durable or dropped as one."""
        core, inbox = self.cores[partition], self.inboxes[partition]
        inputs = [inbox[at] for at in range(min(count, len(inbox)))]
        drain = core.apply(inputs, self.now)
        if abort:
            for append in drain.appends.values():
                self.logs.setdefault(append.topic, Log()).end += len(append.sequences) + 1
            core.aborted()
            return drain
        for _ in inputs:
            inbox.popleft()
        self._deliver(core, drain)
        return drain

    def refuse(self, partition: int, reason: str) -> Drain:
        """The next input of the shard is refused, as a driver does with one that cannot be applied."""
        drain = self.cores[partition].refuse(self.inboxes[partition].popleft(), reason)
        self._deliver(self.cores[partition], drain)
        return drain

    def settle(self) -> None:
        """Decide until nothing waits and nothing is due."""
        for _ in range(1_000):
            busy = [
                number
                for number, core in enumerate(self.cores)
                if self.inboxes[number] or ((due := core.next_deadline()) is not None and due <= self.now)
            ]
            if not busy:
                return
            self.step(busy[0])
        raise AssertionError("the shards never come to rest")

    def begin_anew(self, partition: int) -> None:
        """The topic of the commands is another one: its offsets begin at 0."""
        self._offsets[partition][False] = 0

    def restart(self, partition: int) -> None:
        """A new owner: all it has is the table."""
        self.cores[partition] = self._load(partition)

    def _deliver(self, core: ShardCore, drain: Drain) -> None:
        self.drains.append(drain)
        for topic in drain.doomed_topics:
            self.logs.pop(topic, None)
            self.quarantined.pop(topic, None)
        firsts = {}
        for topic, append in drain.appends.items():
            first = self.logs.setdefault(topic, Log()).append(append)
            if first is not None:
                firsts[topic] = first
            columns = zip(
                append.sequences, append.keys, append.payloads, append.headers, append.times, strict=True
            )
            for sequence, key, payload, headers, time in columns:
                message = StoredMessage(subject_of(key), sequence, payload, list(headers), time)
                self.written[topic, sequence] = message
        for key, value in drain.registry:
            self.registry.pop(key, None)
            if value is not None:
                self.registry[key] = value
        self.rejected += drain.rejected
        written = Reached(0, (self.now + self.broker_ahead) // MILLI) if self._hears_time else None
        core.committed(drain, firsts, written if drain.changes else None)
        for partition, forward in drain.sent:
            self.record(partition, forward, forwarded=True)
        for client, replies in drain.replies.items():
            self.leases.setdefault(client, []).extend(replies.leases)
        if CLIENT in drain.replies:
            self._hear(drain.replies[CLIENT])

    def _hear(self, replies: Replies) -> None:
        for pack in replies.packs:
            for run in pack.runs:
                for index in range(run[0], run[0] + run[1]):
                    self._told(pack.first_request + index, sequence_of(run, index))
            for index, sequence in pack.duplicates:
                self._told(pack.first_request + index, -sequence)
            for index, refusal in pack.refusals:
                self._told(pack.first_request + index, refusal)
        for answer in replies.answers:
            assert answer.request not in self.answers, "answered twice"
            self.answers[answer.request] = answer.frames
        for reply in replies.reads:
            self.reads.setdefault(reply.request, []).append(reply)

    def _told(self, request: int, outcome: int | Refusal) -> None:
        assert request not in self.outcomes, "answered twice"
        self.outcomes[request] = outcome

    # -- looking

    def answer(self, request: int) -> dict[str, Any]:
        """The JSON of an answer of one frame."""
        (frame,) = self.answers[request]
        found = json.loads(frame.body)
        assert isinstance(found, dict)
        return found

    def snapshot(self) -> dict[str, Any]:
        """All that a client could see: every stream with every message, read as a client would read it."""
        seen: dict[str, Any] = {"names": self.cores[0]._registrar.known_streams()}
        for core in self.cores:
            for state in core._streams:
                seen[state.name] = {
                    "config": state.config,
                    "incarnation": state.incarnation,
                    "counts": (
                        state.messages,
                        state.bytes,
                        state.first_seq,
                        state.last_seq,
                        state.num_deleted,
                    ),
                    "times": (state.created, state.first_time(), state.last_time),
                    "last_msg_id": state.last_msg_id,
                    "subjects": state.subjects(),
                    "num_subjects": state.num_subjects,
                    "ids": state.window.everything(),
                    "due": state.expiry.next(),
                    "entries": list(state.iterate()),
                    "payloads": {e.sequence: self.read(state.name, e.sequence) for e in state.iterate()},
                }
        return seen

    def read(self, stream: str, sequence: int) -> bytes | None:
        """The payload of a message, from where its owner says it is."""
        state = self.cores[partition_of(stream, self.partitions)]._streams.get(stream)
        assert state is not None
        entry = state.entry(sequence)
        assert entry is not None
        frame = located(state, entry, "direct")
        if frame.located is None:
            return frame.body
        return self.logs[frame.located.topic].payload_of(sequence, frame.located.offset)
