"""Dead letters: what ran out of deliveries or was terminated is copied, whole, once, and together with its resolution."""

from __future__ import annotations

from typing import Any

import pytest

import railgun
from railgun.client.facade.railgun import Railgun
from railgun.model.messages import StoredMessage
from railgun.protocol.routing import partition_of
from railgun.testing import Clock
from tests.support.consumers import SECOND, delivery, sequences
from tests.support.raw_consumer import RawConsumer
from tests.support.streams import Unique, filled, held
from tests.support.waiting import wait_until

ORIGIN = "Railgun-Origin-"


def origin(letter: StoredMessage) -> dict[str, str]:
    """What the copy says of where it came from."""
    return {
        name.removeprefix(ORIGIN): value.decode() for name, value in letter.headers if name.startswith(ORIGIN)
    }


def own_headers(letter: StoredMessage) -> list[tuple[str, bytes]]:
    return [(name, value) for name, value in letter.headers if not name.startswith("Railgun-")]


def letters(stream: railgun.Stream, count: int) -> list[StoredMessage]:
    """The dead letters, once there are so many."""
    wait_until(lambda: stream.info().state.messages >= count, f"{count} dead letters in {stream.name}")
    found = [stream.get(sequence) for sequence in held(stream)]
    assert len(found) == count
    return found


def neighbour(rg: Railgun, unique: Unique, stream: str, *, same_shard: bool) -> railgun.Stream:
    """A new stream on the shard of another one, or on a different one."""
    count = rg.connection.topology.partitions
    home = partition_of(stream, count)
    names = (unique(f"DEAD{number}") for number in range(1000))
    name = next(name for name in names if (partition_of(name, count) == home) == same_shard)
    return rg.create_stream(name, subjects=[f"{name}.>"])


def exhaust(worker: RawConsumer, deliveries: int) -> None:
    """Refuse the next message until it has no delivery left."""
    for _ in range(deliveries):
        (message,) = worker.take()
        worker.nak(message)


# ------------------------------------------------------------ what the copy holds


@pytest.mark.rule("DLQ-06", "DLQ-10")
@pytest.mark.parametrize("same_shard", [True, False], ids=["same shard", "another shard"])
def test_a_terminated_message_is_copied_with_its_history(
    rg: Railgun, unique: Unique, same_shard: bool
) -> None:
    stream = filled(rg, "first")
    dead = neighbour(rg, unique, stream.name, same_shard=same_shard)
    headers = [("Trace", "7"), ("Kind", "a"), ("Kind", "b")]
    rg.publish(f"{stream.name}.x.y", b"\x00body\xff", headers=headers)
    worker = RawConsumer(rg, stream.name, "WORK", dead_letter=dead.name)
    worker.nak(*worker.take(2)[1:])
    (again,) = worker.take()
    worker.term(again, reason="cannot be parsed")
    (letter,) = letters(dead, 1)
    assert (letter.subject, letter.payload) == (f"{stream.name}.x.y", b"\x00body\xff")
    assert own_headers(letter) == [("Trace", b"7"), ("Kind", b"a"), ("Kind", b"b")]
    said = origin(letter)
    assert said.pop("Time")
    assert said == {
        "Stream": stream.name,
        "Sequence": "2",
        "Consumer": "WORK",
        "Deliveries": "2",
        "Reason": "cannot be parsed",
    }
    assert stream.get(2).payload == b"\x00body\xff"  # limits: the original stays


@pytest.mark.rule("DLQ-06", "DLQ-10")
@pytest.mark.parametrize("way", ["nak", "wait"])
def test_a_message_without_deliveries_left_is_copied_with_its_history(
    rg: Railgun, clock: Clock, way: str
) -> None:
    stream, dead = filled(rg, "a", "b"), filled(rg)
    worker = RawConsumer(rg, stream.name, "WORK", max_deliver=3, dead_letter=dead.name)
    if way == "nak":
        exhaust(worker, 3)
    else:
        for _ in range(3):
            assert sequences(worker.take()) == [1]
            clock.advance(31)
    (letter,) = letters(dead, 1)
    said = origin(letter)
    assert (letter.subject, letter.payload) == (f"{stream.name}.a", b"1")
    assert (said["Stream"], said["Sequence"], said["Consumer"]) == (stream.name, "1", "WORK")
    assert said["Deliveries"] == "3"
    assert said["Reason"]
    assert sequences(worker.take()) == [2]
    assert worker.numbers().ack_pending == 1


@pytest.mark.rule("DLQ-06")
def test_the_two_reasons_can_be_told_apart(rg: Railgun) -> None:
    stream, dead = filled(rg, "a", "b", "c"), filled(rg)
    worker = RawConsumer(rg, stream.name, max_deliver=1, dead_letter=dead.name)
    exhaust(worker, 1)
    worker.term(*worker.take())
    worker.term(*worker.take(), reason="because")
    worn, ended, explained = [origin(one)["Reason"] for one in letters(dead, 3)]
    assert explained == "because"
    assert worn != ended


@pytest.mark.rule("DLQ-06")
def test_the_id_of_the_original_does_not_suppress_its_copy(rg: Railgun) -> None:
    stream, dead = filled(rg), filled(rg)
    rg.publish(f"{stream.name}.a", b"body", msg_id="order-1", headers={"Trace": "1"})
    rg.publish(f"{dead.name}.other", b"taken", msg_id="order-1")
    worker = RawConsumer(rg, stream.name, dead_letter=dead.name)
    worker.term(*worker.take())
    _, letter = letters(dead, 2)
    assert letter.payload == b"body"
    assert letter.header("Trace") == "1"
    assert "order-1" in origin(letter).values()
    assert rg.publish(f"{dead.name}.other", b"again", msg_id="order-1").duplicate


@pytest.mark.rule("DLQ-06")
def test_headers_that_were_orders_are_kept_and_not_obeyed_again(rg: Railgun, clock: Clock) -> None:
    """Each is found in the copy, under its own name or under the origin's."""
    stream, dead = filled(rg, allow_rollup_hdrs=True, allow_msg_ttl=True), filled(rg, allow_msg_ttl=True)
    rg.publish(f"{dead.name}.old", b"must stay")
    given = {
        "Nats-Rollup": "sub",
        "Nats-TTL": "3600s",
        "Nats-Expected-Last-Sequence": "0",
        "Nats-Expected-Stream": stream.name,
    }
    rg.publish(f"{stream.name}.a", b"body", headers=given)
    worker = RawConsumer(rg, stream.name, dead_letter=dead.name, ack_wait=7200 * SECOND)
    worker.term(*worker.take())
    _, letter = letters(dead, 2)
    found = {name.removeprefix(ORIGIN).removeprefix("Nats-"): value for name, value in letter.headers}
    assert {name: found.get(name.removeprefix("Nats-")) for name in given} == {
        name: value.encode() for name, value in given.items()
    }
    clock.advance(3601)
    assert stream.info().state.messages == 0
    assert held(dead) == [1, 2]


@pytest.mark.rule("DLQ-06")
@pytest.mark.parametrize("payload", [b"", b"x" * 900_000], ids=["empty", "large"])
def test_every_body_is_kept_whole(rg: Railgun, payload: bytes) -> None:
    stream, dead = filled(rg), filled(rg)
    rg.publish(f"{stream.name}.a", payload)
    worker = RawConsumer(rg, stream.name, dead_letter=dead.name)
    worker.term(*worker.take())
    (letter,) = letters(dead, 1)
    assert letter.payload == payload


@pytest.mark.rule("DLQ-06")
def test_an_old_body_is_found_again(rg: Railgun) -> None:
    """More than a shard keeps in memory was stored since."""
    stream, dead = filled(rg), filled(rg)
    rg.publish(f"{stream.name}.a", b"the old one", headers={"Trace": "1"})
    worker = RawConsumer(rg, stream.name, dead_letter=dead.name)
    (old,) = worker.take()
    filler = bytes(512 * 1024)
    for _ in range(40):
        rg.publish_soon(f"{stream.name}.b", filler)
    rg.flush()
    worker.term(old)
    (letter,) = letters(dead, 1)
    assert (letter.payload, letter.header("Trace")) == (b"the old one", "1")


@pytest.mark.rule("DLQ-06", "DLQ-10")
@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_the_copy_has_the_body_of_a_message_that_its_stream_removes(rg: Railgun, retention: str) -> None:
    stream, dead = filled(rg, retention=retention), filled(rg)
    worker = RawConsumer(rg, stream.name, dead_letter=dead.name)
    rg.publish(f"{stream.name}.a", b"body")
    worker.term(*worker.take())
    assert held(stream) == []
    (letter,) = letters(dead, 1)
    assert (letter.subject, letter.payload) == (f"{stream.name}.a", b"body")


@pytest.mark.rule("RET-11", "DLQ-06")
@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_the_copy_resolves_a_message_out_of_deliveries(rg: Railgun, retention: str) -> None:
    stream, dead = filled(rg, retention=retention), filled(rg)
    worker = RawConsumer(rg, stream.name, dead_letter=dead.name, max_deliver=2)
    rg.publish(f"{stream.name}.a", b"bad")
    rg.publish(f"{stream.name}.a", b"good")
    exhaust(worker, 2)
    (letter,) = letters(dead, 1)
    assert letter.payload == b"bad"
    assert held(stream) == [2]
    worker.ack(*worker.take())
    assert held(stream) == []


@pytest.mark.rule("RET-11", "RET-13")
def test_the_copy_for_one_consumer_leaves_the_message_to_the_others(rg: Railgun) -> None:
    stream, dead = filled(rg, retention="interest"), filled(rg)
    strict = RawConsumer(rg, stream.name, "STRICT", dead_letter=dead.name, max_deliver=1)
    other = RawConsumer(rg, stream.name, "OTHER")
    rg.publish(f"{stream.name}.a", b"body")
    exhaust(strict, 1)
    letters(dead, 1)
    assert held(stream) == [1]
    other.ack(*other.take())
    assert held(stream) == []


# ------------------------------------------------------------ when, and how often


@pytest.mark.rule("DLQ-07", "DLQ-10")
def test_on_its_own_shard_the_copy_is_there_when_the_termination_is(rg: Railgun, unique: Unique) -> None:
    stream = filled(rg, *"aaaaa")
    dead = neighbour(rg, unique, stream.name, same_shard=True)
    worker = RawConsumer(rg, stream.name, dead_letter=dead.name)
    for count, message in enumerate(worker.take(5), 1):
        worker.term(message)
        assert dead.info().state.messages == count  # at once: one transaction decides both
        assert worker.numbers().ack_pending == 5 - count


@pytest.mark.rule("DLQ-07")
def test_a_message_is_dead_lettered_once(rg: Railgun, clock: Clock) -> None:
    stream, dead = filled(rg, "a", "b"), filled(rg)
    worker = RawConsumer(rg, stream.name, max_deliver=2, dead_letter=dead.name)
    first, second = worker.take(2)
    worker.term(first, first)
    worker.nak(second)
    (second,) = worker.take()
    worker.nak(second, second)
    worker.term(second, first)
    worker.ack(first, second)
    assert [origin(one)["Sequence"] for one in letters(dead, 2)] == ["1", "2"]
    for _ in range(3):
        clock.advance(31)
        assert worker.take(9) == []
    assert dead.info().state.messages == 2


@pytest.mark.rule("DLQ-07")
def test_each_consumer_has_its_own_dead_letters(rg: Railgun) -> None:
    stream, dead = filled(rg, "a"), filled(rg)
    one = RawConsumer(rg, stream.name, "ONE", dead_letter=dead.name)
    two = RawConsumer(rg, stream.name, "TWO", dead_letter=dead.name)
    without = RawConsumer(rg, stream.name, "WITHOUT")
    for worker in (one, two, without):
        worker.term(*worker.take())
    assert [origin(letter)["Consumer"] for letter in letters(dead, 2)] == ["ONE", "TWO"]


@pytest.mark.rule("DLQ-10")
def test_what_is_acked_or_comes_again_is_no_dead_letter(rg: Railgun, clock: Clock) -> None:
    stream, dead = filled(rg, *"aaaa", max_age=3600), filled(rg)
    worker = RawConsumer(rg, stream.name, max_deliver=5, dead_letter=dead.name, ack_wait=60 * SECOND)
    acked, refused, deleted, _ = worker.take(4)
    worker.ack(acked)
    worker.nak(refused)
    stream.delete_message(delivery(deleted).sequence)
    clock.advance(61)
    assert sequences(worker.take(9)) == [2, 4]
    stream.purge()
    clock.advance(61)
    last = rg.publish(f"{stream.name}.a", b"last").sequence
    (message,) = worker.take(9)
    assert delivery(message).sequence == last
    worker.term(message)
    assert [origin(letter)["Sequence"] for letter in letters(dead, 1)] == [str(last)]


@pytest.mark.rule("DLQ-10")
def test_many_give_up_together(rg: Railgun, clock: Clock) -> None:
    stream, dead = filled(rg), filled(rg)
    for number in range(500):
        rg.publish_soon(f"{stream.name}.{number % 7}", str(number))
    rg.flush()
    worker = RawConsumer(rg, stream.name, max_deliver=1, dead_letter=dead.name)
    assert len(worker.take(500)) == 500
    clock.advance(31)
    wait_until(lambda: dead.info().state.messages >= 500, "500 dead letters")
    assert worker.numbers().ack_pending == 0
    assert dead.info().state.messages == 500
    found = dead.create_consumer("READER").fetch(500, wait=20.0)
    assert [int(message.text) for message in found] == list(range(500))
    assert [message.header(f"{ORIGIN}Sequence") for message in found] == [str(one) for one in range(1, 501)]


@pytest.mark.rule("DLQ-10")
def test_without_a_dead_letter_stream_work_goes_on(rg: Railgun, unique: Unique) -> None:
    stream = filled(rg, "a", "b", "c")
    dead = rg.create_stream(unique("DEAD"))
    worker = RawConsumer(rg, stream.name, max_deliver=1, dead_letter=dead.name)
    rg.delete_stream(dead.name)
    worker.term(*worker.take())
    exhaust(worker, 1)
    assert sequences(worker.take()) == [3]
    assert worker.numbers().ack_pending == 1


# ------------------------------------------------------------ by the facade


@pytest.mark.rule("DLQ-06", "DLQ-10")
def test_the_facade_makes_the_stream_of_dead_letters(rg: Railgun, unique: Unique) -> None:
    stream = filled(rg, "a", "b")
    name = unique("DLQ")
    worker = stream.create_consumer("WORK", max_deliver=2, dead_letter=name)
    dead = rg.stream(name)
    assert dead.info().state.messages == 0
    first, second = worker.fetch(2, wait=5.0)
    first.term("not an order")
    second.nak()
    (again,) = worker.fetch(1, wait=5.0)
    assert (again.sequence, again.deliveries) == (2, 2)
    again.nak()
    ended, worn = letters(dead, 2)
    assert (ended.payload, origin(ended)["Reason"], origin(ended)["Deliveries"]) == (
        b"1",
        "not an order",
        "1",
    )
    assert (worn.payload, origin(worn)["Deliveries"]) == (b"2", "2")
    # a second consumer with the same one, and the same consumer again, find it there
    stream.create_consumer("OTHER", dead_letter=name)
    stream.create_consumer("WORK", max_deliver=2, dead_letter=name)
    assert dead.info().state.messages == 2


@pytest.mark.rule("DLQ-10")
def test_a_refused_consumer_leaves_no_stream_for_its_dead_letters(rg: Railgun, unique: Unique) -> None:
    stream, name = filled(rg, "a"), unique("DEAD")
    with pytest.raises(railgun.ApiError):
        stream.create_consumer("WORK", dead_letter=name, backoff=[1, 2, 3], max_deliver=2)
    with pytest.raises(railgun.ApiError):
        stream.create_consumer("a.b", dead_letter=name)
    with pytest.raises(railgun.StreamNotFound):
        rg.stream(unique("MISSING")).create_consumer("WORK", dead_letter=name)
    assert name not in [info.config.name for info in rg.streams()]


@pytest.mark.rule("DLQ-10")
def test_a_refused_consumer_leaves_a_dead_letter_stream_that_was_there(rg: Railgun, unique: Unique) -> None:
    stream, name = filled(rg, "a"), unique("DEAD")
    stream.create_consumer("WORK", dead_letter=name)
    rg.connection.registry_view.apply([(f"stream/{name}".encode(), None)])  # a copy that is behind
    with pytest.raises(railgun.ApiError):
        stream.create_consumer("OTHER", dead_letter=name, backoff=[1, 2, 3], max_deliver=2)
    assert rg.stream(name).info().state.messages == 0


@pytest.mark.rule("DLQ-10")
def test_dead_letters_are_read_by_a_consumer_as_any_other_message(rg: Railgun) -> None:
    stream, dead = filled(rg, "a", "b"), filled(rg)
    worker = RawConsumer(rg, stream.name, dead_letter=dead.name)
    reader = dead.create_consumer("READER", filter_subject=f"{stream.name}.b")
    worker.term(*worker.take(2), reason="both")
    fields: list[dict[str, Any]] = []
    for message in reader.fetch(1, wait=10.0):
        fields.append({"body": message.text, "why": message.header(f"{ORIGIN}Reason")})
        message.ack_sync()
    assert fields == [{"body": "2", "why": "both"}]


@pytest.mark.rule("PUB-13")
@pytest.mark.parametrize("same_shard", [True, False], ids=["same shard", "another shard"])
def test_a_dead_letter_is_the_last_message_and_has_no_id(
    rg: Railgun, unique: Unique, same_shard: bool
) -> None:
    stream = filled(rg, "first")
    dead = neighbour(rg, unique, stream.name, same_shard=same_shard)
    rg.publish(f"{dead.name}.own", msg_id="own")
    worker = RawConsumer(rg, stream.name, "WORK", dead_letter=dead.name)
    (message,) = worker.take()
    worker.term(message, reason="no")
    letters(dead, 2)
    with pytest.raises(railgun.WrongLastMessageId) as refused:
        rg.publish(f"{dead.name}.own", expected_last_msg_id="own")
    assert refused.value.actual == ""
