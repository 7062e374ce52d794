"""Records outside transactions: bounded, waited for where they matter, and never lost without a word."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from railgun.worker.outbox import Outbox


class Seconds:
    """A clock that goes on by itself, a little each time it is read."""

    def __init__(self, step: float = 0.3) -> None:
        self.now, self._step = 100.0, step

    def __call__(self) -> float:
        self.now += self._step
        return self.now


def producer_of(seconds: float) -> Producer:
    """A producer that reaches nobody and has room for five records, which are given up after so many seconds."""
    return Producer(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "queue.buffering.max.messages": 5,
            "message.timeout.ms": round(seconds * 1000),
            "log_level": 0,
        }
    )


@pytest.mark.rule("ADV-13")
def test_what_finds_no_room_is_counted_and_said(caplog: pytest.LogCaptureFixture) -> None:
    seconds, producer = Seconds(), producer_of(600)
    outbox = Outbox(producer, crowded=3, now=seconds)
    producer.poll(0)  # that nobody answers waits in the same queue
    assert outbox.has_room
    assert [outbox.offer("advisories", b"", b"x", 0) for _ in range(8)] == [True] * 5 + [False] * 3
    assert not outbox.has_room
    started = seconds.now
    assert not outbox.send("replies", b"me", b"an answer", 0)
    assert 1.0 <= seconds.now - started < 3.0, "it waited for room, but not for long"
    assert outbox.dropped == 4
    outbox.tick()
    assert sorted(record.message for record in caplog.records) == [
        "1 records for replies were not sent (too many wait to be sent), 4 in all",
        "3 records for advisories were not sent (too many wait to be sent), 4 in all",
    ]
    for _ in range(5):
        outbox.offer("advisories", b"", b"x", 0)
        outbox.tick()
    assert len(caplog.records) == 2, "not again so soon"
    producer.purge()


def test_an_answer_waits_for_room(caplog: pytest.LogCaptureFixture) -> None:
    producer = producer_of(0.3)
    outbox = Outbox(producer, now=Seconds(0.001))  # so that it waits long, however busy the machine is
    for _ in range(5):
        assert outbox.offer("advisories", b"", b"x", 0)
    assert outbox.send("replies", b"me", b"an answer", 0), "room is made when the others are given up"
    outbox.flush(0.1)
    assert outbox.dropped == 5, "what did not arrive is counted, too"
    assert "5 records for advisories were not sent" in caplog.text
    producer.purge()
