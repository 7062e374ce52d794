"""Push consumers: who gets what, when, and how fast (PSH)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from railgun import Railgun, Stream
from railgun.testing import Clock
from tests.support.consumers import SECOND, about, add, add_refused, delivered, delivery, exists, settle
from tests.support.raw import ask
from tests.support.streams import Make, Unique, put
from tests.support.waiting import wait_until

HEARTBEAT = (100, "Idle Heartbeat")
SOON = 10.0  # how long to wait for what must come
QUIET = 0.4  # how long to listen for what must not come


def heard(listener: Any, count: int) -> list[Any]:
    """So many of the next messages and statuses."""
    found: list[Any] = []
    while len(found) < count:
        message = listener.next(wait=SOON)
        assert message is not None, f"{len(found)} of {count} came"
        found.append(message)
    return found


def numbers(listener: Any, count: int) -> list[int]:
    """The stream sequences of the next so many messages."""
    return [delivery(message).sequence for message in heard(listener, count)]


def is_quiet(listener: Any) -> bool:
    return listener.next(wait=QUIET) is None


def bound(rg: Railgun, stream: Stream, name: str = "C", *, to: bool = True) -> None:
    """Wait until the consumer has a listener, or has none."""
    wait_until(lambda: about(rg, stream.name, name)["push_bound"] is to, f"push_bound is {to}")


@pytest.fixture
def inbox(unique: Unique) -> str:
    return unique("inbox")


# ------------------------------------------------------------ listeners


@pytest.mark.rule("PSH-01")
def test_nothing_is_sent_or_lost_while_nobody_listens(rg: Railgun, make: Make, inbox: str) -> None:
    stream = make()
    add(rg, stream.name, deliver_subject=inbox)
    put(rg, stream, 3)
    assert delivered(about(rg, stream.name)) == (0, 0)
    with rg.listen(inbox) as listener:
        found = heard(listener, 3)
        assert [delivery(one).sequence for one in found] == [1, 2, 3]
        assert [one.subject for one in found] == [f"{stream.name}.a"] * 3
        for message in found:
            settle(rg, message)
        put(rg, stream, 1)
        settle(rg, heard(listener, 1)[0])
    bound(rg, stream, to=False)
    put(rg, stream, 2)
    info = about(rg, stream.name)
    assert (delivered(info), info["num_pending"], info["num_ack_pending"]) == ((4, 4), 2, 0)
    with rg.listen(inbox) as listener:
        found = heard(listener, 2)
        assert [(delivery(one).sequence, delivery(one).deliveries) for one in found] == [(5, 1), (6, 1)]


@pytest.mark.rule("PSH-01", "PSH-02")
def test_plain_listeners_get_everything(cluster: Any, rg: Railgun, make: Make, inbox: str) -> None:
    stream = make()
    add(rg, stream.name, deliver_subject=inbox, ack_policy="none")
    with cluster.connect() as other, other.listen(inbox) as third:
        bound(rg, stream)
        with rg.listen(inbox) as first, rg.listen(inbox) as second:

            def hears() -> bool:
                put(rg, stream, 1)
                return second.next(wait=0.5) is not None

            wait_until(hears, "all are known")
            last = stream.info().state.last_seq
            put(rg, stream, 20)
            wanted = list(range(last + 1, last + 21))
            for listener in (first, second, third):
                assert _after(listener, last) == wanted
    assert delivered(about(rg, stream.name)) == (last + 20, last + 20)


def _after(listener: Any, last: int) -> list[int]:
    """The next twenty sequences above ``last``."""
    found: list[int] = []
    while len(found) < 20:
        found += [number for number in numbers(listener, 1) if number > last]
    return found


@pytest.mark.rule("PSH-03")
def test_a_queue_group_shares(cluster: Any, rg: Railgun, make: Make, inbox: str) -> None:
    stream = make()
    add(rg, stream.name, deliver_subject=inbox, deliver_group="workers")
    put(rg, stream, 1)
    with rg.listen(inbox) as plain, rg.listen(inbox, group="others") as others:
        assert is_quiet(plain)
        assert is_quiet(others)
        info = about(rg, stream.name)
        assert (info["push_bound"], delivered(info)) == (False, (0, 0))
    with cluster.connect() as second, cluster.connect() as third:
        with rg.listen(inbox, group="workers") as one:
            settle(rg, heard(one, 1)[0])
            with second.listen(inbox, group="workers") as two, third.listen(inbox, group="workers") as three:
                members = (one, two, three)
                _until_each_has_one(rg, stream, members)
                first = stream.info().state.last_seq + 1
                for _ in range(90):
                    rg.publish_soon(f"{stream.name}.a", b"x")
                rg.flush()
                shares: list[list[int]] = [[], [], []]

                def collect() -> bool:
                    for member, share in zip(members, shares, strict=True):
                        while (message := member.next(wait=0.05)) is not None:
                            share.append(delivery(message).sequence)
                    return sum(map(len, shares)) >= 90

                wait_until(collect, "all of them")
    assert Counter(number for share in shares for number in share) == Counter(range(first, first + 90))
    assert all(10 <= len(share) <= 70 for share in shares), [len(share) for share in shares]


def _until_each_has_one(rg: Railgun, stream: Stream, members: tuple[Any, ...]) -> None:
    """Publish one by one until every member has got something; then all of them are known."""
    lacking = set(range(len(members)))

    def each_has() -> bool:
        rg.publish(f"{stream.name}.a", b"x")
        for number, member in enumerate(members):
            while (message := member.next(wait=0.1)) is not None:
                settle(rg, message)
                lacking.discard(number)
        return not lacking

    wait_until(each_has, "every member is known", 30.0)


@pytest.mark.rule("PSH-04")
def test_push_bound(rg: Railgun, make: Make, inbox: str) -> None:
    stream = make()
    assert add(rg, stream.name, deliver_subject=inbox)["push_bound"] is False
    with rg.listen(inbox):
        bound(rg, stream)
        with rg.listen(inbox):
            bound(rg, stream)
        bound(rg, stream)
    bound(rg, stream, to=False)
    with rg.listen(inbox):
        bound(rg, stream)
        assert add(rg, stream.name, "LATER", deliver_subject=inbox)["push_bound"] is True


@pytest.mark.rule("PSH-05")
def test_a_second_subscriber_is_refused(cluster: Any, rg: Railgun, make: Make, inbox: str) -> None:
    stream = make()
    worker = stream.create_consumer("C", deliver_subject=inbox)
    got: list[int] = []
    with worker.subscribe(lambda message: got.append(message.sequence)):
        bound(rg, stream)
        with cluster.connect() as other:
            for facade in (rg, other):
                with pytest.raises(Exception, match="consumer is already bound to a subscription"):
                    facade.stream(stream.name).consumer("C").subscribe(lambda message: None)
        put(rg, stream, 3)
        wait_until(lambda: got == [1, 2, 3], "the first gets them")
    bound(rg, stream, to=False)
    with stream.consumer("C").subscribe(lambda message: got.append(message.sequence)):
        put(rg, stream, 1)
        wait_until(lambda: got[-1] == 4, "the next one may subscribe")


@pytest.mark.rule("PSH-05")
def test_a_group_may_have_several_subscribers(rg: Railgun, make: Make, inbox: str) -> None:
    stream = make()
    worker = stream.create_consumer("C", deliver_subject=inbox, deliver_group="g")
    got: list[int] = []
    with worker.subscribe(lambda message: got.append(message.sequence)):
        bound(rg, stream)
        with worker.subscribe(lambda message: got.append(message.sequence)):
            put(rg, stream, 10)
            wait_until(lambda: sorted(got) == list(range(1, 11)), "each goes to one of them")


# ------------------------------------------------------------ pace


@pytest.mark.rule("PSH-06")
def test_idle_heartbeats(rg: Railgun, make: Make, clock: Clock, inbox: str) -> None:
    stream = make()
    add(rg, stream.name, deliver_subject=inbox, idle_heartbeat=30 * SECOND, ack_policy="none")
    clock.advance(120)  # nobody listens: none of these is ever seen
    with rg.listen(inbox, statuses=True) as listener:
        bound(rg, stream)
        put(rg, stream, 2)
        assert numbers(listener, 2) == [1, 2]
        clock.advance(20)
        put(rg, stream, 1)
        assert numbers(listener, 1) == [3]
        clock.advance(20)  # 40 s after the second, 20 s after the third
        assert is_quiet(listener)
        clock.advance(11)
        (beat,) = heard(listener, 1)
        assert (beat.status, beat.description, beat.payload) == (*HEARTBEAT, b"")
        assert (beat.header("Nats-Last-Consumer"), beat.header("Nats-Last-Stream")) == ("3", "3")
        for _ in range(2):
            clock.advance(31)
            (beat,) = heard(listener, 1)
            assert (beat.status, beat.description) == HEARTBEAT
        assert is_quiet(listener)


@pytest.mark.rule("PSH-07")
def test_flow_control_halts_until_it_is_answered(rg: Railgun, make: Make, inbox: str) -> None:
    stream = make()
    add(
        rg,
        stream.name,
        deliver_subject=inbox,
        ack_policy="none",
        flow_control=True,
        idle_heartbeat=3600 * SECOND,
    )
    total = 40
    put(rg, stream, total, b"x" * 500_000)
    with rg.listen(inbox, statuses=True) as listener:
        got: list[int] = []
        asked = 0
        while len(got) < total:
            message = listener.next(wait=SOON)
            assert message is not None, f"{len(got)} came, {asked} requests"
            if message.status is None:
                got.append(delivery(message).sequence)
                continue
            assert (message.status, message.description) == (100, "FlowControl Request")
            assert message.reply
            asked += 1
            if asked == 1:
                assert got  # it follows what it is about
                while (more := listener.next(wait=2.0)) is not None:
                    assert more.status is None
                    got.append(delivery(more).sequence)
                assert 0 < len(got) < total  # it halts: too much is out
                assert delivered(about(rg, stream.name))[1] == len(got)
            rg.request(message.reply, b"")
        assert got == list(range(1, total + 1))
        assert asked


@pytest.mark.rule("PSH-07", "PSH-06")
def test_heartbeats_of_a_stalled_consumer_repeat_the_address(
    rg: Railgun, make: Make, clock: Clock, inbox: str
) -> None:
    stream = make()
    put(rg, stream, 10, b"x" * 500_000)
    fields: dict[str, Any] = {"flow_control": True, "idle_heartbeat": 60 * SECOND, "ack_policy": "none"}
    add(rg, stream.name, deliver_subject=inbox, **fields)
    with rg.listen(inbox, statuses=True) as listener:
        seen = []
        while (message := listener.next(wait=2.0)) is not None:
            seen.append(message)
        (request,) = [one for one in seen if one.status is not None]
        assert len(seen) < 10  # it stands still
        clock.advance(61)
        beat = listener.next(wait=SOON)
        assert beat is not None
        assert (beat.status, beat.description) == (100, "Idle Heartbeat")
        assert beat.header("Nats-Consumer-Stalled") == request.reply
        rg.request(request.reply, b"")
        assert listener.next(wait=SOON) is not None


@pytest.mark.rule("PSH-07")
def test_a_listener_answers_flow_control_by_itself(rg: Railgun, make: Make, inbox: str) -> None:
    stream = make()
    fields: dict[str, Any] = {"flow_control": True, "idle_heartbeat": 3600 * SECOND, "ack_policy": "none"}
    add(rg, stream.name, deliver_subject=inbox, **fields)
    put(rg, stream, 20, b"x" * 500_000)
    with rg.listen(inbox) as listener:
        assert numbers(listener, 20) == list(range(1, 21))
        put(rg, stream, 20, b"x" * 500_000)
        found = listener.fetch(20, wait=SOON)
        assert [message.sequence for message in found] == list(range(21, 41))


@pytest.mark.rule("PSH-08")
def test_the_rate_is_limited(rg: Railgun, make: Make, clock: Clock, inbox: str) -> None:
    stream = make()
    put(rg, stream, 4, b"x" * 1000)
    # About 1,100 bytes a message at 80 bit/s: one in 110 s or so.
    add(rg, stream.name, deliver_subject=inbox, ack_policy="none", rate_limit_bps=80)
    with rg.listen(inbox) as listener:
        assert numbers(listener, 1) == [1]
        assert is_quiet(listener)
        clock.advance(90)
        assert is_quiet(listener)
        for sequence in (2, 3, 4):
            clock.advance(40)
            assert numbers(listener, 1) == [sequence]
            assert is_quiet(listener)
            clock.advance(80)
    unlimited = about(rg, stream.name)["config"]
    assert unlimited["rate_limit_bps"] == 80


@pytest.mark.rule("PSH-09", "PSH-11")
def test_original_replay_keeps_the_gaps(rg: Railgun, make: Make, clock: Clock, inbox: str) -> None:
    stream = make()
    for _ in range(3):
        put(rg, stream, 1)
        clock.advance(100)
    add(rg, stream.name, deliver_subject=inbox, ack_policy="none", replay_policy="original")
    with rg.listen(inbox) as listener:
        assert numbers(listener, 1) == [1]  # at once
        assert is_quiet(listener)
        clock.advance(90)
        assert is_quiet(listener)
        clock.advance(11)
        assert numbers(listener, 1) == [2]
        assert is_quiet(listener)
        clock.advance(101)
        assert numbers(listener, 1) == [3]
        put(rg, stream, 2)
        assert numbers(listener, 2) == [4, 5]  # live


@pytest.mark.rule("PSH-09")
def test_instant_replay_does_not(rg: Railgun, make: Make, clock: Clock, inbox: str) -> None:
    stream = make()
    for _ in range(3):
        put(rg, stream, 1)
        clock.advance(100)
    add(rg, stream.name, deliver_subject=inbox, ack_policy="none", replay_policy="instant")
    with rg.listen(inbox) as listener:
        assert numbers(listener, 3) == [1, 2, 3]


@pytest.mark.rule("PSH-11")
def test_the_gap_of_a_removed_message_is_not_doubled(
    rg: Railgun, make: Make, clock: Clock, inbox: str
) -> None:
    stream = make()
    for _ in range(4):
        put(rg, stream, 1)
        clock.advance(100)
    stream.delete_message(2)
    add(rg, stream.name, deliver_subject=inbox, ack_policy="none", replay_policy="original")
    with rg.listen(inbox) as listener:
        assert numbers(listener, 1) == [1]
        clock.advance(190)  # the difference of the first and the third is 200 s
        assert is_quiet(listener)
        clock.advance(11)
        assert numbers(listener, 1) == [3]
        clock.advance(90)
        assert is_quiet(listener)
        clock.advance(11)
        assert numbers(listener, 1) == [4]


@pytest.mark.rule("PSH-10")
def test_original_replay_is_not_for_pull(rg: Railgun, make: Make) -> None:
    stream = make().name
    invalid = (10182, 400, "consumer replay policy invalid")
    assert add_refused(rg, stream, replay_policy="original") == invalid
    assert not exists(rg, stream)


# ------------------------------------------------------------ ordered


@pytest.mark.rule("PSH-12")
def test_an_ordered_consumer_outlives_its_consumer(rg: Railgun, make: Make) -> None:
    stream = make()
    put(rg, stream, 5)
    got = []
    with stream.ordered_consumer() as ordered:
        for message in ordered:
            got.append(message.sequence)
            if message.sequence == 5:
                (name,) = ask(rg, f"CONSUMER.NAMES.{stream.name}")["consumers"]
                config = about(rg, stream.name, name)["config"]
                assert config.get("deliver_subject")
                assert config.get("durable_name") is None
                assert (config["ack_policy"], config["max_deliver"]) == ("none", 1)
                assert config["idle_heartbeat"] > 0
                stream.delete_consumer(name)
                put(rg, stream, 5)
            if message.sequence == 10:
                break
    assert got == list(range(1, 11))
    assert ask(rg, f"CONSUMER.NAMES.{stream.name}")["consumers"] == []


@pytest.mark.rule("PSH-12")
def test_an_ordered_consumer_makes_up_for_a_lost_delivery(
    rg: Railgun, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = make()
    listeners = rg.connection.consuming.listeners
    arrive = listeners.deliver
    lost: list[Any] = []

    def lose_one(lease: Any) -> None:
        if lease.stream == stream.name and lease.sequences == [4] and not lost:
            lost.append(lease)
            return
        arrive(lease)

    monkeypatch.setattr(listeners, "deliver", lose_one)
    put(rg, stream, 1)
    got, names = [], set()
    with stream.ordered_consumer() as ordered:
        for message in ordered:
            got.append(message.sequence)
            names.add(message.consumer)
            if message.sequence == 1:
                for _ in range(7):
                    rg.publish(f"{stream.name}.a", b"x")
            if message.sequence == 8:
                break
    assert lost
    assert got == list(range(1, 9))
    assert len(names) == 2  # made anew behind the third
