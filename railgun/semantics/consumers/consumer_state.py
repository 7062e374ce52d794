"""The state of one consumer, as the owner of its stream holds it: position, what is pending, what is parked.

Everything durable is written by :meth:`ConsumerState.seal`; the rest is derived. A drain that is aborted drops the object
with its stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from railgun.model.consumer_config import ConsumerConfig
from railgun.protocol import avro as wire
from railgun.protocol.commands import AckRun
from railgun.semantics.consumers import retention
from railgun.semantics.consumers.acks import acknowledgement
from railgun.semantics.consumers.acks.redelivery import Redelivery
from railgun.semantics.consumers.configuration.terms import UNLIMITED, Terms
from railgun.semantics.consumers.consumer_record import write_record
from railgun.semantics.consumers.delivery import delivery
from railgun.semantics.consumers.delivery.basket import Basket, Run, Taken
from railgun.semantics.consumers.events import Event, Kind
from railgun.semantics.consumers.pending.given_up import GivenUp
from railgun.semantics.consumers.pending.parked import InStreamOrder, InTurn, Parked
from railgun.semantics.consumers.pending.pending_runs import PendingRun, PendingRuns
from railgun.semantics.consumers.pending.position import Position
from railgun.semantics.messages.blocks import Entry
from railgun.state import keys
from railgun.state.unreadable_entries import decoded

if TYPE_CHECKING:
    from railgun.semantics.streams.owned_stream import OwnedStream

__all__ = ["ConsumerState", "Pair", "Run", "Taken"]


class Pair(NamedTuple):
    """A consumer sequence and the stream sequence that belongs to it."""

    consumer: int
    stream: int


class ConsumerState:
    """A consumer of a stream. What it is given is pending until it is acknowledged, spent, or gone from the stream.

    Its acknowledgements are its own: they change nothing for another consumer of the stream (ACK-18).
    """

    terms: Terms
    redelivery: Redelivery
    parked: Parked
    position: Position

    def __init__(
        self, stream: OwnedStream, number: int, config: ConsumerConfig, created: int, start: int
    ) -> None:
        """``start``: the sequence that it begins at."""
        self.stream = stream
        self.name = config.name or ""
        self.number = number
        self.created = created
        self.delivered = Pair(0, 0)
        self.covered = Pair(
            0, start - 1
        )  # what an ack of policy `all` covered, or where the consumer began (STA-11)
        self.pending = PendingRuns(stream.overlay, stream.incarnation, number)
        self.given_up = GivenUp(stream.overlay, stream.incarnation, number)
        self.acknowledged = 0  # since it was loaded: a part of them is sampled
        self._looked_at = 0
        self._configure(config, start)

    @classmethod
    def load(cls, stream: OwnedStream, key: bytes, data: bytes) -> ConsumerState:
        """The consumer as the table holds it. Raises Unreadable."""
        record = decoded(key, wire.decode, "consumer_record", data)
        config = decoded(key, ConsumerConfig.from_json, record["config"])
        consumer = cls(stream, keys.sequence_in(key), config, record["created"], record["next"])
        consumer.delivered = Pair(record["delivered_consumer"], record["delivered_stream"])
        consumer.covered = Pair(record["floor_consumer"], record["floor_stream"])
        consumer.given_up.load(record["given_up"])
        consumer.pending.load()
        consumer._configure(config, record["next"])
        return consumer

    def _configure(self, config: ConsumerConfig, next_sequence: int) -> None:
        """Derive what is not stored."""
        self.config = config
        self.config_json = config.to_json()
        self.terms = Terms(config)
        self.redelivery = Redelivery(self.pending, self.terms)
        if self.terms.per_subject:
            self.parked = InTurn(self.pending, self.terms.per_subject, self._subject_of)
        else:
            self.parked = InStreamOrder(self.pending)
        self.position = Position(
            self.stream, self.stream.consumers.removals, self.terms.filter, next_sequence
        )

    def look_at(self, messages: int) -> None:
        """Note that so many new messages were looked at."""
        self._looked_at += messages

    def take_looked_at(self) -> int:
        """How many new messages it has looked at since this was last asked: what its takes cost, beside what they gave."""
        looked_at, self._looked_at = self._looked_at, 0
        return looked_at

    def reconfigure(self, config: ConsumerConfig) -> None:
        """Take over a checked configuration; the position stays, waits count anew (RDL-15)."""
        self._configure(config, self.position.next)
        self.spend(self.redelivery.take_spent())
        self.touch()

    def start_over(self) -> None:
        """Begin again where it began, with nothing parked: only for a consumer that has delivered nothing."""
        self.pending.remove(0, self.stream.last_seq + 1)
        self._configure(self.config, self.began)
        self.touch()

    def rewind(self, sequence: int) -> None:
        """Deliver everything behind the sequence as if for the first time; all up to it is resolved."""
        self.resolved(self.pending.remove(0, self.stream.last_seq + 1))
        self.delivered = Pair(self.delivered.consumer, sequence)
        self.covered = Pair(self.delivered.consumer, sequence)
        self._configure(self.config, sequence + 1)
        self.touch()

    # -- reading

    @property
    def began(self) -> int:
        """The sequence that it began at; only for a consumer that has delivered nothing."""
        return self.covered.stream + 1

    @property
    def floor(self) -> Pair:
        """Everything up to here is resolved, whichever delivery was answered (SEQ-09, SEQ-13).

        It is the only floor: what is told is what policy ``all``, retention and a new owner go by (SEQ-12). A pending message
        counts with the consumer sequence of its first delivery (SEQ-11).
        """
        lowest = self.pending.lowest()
        if lowest is None:
            return Pair(self.delivered.consumer, max(self.delivered.stream, self.covered.stream))
        if self.terms.acks_all and self.covered.stream < lowest:
            return self.covered
        oldest = self.pending.oldest_attempt()
        return Pair(self.delivered.consumer if oldest is None else oldest - 1, lowest - 1)

    @property
    def num_ack_pending(self) -> int:
        """Delivered and unresolved (CON-29)."""
        return self.pending.delivered

    @property
    def num_redelivered(self) -> int:
        """Pending messages that were delivered more than once (CON-30)."""
        return 0 if self.terms.max_deliver == 1 else self.pending.redelivered

    @property
    def num_pending(self) -> int:
        """Messages that it wants and that have not been delivered to it (CON-28)."""
        return self.position.count() + self.pending.parked

    @property
    def slots(self) -> int:
        """How many more may be delivered for the first time before one is answered (RDL-11); a message that is spent takes no slot (RDL-13)."""
        return max(0, self.terms.max_ack_pending - self.pending.delivered) if self.terms.acks else UNLIMITED

    @property
    def holds(self) -> bool:
        """Whether it must be told of messages that go."""
        return bool(self.pending or self.given_up)

    def delivery_overhead(self) -> int:
        """What a message takes on its way beyond what it counts in the stream: its reply address."""
        stream = self.stream
        reply = f"$JS.ACK.{stream.name}.{self.name}.1.{stream.last_seq}.{self.delivered.consumer + 1}"
        return len(reply) + len(f".{stream.last_time}.{stream.messages}") - stream.measure.record

    def _subject_of(self, sequence: int) -> str:
        entry = self.stream.entry(sequence)
        assert entry is not None, f"message {sequence} is pending and gone"
        return entry.subject

    # -- what happens to it

    def take(self, batch: int, max_bytes: int, now: int) -> Taken:
        """Deliver at most ``batch`` messages and ``max_bytes`` (0: no limit)."""
        return delivery.take(self, batch, max_bytes, now)

    def peek(self) -> Entry | None:
        """The next message that would be delivered for the first time; None if none is found in one look."""
        return delivery.find(self)

    def acknowledge(self, run: AckRun, now: int) -> bool:
        """Resolve deliveries, or ask for them again; False if they were never made."""
        return acknowledgement.acknowledge(self, run, now)

    def expire(self, now: int) -> bool:
        """Find what is to be delivered again by ``now``; whether there is any. What is spent leaves."""
        self.spend(self.redelivery.look(now))
        return self.redelivery.next(1) is not None

    def vanished(self, start: int, end: int) -> list[PendingRun]:
        """Messages are gone from the stream: what of them was pending (RDL-14)."""
        runs = self.pending.remove(start, end)
        if runs:
            self._give_up(runs)
        if self.given_up and self.given_up.remove(start, end):
            self.touch()
        return runs

    def evicted(self, start: int, end: int) -> None:
        """Messages went one after the other, and nobody looked in between: as :meth:`vanished` of each."""
        for run in self.pending.remove(start, end):
            self._give_up([run])  # the floor of policy ``all`` follows each
        if self.given_up and self.given_up.remove(start, end):
            self.touch()

    def purged(self, next_sequence: int) -> None:
        """Everything that it wants below this sequence is gone, and passed over."""
        self.position.jump(next_sequence)
        self.delivered = Pair(self.delivered.consumer, max(self.delivered.stream, next_sequence - 1))
        self.touch()

    # -- steps of these

    def deliver(self, ranges: list[tuple[int, int]], basket: Basket, now: int) -> None:
        """Deliver messages for the first time: first sequence and count of consecutive ones, ascending, with gaps.

        Consumer sequences number the deliveries (SEQ-01) and have no gaps (SEQ-15).
        """
        number, runs = self.delivered.consumer + 1, []
        for start, count in ranges:
            runs.append(Run(start, count, number, 1))
            number += count
        basket.add(runs)
        self.delivered = Pair(number - 1, max(self.delivered.stream, start + count - 1))
        if self.terms.acks:
            waiting = [PendingRun(start, count, first, first, 1, now) for start, count, first, _ in runs]
            self.redelivery.expect(waiting)
            self.parked.delivered(waiting)

    def deliver_again(self, run: PendingRun, basket: Basket, now: int) -> None:
        """Deliver pending messages once more; only the consumer sequence moves (SEQ-08)."""
        again = self.redelivery.repeat(run, self.delivered.consumer + 1, now)
        self.delivered = Pair(self.delivered.consumer + run.length, self.delivered.stream)
        basket.add([Run(again.sequence, again.length, again.last, again.deliveries)])

    def handed_out(self, runs: list[Run]) -> None:
        """A take gave these."""
        self.touch()
        if not self.terms.acks:
            retention.resolved(self, ((run.sequence, run.sequence + run.length) for run in runs))

    def resolved(self, runs: list[PendingRun]) -> None:
        """Runs left what is pending."""
        for run in runs:
            self.parked.resolved(run)
        if runs:
            self.touch()

    def _give_up(self, runs: list[PendingRun]) -> None:
        """Runs left what is pending otherwise than by an ack; with policy ``all`` the floor follows if nothing is below."""
        self.resolved(runs)
        delivered = [run for run in runs if run.deliveries] if self.terms.acks_all else []
        lowest = self.pending.lowest()
        if delivered and (lowest is None or lowest >= delivered[-1].end):
            self.cover(delivered[-1].last + delivered[-1].length - 1, delivered[-1].end - 1)

    def cover(self, consumer: int, stream: int) -> None:
        """Policy ``all``: everything up to this delivery is resolved (SEQ-14)."""
        if not self.pending:
            consumer = self.delivered.consumer  # SEQ-10: what is told then is never taken back
        self.covered = Pair(max(self.covered.consumer, consumer), max(self.covered.stream, stream))

    def spend(self, runs: list[PendingRun]) -> None:
        """The last delivery went unanswered: no longer pending, and still in the stream (RDL-09, RET-11) unless a copy is made."""
        self._give_up(runs)
        for run in runs:
            if not self.terms.dead_letter:
                self.given_up.add(run.sequence, run.end)
            self.tell("max_deliver", run)
            self.bury(run, "max_deliver")
        if self.terms.dead_letter:
            retention.resolved(self, ((run.sequence, run.end) for run in runs))

    def tell(self, kind: Kind, run: PendingRun, **fields: Any) -> None:
        """An event for each message of the run."""
        self.stream.consumers.events += [
            Event(kind, self.name, run.sequence + at, run.last + at, run.deliveries, **fields)
            for at in range(run.length)
        ]

    def bury(self, run: PendingRun, reason: str) -> None:
        """A dead letter of each message, where the consumer wants them: they just left what is pending, so there is one (DLQ-07)."""
        if self.terms.dead_letter:
            self.tell("dead", run, reason=reason)

    # -- being kept

    def touch(self) -> None:
        """Something durable changed."""
        self.stream.consumers.touch(self)

    def hold(self) -> None:
        """Something is pending that a new owner would find again: no reason to write."""
        self.stream.consumers.hold(self)

    def seal(self) -> None:
        """Write what changed into the overlay: a new owner finds all of it again (SEQ-16)."""
        self.pending.seal()
        self.given_up.seal()
        write_record(self)
