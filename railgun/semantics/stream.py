"""The state of one stream, as its owner holds it: counters, index, subjects, ids, timers.

Everything durable goes through the overlay of the drain; everything else here is derived from it on load. A drain that is
aborted drops the whole object: the next use loads it again from the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from railgun.model import wire
from railgun.model.config import StreamConfig
from railgun.model.durations import to_nanos
from railgun.model.frames import direct_frame, get_frame
from railgun.model.headers import Headers
from railgun.model.messages import StoredMessage
from railgun.model.names import Names
from railgun.model.subjects import Filter, is_literal
from railgun.model.transforms import Transform
from railgun.semantics.at_hand import BodiesAtHand
from railgun.semantics.blocks import NEVER, Block, Entry
from railgun.semantics.consumers.collection import Consumers
from railgun.semantics.deduplication import DedupWindow
from railgun.semantics.expiry import Expiry
from railgun.semantics.index import MessageIndex
from railgun.semantics.memory import ShardMemory
from railgun.semantics.subject_index import SubjectIndex
from railgun.state import keys
from railgun.state.table import Overlay

__all__ = ["Entry", "StreamState"]

_RECORDED = (
    "deleting",
    "first_seq",
    "last_seq",
    "messages",
    "bytes",
    "last_time",
    "last_msg_id",
    "log_end",
    "compacted",
)
# Subjects remembered as captured: a stream of ever new ones must not grow without bound.
ACCEPTED_SUBJECTS = 100_000


class StreamState:
    """A stream and what it holds. Changes are durable once :meth:`seal` ran and its drain is committed."""

    def __init__(
        self,
        overlay: Overlay,
        name: str,
        incarnation: int,
        config: StreamConfig,
        created: int,
        topic: str,
        memory: ShardMemory | None = None,
    ) -> None:
        """``memory``: what the streams of the shard share; alone, a stream has it all."""
        self.overlay = overlay
        self._memory = memory or ShardMemory()
        self.name = name
        self.incarnation = incarnation
        self.created = created
        self.topic = topic
        self.deleting = False
        self.first_seq = config.first_seq or 0
        self.last_seq = max(self.first_seq - 1, 0)
        self.messages = 0
        self.bytes = 0
        self.last_time = 0
        self.last_msg_id = ""
        self.log_end = 0  # no later message lies below this offset of the log
        self.tombstones: list[tuple[int, bytes]] = []  # of the drain that runs: (before which message, key)
        self._stored = 0  # messages of the drain that runs
        self._bases: list[int] = []  # blocks of the drain that runs
        self.index = MessageIndex(overlay, incarnation, self.last_seq + 1)
        self.window = DedupWindow(overlay, incarnation, 0, self._memory.ids)
        self.expiry = Expiry(self)
        self.bodies = BodiesAtHand(overlay, incarnation, self._memory)
        self.consumers = Consumers(self)
        self._configure(config)
        self.compacted = config.max_msgs_per_subject > 0

    # -- life

    @classmethod
    def load(
        cls, overlay: Overlay, incarnation: int, names: Names, memory: ShardMemory | None = None
    ) -> StreamState:
        """The stream as the table holds it."""
        data = overlay.get(keys.stream(incarnation))
        assert data is not None, f"no stream {incarnation} in the table"
        record = wire.decode("stream_record", data)
        name, config = record["name"], StreamConfig.from_json(record["config"])
        state = cls(overlay, name, incarnation, config, record["created"], names.log(name), memory)
        for field in _RECORDED:
            setattr(state, field, record[field])
        state.index = MessageIndex(overlay, incarnation, state.last_seq + 1)
        state.window.load()
        state._derive()
        state._find_stray_bodies()
        state.consumers.load()
        return state

    def reconfigure(self, config: StreamConfig, now: int) -> None:
        """Take over a checked configuration; ids outside a shorter window are forgotten at once (DUP-11)."""
        self._flush()
        self.window.expire(now)
        self.window.drop_expired()  # what has left the old window does not come back with a longer one
        comes_to_interest = config.retention == "interest" != self.config.retention
        self._configure(config)
        # Older records of a log that was not compacted share their keys: it must not begin while they are needed.
        self.compacted = config.max_msgs_per_subject > 0 and (self.compacted or not self.messages)
        self._derive()
        if not self.bodies.keeps:
            self._find_stray_bodies()
        self.window.expire(now)
        if comes_to_interest:
            self.consumers.enforce_interest()  # UPD-05

    def _configure(self, config: StreamConfig) -> None:
        self.config = config
        self._config_json = config.to_json()
        self.captures = Filter(config.subjects)
        self.transform = None if config.subject_transform is None else Transform(config.subject_transform)
        self.max_age = to_nanos(config.max_age)
        self.window.window = to_nanos(config.duplicate_window) if config.duplicate_window is not None else 0
        self.bodies.keeps = config.allow_direct
        self.record_overhead = 16 if config.storage == "memory" else 30  # STO-01, STO-07
        self._header_overhead = 0 if config.storage == "memory" else 4  # STO-02
        self._accepted: dict[str, int] = {}
        self._by_subject = self._new_subjects()

    def forget(self) -> None:
        """The stream is deleted: nobody asks it any more, so it need not hold memory."""
        self._by_subject.clear()
        self.window = DedupWindow(self.overlay, self.incarnation, 0, self._memory.ids)
        self._memory.forget(self.incarnation)

    def _new_subjects(self) -> SubjectIndex:
        return SubjectIndex(
            ordered=self.config.max_msgs_per_subject > 1,
            incarnation=self.incarnation,
            scratch=self.overlay.scratch,
            budget=self._memory.subjects,
        )

    def _derive(self) -> None:
        """Build what is not stored (subjects, timers) from the index."""
        self._by_subject = self._new_subjects()
        self.expiry.clear()
        for block in self.index.blocks(self.first_seq) if self.messages else ():
            if block.removed is None and block.expiries is None and block.base >= self.first_seq:
                self._by_subject.add_run(block.all_subjects(), block.base)  # the common case, as columns
                self._by_subject.settle()
                continue
            for index in range(max(0, self.first_seq - block.base), block.count):
                if not block.is_removed(index):
                    entry = block.entry(index)
                    self._by_subject.add(entry.subject, entry.sequence)
                    if entry.ends:
                        self.expiry.add(entry.ends, entry.sequence)
            self._by_subject.settle()

    # -- reading

    def exists(self, sequence: int) -> bool:
        return self.entry(sequence) is not None

    def entry(self, sequence: int) -> Entry | None:
        if not self.messages or not self.first_seq <= sequence <= self.last_seq:
            return None
        return self.index.entry(sequence)

    def iterate(
        self, start: int = 0, *, subjects: Filter | None = None, reverse: bool = False
    ) -> Iterator[Entry]:
        """Existing messages from ``start`` on, or from ``start`` (0: the end) down to the first."""
        if not self.messages:
            return iter(())
        if reverse:
            return self.index.descending(start or self.last_seq, self.first_seq, subjects)
        return self.index.ascending(max(start, self.first_seq), subjects)

    def blocks(self, start: int, end: int | None = None) -> Iterator[Block]:
        """The index of what exists from ``start`` on, a block at a time; only that below ``end`` is asked for."""
        if not self.messages:
            return iter(())
        if end is None or end > self.index.tail_base:
            self._flush_index()
        return self.index.blocks(max(start, self.first_seq))

    def sizes(self, start: int, end: int) -> Sequence[int]:
        """What the messages of [start, end) count, which all exist."""
        if end > self.index.tail_base:
            self._flush_index()
        return self.index.sizes(start, end)

    def first_at(self, time: int) -> int:
        """The sequence of the first message stored at that time or later; the one after the last if there is none."""
        low, high = self.first_seq, self.last_seq + 1
        while low < high:  # times never go back, so halving finds the place; holes are stepped over
            middle = (low + high) // 2
            entry = next(self.iterate(middle), None)
            if entry is None or entry.time >= time:
                high = middle
            else:
                low = entry.sequence + 1
        entry = next(self.iterate(low), None)
        return self.last_seq + 1 if entry is None else entry.sequence

    def last_of(self, subject: str) -> int:
        """The newest existing sequence on the literal subject, 0 if none."""
        return self._by_subject.last(subject)

    def count_of(self, subject: str) -> int:
        return self._by_subject.count(subject)

    def oldest_of(self, subject: str) -> Entry:
        """The oldest message on a subject; only where a per-subject limit is set."""
        entry = self.entry(self._by_subject.oldest(subject))
        assert entry is not None
        return entry

    def last_matching(self, subjects: Filter) -> int:
        """The newest existing sequence over all matching subjects, 0 if none."""
        if subjects.literal is not None:
            return self.last_of(subjects.literal)
        return next((entry.sequence for entry in self.iterate(subjects=subjects, reverse=True)), 0)

    def subjects(self, matching: Filter | None = None) -> dict[str, int]:
        """Literal subject to the number of its existing messages."""
        return self._by_subject.matching(matching)

    @property
    def num_subjects(self) -> int:
        return len(self._by_subject)

    def first_time(self) -> int:
        """When the first existing message was stored, 0 if there is none."""
        entry = self.entry(self.first_seq)
        return 0 if entry is None else entry.time

    @property
    def num_deleted(self) -> int:
        return self.last_seq - self.first_seq + 1 - self.messages if self.messages else 0

    def deleted(self) -> list[int]:
        """Sequences between first and last that no longer exist."""
        missing: list[int] = []
        expected = self.first_seq
        for entry in self.iterate():
            missing.extend(range(expected, entry.sequence))
            expected = entry.sequence + 1
        return missing + list(range(expected, self.last_seq + 1)) if self.messages else []

    def located(self, sequence: int, form: str, *, no_headers: bool = False) -> wire.Frame:
        """A frame that answers with this message: itself where it is at hand, else its place in the log."""
        entry = self.entry(sequence)
        assert entry is not None, f"no message {sequence}"
        body = self.body(sequence)
        if body is None:
            offset = self.index.offset(sequence, self.log_end)
            return wire.Frame(
                [], b"", wire.Located(form, self.topic, offset, sequence, self.incarnation, no_headers)
            )
        headers, payload = body
        message = StoredMessage(entry.subject, sequence, payload, headers, entry.time)
        make = get_frame if form == "get" else direct_frame
        return make(message, no_headers=no_headers)

    def body(self, sequence: int) -> tuple[Headers, bytes] | None:
        """Headers and payload of a message that exists, if the owner has them at hand."""
        return self.bodies.find(sequence, self.index)

    # -- storing

    def overhead(self, subject: str) -> int | None:
        """What a message on the subject counts beside its payload; None if the stream does not capture it."""
        known = self._accepted.get(subject)
        if known is None and is_literal(subject) and self.captures.matches(subject):
            known = self.record_overhead + len(subject.encode("utf-8"))
            if len(self._accepted) >= ACCEPTED_SUBJECTS:
                self._accepted.clear()
            self._accepted[subject] = known
        return known

    def size_of(self, subject: str, header_bytes: int, payload: bytes) -> int:
        """What the message counts towards ``bytes`` and ``max_bytes`` (STO)."""
        base = self.record_overhead + len(subject.encode("utf-8")) + len(payload)
        return base + self._header_overhead + header_bytes if header_bytes else base

    @property
    def header_overhead(self) -> int:
        return self._header_overhead

    def store(
        self,
        subject: str,
        size: int,
        time: int,
        *,
        expiry: int = 0,
        headers: Headers = (),
        payload: bytes = b"",
    ) -> int:
        """One more message; its sequence. The limits are the caller's business."""
        sequence = self.index.append(subject, size, time, expiry)
        self._by_subject.add(subject, sequence)
        self._count_stored(sequence, 1, size, time)
        if expiry not in (0, NEVER):
            self.expiry.add(abs(expiry), sequence)
        if self.bodies.keeps:
            self.bodies.keep(sequence, headers, payload)
        return sequence

    def is_wanted(self, subject: str) -> bool:
        """Whether a message on the subject is to be stored: under interest, only if a consumer wants it (RET-12)."""
        return self.config.retention != "interest" or self.consumers.interested(subject)

    def skip(self, time: int) -> int:
        """A message that nobody wants: it gets a sequence and is not stored (RET-12)."""
        sequence = self.index.skip(time)
        if not self.messages:
            self.first_seq = sequence + 1
        self.last_seq, self.last_time = sequence, time
        return sequence

    def store_run(self, subjects: list[str], sizes: list[int], time: int) -> int:
        """Many messages without expiry or kept bodies; the sequence of the first."""
        first = self.index.extend(subjects, sizes, time)
        self._by_subject.add_run(subjects, first)
        self._count_stored(first, len(sizes), sum(sizes), time)
        return first

    def _count_stored(self, first: int, count: int, size: int, time: int) -> None:
        if not self.messages:
            self.first_seq = first
        self._stored += count
        self.messages += count
        self.bytes += size
        self.last_seq = first + count - 1
        self.last_time = time

    def log_key(self, subject: str, sequence: int) -> bytes:
        """The key of the message's log record: what compaction keeps the newest of."""
        key = subject.encode("utf-8")
        return key + b"\0" + str(sequence).encode("ascii") if self.config.max_msgs_per_subject > 1 else key

    # -- removing

    def remove(self, sequence: int, *, why: str = "limit") -> bool:
        """One message is gone from state, index, bytes and whatever waits for it; False if there was none."""
        if not self.messages or not self.first_seq <= sequence <= self.last_seq:
            return False
        entry = self.index.remove(sequence)
        if entry is None:
            return False
        self.messages -= 1
        self.bytes -= entry.size
        self._by_subject.discard(entry.subject, sequence, self._newest_before)
        self.bodies.drop(sequence)
        if self.compacted:
            self._bury(entry.subject, sequence)
        if sequence == self.first_seq:
            self.first_seq = self._first_from(sequence + 1)
        if self.consumers:
            self.consumers.removed(sequence, entry.subject, why=why)
        return True

    def remove_run(self, start: int, end: int) -> None:
        """Every message of [start, end) is gone."""
        if end > self.index.tail_base:
            self._flush_index()
        if self.bodies.keeps or self.compacted or self._by_subject.ordered:
            for entry in list(takewhile(lambda entry: entry.sequence < end, self.iterate(start))):
                self.remove(entry.sequence)
            return
        counts: dict[str, int] = {}
        for removed in self.index.remove_run(max(start, self.first_seq), end):
            self.bytes -= removed.size
            for subject, (count, newest) in removed.subjects.items():
                self.messages -= count
                counts[subject] = counts.get(subject, 0) + count
                self._by_subject.discard_run(subject, count, newest, self._newest_before)
        if start <= self.first_seq < end:
            self.first_seq = self._first_from(end)
        if self.consumers:
            self.consumers.removed_run(start, end, counts)

    def _bury(self, subject: str, sequence: int) -> None:
        """Let compaction drop the removed message; one that a newer record of the same key replaced goes by itself."""
        if self.config.max_msgs_per_subject > 1 or not self._by_subject.count(subject):
            self.tombstones.append((self._stored, self.log_key(subject, sequence)))

    def _first_from(self, sequence: int) -> int:
        if not self.messages:
            return self.last_seq + 1
        return next((entry.sequence for entry in self.index.ascending(sequence)), self.last_seq + 1)

    def _newest_before(self, subject: str, sequence: int) -> int:
        below = self.index.descending(sequence - 1, self.first_seq, Filter([subject]))
        return next((entry.sequence for entry in below), 0)

    def purge_below(self, sequence: int) -> int:
        """Everything below is gone; how many messages that were. Beyond the last: empty, next is that sequence."""
        if sequence > self.last_seq:
            return self._purge_all(max(sequence, self.last_seq + 1))
        doomed = []
        for entry in self.iterate():
            if entry.sequence >= sequence:
                break
            doomed.append(entry.sequence)
        for gone in doomed:
            self.remove(gone)
        if doomed:
            self.consumers.purged(self.first_seq)
        return len(doomed)

    def _purge_all(self, next_sequence: int) -> int:
        gone = self.messages
        if self.compacted:
            self.tombstones.extend(
                (self._stored, self.log_key(e.subject, e.sequence)) for e in self.iterate()
            )
        self.index.hide_below(next_sequence)
        self._by_subject.clear()
        self.expiry.clear()
        self.messages = self.bytes = 0
        self.first_seq, self.last_seq = next_sequence, next_sequence - 1
        self._find_stray_bodies()
        self.consumers.purged(next_sequence)
        return gone

    def _find_stray_bodies(self) -> None:
        """Bodies below the first message are of no use; and all of them, where the stream keeps none any more."""
        self.bodies.find_strays(self.first_seq if self.bodies.keeps else self.last_seq + 1)

    # -- the end of a drain

    def seal(self) -> list[int]:
        """Write what changed into the overlay. The bases of the blocks that the drain added."""
        self._flush()
        self.consumers.seal()
        self.index.forget_below(self.first_seq)
        bases, self._bases = self._bases, []
        self.tombstones, self._stored = [], 0
        record = {
            "name": self.name,
            "incarnation": self.incarnation,
            "config": self._config_json,
            "created": self.created,
        } | {field: getattr(self, field) for field in _RECORDED}
        self.overlay.put(keys.stream(self.incarnation), wire.encode("stream_record", record))
        return bases

    def _flush(self) -> None:
        self._flush_index()
        self.window.seal()
        self._by_subject.settle()

    def _flush_index(self) -> None:
        self._bases += self.index.seal(self.log_end)

    def committed(self, offsets: Mapping[int, int], log_end: int) -> None:
        """The drain is durable: where its blocks begin in the log, and where no later message lies below."""
        self.index.note_offsets(offsets)
        self.log_end = log_end
