"""Trims of logs wait out their grace, and hit only the topic that they were meant for."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from railgun.shard.drain import Trim
from railgun.worker.shards import log_trims
from railgun.worker.shards.log_trims import GRACE, LogTrims


class Brokers:
    """Topics by name with their ids, and what was trimmed of them."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {"log.A": "first", "log.B": "first"}
        self.trimmed: list[tuple[str, int]] = []
        self.away = False

    def topic_ids(self, _: Any, topics: Any) -> dict[str, str]:
        if self.away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return {topic: self.ids[topic] for topic in topics if topic in self.ids}

    def delete_records(self, requests: Any, **_: Any) -> dict[Any, Future[None]]:
        answers: dict[Any, Future[None]] = {}
        for request in requests:
            self.trimmed.append((request.topic, request.offset))
            answers[request] = Future()
            answers[request].set_result(None)
        return answers


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    found = Brokers()
    monkeypatch.setattr(log_trims, "topic_ids", found.topic_ids)
    return found


@pytest.fixture
def trims(brokers: Brokers) -> LogTrims:
    admin: Any = brokers
    return LogTrims(admin)


def turns(trims: LogTrims, count: int) -> None:
    for _ in range(count):
        trims.turn()


def test_a_trim_is_carried_out_after_its_grace(trims: LogTrims, brokers: Brokers) -> None:
    trims.add(0, [Trim("log.A", 5), Trim("log.B", 0)])
    turns(trims, GRACE)
    assert brokers.trimmed == []
    trims.turn()
    assert brokers.trimmed == [("log.A", 5)]
    trims.add(0, [Trim("log.A", 5)])
    turns(trims, GRACE + 1)
    assert len(brokers.trimmed) == 1, "what is done is not done again"


def test_a_topic_that_was_made_anew_is_left_alone(trims: LogTrims, brokers: Brokers) -> None:
    trims.add(0, [Trim("log.A", 300), Trim("log.B", 7)])
    trims.turn()
    brokers.ids["log.A"] = "second"  # another worker deleted the stream and made it again
    turns(trims, GRACE)
    assert brokers.trimmed == [("log.B", 7)]


def test_a_shard_that_leaves_takes_its_trims_along(trims: LogTrims, brokers: Brokers) -> None:
    trims.add(1, [Trim("log.A", 300)])
    trims.turn()
    trims.add(1, [Trim("log.A", 400)])
    trims.add(2, [Trim("log.B", 7)])
    trims.leave(1)
    turns(trims, GRACE + 1)
    assert brokers.trimmed == [("log.B", 7)]


def test_brokers_that_are_away_put_trims_off(trims: LogTrims, brokers: Brokers) -> None:
    trims.add(0, [Trim("log.A", 5)])
    turns(trims, GRACE)
    brokers.away = True
    turns(trims, 3)
    brokers.away = False
    assert brokers.trimmed == []
    turns(trims, GRACE + 1)
    assert brokers.trimmed == [("log.A", 5)]
