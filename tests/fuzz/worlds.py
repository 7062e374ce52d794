"""Two clusters that are told the same: one whose shards have all the room they want, and one that is kept tight.

The tight one has blocks of three messages, memory for next to nothing and small scratch space; its drains are aborted, its
cores are loaded again from their tables, its logs are trimmed and compacted. Whatever it says must be what the other says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from railgun.model.messages import StoredMessage
from railgun.protocol.replies import Frame, Located, fill, sequence_of
from railgun.semantics import deadlines
from railgun.semantics.consumers import known_consumers
from railgun.semantics.consumers.collection import Consumers
from railgun.semantics.consumers.pending import given_up, position
from railgun.semantics.consumers.pending import pending_runs as pending
from railgun.semantics.messages import block_store, id_digest, index, tail
from railgun.semantics.messages import budget as memory
from railgun.semantics.streams import captured, expiry, stragglers
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.publishing.totals import CounterTotal
from railgun.shard.consumers import leases
from railgun.shard.consumers.room import ConsumerRoom
from railgun.shard.core import ShardCore
from railgun.shard.drain import Drain, LogAppend
from railgun.shard.streams import owned as ownership
from railgun.state import keys
from railgun.state.table import NO_COMPANIONS, Changes, MemoryTable
from tests.support.publish_packs import one_by_one
from tests.support.shards import Shards

_TIGHT: list[tuple[Any, str, int]] = [
    (tail, "BLOCK_SIZE", 3),
    (block_store, "CACHED_BLOCKS", 2),
    (index, "FORGOTTEN_BLOCKS", 2),
    (memory, "IDS", 2 * memory.ID_BYTES),
    (memory, "SUBJECTS", 2 * memory.SUBJECT_BYTES),
    (memory, "CACHES", 1_000),
    (id_digest, "LARGEST", 4),
    (expiry, "_SHIFT", 1),
    (expiry, "_SLACK", 1),
    (deadlines, "_SLACK", 1),
    (pending, "_SHIFT", 2),
    (given_up, "_SHIFT", 2),
    (position, "REMEMBERED", 2),
    (known_consumers, "REMEMBERED_SUBJECTS", 2),
    (captured, "MOST_SUBJECTS", 2),
    (leases, "FEW_MESSAGES", 1),
    (ownership, "SWEPT_BODIES", 1),
    (stragglers, "SPAN", 3),
    (stragglers, "OF_THE_LIVE", 1),
    (stragglers, "AT_ONCE", 2),
]
_RECENT_BYTES = 300  # of messages that a tight shard keeps in memory


@contextmanager
def _tight() -> Iterator[None]:
    before = [getattr(module, name) for module, name, _ in _TIGHT]
    for module, name, value in _TIGHT:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(_TIGHT, before, strict=True):
            setattr(module, name, value)


class _TableWithCompanions(MemoryTable):
    """A table that keeps what is put beside its values, as the one on disk does."""

    def __init__(self) -> None:
        super().__init__(scratch=MemoryTable())
        self._beside: dict[bytes, bytes] = {}

    def companion(self, key: bytes) -> bytes | None:
        return self._beside.get(key)

    def apply(
        self,
        changes: Changes,
        companions: Mapping[bytes, bytes] = NO_COMPANIONS,
        position: int | None = None,
    ) -> None:
        super().apply(changes, companions, position)
        self._beside.update(companions)

    def lose_companions(self) -> None:
        self._beside.clear()


class World(Shards):
    """A cluster that writes down all it says, with every message in place of where to read it."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[str, int], StoredMessage] = {}  # by topic and sequence
        self._compacted: dict[str, bool] = {}
        self.said: list[Any] = []
        self.deliveries: list[
            tuple[str, str, int, int, int]
        ] = []  # stream, consumer, sequence, its number, which time
        super().__init__(partitions=2)

    # -- reading logs

    def _read_log(self, places: Sequence[Located]) -> list[StoredMessage | None]:
        return [self._message(place.topic, place.sequence, place.offset) for place in places]

    def _message(self, topic: str, sequence: int, offset: int) -> StoredMessage | None:
        found = self.logs[topic].payload_of(sequence, offset)
        return None if found is None else self._bodies[topic, sequence]

    # -- writing down

    def _deliver(self, core: ShardCore, drain: Drain) -> None:
        for change in drain.topics:
            self._compacted[change.topic] = change.compacted
        for append in drain.appends.values():
            self._remember(append)
        super()._deliver(core, drain)
        self.drains.clear()
        said = []
        for client, replies in sorted(drain.replies.items()):
            said += [(client, "pack", _pack(pack)) for pack in replies.packs]
            said += [
                (client, "answer", one.request, [self._filled(frame) for frame in one.frames])
                for one in replies.answers
            ]
            ordered = sorted(replies.leases, key=_place)
            said += [(client, "lease", one) for one in _joined([self._leased(lease) for lease in ordered])]
        said += [("rejected", one.reason, one.source.value) for one in drain.rejected]
        said += sorted(("advisory", subject, _content(body)) for subject, body in drain.advisories)
        self.said.append((core.partition, said))
        for trim in drain.trims:
            if trim.topic in self.logs:
                self.logs[trim.topic].trim(trim.offset)

    def _remember(self, append: LogAppend) -> None:
        columns = zip(
            append.sequences, append.keys, append.payloads, append.headers, append.times, strict=True
        )
        for sequence, key, payload, headers, time in columns:
            subject = key.partition(b"\0")[0].decode("utf-8")
            self._bodies[append.topic, sequence] = StoredMessage(
                subject, sequence, payload, list(headers), time
            )

    def _filled(self, frame: Frame) -> Frame:
        if frame.located is None:
            return frame
        message = self._message(frame.located.topic, frame.located.sequence, frame.located.offset)
        assert message is not None, f"nothing is found at {frame.located}"
        return fill(frame._replace(located=None), frame.located, message)

    def _leased(self, lease: Any) -> Any:
        messages = []
        place = 0
        for at, (first, count) in enumerate(zip(lease.sequences, lease.counts, strict=True)):
            for sequence in range(first, first + count):
                if lease.offsets:
                    message = self._message(lease.topic, sequence, lease.offsets[at])
                    assert message is not None, f"nothing is found of {sequence} in {lease}"
                else:
                    headers = lease.headers[place] if lease.headers else []
                    message = StoredMessage(
                        lease.subjects[place], sequence, lease.payloads[place], headers, lease.times[place]
                    )
                messages.append(
                    (message, lease.consumer_sequences[at] + sequence - first, lease.deliveries[at])
                )
                self.deliveries.append(
                    (lease.stream, lease.consumer, sequence, messages[-1][1], messages[-1][2])
                )
                place += 1
        nothing: dict[str, Any] = dict.fromkeys(("offsets", "subjects", "headers", "payloads", "times"), ())
        columns = dict.fromkeys(("sequences", "counts", "consumer_sequences", "deliveries"), ())
        return lease._replace(**nothing, **columns), messages

    # -- looking

    def compact(self) -> None:
        """The broker drops what newer records replace, where it may."""
        for topic, log in self.logs.items():
            if self._compacted.get(topic):
                log.compact()

    def state(self) -> dict[str, Any]:
        """All that a client could ask for."""
        seen = self.snapshot()
        for core in self.cores:
            for state in core._streams:
                seen[state.name]["totals"] = _totals(state)
                seen[state.name]["consumers"] = {one.name: _consumer(one) for one in state.consumers}
        return seen


class Plain(World):
    """The cluster with all the room. Its owners never change, but forget what a new owner would not know."""

    general = False  # whether it decides each message by itself, and copies none in columns

    def step(self, partition: int, count: int = 1_000, *, abort: bool = False) -> Drain:
        with one_by_one() if self.general else nullcontext():
            return super().step(partition, count, abort=abort)

    def forget(self, partition: int) -> None:
        """Who waits and listens, which batches are staged, and in which order messages come again."""
        core = self.cores[partition]
        core._staging.load()
        ConsumerRoom.__init__(  # in place: other parts of the shard hold it
            core._consumers,
            *(partition, self.partitions, core._streams, self._limits, core._captures, self._read_log),
        )
        core._consumers.load()
        self.forget_order(partition, None)

    def forget_order(self, partition: int, streams: set[str] | None) -> None:
        """In which order messages of these streams (None: all) come again."""
        core = self.cores[partition]
        for state in core._streams:
            if streams is None or state.name in streams:
                _forget_order(state)
                core._timers.watch(state)


class Tight(World):
    """The cluster that is short of everything."""

    def __init__(self) -> None:
        with _tight():
            super().__init__()
            self.tables = [_TableWithCompanions() for _ in range(self.partitions)]
            self.cores = [self._load(number) for number in range(self.partitions)]

    def _load(self, number: int) -> ShardCore:
        core = super()._load(number)
        core._streams.recent._limit = _RECENT_BYTES
        return core

    def step(self, partition: int, count: int = 1_000, *, abort: bool = False) -> Drain:
        with _tight():
            return super().step(partition, count, abort=abort)

    def abort(self, partition: int, count: int) -> set[str] | None:
        """A drain that fails; the streams that were loaded again, None for all of the shard."""
        self.step(partition, count, abort=True)
        drain = self.cores[partition]._open
        return None if drain.structural else drain.looked_at.union(drain.touched)

    def restart(self, partition: int) -> None:
        with _tight():
            super().restart(partition)

    def lose_disk(self, partition: int) -> None:
        """What was kept beside the table is gone."""
        table = self.tables[partition]
        assert isinstance(table, _TableWithCompanions)
        table.lose_companions()

    def state(self) -> dict[str, Any]:
        with _tight():
            return super().state()


def _forget_order(state: OwnedStream) -> None:
    """Consumers as their records say; the rest of the stream stays as it is."""
    before = [_consumer(one) for one in state.consumers]
    state.consumers = Consumers(state)
    state.consumers.load()
    assert before == [_consumer(one) for one in state.consumers], "a consumer that is loaded again is another"


def _totals(state: OwnedStream) -> dict[str, CounterTotal | None]:
    """The table of counters; no subject that has lost all its messages is left in it."""
    prefix = keys.all_of(keys.TOTAL, state.incarnation)
    left = {key[len(prefix) :].decode() for key, _ in state.overlay.scan(prefix)}
    assert left <= state.subjects().keys(), f"totals of {left - state.subjects().keys()} are left"
    return {subject: state.totals.get(subject) for subject in sorted(left)}


def _place(lease: Any) -> tuple[str, str, int]:
    """Which consumer is served first, and which of the pulls without messages is told first, is nobody's business."""
    return lease.stream, lease.consumer, 0 if lease.sequences else lease.pull


def _begun(lease: Any) -> Any:
    """The lease without what becomes of its pull."""
    return lease._replace(status=0, description="", status_headers=[])


def _joined(leases: list[Any]) -> list[Any]:
    """Whether messages come in one lease or in several makes no difference."""
    joined: list[Any] = []
    for lease, messages in leases:
        before, others = joined[-1] if joined else (None, [])
        if others and not before.done and before._replace(done=True) == _begun(lease)._replace(done=True):
            joined[-1] = lease, others + messages
        else:
            joined.append((lease, messages))
    return joined


def _content(advisory: bytes) -> str:
    """Without number and time: they depend on which of several consumers was told first, too."""
    return json.dumps(json.loads(advisory) | {"id": "", "timestamp": ""})


def _pack(pack: Any) -> Any:
    """Outcomes by message, however they are grouped."""
    outcomes: dict[int, Any] = {}
    for run in pack.runs:
        outcomes |= {
            pack.first_request + index: sequence_of(run, index) for index in range(run[0], run[0] + run[1])
        }
    outcomes |= {pack.first_request + at: -sequence for at, sequence in pack.duplicates}
    outcomes |= {pack.first_request + at: refusal for at, refusal in pack.refusals}
    return sorted(outcomes.items()), list(pack.values)


def _consumer(consumer: Any) -> dict[str, Any]:
    return {
        "config": consumer.config,
        "numbers": (consumer.delivered, consumer.floor, consumer.created),
        "counts": (consumer.num_ack_pending, consumer.num_redelivered, consumer.num_pending),
        "given_up": [one for one in range(consumer.stream.last_seq + 1) if one in consumer.given_up],
        "pending": [
            run.part(sequence, sequence + 1)._replace(due=0)  # whether it was seen to be over is not stored
            for run in consumer.pending
            if run.deliveries  # how many are parked depends on how far it has looked
            for sequence in range(run.sequence, run.end)
        ],
    }
