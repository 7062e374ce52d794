"""Answers fit into one record of Kafka, or say in words that they do not: no drain fails because of one."""

from __future__ import annotations

from typing import Any

import pytest

from railgun.model.cluster_limits import LARGEST_BODY, LARGEST_MESSAGE, LARGEST_RECORD
from railgun.model.refusals import MESSAGE_TOO_LARGE, Refusal
from railgun.protocol.commands import Pull
from railgun.protocol.replies import Frame, PackReply
from railgun.shard.clock import ShardClock
from railgun.shard.drain import Drain
from railgun.shard.open_drain import OpenDrain
from railgun.worker.shards.transaction import reply_records
from tests.support.shards import NAMES, Shards

MEGABYTE = 1_000_000
SIZES = (5 * MEGABYTE, 6 * MEGABYTE, 7 * MEGABYTE, LARGEST_MESSAGE)


def a_stream(**fields: Any) -> Shards:
    shards = Shards(partitions=1)
    limits = {"max_msg_size": 100 * MEGABYTE, "subjects": ["A.*"]}
    shards.request("STREAM.CREATE.A", {"name": "A", **limits, **fields})
    shards.settle()
    return shards


def published(**fields: Any) -> Shards:
    """A stream with one large message of each size."""
    shards = a_stream(**fields)
    for number, size in enumerate(SIZES):
        shards.publish("A", [f"A.{number}"], payloads=[b"x" * size])
    shards.settle()
    assert sorted(shards.outcomes.values()) == [1, 2, 3, 4]
    return shards


def largest_records(drains: list[Drain]) -> int:
    """The largest record that these drains make of answers, changes and forwards."""
    bodies = [
        *(body for drain in drains for _, _, body in reply_records(drain.replies, 0, 1, 1)),
        *(value for drain in drains for value in drain.changes.values() if value is not None),
        *(forward for drain in drains for _, forward in drain.sent),
    ]
    return max(map(len, bodies))


@pytest.mark.rule("GET-01", "GET-08", "GET-11")
@pytest.mark.parametrize("allow_direct", [False, True])
def test_gets_of_large_messages_tell_their_place(allow_direct: bool) -> None:
    shards = published(allow_direct=allow_direct)
    begun = len(shards.drains)
    asked = [shards.request("STREAM.MSG.GET.A", {"seq": sequence}) for sequence in range(1, 5)]
    asked += [shards.request("STREAM.MSG.GET.A", {"last_by_subj": "A.3"})]
    if allow_direct:
        asked += [shards.request("DIRECT.GET.A", {"seq": sequence}) for sequence in range(1, 5)]
        asked += [shards.request("DIRECT.GET.A", {"seq": 1, "batch": 4})]
    shards.settle()
    frames = [frame for request in asked for frame in shards.answers[request] if not is_status(frame)]
    assert all(frame.located is not None for frame in frames)
    assert largest_records(shards.drains[begun:]) < 100_000
    for frame in frames:
        place = frame.located
        assert place is not None
        payload = shards.logs[place.topic].payload_of(place.sequence, place.offset)
        assert payload is not None
        assert len(payload) == SIZES[place.sequence - 1]


def is_status(frame: Frame) -> bool:
    return bool(frame.headers) and frame.headers[0][0] == "Status"


@pytest.mark.rule("GET-01")
def test_a_get_in_the_drain_that_stores_a_large_message() -> None:
    shards = a_stream(allow_direct=True)
    shards.publish("A", ["A.x"], payloads=[b"x" * (7 * MEGABYTE)])
    asked = shards.request("STREAM.MSG.GET.A", {"seq": 1})
    shards.settle()
    (frame,) = shards.answers[asked]
    assert frame.located is not None
    assert shards.logs[NAMES.log("A")].payload_of(1, frame.located.offset) is not None


@pytest.mark.rule("PUL-01")
def test_leases_of_large_messages_fit() -> None:
    shards = a_stream()
    config = {"durable_name": "C", "ack_policy": "explicit"}
    shards.request("CONSUMER.CREATE.A.C", {"stream_name": "A", "config": config}, stream="A")
    shards.command("A", "C", pull=Pull(1, 10))
    shards.settle()
    begun = len(shards.drains)
    for size in SIZES:
        shards.publish("A", ["A.x"], payloads=[b"x" * size])
    shards.settle()
    assert sum(sum(lease.counts) for lease in shards.leases["client"]) == 4
    assert largest_records(shards.drains[begun:]) < MEGABYTE


@pytest.mark.rule("LIM-12")
def test_a_message_that_could_not_be_stored_with_railgun_s_headers_is_refused() -> None:
    shards = a_stream()
    request = shards.publish("A", ["A.x"], payloads=[b"x" * (LARGEST_MESSAGE + 1)])
    shards.settle()
    assert shards.outcomes[request] == MESSAGE_TOO_LARGE


@pytest.mark.rule("RDL-08")
def test_dead_letters_and_republished_messages_travel_in_records_that_fit() -> None:
    shards = Shards(partitions=2)
    for name, fields in {
        "A": {"subjects": ["A.*"], "republish": {"src": "A.*", "dest": "heard"}},
        "B": {"subjects": ["B.*"]},
    }.items():
        shards.request(f"STREAM.CREATE.{name}", {"name": name, "max_msg_size": 100 * MEGABYTE, **fields})
    shards.settle()
    config = {"durable_name": "C", "ack_policy": "explicit", "max_deliver": 1, "ack_wait": 10**9}
    body = {"stream_name": "A", "config": config | {"dead_letter": "B"}}
    shards.request("CONSUMER.CREATE.A.C", body, stream="A")
    shards.presence("client", ("heard", ""))
    shards.settle()
    for size in SIZES:
        shards.publish("A", ["A.x"], payloads=[b"x" * size])
    shards.command("A", "C", pull=Pull(1, 10))
    shards.settle()
    shards.now += 2 * 10**9
    shards.settle()
    assert largest_records(shards.drains) < LARGEST_RECORD - 10_000
    asked = shards.request("STREAM.INFO.B")
    shards.settle()
    assert shards.answer(asked)["state"]["messages"] == len(SIZES)
    assert not shards.rejected


def test_an_answer_that_does_not_fit_is_a_refusal() -> None:
    drain = OpenDrain(ShardClock(adjustable=False), 0)
    drain.answer("me", 1, [Frame([], b"x" * LARGEST_BODY)])
    (answer,) = drain.decisions.replies["me"].answers
    assert b"too large to be sent" in answer.frames[0].body
    assert b"413" in answer.frames[0].body


def test_very_many_refusals_are_told_by_their_numbers() -> None:
    drain = OpenDrain(ShardClock(adjustable=False), 0)
    refusal = Refusal(503, 10077, "maximum messages exceeded")
    drain.answer_pack("me", PackReply("A", 1, [], [], [(index, refusal) for index in range(200_000)]))
    (record,) = reply_records(drain.decisions.replies, 0, 1, 1)
    assert len(record[2]) < LARGEST_BODY
