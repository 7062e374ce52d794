"""Consumers against a model that keeps one dictionary a consumer: any history of publishes, takes, answers, waits, removals,
changed configurations and changes of owner gives the same deliveries, floors, counts, events and stored messages."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from railgun.model.consumer_config import ConsumerConfig
from railgun.model.stream_config import StreamConfig
from railgun.model.subjects import Filter
from railgun.protocol.commands import AckRun
from railgun.protocol.topics import Names
from railgun.semantics.consumers.configuration.consumer_configuration import (
    check_consumer_update,
    normalise_consumer,
)
from railgun.semantics.consumers.consumer_state import ConsumerState
from railgun.semantics.consumers.pending import parked
from railgun.semantics.consumers.pending import pending_runs as pending
from railgun.semantics.messages import block_store, tail
from railgun.semantics.steps import finish
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.removal import PurgeRequest, delete_message, purge
from railgun.state.table import MemoryTable, Overlay

SECOND = 1_000_000_000
SUBJECTS = ("s.a", "s.b", "s.c", "t")
UNLIMITED = 1 << 62
PARKED = 3


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    """Small blocks everywhere, so that short histories cross every border."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail, "BLOCK_SIZE", 3)
        patch.setattr(block_store, "CACHED_BLOCKS", 2)
        patch.setattr(pending, "_SHIFT", 2)
        patch.setattr(parked, "PARKED_AT_MOST", PARKED)
        yield


# ------------------------------------------------------------ the model


@dataclass
class Delivery:
    """An unanswered message. Parked: ``count`` 0."""

    first: int
    last: int
    count: int
    time: int
    due: int | None  # None: the ack wait decides


@dataclass
class Consumer:
    config: ConsumerConfig
    next: int
    start: int
    delivered: tuple[int, int] = (0, 0)
    covered: tuple[int, int] = (0, 0)  # by an ack of policy all
    pending: dict[int, Delivery] = field(default_factory=dict)
    ready: list[int] = field(default_factory=list)  # to be delivered again, in order
    given_up: set[int] = field(default_factory=set)  # out of deliveries and never answered
    buried: list[int] = field(default_factory=list)  # out of deliveries and copied, just now
    order_known: bool = True
    events: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def policy(self) -> str:
        return self.config.ack_policy

    def limit(self, name: str) -> int:
        value = getattr(self.config, name)
        return value if value is not None and value > 0 else UNLIMITED

    def wants(self, subject: str) -> bool:
        return Filter(self.config.filters).matches(subject)

    def unanswered(self) -> dict[int, Delivery]:
        return {sequence: one for sequence, one in self.pending.items() if one.count}

    def parked(self) -> list[int]:
        return sorted(sequence for sequence, one in self.pending.items() if not one.count)

    def floor(self) -> tuple[int, int]:
        if not self.pending:
            return self.delivered[0], max(self.delivered[1], self.covered[1], self.start - 1)
        lowest = min(self.pending)
        if self.policy == "all" and max(self.covered[1], self.start - 1) < lowest:
            return self.covered[0], max(self.covered[1], self.start - 1)
        first = [one.first for one in self.unanswered().values()]
        return (min(first) - 1 if first else self.delivered[0]), lowest - 1

    def due(self, sequence: int) -> int:
        one = self.pending[sequence]
        if one.due is not None:
            return one.due
        waits = self.config.backoff or [self.config.ack_wait]
        wait = waits[min(one.count, len(waits)) - 1]
        assert wait is not None
        return one.time + int(wait.total_seconds() * SECOND)

    def drop(self, sequence: int) -> None:
        """It leaves otherwise than by an ack."""
        one = self.pending.pop(sequence)
        if sequence in self.ready:
            self.ready.remove(sequence)
        if self.policy == "all" and one.count:
            self.dropped = max(getattr(self, "dropped", (0, 0)), (sequence, one.last))

    def settle(self) -> None:
        """Policy all: the floor follows what was dropped, if nothing below is pending."""
        sequence, last = getattr(self, "dropped", (0, 0))
        self.dropped = (0, 0)
        if sequence and all(other > sequence for other in self.pending):
            number = last if self.pending else self.delivered[0]
            self.covered = (max(self.covered[0], number), max(self.covered[1], sequence))

    def spend(self, sequence: int) -> None:
        one = self.pending[sequence]
        self.events.append(("max_deliver", sequence, one.last, one.count))
        if self.config.dead_letter:
            self.events.append(("dead", sequence, one.last, one.count))
            self.buried.append(sequence)
        else:
            self.given_up.add(sequence)
        self.drop(sequence)

    def look(self, now: int) -> None:
        over = [s for s in sorted(self.unanswered()) if s not in self.ready and self.due(s) <= now]
        for sequence in over:
            if self.pending[sequence].count >= self.limit("max_deliver"):
                self.spend(sequence)
            else:
                self.ready.append(sequence)
                self.pending[sequence].due = 0
        self.settle()


@dataclass
class Model:
    retention: str
    messages: dict[int, tuple[str, int]] = field(default_factory=dict)  # sequence: subject, size
    last: int = 0
    consumers: dict[str, Consumer] = field(default_factory=dict)

    def publish(self, subject: str, size: int) -> bool:
        self.last += 1
        if self.retention == "interest" and not any(c.wants(subject) for c in self.consumers.values()):
            return False
        self.messages[self.last] = subject, size
        return True

    def first(self) -> int:
        return min(self.messages, default=self.last + 1)

    def remove(self, sequence: int, *, deleted: bool = False) -> None:
        del self.messages[sequence]
        for consumer in self.consumers.values():
            one = consumer.pending.get(sequence)
            if one is not None:
                if deleted and one.count:
                    consumer.events.append(("terminated", sequence, one.last, one.count))
                consumer.drop(sequence)
                consumer.settle()

    def needed(self, consumer: Consumer, sequence: int) -> bool:
        subject = self.messages[sequence][0]
        waits = sequence in consumer.pending or sequence in consumer.given_up
        return consumer.wants(subject) and (sequence >= consumer.next or waits)

    def done(self, consumer: Consumer, sequence: int) -> None:
        """The consumer has resolved the message."""
        if sequence not in self.messages or self.retention == "limits":
            return
        others = [one for one in self.consumers.values() if one is not consumer]
        if self.retention == "workqueue" or not any(self.needed(one, sequence) for one in others):
            self.remove(sequence)

    def done_with_copies(self) -> None:
        """A dead letter resolves the message as an ack does (RET-11)."""
        for consumer in self.consumers.values():
            for sequence in consumer.buried:
                self.done(consumer, sequence)
            consumer.buried.clear()

    # -- delivery

    def take(
        self, consumer: Consumer, batch: int, max_bytes: int, overhead: int, now: int, seen: list[int]
    ) -> tuple[list[tuple[int, int, int]], int, str]:
        """Sequence, consumer sequence and count of each delivery; bytes; why no more. ``seen``: the real order."""
        consumer.look(now)
        if not consumer.order_known:
            known = [sequence for sequence in seen if sequence in consumer.ready]
            consumer.ready = known + [sequence for sequence in consumer.ready if sequence not in known]
        given: list[tuple[int, int, int]] = []
        size = 0
        while True:
            if len(given) == batch:
                return self.handed(consumer, given), size, "batch"
            candidate = self.candidate(consumer)
            if isinstance(candidate, str):
                return self.handed(consumer, given), size, candidate
            bytes_of_it = self.messages[candidate][1] + overhead
            if max_bytes and size + bytes_of_it > max_bytes:
                return self.handed(consumer, given), size, "bytes"
            size += bytes_of_it
            given.append(self.deliver(consumer, candidate, now))

    def candidate(self, consumer: Consumer) -> int | str:
        """What is delivered next, or why nothing is."""
        if consumer.ready:
            return consumer.ready[0]
        wall = self.wall(consumer)
        for sequence in consumer.parked():
            if self.turn(consumer, sequence):
                return "wall" if wall else sequence
        for sequence in sorted(self.messages):
            if sequence < consumer.next or not consumer.wants(self.messages[sequence][0]):
                continue
            if self.turn(consumer, sequence):
                return "wall" if wall else sequence
            if len(consumer.parked()) >= PARKED:
                return "wall"
            consumer.pending[sequence] = Delivery(0, 0, 0, 0, 0)
            consumer.next = sequence + 1
        return "empty"

    def wall(self, consumer: Consumer) -> bool:
        waiting = len(consumer.unanswered())
        return consumer.policy != "none" and waiting >= consumer.limit("max_ack_pending")

    def turn(self, consumer: Consumer, sequence: int) -> bool:
        """Whether its subject has room, and no older message of it waits."""
        subject = self.messages[sequence][0]
        of_subject = [s for s in consumer.pending if self.messages[s][0] == subject]
        if consumer.limit("max_ack_pending_per_subject") == UNLIMITED:
            return True
        older = [s for s in of_subject if not consumer.pending[s].count and s < sequence]
        busy = [s for s in of_subject if consumer.pending[s].count]
        return not older and len(busy) < consumer.limit("max_ack_pending_per_subject")

    def deliver(self, consumer: Consumer, sequence: int, now: int) -> tuple[int, int, int]:
        number = consumer.delivered[0] + 1
        one = consumer.pending.pop(sequence, None)
        again = one is not None and one.count > 0
        consumer.delivered = number, max(consumer.delivered[1], 0 if again else sequence)
        if again:
            assert one is not None
            consumer.ready.remove(sequence)
            consumer.pending[sequence] = Delivery(one.first, number, one.count + 1, now, None)
            return sequence, number, one.count + 1
        consumer.next = max(consumer.next, sequence + 1)
        if consumer.policy != "none":
            consumer.pending[sequence] = Delivery(number, number, 1, now, None)
        return sequence, number, 1

    def handed(self, consumer: Consumer, given: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        if consumer.policy == "none":
            for sequence, _, _ in given:
                self.done(consumer, sequence)
        return given

    # -- answers

    def acknowledge(self, consumer: Consumer, ack: AckRun, now: int) -> bool:
        named = range(ack.sequence, ack.sequence + ack.length)
        if named[-1] > consumer.delivered[1]:
            return False
        if consumer.policy == "none":
            return True
        if ack.kind in ("ack", "term"):
            self.resolve(consumer, ack, named)
            return True
        for sequence in named:
            one = consumer.pending.get(sequence)
            if one is None or not one.count:
                continue
            newest = one.last == ack.consumer_sequence + sequence - ack.sequence
            if ack.deliveries and not newest and ack.kind in ("nak", "progress"):
                continue
            if ack.kind == "nak":
                if ack.deliveries and one.due:
                    continue  # said before
                consumer.events.append(("nak", sequence, one.last, one.count))
                if one.count >= consumer.limit("max_deliver"):
                    consumer.spend(sequence)
                elif ack.delay:
                    one.due = now + ack.delay
                    if sequence in consumer.ready:
                        consumer.ready.remove(sequence)
                        consumer.order_known = False  # it may get its old place again
                elif sequence not in consumer.ready:
                    one.due = 0
                    consumer.ready.append(sequence)
            elif one.due is None and ack.kind == "progress":
                one.time = now
            elif one.due is None and newest:
                if one.count == 1:
                    consumer.pending[sequence] = Delivery(0, 0, 0, 0, 0)
                else:
                    one.count, one.due = one.count - 1, 0
                    consumer.ready.append(sequence)
        consumer.settle()
        return True

    def resolve(self, consumer: Consumer, ack: AckRun, named: range) -> None:
        reach = range(0, named[-1] + 1) if consumer.policy == "all" else named
        consumer.given_up.difference_update(reach)
        resolved = [sequence for sequence in sorted(consumer.unanswered()) if sequence in reach]
        for sequence in resolved:
            one = consumer.pending.pop(sequence)
            if sequence in consumer.ready:
                consumer.ready.remove(sequence)
            if ack.kind == "term" and sequence in named:
                consumer.events.append(("terminated", sequence, one.last, one.count))
                if consumer.config.dead_letter:
                    consumer.events.append(("dead", sequence, one.last, one.count))
        if resolved and consumer.policy == "all":
            named_last = min(ack.consumer_sequence + ack.length - 1, consumer.delivered[0])
            number = named_last if consumer.pending else consumer.delivered[0]
            covered = consumer.covered
            consumer.covered = max(covered[0], number), max(covered[1], named[-1])
        for sequence in resolved:
            self.done(consumer, sequence)
        if consumer.policy == "explicit":
            for sequence in named:  # a late answer, after the last delivery was over
                known = sequence in self.messages and consumer.wants(self.messages[sequence][0])
                if known and sequence < consumer.next and sequence not in consumer.pending:
                    self.done(consumer, sequence)

    # -- removals

    def purge(self, request: PurgeRequest) -> None:
        chosen = Filter(request.filter)
        named = [s for s in sorted(self.messages) if chosen.matches(self.messages[s][0])]
        doomed = [s for s in named if not request.seq or s < request.seq]
        if request.keep:
            doomed = doomed[: -request.keep]
        whole = chosen.everything and not request.keep and not 0 < request.seq <= self.last
        if not doomed and not whole:
            return
        for sequence in doomed:
            self.remove(sequence)
        left = [s for s in named if s not in doomed]
        after = left[0] if left else max(self.last + 1, request.seq if chosen.everything else 0)
        self.last = max(self.last, after - 1)
        for consumer in self.consumers.values():
            within = chosen.everything or all(
                chosen.matches(p.replace("*", "x")) for p in consumer.config.filters
            )
            wider = Filter(consumer.config.filters).matches(request.filter.replace("*", "x"))
            if within and (chosen.everything or consumer.config.filters):
                place = after
            elif wider:  # it goes on with the first message of the stream
                place = min(self.messages, default=self.last + 1)
            else:
                continue
            consumer.next = max(consumer.next, place)
            consumer.delivered = consumer.delivered[0], max(consumer.delivered[1], place - 1)


# ------------------------------------------------------------ both


class Both:
    """A stream and its model, changed together and compared after every step."""

    def __init__(self, retention: str, configs: list[dict[str, Any]], **fields: Any) -> None:
        self.table = MemoryTable()
        self.overlay = Overlay(self.table)
        config = StreamConfig(name="S", subjects=[">"], retention=retention, **fields)  # type: ignore[arg-type]
        self.state = OwnedStream(self.overlay, "S", 1, config, 0, "log")
        self.model = Model(retention)
        self.now = SECOND
        for number, wanted in enumerate(configs):
            self.create(f"C{number}", wanted)
        self.commit()

    def create(self, name: str, fields: dict[str, Any]) -> None:
        others = [one.config for one in self.state.consumers]
        config = ConsumerConfig(name=name, durable_name=name, **fields)
        stored = normalise_consumer(config, self.state.config, others, consumers=len(others))
        if isinstance(stored, ConsumerConfig):
            consumer = self.state.consumers.create(stored, self.now)
            self.model.consumers[name] = Consumer(stored, consumer.position.next, consumer.floor.stream + 1)

    def commit(self) -> None:
        """End the drain: it is durable, and so is the model of it."""
        self.check()
        self.state.seal()
        self.table.apply(dict(self.overlay.changes))
        self.overlay.clear()
        self.saved = copy.deepcopy(self.model)

    def reload(self) -> None:
        """A new owner. It looks again for what is over, and may deliver that in another order."""
        self.state = OwnedStream.load(self.overlay, 1, Names())
        for real in self.state.consumers:
            consumer = self.model.consumers[real.name]
            for sequence in consumer.parked():
                if (
                    sequence >= real.position.next
                ):  # put aside by a take that gave nothing: it is looked at again
                    del consumer.pending[sequence]
                    consumer.next = min(consumer.next, sequence)
            real.expire(self.now)
        for consumer in self.model.consumers.values():
            consumer.look(self.now)
            consumer.order_known = False

    def check(self) -> None:
        self.model.done_with_copies()
        events = [
            (e.consumer, e.kind, e.stream_seq, e.consumer_seq, e.deliveries)
            for e in self.state.consumers.events
            if e.kind not in ("created", "deleted")
        ]
        self.state.consumers.events.clear()
        expected = [(name, *event) for name, one in self.model.consumers.items() for event in one.events]
        assert sorted(events) == sorted(expected)
        assert [entry.sequence for entry in self.state.iterate()] == sorted(self.model.messages)
        assert self.state.bytes == sum(size for _, size in self.model.messages.values())
        assert self.state.last_seq == self.model.last
        if self.model.messages:
            assert self.state.first_seq == self.model.first()
        for name, consumer in self.model.consumers.items():
            consumer.events.clear()
            self.compare(name, consumer)

    def compare(self, name: str, consumer: Consumer) -> None:
        real = self.state.consumers.get(name)
        assert real is not None
        assert real.delivered == consumer.delivered
        assert real.floor == consumer.floor()
        assert real.num_ack_pending == len(consumer.unanswered())
        more_than_once = sum(one.count > 1 for one in consumer.pending.values())
        assert real.num_redelivered == (0 if consumer.config.max_deliver == 1 else more_than_once)
        ahead = [s for s in self.model.messages if s >= consumer.next]
        wanted = [s for s in ahead if consumer.wants(self.model.messages[s][0])]
        if self.now % 2:  # not at every step: the count must also be kept up without being asked
            assert real.num_pending == len(wanted) + len(consumer.parked())

    def chosen(self, who: int) -> tuple[ConsumerState, Consumer]:
        """One of the consumers, a new one if there is none."""
        if not self.model.consumers:
            self.create(f"C{self.now}", {"ack_policy": "explicit", "deliver_policy": "all"})
        name = sorted(self.model.consumers)[who % len(self.model.consumers)]
        real = self.state.consumers.get(name)
        assert real is not None
        return real, self.model.consumers[name]

    # -- steps

    def step(self, kind: str, *args: Any) -> None:
        self.now += 1
        getattr(self, f"do_{kind}")(*args)
        self.check()

    def do_publish(self, subjects: list[str], size: int) -> None:
        for subject in subjects:
            stored = self.model.publish(subject, size)
            assert self.state.is_wanted(subject) == stored
            if stored:
                self.state.store(subject, size, self.now)
            else:
                self.state.skip(self.now)

    def do_take(self, who: int, batch: int, max_bytes: int) -> None:
        real, consumer = self.chosen(who)
        real.expire(self.now)  # what leaves then no longer counts in the reply address
        overhead = real.delivery_overhead()
        if batch % 2:
            consumer.look(self.now)
            if not consumer.ready and not self.model.wall(consumer):
                following, found = self.model.candidate(consumer), real.peek()
                assert (found and found.sequence) == (following if isinstance(following, int) else None)
        taken = real.take(batch, max_bytes, self.now)
        given = [
            (run.sequence + at, run.consumer_sequence + at, run.deliveries)
            for run in taken.runs
            for at in range(run.length)
        ]
        seen = [one[0] for one in given]
        assert (given, taken.size, taken.stopped) == self.model.take(
            consumer, batch, max_bytes, overhead, self.now, seen
        )
        assert taken.count == len(given)

    def do_answer(self, who: int, kind: str, place: int, length: int, delay: int) -> None:
        real, consumer = self.chosen(who)
        known = sorted(consumer.pending)
        first = known[place % len(known)] if known and place < 50 else place % (self.model.last + 2) + 1
        one = consumer.pending.get(first)
        number = one.last - (place % 5 == 0) if one is not None else place
        deliveries = (one.count if one else 1) if place % 3 else 0  # 0: whichever delivery is the newest
        ack = AckRun(kind, first, length, number, deliveries, delay, "why")
        assert real.acknowledge(ack, self.now) == self.model.acknowledge(consumer, ack, self.now)

    def do_wait(self, seconds: int, expire: bool) -> None:
        self.now += seconds * SECOND
        due = self.state.consumers.next_deadline()
        waiting = [
            consumer.due(sequence)
            for consumer in self.model.consumers.values()
            for sequence in consumer.unanswered()
            if sequence not in consumer.ready
        ]
        assert due == min(waiting, default=None)
        if expire:
            found = {one.name for one in self.state.consumers.expire(self.now)}
            for name, consumer in self.model.consumers.items():
                before = list(consumer.ready)
                consumer.look(self.now)
                assert consumer.ready == before or name in found

    def do_delete(self, sequence: int) -> None:
        if delete_message(self.state, sequence) is None:
            self.model.remove(sequence, deleted=True)

    def do_purge(self, request: PurgeRequest) -> None:
        finish(purge(self.state, request, {}))
        self.model.purge(request)

    def do_update(self, who: int, fields: dict[str, Any]) -> None:
        real, consumer = self.chosen(who)
        others = [one.config for one in self.state.consumers if one is not real]
        asked = ConsumerConfig.model_validate(dict(consumer.config) | {"backoff": None} | fields)
        stored = check_consumer_update(consumer.config, asked, self.state.config, others, listened=False)
        if not isinstance(stored, ConsumerConfig):
            return
        before = Filter(consumer.config.filters)
        passed = [self.model.messages.get(s, ("",))[0] for s in range(consumer.next, real.position.next)]
        assert not any(subject and consumer.wants(subject) for subject in passed)
        consumer.next = real.position.next  # the position stays, and that is behind what was passed over
        self.state.consumers.update(real, stored, self.now)
        consumer.config = stored
        if Filter(stored.filters) != before and not consumer.delivered[0]:  # CON-14
            consumer.next, consumer.pending = consumer.start, {}
        for sequence in list(consumer.ready):
            if consumer.pending[sequence].count >= consumer.limit("max_deliver"):
                consumer.spend(sequence)
        consumer.settle()
        consumer.order_known = False
        consumer.look(self.now)
        if self.model.retention == "interest" and Filter(stored.filters) != before:
            for sequence, (subject, _) in sorted(self.model.messages.items()):
                if before.matches(subject):
                    self.drop_unneeded(sequence)

    def do_forget(self, who: int) -> None:
        real, consumer = self.chosen(who)
        del self.model.consumers[real.name]
        self.state.consumers.delete(real)
        assert not any(event[0] != "nak" for event in consumer.events)
        if self.model.retention == "interest":
            needed = [one for one in self.model.messages if self.model.needed(consumer, one)]
            start = min([consumer.floor()[1], *needed])
            for sequence in sorted(self.model.messages):
                if not self.model.consumers or sequence >= start:
                    self.drop_unneeded(sequence)

    def drop_unneeded(self, sequence: int) -> None:
        if not any(self.model.needed(one, sequence) for one in self.model.consumers.values()):
            self.model.remove(sequence)

    def do_commit(self) -> None:
        self.commit()

    def do_takeover(self) -> None:
        self.commit()
        self.reload()

    def do_abort(self) -> None:
        """The drain never happened."""
        self.overlay.clear()
        self.model = copy.deepcopy(self.saved)
        self.reload()


# ------------------------------------------------------------ histories

filters = st.sampled_from([None, None, ["s.*"], ["s.a"], ["s.b", "t"], ["nothing"]])
limits = st.fixed_dictionaries(
    {},
    optional={
        "max_deliver": st.sampled_from([-1, 1, 2, 3]),
        "ack_wait": st.sampled_from([2, 30]),
        "backoff": st.sampled_from([[1], [1, 5]]),
        "max_ack_pending": st.sampled_from([-1, 1, 2, 5]),
        "max_ack_pending_per_subject": st.sampled_from([1, 2]),
        "dead_letter": st.just("DEAD"),
        "filter_subjects": filters,
    },
)
consumers = st.tuples(
    limits,
    st.sampled_from(
        [
            {"ack_policy": "explicit"},
            {"ack_policy": "explicit"},
            {"ack_policy": "all"},
            {"ack_policy": "none"},
        ]
    ),
).map(lambda pair: pair[0] | pair[1])
places = st.integers(0, 60)
publishes = st.tuples(
    st.just("publish"),
    st.sampled_from([SUBJECTS, SUBJECTS, ("s.a",)]).flatmap(
        lambda subjects: st.lists(st.sampled_from(subjects), min_size=1, max_size=12)
    ),
    st.integers(40, 60),
)
strategies = {
    "publish": publishes,
    "take": st.tuples(
        st.just("take"), places, st.sampled_from([1, 2, 3, 7, 100]), st.sampled_from([0, 0, 0, 90, 400])
    ),
    "answer": st.tuples(
        st.just("answer"),
        places,
        st.sampled_from(["ack", "ack", "ack", "nak", "nak", "progress", "term", "back", "back"]),
        places,
        st.sampled_from([1, 1, 2, 3, 6, 20]),
        st.sampled_from([0, 0, SECOND, 5 * SECOND]),
    ),
    "wait": st.tuples(st.just("wait"), st.sampled_from([1, 2, 3, 31]), st.booleans()),
    "update": st.tuples(st.just("update"), places, limits),
    "drain": st.tuples(st.sampled_from(["commit", "takeover", "abort"])),
    "delete": st.tuples(st.just("delete"), st.integers(1, 30)),
    "forget": st.tuples(st.just("forget"), places),
    "purge": st.builds(
        lambda chosen, limit: ("purge", PurgeRequest(chosen, *limit)),
        st.sampled_from(["", "", "s.a", "s.*"]),
        st.sampled_from([(0, 0), (3, 0), (9, 0), (40, 0), (0, 1), (0, 3)]),
    ),
}
often = ["publish"] * 5 + ["take"] * 10 + ["answer"] * 10 + ["wait"] * 5
steps = st.sampled_from([*often, "update", "drain", "drain", "delete", "forget", "purge"]).flatmap(
    strategies.get
)


@given(
    st.sampled_from(["limits", "limits", "workqueue", "interest"]),
    st.lists(consumers, min_size=1, max_size=3),
    st.sampled_from([{}, {}, {"max_msgs_per_subject": 2}, {"allow_direct": True}]),
    publishes,
    st.lists(steps, min_size=10, max_size=50),
)
@example(  # who counted last is deleted, all is purged, and another consumer comes to have its filter
    "limits",
    [
        {"ack_policy": "explicit", "filter_subjects": ["s.b", "t"]},
        {"ack_policy": "explicit", "filter_subjects": ["s.a"]},
    ],
    {},
    ("publish", ["s.a"], 40),
    [
        ("publish", ["s.a"], 40),
        ("publish", ["s.a"], 40),
        ("forget", 17),
        ("take", 0, 1, 0),
        ("take", 0, 1, 0),
        *[("publish", ["s.a"], 40)] * 4,
        ("publish", ["s.a", "s.a"], 40),
        ("purge", PurgeRequest("", 0, 0)),
        ("publish", ["s.a"], 40),
        ("update", 0, {"max_deliver": -1, "filter_subjects": ["s.a"]}),
    ],
)
@settings(max_examples=300)
def test_every_history_is_that_of_the_model(
    retention: str,
    configs: list[dict[str, Any]],
    fields: dict[str, Any],
    first: tuple[Any, ...],
    history: list[tuple[Any, ...]],
) -> None:
    both = Both(retention, configs, **fields)
    for step in (first, *history, ("takeover",), ("wait", 100, True)):
        both.step(*step)
    for who in range(len(both.model.consumers)):
        both.step("take", who, 1_000, 0)
