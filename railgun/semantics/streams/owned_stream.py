"""The state of one stream, as its owner holds it: its messages, and what is decided about them.

Which messages exist is kept one layer below (:class:`StoredMessages`). Configuration, ids, timers, bodies, consumers and the
keys of the log join them here, so that a message that comes or goes does so everywhere at once.

Everything durable goes through the overlay of the drain; everything else here is derived from it on load. A drain that is
aborted drops the whole object: the next use loads it again from the table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import takewhile

from railgun.model.durations import to_nanos
from railgun.model.headers import Headers, is_tombstone
from railgun.model.stream_config import BUCKET, StreamConfig
from railgun.model.transforms import Transform
from railgun.protocol.topics import Names
from railgun.semantics.consumers.collection import Consumers
from railgun.semantics.consumers.retention import Unneeded
from railgun.semantics.messages.blocks import NEVER, Entry
from railgun.semantics.messages.body_lookup import BodyLookup
from railgun.semantics.messages.budget import ShardMemory
from railgun.semantics.messages.stored import StoredMessages
from railgun.semantics.streams.adopting.adopted_topics import AdoptedTopics
from railgun.semantics.streams.captured import Captured
from railgun.semantics.streams.expiry import Expiry
from railgun.semantics.streams.log_keys import LogKeys
from railgun.semantics.streams.publishing.deduplication import DedupWindow
from railgun.semantics.streams.publishing.totals import CounterTotals
from railgun.semantics.streams.sizes import Measure
from railgun.semantics.streams.sourcing.origins import Origins
from railgun.semantics.streams.stream_record import RECORDED, read_record, write_record
from railgun.state import keys
from railgun.state.table import Overlay
from railgun.state.unreadable_entries import decoded

__all__ = ["ONE_BY_ONE", "Entry", "OwnedStream"]

ONE_BY_ONE = 5  # what removing a message by itself costs, in messages looked at


class OwnedStream(StoredMessages):
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
        super().__init__(overlay, incarnation, config.first_seq or 0, memory or ShardMemory())  # CFG-23
        self.name = name
        self.created = created
        self.topic = topic
        self.deleting = False
        self.last_msg_id = ""
        self.crowded = 0  # from here on, subjects may have more messages than their limit, which sank
        self.unneeded: list[Unneeded] = []
        self.new_from = self.last_seq + 1  # messages from here on are of the drain that runs
        self.window = DedupWindow(overlay, incarnation, 0, self._memory.ids)
        self.expiry = Expiry(self)
        self.bodies = BodyLookup(overlay, incarnation, self._memory)
        self.consumers = Consumers(self)
        self.totals = CounterTotals(overlay, incarnation)
        self.origins = Origins(overlay, incarnation)
        self.adopted = AdoptedTopics(overlay, incarnation)
        self._configure(config)
        self._begin_subjects(ordered=config.max_msgs_per_subject > 1)
        self.log_keys = LogKeys(self, compacted=config.max_msgs_per_subject > 0)
        self.bodies.is_value = self.log_keys.is_value

    # -- life

    @classmethod
    def load(
        cls, overlay: Overlay, incarnation: int, names: Names, memory: ShardMemory | None = None
    ) -> OwnedStream:
        """The stream as the table holds it."""
        record = read_record(overlay, incarnation)
        config = decoded(keys.stream(incarnation), StreamConfig.from_json, record["config"])
        name, created = record["name"], record["created"]
        state = cls(overlay, name, incarnation, config, created, names.log(name), memory)
        for field in RECORDED:
            setattr(state, field, record[field])
        state.log_keys.load(
            record["compacted"], record["own_keys_from"], record["values_from"], record["newest_from"]
        )
        state.new_from = state.last_seq + 1
        state.unneeded = [Unneeded(**one) for one in record["unneeded"]]
        if not state.deleting:
            state._set_bytes(state.bytes)
        state.open_index()
        state.window.load()
        state._watch_totals()
        state._derive()
        state._find_stray_bodies()
        state.consumers.load()
        state.origins.load()
        state.adopted.load()
        return state

    def reconfigure(self, config: StreamConfig, now: int) -> None:
        """Take over a checked configuration; ids outside a shorter window are forgotten at once (DUP-11)."""
        self._flush()
        self.window.expire(now)
        self.window.drop_expired()  # what has left the old window does not come back with a longer one
        if config.allow_direct and not self.bodies.keeps:
            self.log_keys.distrust_values()
        comes_to_interest = config.retention == "interest" != self.config.retention
        self._configure(config)
        self._by_subject.gone = self._subject_gone
        self.log_keys.follow_limit()
        if self._by_subject.ordered != (config.max_msgs_per_subject > 1):
            self._derive()
        if not self.bodies.keeps:
            self._find_stray_bodies()
        self.window.expire(now)
        if comes_to_interest and not config.sealed:
            self.consumers.enforce_interest()

    def _configure(self, config: StreamConfig) -> None:
        self.config = config
        self.config_json = config.to_json()
        self.transform = None if config.subject_transform is None else Transform(config.subject_transform)
        self.max_age = to_nanos(config.max_age)
        self.window.window = to_nanos(config.duplicate_window) if config.duplicate_window is not None else 0
        self.bodies.keeps = config.allow_direct
        self.measure = Measure.of_storage(config.storage)
        self.captured = Captured(config, self.measure)
        self.origin = self._memory.origin if BUCKET in (config.metadata or ()) else ()  # KV-40
        if config.allow_msg_counter:
            self._subject_gone = self.totals.drop

    def forget(self) -> None:
        """The stream is deleted and is not asked any more: it gives back its memory."""
        self._by_subject.clear()
        self.window = DedupWindow(self.overlay, self.incarnation, 0, self._memory.ids)
        self._memory.forget(self.incarnation)

    def _derive(self) -> None:
        """Build what is not stored (subjects, timers) from the index."""
        self._begin_subjects(ordered=self.config.max_msgs_per_subject > 1)
        self.expiry.clear()
        self._count_subjects(self.expiry.add)

    def _watch_totals(self) -> None:
        """Totals are kept true after the option was turned off, so that it can be turned on again (CTR-20)."""
        if self.totals:
            self._subject_gone = self.totals.drop
        if self.totals.has_strays:
            self._memory.untidy.add(self.incarnation)

    # -- bodies, sizes, storing

    def body(self, sequence: int) -> tuple[Headers, bytes] | None:
        """Headers and payload of a message that exists, if the owner has them at hand."""
        return self.bodies.find(sequence, self.index)

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
        sequence = self._add(subject, size, time, expiry, tombstone=bool(headers) and is_tombstone(headers))
        if expiry not in (0, NEVER):
            self.expiry.add(abs(expiry), sequence)
        if self.bodies.keeps:
            self.bodies.keep(sequence, subject, headers, payload, time)
        return sequence

    def is_wanted(self, subject: str) -> bool:
        """Whether a message on the subject is to be stored: under interest, only if a consumer wants it (RET-12)."""
        return self.config.retention != "interest" or self.consumers.interested(subject)

    def store_run(
        self,
        subjects: list[str],
        sizes: list[int],
        time: int,
        expiries: Mapping[int, int] | None = None,
        tombstones: Collection[int] = (),
    ) -> int:
        """Many messages without kept bodies; the sequence of the first. ``expiries``: of those that have one, by their place.

        ``tombstones``: the places of those that only say that their key was deleted. Only where subjects have no limit.
        """
        first = self._add_run(subjects, sizes, time, expiries or {}, tombstones)
        self._watch_ends(first, expiries or {})
        return first

    def store_capped(
        self,
        subjects: list[str],
        sizes: list[int],
        times: list[int],
        expiries: Mapping[int, int],
        tombstones: Collection[int],
        rolled_up: Collection[int],
        headers: list[Headers],
        payloads: list[bytes],
    ) -> int:
        """Many messages, where subjects have a limit that none is beyond; those that go for them do so at once.

        ``rolled_up``: the places of messages before which all on their subject go.
        """
        first, gone = self._add_capped(
            subjects, sizes, times, expiries, tombstones, self.config.max_msgs_per_subject, rolled_up
        )
        self._watch_ends(first, expiries)
        if self.bodies.keeps:
            vanished = {sequence for sequence, _ in gone}
            self.bodies.keep_run(first, subjects, headers, payloads, vanished, times)
        self._drop_bodies([one for one in self.log_keys.not_replaced(gone) if one[0] < first])
        self.log_keys.bury_replaced(gone)
        if self.consumers:
            for sequence, subject in gone:
                self.consumers.evicted(sequence, subject)
        self._move_first()
        return first

    def _watch_ends(self, first: int, expiries: Mapping[int, int]) -> None:
        for place, expiry in expiries.items():
            if expiry != NEVER:
                self.expiry.add(abs(expiry), first + place)

    def store_columns(
        self, subjects: list[str], sizes: list[int], times: list[int], tombstones: Collection[int] = ()
    ) -> int:
        """As :meth:`store_run`, with a time for each message."""
        return self._add_columns(subjects, sizes, times, tombstones)

    @property
    def compacted(self) -> bool:
        """Whether Kafka drops what is gone from the log, wherever it lies."""
        return self.log_keys.compacted

    # -- stragglers

    @property
    def copied_below(self) -> int:
        """The bodies of all messages below this sequence are in the table (:mod:`railgun.semantics.streams.stragglers`); 0: of none."""
        return self.bodies.copied_below

    @copied_below.setter
    def copied_below(self, sequence: int) -> None:
        self.bodies.copied_below = sequence

    def copy(self, sequence: int, headers: Headers, payload: bytes) -> None:
        """The table has the message from now on; it is the first that was not copied before."""
        # Its log is not compacted: the body goes by its sequence.
        self.bodies.keep(sequence, "", headers, payload, 0)
        self.copied_below = sequence + 1

    # -- removing

    def remove(self, sequence: int, *, why: str = "limit") -> bool:
        """One message is gone from state, index, bytes and whatever waits for it; False if there was none."""
        entry = self._take(sequence)
        if entry is None:
            return False
        self._drop_bodies([(sequence, entry.subject)])
        self.log_keys.bury(entry.subject, sequence)
        if self.consumers:
            if why == "evicted":
                self.consumers.evicted(sequence, entry.subject)
            else:
                self.consumers.removed(sequence, entry.subject, why=why)
        return True

    def _drop_bodies(self, gone: list[tuple[int, str]]) -> None:
        """Messages are gone; values that others on their subjects have replaced are so already."""
        is_value = self.log_keys.is_value
        self.bodies.drop_run([sequence for sequence, _ in gone if not is_value(sequence)], self.new_from)
        for sequence, subject in gone:
            if is_value(sequence) and self.log_keys.is_free(subject, sequence):
                self.bodies.drop_value(subject)

    def fall_behind(self, behind: bool = True) -> None:
        """Whether there are messages left to remove, which the next drains do (:mod:`railgun.semantics.streams.backlog`)."""
        (self._memory.behind.add if behind else self._memory.behind.discard)(self.incarnation)

    @property
    def is_behind(self) -> bool:
        return self.incarnation in self._memory.behind

    @property
    def removal_cost(self) -> int:
        """What removing a message of a run costs, in messages looked at."""
        alone = self.bodies.may_have_some or self.compacted or self._by_subject.ordered
        return ONE_BY_ONE if alone else 1

    def remove_run(self, start: int, end: int) -> None:
        """Every message of [start, end) is gone."""
        if self.removal_cost > 1:
            for entry in list(takewhile(lambda entry: entry.sequence < end, self.iterate(start))):
                self.remove(entry.sequence)
            return
        if start < self.copied_below:
            low = min(end, self.copied_below)
            for entry in list(takewhile(lambda entry: entry.sequence < low, self.iterate(start))):
                self.remove(entry.sequence)
            start = self.copied_below
        if start >= end:
            return
        counts = self._take_run(start, end)
        if self.consumers:
            self.consumers.removed_run(start, end, counts)

    def purge_below(self, sequence: int) -> int:
        """Everything below is gone; how many messages that were. Beyond the last: empty, next is that sequence."""
        if sequence > self.last_seq:
            return self._purge_all(max(sequence, self.last_seq + 1))
        before = self.messages
        self.remove_run(self.first_seq, sequence)
        if self.messages < before:
            self.consumers.purged(self.first_seq)
        return before - self.messages

    def _purge_all(self, next_sequence: int) -> int:
        gone = self.messages
        if self.compacted:
            for entry in self.iterate():
                self.log_keys.bury(entry.subject, entry.sequence)
                self.bodies.drop_value(entry.subject)
        self._take_all(next_sequence)
        self.expiry.clear()
        self._find_stray_bodies()
        if self._subject_gone is not None and self.totals.leave_below(next_sequence):
            self._memory.untidy.add(self.incarnation)
        self.consumers.purged(next_sequence)
        return gone

    def _find_stray_bodies(self) -> None:
        self.bodies.find_strays(self.first_seq)

    def count(self, subject: str, sequence: int, total: int, ledger: str) -> None:
        """A copied message is an increment: its total is known from now on, and leaves with its subject."""
        self.totals.put(subject, sequence, total, ledger)
        if self._subject_gone is None:
            self._subject_gone = self._by_subject.gone = self.totals.drop

    def drop_strays(self, most: int) -> int:
        """Remove some of the totals and bodies that are no longer needed from the table; how many were looked at."""
        dropped = self.totals.drop_strays(most)
        if self.totals.has_strays or dropped == most:
            return dropped
        return dropped + self.bodies.drop_strays(self.first_seq, most - dropped)

    # -- the end of a drain

    def seal(self) -> list[int]:
        """Write what changed into the overlay. The bases of the blocks that the drain added."""
        self._flush()
        self.consumers.seal()
        self.index.seal(self.first_seq)
        self.origins.seal()
        self.adopted.seal()
        self.log_keys.seal()
        self.new_from = self.last_seq + 1
        if self.copied_below:
            following = self._first_from(max(self.copied_below, self.first_seq))
            self.copied_below = following if following > self.first_seq and self.messages else 0
        write_record(self)
        return self._take_bases()

    def _flush(self) -> None:
        self._flush_index()
        self.window.seal()
        self._by_subject.settle()
