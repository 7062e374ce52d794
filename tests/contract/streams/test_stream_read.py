"""Reading a stream in order, and many messages at once."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import railgun
from railgun.client.operations import reading
from tests.support.streams import Unique


@pytest.fixture
def orders(rg: railgun.Railgun, unique: Unique) -> railgun.Stream:
    """Orders 0 to 9, three events each, in turn."""
    name = unique("ORDERS")
    stream = rg.create_stream(name, subjects=[f"{name}.>"])
    for event in ("new", "paid", "sent"):
        for number in range(10):
            rg.publish(f"{name}.{number}.{event}", f"{number} {event}", headers={"Event": event})
    return stream


def test_all_messages_in_order(orders: railgun.Stream) -> None:
    messages = list(orders.read())
    assert [one.sequence for one in messages] == list(range(1, 31))
    assert messages == [orders.get(sequence) for sequence in range(1, 31)]
    assert all(isinstance(one.headers, list) for one in messages)
    read = orders.read(limit=3)
    assert [one.sequence for one in read] == [one.sequence for one in read] == [1, 2, 3]


@pytest.mark.parametrize("reverse", [False, True])
def test_the_messages_of_a_subject(orders: railgun.Stream, reverse: bool) -> None:
    name = orders.name
    found = [one.text for one in orders.read(f"{name}.4.>", reverse=reverse)]
    assert (found[::-1] if reverse else found) == ["4 new", "4 paid", "4 sent"]
    both = [one.sequence for one in orders.read([f"{name}.4.new", f"{name}.*.sent"], reverse=reverse)]
    assert sorted(both, reverse=reverse) == both
    assert set(both) == {5, *range(21, 31)}
    assert list(orders.read(f"{name}.99.>", reverse=reverse)) == []


def test_between_two_places(orders: railgun.Stream) -> None:
    assert [one.sequence for one in orders.read(start=28)] == [28, 29, 30]
    assert [one.sequence for one in orders.read(end=2)] == [1, 2]
    assert [one.sequence for one in orders.read(start=5, end=7, reverse=True)] == [7, 6, 5]
    assert [one.sequence for one in orders.read(start=29, end=999)] == [29, 30]
    assert list(orders.read(start=31)) == list(orders.read(start=7, end=6)) == []
    messages = list(orders.read())
    since, until = messages[10].time, messages[20].time
    expected = [one.sequence for one in messages if since <= one.time <= until]
    assert [one.sequence for one in orders.read(start=since, end=until)] == expected
    assert list(orders.read(start=messages[-1].time + timedelta(days=1))) == []
    assert list(orders.read(end=datetime(2000, 1, 1, tzinfo=UTC))) == []


def test_the_newest_of_each_subject(rg: railgun.Railgun, orders: railgun.Stream) -> None:
    name = orders.name
    rg.publish(f"{name}.4.new", "once more")
    newest = list(orders.read(f"{name}.*.new", last_per_subject=True))
    assert [one.text for one in newest] == [f"{n} new" for n in range(10) if n != 4] + ["once more"]
    assert [one.sequence for one in orders.read(f"{name}.4.new", last_per_subject=True, end=30)] == [5]
    assert len(list(orders.read(last_per_subject=True, reverse=True))) == 30


def test_headers_only(orders: railgun.Stream) -> None:
    (first,) = orders.read(limit=1, headers_only=True)
    assert (first.payload, first.header("Event"), first.header("Nats-Msg-Size")) == (b"", "new", "5")


def test_messages_that_come_later_are_not_given(rg: railgun.Railgun, orders: railgun.Stream) -> None:
    many = [rg.publish_soon(f"{orders.name}.x", "x" * 600) for _ in range(3_000)]
    rg.flush()
    reading = iter(orders.read())
    seen = [next(reading).sequence]
    rg.publish(f"{orders.name}.x", "later")
    seen += [one.sequence for one in reading]
    assert seen == list(range(1, many[-1].result().sequence + 1))


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of two messages."""
    for name in ("_FIRST_PAGE", "_NEXT_PAGES"):
        monkeypatch.setattr(reading, name, (2, 100_000))


@pytest.mark.usefixtures("small_pages")
def test_a_subject_that_gets_a_message_is_not_missed_on_the_way_down(
    rg: railgun.Railgun, orders: railgun.Stream
) -> None:
    read = iter(orders.read(f"{orders.name}.*.sent", last_per_subject=True, reverse=True))
    assert next(read).sequence == 30
    rg.publish(f"{orders.name}.0.sent", "again")
    assert [one.sequence for one in read] == list(range(29, 20, -1))


@pytest.mark.usefixtures("small_pages")
def test_a_read_does_not_go_on_in_another_stream_of_the_name(
    rg: railgun.Railgun, orders: railgun.Stream
) -> None:
    read = iter(orders.read())
    assert next(read).sequence == 1
    rg.delete_stream(orders.name)
    rg.create_stream(orders.name, subjects=[f"{orders.name}.>"])
    for number in range(20):
        rg.publish(f"{orders.name}.{number}", "another")
    with pytest.raises(railgun.StreamNotFound):
        assert [one.text for one in read] == []


@pytest.mark.parametrize("subject", [None, 5, "\ud800"])
def test_a_get_that_cannot_be_sent_is_nobody_elses(orders: railgun.Stream, subject: Any) -> None:
    with pytest.raises(railgun.ConfigError, match="is not a valid subject"):
        orders.get_last(subject)
    with pytest.raises(railgun.ConfigError, match="is not a valid subject"):
        orders.get_last_many([subject])
    assert orders.get_last(f"{orders.name}.4.sent").sequence == 25


@pytest.mark.parametrize("sequence", ["1", 1.5, 2**63])
def test_a_sequence_that_cannot_be_sent_is_nobody_elses(orders: railgun.Stream, sequence: Any) -> None:
    with pytest.raises(railgun.ConfigError, match="is not a valid sequence"):
        orders.get(sequence)
    with pytest.raises(railgun.ConfigError, match="is not a valid sequence"):
        orders.get_many([1, sequence])
    with pytest.raises(railgun.ConfigError, match="is not a valid sequence"):
        orders.get_next(f"{orders.name}.>", sequence=sequence)
    assert orders.get(1).sequence == 1


def test_places_that_no_message_can_have(orders: railgun.Stream) -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert len(list(orders.read(start=first, end=last))) == 30
    assert list(orders.read(start=last)) == list(orders.read(end=first)) == []
    assert list(orders.read(start=2**70)) == []
    assert len(list(orders.read(end=2**70))) == 30


def test_large_messages_are_read_from_the_log(rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("LARGE")
    stream = rg.create_stream(name, subjects=[f"{name}.>"], max_msg_size=3_000_000)
    for number in range(4):
        rg.publish(f"{name}.{number}", bytes([number]) * (2_000_000 if number % 2 else 10))
    assert [len(one.payload) for one in stream.read()] == [10, 2_000_000, 10, 2_000_000]
    assert [one.header("Nats-Msg-Size") for one in stream.read(headers_only=True)] == ["10", "2000000"] * 2
    found = stream.get_many([4, 1, 9, 2])
    assert {sequence: len(one.payload) for sequence, one in found.items()} == {
        4: 2_000_000,
        1: 10,
        2: 2_000_000,
    }


@pytest.mark.rule("GET-01", "GET-02")
def test_many_at_once(orders: railgun.Stream) -> None:
    name = orders.name
    assert {key: one.text for key, one in orders.get_many([3, 1, 99, 3]).items()} == {3: "2 new", 1: "0 new"}
    last = orders.get_last_many([f"{name}.1.paid", f"{name}.1.*", f"{name}.nobody"])
    assert {key: one.text for key, one in last.items()} == {
        f"{name}.1.paid": "1 paid",
        f"{name}.1.*": "1 sent",
    }
    assert orders.get_many([]) == orders.get_last_many([]) == {}
    assert len(orders.get_many(range(1, 3_000))) == 30


def test_what_cannot_be_read(rg: railgun.Railgun, orders: railgun.Stream) -> None:
    for wrong in ({"start": 0}, {"end": -1}, {"start": "1"}, {"end": datetime(2026, 1, 1)}, {"limit": 0}):  # noqa: DTZ001
        with pytest.raises(railgun.ConfigError, match="is not a valid"):
            orders.read(**wrong)  # type: ignore[arg-type]
    for subject in ("a..b", ["a", ""], "a.>.b"):
        with pytest.raises(railgun.ConfigError, match="is not a valid subject"):
            orders.read(subject)
    with pytest.raises(railgun.ConfigError, match="is not a valid sequence"):
        orders.get_many(["1"])  # type: ignore[list-item]
    for missing in ("NO_SUCH_STREAM", "no.such.name"):
        stream = rg.stream(missing)
        for call in (lambda: list(stream.read()), lambda: stream.get_many([1]), lambda: stream.get(1)):  # noqa: B023
            with pytest.raises(railgun.StreamNotFound):
                call()


async def test_a_read_of_an_event_loop(arg: railgun.AsyncRailgun, orders: railgun.Stream) -> None:
    stream = arg.stream(orders.name)
    assert [one.sequence async for one in stream.read(f"{orders.name}.*.paid", limit=4)] == [11, 12, 13, 14]
    assert sorted(await stream.get_many([1, 2])) == [1, 2]


@pytest.mark.rule("GET-01", "GET-02", "GET-03", "GET-06")
async def test_gets_of_an_event_loop_at_once(arg: railgun.AsyncRailgun, orders: railgun.Stream) -> None:
    stream, name = arg.stream(orders.name), orders.name
    found = await asyncio.gather(
        *(stream.get(number % 33 + 1) for number in range(100)),
        *(stream.get_last(f"{name}.{number % 10}.*") for number in range(100)),
        *(stream.get_next(f"{name}.*.paid", sequence=number % 33 + 1) for number in range(100)),
        return_exceptions=True,
    )
    sequences = [one.sequence if isinstance(one, railgun.StoredMessage) else type(one) for one in found]
    missing = railgun.MessageNotFound
    assert sequences[:100] == [n % 33 + 1 if n % 33 < 30 else missing for n in range(100)]
    assert sequences[100:200] == [21 + n % 10 for n in range(100)]
    assert sequences[200:] == [max(11, n % 33 + 1) if n % 33 < 20 else missing for n in range(100)]


@pytest.mark.rule("GET-06")
def test_gets_of_many_threads_see_what_each_has_published(rg: railgun.Railgun, unique: Unique) -> None:
    name = unique("THREADS")
    stream = rg.create_stream(name, subjects=[f"{name}.*"])
    wrong: list[object] = []

    def work(number: int) -> None:
        for turn in range(20):
            rg.publish_soon(f"{name}.{number}", str(turn))
            found = stream.get_last(f"{name}.{number}").text
            if found != str(turn):
                wrong.append((number, turn, found))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    assert stream.info().state.messages == 160
