"""Which records of a log are the messages that were leased: gaps, tombstones, jumps, several readers, a successor's records."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from railgun.client.consuming.parcels import Parcel
from railgun.client.facade.sync.message import Message
from railgun.client.transports.kafka.cursors import NEAR, Cursor, Track
from railgun.errors import RailgunError
from railgun.model import headers as h
from railgun.protocol.leases import Lease


class Stored:
    """A record of a log."""

    def __init__(self, offset: int, sequence: int, incarnation: int = 1, extra: Sequence[Any] = ()) -> None:
        self._offset = offset
        self.sequence = sequence
        self._headers: Any = None
        if sequence:
            own = [
                (h.LOG_SEQUENCE, b"%d" % sequence),
                (h.LOG_TIME, b"77"),
                (h.LOG_INCARNATION, b"%d" % incarnation),
            ]
            self._headers = [*extra, *own]

    def headers(self) -> Any:
        return self._headers

    def key(self) -> bytes:
        return b"s.a\x003"

    def value(self) -> bytes | None:
        return b"%d" % self.sequence if self.sequence else None

    def offset(self) -> int:
        return self._offset


class Owner:
    """Whoever the messages are for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seen: list[Message] = []
        self.error: RailgunError | None = None

    def moved(self, parcel: Parcel) -> None:
        self.seen += parcel.messages  # type: ignore[arg-type]
        parcel.messages = []
        self.error = parcel.error

    @property
    def sequences(self) -> list[int]:
        return [message.sequence for message in self.seen]


def parcel_of(
    runs: Sequence[tuple[int, int, int]],
    incarnation: int = 1,
    pending: int = 0,
    deliveries: Sequence[int] = (),
) -> tuple[Parcel, Owner]:
    """Runs are (sequence, count, offset)."""
    lease = Lease(
        "S", incarnation, "", 0, "log",
        sequences=[run[0] for run in runs], counts=[run[1] for run in runs], offsets=[run[2] for run in runs],
        consumer_sequences=[run[0] + 100 for run in runs], deliveries=list(deliveries) or [1] * len(runs), pending=pending,
    )  # fmt: skip
    owner = Owner()
    return Parcel(lease, None, Message, owner), owner


def reading(track: Track, log: Sequence[Stored], batch: int = 3) -> int:
    """Read the log as the feed does; how often it jumped."""
    jumps = 0
    while track.cursors:
        offset = track.jump()
        if offset is not None:
            jumps += 1
            track.assigned = True
            track.jumped(offset)
        records = [one for one in log if one.offset() >= track.position][: min(batch, track.wanted)]
        if records:
            track.take(records)
        else:
            track.end_reached(log[-1].offset() + 1 if log else 1)
            track.drop_done()
    return jumps


def test_a_run_is_read_and_a_lease_that_goes_on_there_needs_no_jump() -> None:
    log = [Stored(number + 10, number) for number in range(1, 31)]
    track = Track("log")
    parcel, owner = parcel_of([(1, 5, 11)], pending=7)
    track.add(Cursor(parcel))
    assert reading(track, log) == 1
    assert owner.sequences == [1, 2, 3, 4, 5]
    assert [m.consumer_sequence for m in owner.seen] == [101, 102, 103, 104, 105]
    assert [m.pending for m in owner.seen] == [11, 10, 9, 8, 7]
    assert {(m.subject, m.deliveries, m.time_ns, m.headers) for m in owner.seen} == {("s.a", 1, 77, ())}
    following, second = parcel_of([(6, 9, 11)])  # the offset may be lower than the message's own
    track.add(Cursor(following))
    assert reading(track, log) == 0
    assert second.sequences == list(range(6, 15))


def test_redeliveries_have_nothing_of_their_own_lease_behind_them() -> None:
    track = Track("log")
    parcel, owner = parcel_of([(1, 3, 0), (5, 3, 0)], pending=4, deliveries=[2, 1])
    track.add(Cursor(parcel))
    reading(track, [Stored(number, number) for number in (1, 3, 5, 7)])
    assert [(m.sequence, m.deliveries, m.pending) for m in owner.seen] == [
        (1, 2, 7),
        (3, 2, 7),
        (5, 1, 6),
        (7, 1, 4),
    ]


def test_tombstones_markers_and_removed_messages_are_passed() -> None:
    log = [Stored(1, 1), Stored(2, 0), Stored(4, 3), Stored(5, 0), Stored(6, 5), Stored(9, 9)]
    track = Track("log")
    parcel, owner = parcel_of([(1, 6, 0)])
    track.add(Cursor(parcel))
    reading(track, log)
    assert owner.sequences == [1, 3, 5]
    assert parcel.done


def test_what_is_missing_at_the_end_of_the_log_is_gone() -> None:
    track = Track("log")
    parcel, owner = parcel_of([(1, 4, 0)])
    track.add(Cursor(parcel))
    reading(track, [Stored(0, 1), Stored(1, 2)])
    assert (owner.sequences, parcel.done) == ([1, 2], True)


def test_records_of_a_successor_end_a_lease() -> None:
    track = Track("log")
    parcel, owner = parcel_of([(2, 3, 0)], incarnation=4)
    track.add(Cursor(parcel))
    reading(track, [Stored(0, 1, 3), Stored(1, 2, 3), Stored(2, 2, 4), Stored(3, 1, 5)])
    assert (owner.sequences, parcel.done) == ([2], True)


def test_a_redelivery_behind_the_reader_is_read_after_a_jump() -> None:
    log = [Stored(number, number) for number in range(1, 101)]
    track = Track("log")
    one, first = parcel_of([(50, 10, 50)])
    two, second = parcel_of([(5, 2, 5), (60, 2, 60)])
    three, third = parcel_of([(62, 3, 62)])
    track.add(Cursor(one))
    assert reading(track, log) == 1
    track.add(Cursor(two))
    track.add(Cursor(three))
    assert reading(track, log) == 1
    assert (first.sequences, second.sequences, third.sequences) == (
        list(range(50, 60)),
        [5, 6, 60, 61],
        [62, 63, 64],
    )


def test_far_ahead_is_jumped_to_and_near_is_read_to() -> None:
    log = [Stored(number, number) for number in range(1, 3_000)]
    track = Track("log")
    parcel, owner = parcel_of([(1, 1, 1), (NEAR, 1, NEAR), (2_500, 1, 2_500)])
    track.add(Cursor(parcel))
    assert reading(track, log, batch=1_000) == 2
    assert owner.sequences == [1, NEAR, 2_500]


def test_an_offset_that_the_log_has_not_got_is_looked_for_from_its_beginning() -> None:
    track = Track("log")
    parcel, owner = parcel_of([(3, 2, 5_000)])
    track.add(Cursor(parcel))
    assert track.jump() == 5_000
    track.assigned = True
    track.jumped(5_000)
    track.take([Stored(1, 1), Stored(2, 2)])  # what the broker gives instead
    assert track.jump() is None
    track.take([Stored(3, 3), Stored(4, 4)])
    assert (owner.sequences, parcel.done) == ([3, 4], True)
    other, empty = parcel_of([(3, 2, 5_000)])
    track.add(Cursor(other))
    track.jumped(5_000)
    track.end_reached(0)  # a stream of the same name, and nothing in it
    assert (empty.sequences, other.done) == ([], True)


def test_a_parcel_that_nobody_wants_is_dropped_and_a_failed_log_tells_everybody() -> None:
    track = Track("log")
    one, first = parcel_of([(1, 2, 1)])
    two, second = parcel_of([(1, 2, 1)])
    track.add(Cursor(one))
    track.add(Cursor(two))
    one.drop()
    track.jumped(0)
    track.take([Stored(1, 1)])
    assert len(track.cursors) == 1
    track.fail(RailgunError("no permission"))
    assert str(second.error) == "no permission"
    assert first.error is None
    assert second.sequences == [1]


def test_a_tombstone_and_a_gap_do_not_make_up_for_each_other() -> None:
    log = [Stored(number, number) for number in range(1, 101)]
    log[30:40] = [Stored(31, 0), *(Stored(number, number + 1) for number in range(32, 41))]
    log[40:] = [Stored(number + 1, number + 1) for number in range(41, 101)]
    track = Track("log")
    parcel, owner = parcel_of([(1, 101, 0)])
    track.add(Cursor(parcel))
    reading(track, log, batch=200)
    assert owner.sequences == [int(message.payload) for message in owner.seen]
    assert owner.sequences == [one.sequence for one in log if one.sequence]


def test_headers_and_time_stay_in_the_record_until_they_are_asked_for() -> None:
    extra = [("A", b"1"), ("A", None)]
    log = [Stored(number, number, extra=extra) for number in range(1, 101)]
    track = Track("log")
    parcel, owner = parcel_of([(1, 100, 0)])
    track.add(Cursor(parcel))
    reading(track, log, batch=100)
    asked = owner.seen[50]
    assert (asked.headers, asked.header("A"), asked.time_ns) == ([("A", b"1"), ("A", b"")], "1", 77)
    assert asked.headers is asked.headers


@given(st.data())
def test_every_reader_gets_exactly_what_is_there(data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([60, 400]))
    gaps = data.draw(st.sets(st.integers(1, size), max_size=20))
    steps = data.draw(st.lists(st.integers(1, 3), min_size=60, max_size=60)) * (size // 60 + 1)
    offsets = {number: sum(steps[:number]) for number in range(1, size + 1)}
    log = [
        Stored(offsets[number], 0 if number in gaps and number % 2 else number)
        for number in range(1, size + 1)
        if number not in gaps or number % 2
    ]
    track = Track("log")
    waiting = []
    for _ in range(data.draw(st.integers(1, 4))):
        runs = []
        for _ in range(data.draw(st.integers(1, 3))):
            start = data.draw(st.integers(1, size))
            below = data.draw(st.integers(0, 5))
            count = data.draw(st.integers(1, size + 1 - start))
            runs.append((start, count, max(offsets[start] - below, 0)))
        parcel, owner = parcel_of(runs)
        track.add(Cursor(parcel))
        waiting.append((runs, parcel, owner))
        if data.draw(st.booleans()):
            reading(track, log, batch=data.draw(st.integers(1, size)))
    reading(track, log, batch=data.draw(st.integers(1, size)))
    for runs, parcel, owner in waiting:
        wanted = [n for start, count, _ in runs for n in range(start, start + count) if n not in gaps]
        assert owner.sequences == wanted
        assert [int(message.payload) for message in owner.seen] == wanted
        assert parcel.done
