"""The consumers of one stream by name and number: loaded and sealed with it, told of messages that go, looked at when due."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from railgun.model import refusals
from railgun.model.refusals import Refusal
from railgun.semantics.consumers.consumer_record import consumer_name
from railgun.semantics.consumers.consumer_state import ConsumerState
from railgun.semantics.consumers.events import Event
from railgun.semantics.consumers.pending.position import Removals
from railgun.semantics.deadlines import Deadlines
from railgun.state import keys
from railgun.state.unreadable_entries import UnreadableEntry

if TYPE_CHECKING:
    from railgun.semantics.streams.owned_stream import OwnedStream

REMEMBERED_SUBJECTS = (
    100_000  # whose interest is remembered: a stream of ever new ones must not grow without bound
)
DELETED = "Unacknowledged message was deleted"


class KnownConsumers:
    """The consumers that a stream has. Those that nothing happens to cost nothing."""

    def __init__(self, stream: OwnedStream) -> None:
        self._stream = stream
        self.events: list[Event] = []  # of the drain that runs; cleared by the shard that reports them
        self.removals = Removals()
        self._evicted: list[
            tuple[int, int, dict[str, int]]
        ] = []  # runs that the consumers were not told of yet
        self._made = 0
        self._by_number: dict[int, ConsumerState] = {}
        self._by_name: dict[str, ConsumerState] = {}
        self._touched: dict[int, ConsumerState] = {}
        self._holding: dict[int, ConsumerState] = {}  # those that have something pending or given up
        self._deadlines = Deadlines[int]()
        self._interest: dict[str, bool] = {}
        self.unreadable: dict[str, str] = {}  # name ("" where it cannot be read either): why

    def load(self) -> None:
        """Read all consumers back from the table.

        One that cannot be read is set aside, and the others are served; but not where messages go when all consumers are
        through with them: what it still needs cannot be told, so that is an Unreadable of the whole stream.
        """
        overlay, incarnation = self._stream.overlay, self._stream.incarnation
        made = overlay.get(keys.all_of(keys.CONSUMERS_MADE, incarnation))
        found = list(overlay.scan(keys.all_of(keys.CONSUMER, incarnation)))
        # No number is given twice, also where this one is damaged: that of the last consumer is in its key.
        newest = keys.sequence_in(found[-1][0]) if found else 0
        self._made = max(newest, 0 if made is None else int.from_bytes(made, "big"))
        for key, data in found:
            try:
                consumer = ConsumerState.load(self._stream, key, data)
            except UnreadableEntry as error:
                if self._stream.config.retention != "limits":
                    raise
                self.unreadable[consumer_name(data)] = str(error)
                continue
            self._keep(consumer)
            if consumer.holds:
                self.hold(consumer)
                self._deadlines.watch(consumer.number, consumer.redelivery.next_deadline())

    def _keep(self, consumer: ConsumerState) -> None:
        self._by_number[consumer.number] = consumer
        self._by_name[consumer.name] = consumer

    # -- reading

    def __iter__(self) -> Iterator[ConsumerState]:
        self._tell_evicted()
        return iter(self._by_number.values())

    @property
    def public(self) -> list[ConsumerState]:
        """Consumers that users made; the others read for streams that copy this one, and are hidden (SRC-10)."""
        return [one for one in self if not one.config.direct]

    def __len__(self) -> int:
        return len(self._by_number)

    def get(self, name: str) -> ConsumerState | None:
        self._tell_evicted()
        return self._by_name.get(name)

    def refusal(self, name: str) -> Refusal | None:
        """Why the consumer cannot be asked, if it is set aside or may be; None otherwise."""
        if name in self._by_name or not self.unreadable:
            return None
        if name in self.unreadable:
            return refusals.unavailable(f"the consumer {name} is set aside: {self.unreadable[name]}")
        if "" in self.unreadable:
            return refusals.unavailable(f"a consumer that cannot be read is set aside, and {name} may be it")
        return None

    def by_number(self, number: int) -> ConsumerState | None:
        self._tell_evicted()
        return self._by_number.get(number)

    def interested(self, subject: str) -> bool:
        """Whether any consumer wants messages on the subject."""
        known = self._interest.get(subject)
        if known is None:
            known = any(one.terms.filter.matches(subject) for one in self._by_number.values())
            if len(self._interest) >= REMEMBERED_SUBJECTS:
                self._interest.clear()
            self._interest[subject] = known
        return known

    # -- what happens to messages

    def evicted(self, sequence: int, subject: str) -> None:
        """One message made room for another, and is no longer pending anywhere (LIM-17).

        Consumers are told of many at once, before they are looked at again.
        """
        if self._evicted:
            begin, end, subjects = self._evicted[-1]
            # Below the first message of the stream there is nothing else that a run could take along.
            if sequence == end or end < sequence < self._stream.first_seq:
                subjects[subject] = subjects.get(subject, 0) + 1
                self._evicted[-1] = (begin, sequence + 1, subjects)
                return
        self._evicted.append((sequence, sequence + 1, {subject: 1}))

    def _tell_evicted(self) -> None:
        if not self._evicted:
            return
        runs, self._evicted = self._evicted, []
        for begin, end, subjects in runs:
            self.removals.note(begin, end, subjects)
            for consumer in list(self._holding.values()):
                consumer.evicted(begin, end)

    def removed(self, sequence: int, subject: str, *, why: str = "limit") -> None:
        """One message is gone; where it was pending, it is no more (DEL-13)."""
        self._tell_evicted()
        self.removals.note(sequence, sequence + 1, {subject: 1})
        for consumer in list(self._holding.values()):
            for run in consumer.vanished(sequence, sequence + 1):
                if why == "delete" and run.deliveries:
                    consumer.tell("terminated", run, reason=DELETED)  # DEL-15

    def removed_run(self, begin: int, end: int, subjects: Mapping[str, int]) -> None:
        """All messages of [begin, end) are gone; ``subjects``: how many of each."""
        self._tell_evicted()
        self.removals.note(begin, end, subjects)
        for consumer in list(self._holding.values()):
            consumer.vanished(begin, end)

    # -- time

    def next_deadline(self) -> int | None:
        """When the next ack wait or delay is over, ns."""
        self._tell_evicted()
        for consumer in self._touched.values():
            self._deadlines.watch(consumer.number, consumer.redelivery.next_deadline())
        return self._deadlines.next(self._due)

    def expire(self, now: int) -> list[ConsumerState]:
        """Look at the consumers that are due; those that have something to deliver again."""
        self.next_deadline()
        found = []
        for number in sorted(self._deadlines.pop_due(now)):
            consumer = self._by_number.get(number)
            if consumer is not None:
                if consumer.expire(now):
                    found.append(consumer)
                self._deadlines.watch(number, consumer.redelivery.next_deadline())
        return found

    def _due(self, number: int) -> int | None:
        consumer = self._by_number.get(number)
        return None if consumer is None else consumer.redelivery.next_deadline()

    # -- the drain

    @property
    def changed(self) -> bool:
        """Whether there is something to write when the drain ends."""
        self._tell_evicted()
        return bool(self._touched)

    @property
    def touched(self) -> list[ConsumerState]:
        """Consumers that changed in the drain that runs: they may have less pending."""
        self._tell_evicted()
        return list(self._touched.values())

    def touch(self, consumer: ConsumerState) -> None:
        """The consumer changed: it is written when the drain ends."""
        self._touched[consumer.number] = consumer
        self.hold(consumer)

    def hold(self, consumer: ConsumerState) -> None:
        """The consumer may have something pending or given up."""
        self._holding[consumer.number] = consumer

    def seal(self) -> None:
        """Write what changed into the overlay."""
        self._tell_evicted()
        for number, consumer in self._touched.items():
            consumer.seal()
            self._deadlines.watch(number, consumer.redelivery.next_deadline())
            if not consumer.holds:
                self._holding.pop(number, None)
        self._touched.clear()
