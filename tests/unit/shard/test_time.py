"""Time at a worker and its shards: it always goes on and never goes back, whatever the clocks around it do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun.cli.doctor.clock_checks import check_clocks
from railgun.client.operations.shards import Pong
from railgun.protocol import avro as wire
from railgun.protocol.commands import ConsumerCommand, Pull
from railgun.shard.clock import SteadyClock
from railgun.shard.core import ShardCore
from railgun.shard.drain import Input
from railgun.worker.skew import SkewWatch
from tests.support.shards import MILLI, NAMES, Shards

SECOND = 1_000 * MILLI
HOUR = 3_600 * SECOND


class Clocks:
    """A wall clock that can be set, beside a monotonic one that cannot."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1_700_000_000 * SECOND, 5 * SECOND

    def pass_(self, nanos: int) -> None:
        self.wall += nanos
        self.monotonic += nanos

    def steady(self) -> SteadyClock:
        return SteadyClock(lambda: self.wall, lambda: self.monotonic)


@given(
    st.lists(
        st.tuples(st.integers(-3 * HOUR, 3 * HOUR) | st.just(0), st.integers(0, 20 * SECOND)), max_size=20
    )
)
def test_a_worker_s_time_goes_on_while_its_clock_is_set(steps: list[tuple[int, int]]) -> None:
    clocks = Clocks()
    now = clocks.steady()
    last = now()
    for jump, passed in steps:
        clocks.wall += jump
        clocks.pass_(passed)
        after = now()
        assert after >= last + passed - passed // 50, "it has not stood still"
        assert after >= clocks.wall
        last = after


def test_a_time_that_is_ahead_comes_back_slowly() -> None:
    clocks = Clocks()
    now = clocks.steady()
    clocks.wall += 10 * SECOND
    now()
    clocks.wall -= 10 * SECOND
    for _ in range(600):
        clocks.pass_(SECOND)
        now()
    assert now() == clocks.wall


def with_messages(count: int, **consumer: object) -> Shards:
    """A stream with so many messages and a consumer, all of it just done."""
    shards = Shards(partitions=1)
    shards.request("STREAM.CREATE.A", {"name": "A", "subjects": ["A.*"], "allow_msg_ttl": True})
    shards.settle()
    config = {"durable_name": "C", "ack_policy": "explicit", **consumer}
    shards.request("CONSUMER.CREATE.A.C", {"stream_name": "A", "config": config}, stream="A")
    if count:
        shards.publish("A", ["A.x"] * count)
    shards.settle()
    return shards


def leased(shards: Shards) -> list[int]:
    """How many messages each answer to a pull brought; what was told before is forgotten."""
    return [sum(lease.counts) for lease in shards.leases.pop("client", [])]


def stored(shards: Shards, stream: str) -> int:
    asked = shards.request(f"STREAM.INFO.{stream}")
    shards.settle()
    messages = shards.answer(asked)["state"]["messages"]
    assert isinstance(messages, int)
    return messages


def statuses(shards: Shards) -> list[int]:
    return [lease.status for lease in shards.leases.pop("client", [])]


@pytest.mark.rule("PUL-04")
@pytest.mark.parametrize("ahead", [-2_500 * MILLI, 2_500 * MILLI, -HOUR, HOUR])
def test_a_pull_lasts_as_long_as_it_says_whatever_the_broker_s_clock_shows(ahead: int) -> None:
    shards = with_messages(100)
    shards.broker_ahead = ahead
    shards.command("A", "C", pull=Pull(1, 100, expires=2 * SECOND))
    shards.settle()
    assert leased(shards) == [100]
    shards.command("A", "C", pull=Pull(2, 1, expires=2 * SECOND))
    shards.settle()
    shards.now += 1_900 * MILLI
    shards.settle()
    assert "client" not in shards.leases, "its time is not over"
    shards.now += 200 * MILLI
    shards.settle()
    assert statuses(shards) == [408]


@pytest.mark.rule("PUL-04", "PUL-14")
def test_a_pull_that_is_read_late_gets_what_is_there_unless_its_caller_has_surely_gone() -> None:
    shards = with_messages(3)
    shards.command("A", "C", pull=Pull(1, 2, expires=2 * SECOND, patience=7 * SECOND))
    shards.command("A", "C", pull=Pull(2, 1, expires=2 * SECOND))  # patience not told
    shards.command("A", "C", pull=Pull(3, 1, expires=2 * SECOND, patience=7 * SECOND))
    shards.now += 6 * SECOND
    shards.settle()
    told = {lease.pull: (sum(lease.counts), lease.status) for lease in shards.leases.pop("client")}
    assert told == {1: (2, 0), 2: (1, 0), 3: (0, 408)}, "the last finds nothing, and is told so at once"
    shards.publish("A", ["A.x"])
    shards.settle()
    shards.command("A", "C", pull=Pull(4, 1, expires=2 * SECOND, patience=7 * SECOND))
    shards.now += 8 * SECOND
    shards.settle()
    assert leased(shards) == [0], "nobody waits for it any more"


@pytest.mark.rule("PUL-04")
def test_a_late_pull_that_finds_no_room_ends() -> None:
    shards = with_messages(3, max_ack_pending=1, ack_wait=HOUR)
    shards.command("A", "C", pull=Pull(1, 2, expires=2 * SECOND))
    shards.now += 3 * SECOND
    shards.settle()
    assert statuses(shards) == [408]


@pytest.mark.rule("PUL-14")
def test_a_pull_older_than_what_came_with_it_is_late_by_the_broker_s_clock() -> None:
    shards = with_messages(1)
    (core,) = shards.cores
    pull = ConsumerCommand("A", 0, "C", 0, "gone", pull=Pull(1, 1, expires=SECOND)).encode()
    kind = [("Railgun-Kind", b"consume")]
    old = shards.now - HOUR
    drain = core.apply(
        [Input(False, 10, old, None, kind, pull, arrived=shards.now, newest=old + 60 * SECOND)], shards.now
    )
    (told,) = drain.replies["gone"].leases
    assert (told.status, told.counts) == (408, [])


@pytest.mark.rule("RDL-01", "TTL-01")
@pytest.mark.parametrize("reload", [False, True])
def test_a_broker_that_was_an_hour_ahead_stops_nothing(reload: bool) -> None:
    shards = with_messages(1, ack_wait=2 * SECOND)
    shards.request("STREAM.CREATE.B", {"name": "B", "subjects": ["B.*"], "max_age": 5 * SECOND})
    shards.settle()
    shards.command("A", "C", pull=Pull(1, 1))
    shards.settle()
    assert leased(shards) == [1]
    shards.broker_ahead = HOUR
    shards.publish("A", ["A.short"], headers=[[("Nats-TTL", b"2")]])
    shards.publish("B", ["B.old"])
    shards.command("A", "C", pull=Pull(2, 2))
    shards.settle()
    assert leased(shards) == [1]
    shards.broker_ahead = 0
    if reload:
        shards.restart(0)
        shards.settle()
        shards.command("A", "C", pull=Pull(3, 2))
    shards.now += 3 * SECOND
    shards.settle()
    assert sum(leased(shards)) >= 1, "the ack wait is over"
    assert stored(shards, "A") == 1, "the short one is gone"
    shards.now += 3 * SECOND
    shards.settle()
    assert stored(shards, "B") == 0


def test_stored_times_never_go_back_nor_ahead_of_the_shard() -> None:
    shards = with_messages(0)
    times = []
    for ahead in (0, HOUR, -HOUR, 5 * SECOND, -5 * SECOND, 0):
        shards.broker_ahead = ahead
        shards.now += SECOND
        shards.publish("A", ["A.x"])
        shards.settle()
        times.append(next(iter(shards.drains[-1].appends.values())).times[0])
        assert times[-1] <= shards.now
    assert times == sorted(times)
    assert times[0] == shards.now - 5 * SECOND
    assert times[-1] == shards.now


def test_a_new_owner_whose_clock_is_behind_goes_on_at_once() -> None:
    shards = with_messages(1, ack_wait=2 * SECOND)
    shards.now += HOUR  # this owner's clock is wrong
    shards.command("A", "C", pull=Pull(1, 1))
    shards.settle()
    assert leased(shards) == [1]
    before = shards.cores[0].time
    shards.now -= HOUR
    shards.restart(0)
    assert shards.cores[0].time >= before
    shards.command("A", "C", pull=Pull(2, 1))
    shards.settle()
    shards.now += 3 * SECOND
    shards.settle()
    assert leased(shards) == [1], "the ack wait is over after two seconds, not after an hour"


def test_tables_and_commands_of_an_earlier_version_are_read() -> None:
    """A schema grows at its end, by fields with a default."""
    cursor = wire.encode("shard_cursor", {"commands": 7, "forwards": 8, "clock": 9})
    while True:
        try:
            found = wire.decode("shard_cursor", cursor)
        except wire.WireError:
            break
        assert (found["commands"], found["forwards"], found["clock"]) == (7, 8, 9)
        cursor = cursor[:-1]
    assert len(cursor) == 2, "only the first three fields were there from the beginning"
    pull = Pull(3, 2, expires=SECOND, patience=2 * SECOND)
    data = ConsumerCommand("A", 0, "C", 0, "me", pull=pull).encode()
    assert ConsumerCommand.decode(data).pull == pull
    plain = ConsumerCommand("A", 0, "C", 0, "me", pull=pull._replace(patience=0)).encode()
    assert ConsumerCommand.decode(plain[:-1]).pull == pull._replace(patience=0)


def test_a_core_knows_no_time_before_it_is_told() -> None:
    shards = with_messages(1, ack_wait=2 * SECOND)
    shards.command("A", "C", pull=Pull(1, 1))
    shards.settle()
    fresh = ShardCore(0, 1, NAMES, shards._limits, shards.tables[0])
    fresh.load()
    assert fresh.next_deadline() == 0, "it looks at once, because it cannot know what is due"


def test_a_ping_tells_both_clocks_and_the_doctor_compares_them() -> None:
    shards = Shards(partitions=1)
    shards.broker_ahead = -2_500 * MILLI
    asked = shards.request("PING", partition=0)
    shards.settle()
    pong = shards.answer(asked)
    assert pong["now"] - pong["received"] == 2_500 * MILLI
    fine = (0, Pong(SECOND, 2 * SECOND), 0.3)
    assert check_clocks([fine]).verdict == "ok", "the question may have been on its way"
    ahead = check_clocks([fine, (1, Pong(SECOND, 4 * SECOND), 0.5)])
    assert (ahead.verdict, "shard 1 is 2.5 s ahead" in ahead.text) == ("note", True)
    assert "is 3600.0 s behind" in check_clocks([(2, Pong(HOUR, 0), 0.5)]).text


@pytest.mark.parametrize(
    "skew, said", [(-HOUR, "brokers' clock is 3600.0 s ahead"), (2_500 * MILLI, "clock is 2.5 s ahead")]
)
def test_clocks_that_differ_are_said_once_for_each_change(
    skew: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "railgun.worker")
    watch, now = SkewWatch(), 1_700_000_000 * SECOND
    for second in range(120):
        watch.note(now + second * SECOND - (skew if second < 60 else 0), now + second * SECOND)
    assert [record.message for record in caplog.records if said in record.message] == [
        caplog.records[0].message
    ]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_record_that_came_late_is_no_skew(caplog: pytest.LogCaptureFixture) -> None:
    watch, now = SkewWatch(), 1_700_000_000 * SECOND
    for second in range(60):
        late = 30 * SECOND if second % 4 else 0
        watch.note(now + second * SECOND - late, now + second * SECOND)
    watch.note(now, now + 600 * SECOND)
    watch.note(now, now + 1_200 * SECOND)
    assert not caplog.records


# -- age, by the brokers' time


def with_ages() -> Shards:
    """A stream whose messages live for an hour, on shards that hear the broker's time."""
    shards = Shards(partitions=1, hears_time=True)
    config = {"name": "A", "subjects": ["A.*"], "max_age": HOUR, "allow_msg_ttl": True}
    shards.request("STREAM.CREATE.A", config)
    shards.settle()
    return shards


def set_ahead(shards: Shards, nanos: int) -> None:
    """The worker's clock is set; the broker's is not."""
    shards.now += nanos
    shards.broker_ahead -= nanos


def grow_old(shards: Shards, seconds: int, steps: int = 10) -> None:
    for _ in range(steps):
        shards.now += seconds * SECOND // steps
        shards.settle()


@pytest.mark.rule("LIM-15", "TTL-04")
@pytest.mark.parametrize("again", [False, True], ids=["the same worker", "another one"])
@pytest.mark.parametrize("headers", [[], [("Nats-TTL", b"1800")]], ids=["age", "ttl"])
def test_a_worker_that_is_hours_ahead_ends_no_message_before_its_time(
    again: bool, headers: list[tuple[str, bytes]]
) -> None:
    shards = with_ages()
    shards.publish("A", ["A.x"], headers=[headers])
    shards.settle()
    set_ahead(shards, 24 * HOUR)
    if again:
        shards.restart(0)
    shards.settle()
    assert stored(shards, "A") == 1, "it is not older than before"
    shards.publish("A", ["A.x"], headers=[headers])
    shards.settle()
    grow_old(shards, 1_200)
    assert stored(shards, "A") == 2
    grow_old(shards, 2_500)
    assert stored(shards, "A") == 0, "their time is over"


@pytest.mark.rule("LIM-15")
def test_a_clock_that_was_wrong_and_is_right_again_ends_no_message_before_its_time() -> None:
    shards = with_ages()
    set_ahead(shards, 24 * HOUR)
    shards.publish("A", ["A.x"])
    shards.settle()
    set_ahead(shards, -24 * HOUR)
    shards.restart(0)  # another worker, whose clock is right: the shard's time is still a day ahead
    shards.publish("A", ["A.x"])
    shards.settle()
    grow_old(shards, 3_000)
    assert stored(shards, "A") == 2
    grow_old(shards, 900)
    assert stored(shards, "A") == 0


@pytest.mark.rule("LIM-15")
def test_messages_of_a_quiet_stream_end_without_any_command() -> None:
    shards = with_ages()
    shards.publish("A", ["A.x"])
    shards.settle()
    shards.restart(0)
    shards.now += 2 * HOUR
    shards.settle()
    assert shards.cores[0].last_sequences() == {"A": 1}
    assert [entry.sequence for state in shards.cores[0]._streams for entry in state.iterate()] == []
    assert shards.cores[0].next_deadline() is None, "and it comes to rest"


@pytest.mark.rule("LIM-15")
def test_the_clock_of_tests_ends_messages_in_the_drain_that_moves_it() -> None:
    shards = with_ages()
    shards.publish("A", ["A.x"])
    shards.settle()
    shards.request("CLOCK.ADVANCE", {"nanos": HOUR + SECOND}, partition=0, stream="A")
    shards.step(0)
    assert [entry.sequence for state in shards.cores[0]._streams for entry in state.iterate()] == []
