"""The state of a stream and its index of messages, against a model that keeps every message in one dictionary."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.model.stream_config import StreamConfig
from railgun.model.subjects import Filter, matches
from railgun.protocol import avro as wire
from railgun.protocol.columnar import columns
from railgun.protocol.topics import Names
from railgun.semantics.consumers.delivery.selection import runs_in
from railgun.semantics.messages import block_store, index, tail
from railgun.semantics.messages.blocks import NEVER, Block, Entry, build
from railgun.semantics.steps import finish
from railgun.semantics.streams.owned_stream import OwnedStream
from railgun.semantics.streams.removal import PurgeRequest, purge
from railgun.state.table import MemoryTable, Overlay

NAMES = Names()
SUBJECTS = ("s.a", "s.b", "s.c", "t")
FILTERS = (">", "s.*", "s.a", "t", "*", "nothing")


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    """Small blocks and a small cache, so that short histories cross every border."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail, "BLOCK_SIZE", 3)
        patch.setattr(block_store, "CACHED_BLOCKS", 2)
        patch.setattr(index, "FORGOTTEN_BLOCKS", 2)
        yield


# ------------------------------------------------------------ the model


@dataclass
class Model:
    """What is stored, and the sequence that the next message gets."""

    entries: dict[int, Entry] = field(default_factory=dict)
    first: int = 0
    last: int = 0

    def copy(self) -> Model:
        return Model(dict(self.entries), self.first, self.last)

    def add(self, subject: str, size: int, time: int, expiry: int) -> int:
        self.last += 1
        self.entries[self.last] = Entry(self.last, subject, size, time, expiry)
        self._settle()
        return self.last

    def remove(self, sequence: int) -> bool:
        if self.entries.pop(sequence, None) is None:
            return False
        self._settle()
        return True

    def purge_below(self, sequence: int) -> int:
        doomed = [one for one in self.entries if one < sequence]
        for one in doomed:
            del self.entries[one]
        self.last = max(self.last, sequence - 1)
        if doomed or sequence > self.last:
            self.first = min(self.entries, default=self.last + 1)
        return len(doomed)

    def purge(self, request: PurgeRequest) -> int:
        chosen = [e.sequence for e in self.entries.values() if Filter(request.filter).matches(e.subject)]
        chosen = sorted(one for one in chosen if not request.seq or one < request.seq)
        if request.keep:
            chosen = chosen[: -request.keep]
        if Filter(request.filter).everything and not request.keep:
            if request.seq == 1:
                return 0
            return self.purge_below(request.seq or self.last + 1)
        for one in chosen:
            self.remove(one)
        return len(chosen)

    def _settle(self) -> None:
        self.first = min(self.entries, default=self.last + 1)


@dataclass
class Log:
    """The log topic: offsets of committed messages. Markers and aborted records take offsets too."""

    end: int = 0
    offsets: dict[int, int] = field(default_factory=dict)


class Machine:
    """A stream over a table, with drains that are committed or aborted, beside its model."""

    def __init__(self, config: StreamConfig) -> None:
        self.table = MemoryTable()
        self.overlay = Overlay(self.table)
        self.log = Log()
        self.state = OwnedStream(self.overlay, "S", 1, config, 7, NAMES.log("S"))
        self.model = Model()
        self.time = 1_000
        self.sequences: list[int] = []  # stored by the drain that runs
        self.before = self.model.copy()
        self.config = self.config_before = config
        self.commit()

    def append(self, subject: str, size: int, expiry: int) -> None:
        self.time += 1
        sequence = self.state.store(subject, size, self.time, expiry=expiry)
        assert sequence == self.model.add(subject, size, self.time, expiry)
        self.sequences.append(sequence)

    def run(self, subjects: list[str], size: int) -> None:
        self.time += 1
        first = self.state.store_run(subjects, [size] * len(subjects), self.time)
        added = [self.model.add(subject, size, self.time, 0) for subject in subjects]
        assert added[0] == first
        self.sequences += added

    def remove(self, which: int) -> None:
        sequence = which % (self.model.last + 2)
        assert self.state.remove(sequence) == self.model.remove(sequence)

    def purge(self, request: PurgeRequest) -> None:
        assert finish(purge(self.state, request, {})) == self.model.purge(request)

    def reconfigure(self, per_subject: int) -> None:
        self.config = self.config.model_copy(update={"max_msgs_per_subject": per_subject})
        self.state.reconfigure(self.config, self.time)

    def commit(self) -> None:
        tombstones = len(self.state.log_keys.tombstones())
        bases = self.state.seal()
        self.table.apply(self.overlay.changes)
        self.overlay.clear()
        if self.sequences:
            first = self.log.end
            for place, sequence in enumerate(self.sequences):
                self.log.offsets[sequence] = first + place
            places = {base: first + bisect_left(self.sequences, base) for base in bases}
            self.state.committed(places, first + len(self.sequences))
        self.log.end += len(self.sequences) + tombstones + 1
        self._begin()

    def abort(self) -> None:
        self.state.seal()
        self.overlay.clear()
        self.log.end += len(self.sequences) + 1
        self.model, self.config = self.before, self.config_before
        self.state = OwnedStream.load(self.overlay, 1, NAMES)
        self._begin()

    def restart(self) -> None:
        self.commit()
        self.state = OwnedStream.load(self.overlay, 1, NAMES)

    def _begin(self) -> None:
        self.sequences = []
        self.before, self.config_before = self.model.copy(), self.config

    # -- what must be equal

    def check(self) -> None:
        state, model = self.state, self.model
        expected = sorted(model.entries.values())
        assert state.messages == len(expected)
        assert state.bytes == sum(entry.size for entry in expected)
        assert state.last_seq == model.last
        if expected or model.first:
            assert state.first_seq == model.first
        assert list(state.iterate()) == expected
        assert list(state.iterate(reverse=True)) == expected[::-1]
        holes = range(model.first, model.last + 1) if expected else ()
        assert state.deleted() == [one for one in holes if one not in model.entries]
        assert state.num_deleted == len(state.deleted())
        assert state.subjects() == Counter(entry.subject for entry in expected)
        for subject in SUBJECTS:
            assert state.last_of(subject) == max(
                (e.sequence for e in expected if e.subject == subject), default=0
            )
        for pattern in FILTERS:
            chosen = Filter(pattern)
            passing = [entry for entry in expected if chosen.matches(entry.subject)]
            assert list(state.iterate(subjects=chosen)) == passing
            assert list(state.iterate(subjects=chosen, reverse=True)) == passing[::-1]
            assert state.last_matching(chosen) == (passing[-1].sequence if passing else 0)
        for sequence in range(model.last + 2):
            assert state.entry(sequence) == model.entries.get(sequence)
            assert list(state.iterate(sequence or 1)) == [e for e in expected if e.sequence >= sequence]
        endings = [entry.ends for entry in expected if entry.ends]
        assert state.expiry.next() == min(endings, default=None)
        self._check_offsets()

    def _check_offsets(self) -> None:
        """Reading from the offset always finds the message: it is exact or below (never above)."""
        for sequence in self.model.entries:
            if sequence in self.log.offsets:
                assert self.state.index.offset(sequence, self.state.log_end) <= self.log.offsets[sequence]
        trim = self.state.index.offset(self.state.first_seq, self.state.log_end)
        needed = [self.log.offsets[one] for one in self.model.entries if one in self.log.offsets]
        assert trim <= min(needed, default=self.log.end)


# ------------------------------------------------------------ histories

subjects = st.sampled_from(SUBJECTS)
sizes = st.integers(1, 90)
expiries = st.sampled_from([0, 0, 0, NEVER, 5_000, 7_000, -6_000])
purges = st.builds(
    PurgeRequest,
    filter=st.sampled_from(["", ">", "s.*", "s.a", "t"]),
    seq=st.integers(0, 40),
    keep=st.just(0),
) | st.builds(PurgeRequest, filter=st.sampled_from(["", "s.*", "t"]), seq=st.just(0), keep=st.integers(0, 4))
steps = st.one_of(
    st.tuples(st.just("append"), subjects, sizes, expiries),
    st.tuples(st.just("run"), st.lists(subjects, min_size=1, max_size=8), sizes),
    st.tuples(st.just("remove"), st.integers(0, 200)),
    st.tuples(st.just("remove"), st.integers(0, 200)),
    st.tuples(st.just("purge"), purges),
    st.tuples(st.just("reconfigure"), st.sampled_from([-1, 3])),
    st.tuples(st.just("commit")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("abort")),
    st.tuples(st.just("restart")),
)


def play(machine: Machine, history: list[tuple[Any, ...]]) -> None:
    for name, *arguments in history:
        getattr(machine, name)(*arguments)
        machine.check()
    machine.restart()
    machine.check()


@settings(max_examples=100)
@given(st.lists(steps, max_size=30), st.sampled_from([-1, 5]), st.booleans())
def test_a_stream_equals_the_model_through_any_history(
    history: list[tuple[Any, ...]], per_subject: int, bodies: bool
) -> None:
    config = StreamConfig(name="S", subjects=[">"], max_msgs_per_subject=per_subject, allow_direct=bodies)
    play(Machine(config), history)


def test_a_block_that_left_the_cache_is_not_kept_twice() -> None:
    """What was removed through one copy of a block must not come back through another."""
    machine = Machine(StreamConfig(name="S", subjects=[">"]))
    machine.run(["t"] * 18, 10)
    machine.commit()
    assert machine.state.exists(5)  # the block of 4 is remembered as the last one looked at
    list(
        machine.state.iterate(reverse=True)
    )  # walks over all blocks: it leaves the cache, a new copy comes in
    assert machine.state.remove(5)
    machine.model.remove(5)
    machine.commit()
    assert not machine.state.exists(5)
    machine.check()


def test_blocks_are_forgotten_a_few_at_a_time() -> None:
    machine = Machine(StreamConfig(name="S", subjects=[">"]))
    machine.run(["t"] * 30, 10)
    machine.commit()
    machine.purge(PurgeRequest())
    kept = []
    for _ in range(6):
        machine.commit()
        kept.append(len(list(machine.table.scan(b"b"))))
        machine.check()
    assert kept == [8, 6, 4, 2, 0, 0]


@given(
    st.integers(1, 2**40),
    st.lists(
        st.tuples(st.sampled_from(SUBJECTS), st.integers(0, 2**32 - 1), expiries), min_size=1, max_size=40
    ),
    st.integers(0, 2**40),
)
def test_a_block_is_read_as_it_was_written(base: int, rows: list[tuple[str, int, int]], floor: int) -> None:
    names, weights, ends = ([row[column] for row in rows] for column in range(3))
    times = [2**60 + number for number in range(len(rows))]
    block = build(base, names, weights, times, ends if any(ends) else [], floor)
    read = Block.decode(base, block.encode())
    assert [read.entry(at) for at in range(read.count)] == [
        Entry(base + at, name, weight, times[at], end) for at, (name, weight, end) in enumerate(rows)
    ]
    assert (read.offset_floor, read.end) == (floor, base + len(rows))
    assert read.all_subjects() == names


def test_subjects_that_were_written_one_by_one_are_read_too() -> None:
    names = ["s.a", "", "s.b", "s.a"]
    block = build(1, names, [1] * 4, [1] * 4, [], 0)
    fields = wire.decode("message_block", block.encode())
    read = Block.decode(1, wire.encode("message_block", fields | {"subjects": ["s.a", "", "s.b"]}))
    assert read.all_subjects() == block.all_subjects() == names
    assert [read.number_of(name) for name in ("s.a", "", "s.b", "s", "a", "s.a.s")] == [
        0,
        1,
        2,
        None,
        None,
        None,
    ]


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=512),
    st.lists(st.sampled_from(("t.1", "t.300", "t.*", "u", ">")), min_size=1, max_size=2),
    st.sets(st.integers(0, 511)),
    st.integers(0, 520),
)
def test_a_filter_selects_what_exists_and_matches(
    numbers: list[int], patterns: list[str], removed: set[int], start: int
) -> None:
    names = [f"t.{number}" if number % 5 else "u" for number in numbers]
    block = build(1, names, [1] * len(names), [1] * len(names), [], 0)
    for at in removed:
        if at < len(names):
            block.mark_removed(at)
    wanted = Filter(patterns)
    runs = runs_in(block, start, wanted)
    assert [at for first, count in runs for at in range(first, first + count)] == [
        at
        for at in range(start, len(names))
        if not block.is_removed(at) and any(matches(pattern, names[at]) for pattern in patterns)
    ]
    assert all(first + count < second for (first, count), (second, _) in pairwise(runs)), "runs are whole"


@given(st.sets(st.integers(0, 20)))
def test_a_bitmap_says_what_was_removed(removed: set[int]) -> None:
    block = build(1, ["t"] * 21, [1] * 21, [1] * 21, [], 0)
    for at in removed:
        block.mark_removed(at)
    assert {at for at in range(21) if block.is_removed(at)} == removed


def test_columns_are_little_endian_whatever_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert columns.pack_column("H", [1, 258]) == b"\x01\x00\x02\x01"
    assert list(columns.unpack_column("H", b"\x01\x00\x02\x01")) == [1, 258]
    monkeypatch.setattr(columns.sys, "byteorder", "big")
    assert columns.pack_column("H", [1, 258]) == b"\x00\x01\x01\x02"  # swapped: this machine only pretends
