"""Requests that nobody is there to answer: whoever asks is told so at once (CON-31, ACK-04, GET-07)."""

from __future__ import annotations

import pytest

import railgun
from railgun import Railgun
from railgun.errors import ConsumerNotFound
from tests.support.consumers import add, delivery, settle, take
from tests.support.raw import frames, nobody_answers, statuses
from tests.support.streams import Make, put


@pytest.mark.rule("CON-31")
@pytest.mark.parametrize(
    "body", [b"", b"5", b'{"no_wait": true}', b'{"batch": 0x', b'{"expires": 60000000000}']
)
def test_a_pull_on_a_consumer_that_does_not_exist(rg: Railgun, make: Make, body: bytes) -> None:
    stream = make()
    assert nobody_answers(rg, f"CONSUMER.MSG.NEXT.{stream.name}.NONE", body)
    assert nobody_answers(rg, f"CONSUMER.MSG.NEXT.{stream.name}_NONE.C", body)


@pytest.mark.rule("CON-31")
@pytest.mark.parametrize("body", [b"+ACK", b"", b"-NAK", b"+WPI", b"+TERM", b"+NXT", b"what?"])
def test_an_ack_to_a_consumer_that_is_gone(rg: Railgun, make: Make, body: bytes) -> None:
    stream = make()
    put(rg, stream, 1)
    add(rg, stream.name)
    (message,) = take(rg, stream.name)
    stream.delete_consumer("C")
    assert nobody_answers(rg, message.reply, body)
    rg.delete_stream(stream.name)
    assert nobody_answers(rg, message.reply, body)


@pytest.mark.rule("CON-31", "ACK-17")
def test_the_facade_says_in_words_that_a_consumer_is_gone(rg: Railgun, make: Make) -> None:
    stream = make()
    put(rg, stream, 2)
    worker = stream.create_consumer("C")
    message = worker.next(wait=5.0)
    assert message is not None
    stream.delete_consumer("C")
    with pytest.raises(ConsumerNotFound, match="consumer not found"):
        message.ack_sync(timeout=60.0)
    with pytest.raises(ConsumerNotFound, match="consumer not found"):
        worker.fetch(1, wait=60.0)
    with pytest.raises(ConsumerNotFound, match="consumer not found"):
        stream.consumer("NEVER").next(wait=60.0)


@pytest.mark.rule("ACK-14")
def test_an_ack_is_confirmed_again_when_its_message_is_gone(rg: Railgun, make: Make) -> None:
    stream = make()
    put(rg, stream, 2)
    add(rg, stream.name)
    first, second = take(rg, stream.name, batch=2)
    settle(rg, first)
    for message in (first, second):
        stream.delete_message(delivery(message).sequence)
        settle(rg, message)
    stream.delete_consumer("C")
    put(rg, stream, 3)
    add(rg, stream.name)
    take(rg, stream.name, batch=3)
    settle(rg, first)


@pytest.mark.rule("GET-07")
@pytest.mark.parametrize("short", ["", ".a"])
def test_a_direct_get_that_nobody_answers(rg: Railgun, make: Make, short: str) -> None:
    stream = make()
    put(rg, stream, 1)
    body = b"" if short else b'{"seq": 1}'
    assert nobody_answers(rg, f"DIRECT.GET.{stream.name}{short and f'.{stream.name}{short}'}", body)
    assert nobody_answers(rg, f"DIRECT.GET.{stream.name}_NONE{short}", body)
    rg.update_stream(stream.name, allow_direct=True)
    assert len(frames(rg, f"DIRECT.GET.{stream.name}", b'{"seq": 1}')) == 1


@pytest.mark.rule("GET-08", "PUL-13")
@pytest.mark.parametrize("status", ["503", "404", "not a number"])
def test_a_header_of_a_message_is_never_its_status(rg: Railgun, make: Make, status: str) -> None:
    stream = make(allow_direct=True)
    headers = {"Status": status, "Description": "of its own"}
    rg.publish(f"{stream.name}.a", b"", headers=headers)
    add(rg, stream.name)
    (pulled,) = take(rg, stream.name)
    (one,) = frames(rg, f"DIRECT.GET.{stream.name}", b'{"seq": 1}')
    (first, end) = frames(rg, f"DIRECT.GET.{stream.name}", b'{"seq": 1, "batch": 5}')
    for reply in (pulled, one, first):
        assert (reply.status, reply.description, reply.header("Status")) == (None, None, status)
    assert statuses([end]) == [(204, "EOB")]
    message = stream.consumer("C").next(wait=0.2)
    assert message is None  # it waits for its answer
    message = stream.create_consumer("D").next(wait=5.0)
    assert message is not None
    assert (message.status, message.description, message.header("Status")) == (None, None, status)


@pytest.mark.rule("PUB-05")
def test_a_request_that_no_call_and_no_stream_answers(rg: Railgun) -> None:
    assert nobody_answers(rg, "$JS.API.STREAM.NOTHING.S")
    assert nobody_answers(rg, "captured.by.nobody")
    with pytest.raises(railgun.NoStreamResponse):
        rg.publish("captured.by.nobody", b"x")
