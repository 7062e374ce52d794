"""What doctor says of transactions where partitions do not answer."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from railgun.cli.doctor.transactions import hung_transactions
from railgun.kafka.settings import KafkaSettings


class Admin:
    """Tells the same end of every partition, but for one that it cannot ask."""

    def __init__(self, silent: int | None) -> None:
        self._silent = silent

    def list_offsets(self, places: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        return {place: self._answer(place) for place in places}

    def _answer(self, place: TopicPartition) -> Future[Any]:
        future: Future[Any] = Future()
        if place.partition == self._silent:
            future.set_exception(KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)))
        else:
            future.set_result(SimpleNamespace(offset=7))
        return future


def findings(silent: int | None) -> list[tuple[str, str]]:
    found = hung_transactions(Admin(silent), KafkaSettings(), {"commands": 2})  # type: ignore[arg-type]
    return [(one.verdict, one.text) for one in found]


def test_a_partition_that_cannot_be_asked_is_named_and_all_is_not_well() -> None:
    assert findings(None) == [("ok", "no transaction hangs (0 at work in 2 partitions)")]
    assert findings(1) == [("note", "1 of 2 partitions did not tell their end offsets: commands/1")]
