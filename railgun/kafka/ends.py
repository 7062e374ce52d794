"""The beginnings and ends of partitions: the brokers are asked once for all of them, not once for each.

Two ways to ask. An AdminClient names each partition that does not answer, but ends the whole process now and then when a
broker goes away (librdkafka issue 4605), and knows a leader by an old epoch until it reads the metadata again: it is for
``railgun doctor``. A consumer does neither, and fails for all partitions at once: it is for workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from railgun.kafka.answers import answer_of

FIRST: Final = (
    -2
)  # the protocol's own numbers; any other is a time, in ms: the first record that is not older
LAST: Final = -1
_SPECS: Final[dict[int, OffsetSpec]] = {
    FIRST: OffsetSpec.earliest(),  # type: ignore[no-untyped-call]
    LAST: OffsetSpec.latest(),  # type: ignore[no-untyped-call]
}
_ASK: Final = 10.0
_PAUSE: Final = 0.1
_GONE: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)

Place = tuple[str, int]  # topic and partition


class Offsets(NamedTuple):
    """The offsets by partition, and the reason for each partition without one."""

    found: dict[Place, int]
    failed: dict[Place, KafkaError]

    @property
    def passing(self) -> list[Place]:
        """Partitions that exist but did not answer."""
        return [place for place, error in self.failed.items() if error.code() not in _GONE]

    def check(self) -> dict[Place, int]:
        """The offsets, if all partitions answered that exist. Raises KafkaException."""
        for place in self.passing:
            raise KafkaException(self.failed[place])
        return self.found


Ask = Callable[[Mapping[Place, int]], Offsets]


def offsets(ask: Ask, wanted: Mapping[Place, int], patience: float = 0.0) -> Offsets:
    """The offsets of each partition for FIRST, LAST or a time. For a time without a record, the offset is below 0.

    With committed records only, LAST is where the first open transaction begins. Partitions that cannot answer just now,
    because their leader changes, are asked again for ``patience`` seconds.
    """
    deadline = time.monotonic() + patience
    answers = ask(wanted) if wanted else Offsets({}, {})
    while answers.passing and time.monotonic() < deadline:
        time.sleep(_PAUSE)
        again = ask({place: wanted[place] for place in answers.passing})
        for place in again.found:
            del answers.failed[place]
        answers.found.update(again.found)
        answers.failed.update(again.failed)
    return answers


def by_consumer(consumer: Consumer) -> Ask:
    """Ask through a consumer, by its level of isolation."""

    def ask(wanted: Mapping[Place, int]) -> Offsets:
        answers = Offsets({}, {})
        places = [TopicPartition(*place, offset) for place, offset in wanted.items()]
        try:
            told = consumer.offsets_for_times(places, _ASK)
        except KafkaException as error:
            return Offsets({}, dict.fromkeys(wanted, error.args[0]))
        for place in told:
            key = (place.topic, place.partition)
            if place.error is None:
                answers.found[key] = place.offset
            else:
                answers.failed[key] = place.error
        return answers

    return ask


def by_admin(admin: AdminClient, *, committed: bool) -> Ask:
    """Ask through an AdminClient."""
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

    def ask(wanted: Mapping[Place, int]) -> Offsets:
        answers = Offsets({}, {})
        request = {TopicPartition(*place): _spec(offset) for place, offset in wanted.items()}
        asked = admin.list_offsets(request, isolation_level=isolation, request_timeout=_ASK)
        for place, future in asked.items():
            key = (place.topic, place.partition)
            try:
                answers.found[key] = answer_of(future, _ASK + 2).offset
            except KafkaException as error:
                answers.failed[key] = error.args[0]
        return answers

    return ask


def _spec(wanted: int) -> OffsetSpec:
    return _SPECS.get(wanted) or OffsetSpec.for_timestamp(wanted)
