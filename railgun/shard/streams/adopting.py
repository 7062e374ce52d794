"""Adopting: the shard's side of streams that copy Kafka topics (TOP).

Readers outside of the shard bring records (:class:`TopicFetch`) and looks (:class:`TopicSeen`); the shard tells them where to read
(:meth:`Adopting.orders`). What must survive, the position in each partition, is in the drain that stores the copies. All else is in
memory and may be wrong: a fetch that does not begin at the position or before it is dropped and read again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from railgun.model.cluster_limits import ClusterLimits
from railgun.model.durations import NANOS
from railgun.model.refusals import Refusal, unavailable
from railgun.model.stream_config import TopicSource
from railgun.semantics.deadlines import Deadlines
from railgun.semantics.streams.adopting.adopted_topics import AdoptedPartition
from railgun.semantics.streams.adopting.topic_copying import TopicMapping, comes_later, copy_all, copy_record
from railgun.semantics.streams.adopting.topic_records import (
    UNLIMITED,
    Adoption,
    PartitionOrder,
    TopicFetch,
    TopicOrder,
    TopicOrders,
    TopicRecord,
    TopicSeen,
)
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.sourcing.copying import Target, takes
from railgun.semantics.streams.sourcing.origins import FIRST_AFTER_WAIT, WINDOW
from railgun.shard.drain import Input, Rejected
from railgun.shard.log_bodies import ReadLog, body_reader
from railgun.shard.open_drain import OpenDrain
from railgun.shard.streams.owned import OwnedStreams
from railgun.shard.streams.publishing import note_last
from railgun.shard.streams.topic_looks import follow_look

log = logging.getLogger("railgun.shard")

FIRST_RETRY: Final = NANOS // 2
LAST_RETRY: Final = 10 * NANOS

Place = tuple[Adoption, int]  # a partition of an adopted topic


@dataclass(slots=True)
class _Reading:
    """The order that the reader of a partition has."""

    number: int = 1
    offset: int = 0
    most: int = UNLIMITED
    left: int = UNLIMITED  # of them
    tries: int = 0  # in vain, one after the other
    beyond_since: int = 0  # the position is behind the partition's end since then; 0: it is not


class Adopting:
    """The adopted topics of all streams of one shard."""

    def __init__(
        self,
        streams: OwnedStreams,
        limits: ClusterLimits,
        quarantined: Mapping[str, str],
        read_log: ReadLog | None,
    ) -> None:
        self._streams = streams
        self._limits = limits
        self._quarantined = quarantined
        self._read_log = read_log
        self._readings: dict[Place, _Reading] = {}
        self._deadlines = Deadlines[Place]()
        self._full: dict[int, tuple[int, int]] = {}  # messages and bytes with which a stream took no more
        self._orders: TopicOrders | None = None  # None: they have changed

    # -- orders

    def load(self) -> None:
        """All readers begin at the positions in the table: what was read for a former owner of the state is void."""
        self._readings, self._deadlines, self._full, self._orders = {}, Deadlines(), {}, None

    def orders(self) -> TopicOrders:
        """The topics that are to be read, and from where; the same object until something changes."""
        if self._orders is None:
            self._orders = {
                Adoption(state.name, state.incarnation, source.topic): self._order_for(state, source)
                for state in self._streams
                for source in state.config.topics or ()
            }
            # A topic that comes back begins at its position, whatever was ordered before (TOP-14).
            kept = self._readings.items()
            self._readings = {place: one for place, one in kept if place[0] in self._orders}
        return self._orders

    def _order_for(self, state: OwnedStream, source: TopicSource) -> TopicOrder:
        of = Adoption(state.name, state.incarnation, source.topic)
        known = state.adopted.partitions(source.topic)
        orders = {}
        for partition, entry in known.items():
            reading = self._reading((of, partition), entry)
            orders[partition] = PartitionOrder(reading.number, reading.offset, reading.most)
        topic_id = next((entry.topic_id for entry in known.values()), "")
        return TopicOrder(source, topic_id, orders)

    def _reading(self, place: Place, entry: AdoptedPartition) -> _Reading:
        """The order of the partition's reader; one that has none yet begins at the position."""
        return self._readings.setdefault(place, _Reading(offset=entry.position))

    def _order(self, place: Place, entry: AdoptedPartition, most: int = UNLIMITED) -> None:
        """The reader of the partition reads from the position on, so much at most."""
        reading = self._readings.setdefault(place, _Reading(0))
        reading.number, reading.offset = reading.number + 1, entry.position
        reading.most = reading.left = most
        self._orders = None

    # -- life

    @property
    def next(self) -> int | None:
        """The shard's time at which a stream that took no more is tried again."""
        return self._deadlines.earliest

    def run(self, drain: OpenDrain) -> None:
        """Try again what is due."""
        for of, partition in self._deadlines.pop_due(drain.moment):
            state = self._adopter(of)
            entry = None if state is None else state.adopted.partitions(of.topic).get(partition)
            if state is not None and entry is not None and self._is_paused((of, partition)):
                self._go_on(state, (of, partition), entry)

    def stream_changed(self) -> None:
        """A stream was created, updated or deleted: readers begin and end as its configuration says (TOP-14)."""
        self._orders = None

    def end_drain(self, drain: OpenDrain) -> None:
        """Streams that took no more and have room now go on (TOP-10)."""
        for state in drain.touched.values() if self._full else ():
            full = self._full.get(state.incarnation)
            if full is None or (state.messages >= full[0] and state.bytes >= full[1]):
                continue
            del self._full[state.incarnation]
            for source in state.config.topics or ():
                of = Adoption(state.name, state.incarnation, source.topic)
                for partition, entry in state.adopted.partitions(source.topic).items():
                    if self._is_paused((of, partition)):
                        self._go_on(state, (of, partition), entry)

    def _is_paused(self, place: Place) -> bool:
        reading = self._readings.get(place)
        return reading is not None and not reading.most

    def _go_on(self, state: OwnedStream, place: Place, entry: AdoptedPartition) -> None:
        """After a wait, with about as many records as there is room for: the rest would be read in vain."""
        self._order(place, entry, takes(state, FIRST_AFTER_WAIT))

    def _adopter(self, of: Adoption) -> OwnedStream | None:
        """The stream that adopts the topic; None if it is gone, or does so no longer."""
        state = self._streams.get(of.stream)
        if state is None or state.incarnation != of.incarnation:
            return None
        return state if any(one.topic == of.topic for one in state.config.topics or ()) else None

    # -- what readers bring

    def receive(self, given: TopicFetch | TopicSeen, drain: OpenDrain) -> None:
        """A reader brings records, or has looked at its topic."""
        state = self._adopter(given.of)
        if state is None:
            return
        state.adopted.seen[given.of.topic] = drain.moment
        if isinstance(given, TopicSeen):
            self._look(given, state, drain)
        else:
            self._fetched(given, state, drain)

    def refuse(self, culprit: TopicFetch | TopicSeen, reason: str, drain: OpenDrain) -> None:
        """A single record could not be applied: it is kept in ``rejected`` and passed (TOP-09)."""
        state = self._adopter(culprit.of)
        if state is None or isinstance(culprit, TopicSeen):
            return
        entry = state.adopted.partitions(culprit.of.topic).get(culprit.partition)
        if entry is None or entry.topic_id != culprit.topic_id:
            return
        if not culprit.after <= entry.position < culprit.reached:
            return  # it is not the next, and was not looked at: what failed is not its fault
        drain.touch(state)
        for record in culprit.records:
            if record.offset >= entry.position:
                self._pass_over(culprit, record, entry, reason, drain)
        entry.position = culprit.reached
        state.adopted.put(culprit.of.topic, culprit.partition, entry)

    def _look(self, seen: TopicSeen, state: OwnedStream, drain: OpenDrain) -> None:
        if seen.error and seen.error != state.adopted.errors.get(seen.of.topic):
            log.error("the stream %s: %s", state.name, seen.error)
        state.adopted.errors[seen.of.topic] = seen.error
        known = state.adopted.partitions(seen.of.topic)
        beyond = {one: self._reading((seen.of, one), entry).beyond_since for one, entry in known.items()}
        moved = follow_look(seen, state, drain.moment, beyond)
        for partition, since in beyond.items():
            self._readings[seen.of, partition].beyond_since = since
        if moved:
            drain.touch(state)
        for partition in moved:
            entry = state.adopted.partitions(seen.of.topic)[partition]
            self._order((seen.of, partition), entry)
        for partition in {one.partition for one in seen.partitions if one.unreadable} - set(moved):
            # Its offset is gone, and the position is not: it has begun its order anew, far behind the position.
            entry = state.adopted.partitions(seen.of.topic)[partition]
            order = self._reading((seen.of, partition), entry)
            if order.most and order.offset != entry.position:
                self._order((seen.of, partition), entry, order.most)

    def _fetched(self, fetch: TopicFetch, state: OwnedStream, drain: OpenDrain) -> None:
        entry = state.adopted.partitions(fetch.of.topic).get(fetch.partition)
        place = (fetch.of, fetch.partition)
        if entry is None or entry.topic_id != fetch.topic_id:
            return  # of a topic that was deleted since
        entry.end = max(fetch.end, fetch.reached)
        reading = self._reading(place, entry)
        if not reading.most or fetch.reached <= entry.position:
            return
        if fetch.after > entry.position:
            if fetch.order == reading.number:  # something was read before it and dropped
                self._order(place, entry, reading.most)
            return
        drain.touch(state)
        state.adopted.put(fetch.of.topic, fetch.partition, entry)
        before = entry.position
        refused = self._copy(fetch, state, entry, drain)
        entry.waits = refused
        if refused is not None:
            reading.tries = 0 if entry.position > before else reading.tries
            self._full[state.incarnation] = state.messages, state.bytes
            wait = min(LAST_RETRY, FIRST_RETRY << min(reading.tries, 8))
            reading.tries += 1
            self._order(place, entry, 0)
            self._deadlines.watch(place, drain.moment + wait)
            return
        reading.tries = 0
        entry.position = fetch.reached
        if reading.most < UNLIMITED:
            reading.left -= len(fetch.records)
            if reading.left <= 0:
                more = reading.most * 4
                self._order(place, entry, UNLIMITED if more >= WINDOW else min(more, takes(state, WINDOW)))

    # -- copying

    def _copy(
        self, fetch: TopicFetch, state: OwnedStream, entry: AdoptedPartition, drain: OpenDrain
    ) -> Refusal | None:
        """Copy the records from the position on, in their order (TOP-08); the refusal at which the topic must wait."""
        reason = self._quarantined.get(state.topic)
        if reason is not None:
            return unavailable(reason)
        records = [one for one in fetch.records if one.offset >= entry.position]
        if not records:
            return None
        source = next(one for one in state.config.topics or () if one.topic == fetch.of.topic)
        mapping = TopicMapping(source, fetch.partition)
        if state.config.republish is not None:
            note_last(state, [mapping.subject(one) for one in records], drain)
        time = max(drain.brokers_now, drain.received, drain.stored_at, state.last_time)
        drain.stored_at = time
        state.window.expire(time)
        target = Target(
            state,
            time,
            self._limits,
            self._streams.room,
            drain.log_of(state),
            body_reader(state, self._read_log),
        )
        if copy_all(target, mapping, records):
            return None
        for record in records:
            refused = copy_record(target, mapping, record)
            if refused is not None and comes_later(refused):
                entry.position = record.offset
                return refused
            if refused is not None:
                self._pass_over(fetch, record, entry, refused.description, drain)
        return None

    def _pass_over(
        self, fetch: TopicFetch, record: TopicRecord, entry: AdoptedPartition, reason: str, drain: OpenDrain
    ) -> None:
        entry.pass_over(record.offset, reason)
        headers = [(name, value or b"") for name, value in record.headers]
        kept = Input(True, record.offset, record.time * 1_000_000, record.key, headers, record.value)
        place = f"{fetch.of.topic}/{fetch.partition}/{record.offset}"
        why = f"passed over by the stream {fetch.of.stream}: {reason}"
        drain.decisions.rejected.append(Rejected(kept, why, place))
