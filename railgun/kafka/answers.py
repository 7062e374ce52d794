"""Answers to administrative requests: the one place that waits for them.

librdkafka keeps its own time-out and then says so in a KafkaException. Where even that does not come (a broker that is frozen,
a queue that stands still), waiting ends with Python's TimeoutError, which no caller expects of Kafka and which has ended workers.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

Answer = TypeVar("Answer")


def answer_of(future: Future[Answer], seconds: float) -> Answer:
    """The answer, once it is there. Raises KafkaException, with Kafka's own time-out code when none came, and nothing else."""
    try:
        return future.result(seconds)
    except TimeoutError as error:
        waited = KafkaError(KafkaError._TIMED_OUT, f"no broker answered within {seconds:.0f} s")
        raise KafkaException(waited) from error
