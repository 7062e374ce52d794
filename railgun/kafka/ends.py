"""Where partitions begin and end: the brokers are asked once for all of them, not once for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from railgun.kafka.answers import answer_of

FIRST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LAST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_ASK: Final = 10.0
_GONE: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)

Place = tuple[str, int]  # topic and partition


class Offsets(NamedTuple):
    """The answers, by partition; and for each that gave none the reason."""

    found: dict[Place, int]
    failed: dict[Place, KafkaError]

    def check(self) -> dict[Place, int]:
        """The answers, if all answered but those that are gone. Raises KafkaException."""
        for error in self.failed.values():
            if error.code() not in _GONE:
                raise KafkaException(error)
        return self.found


def offsets(
    admin: AdminClient, places: Iterable[Place], spec: OffsetSpec, isolation: IsolationLevel
) -> Offsets:
    """The asked-for end of each partition. With READ_COMMITTED, the last is where the first open transaction begins."""
    wanted = [TopicPartition(*place) for place in places]
    answers = Offsets({}, {})
    if not wanted:
        return answers
    asked = admin.list_offsets(dict.fromkeys(wanted, spec), isolation_level=isolation, request_timeout=_ASK)
    for place, future in asked.items():
        key = (place.topic, place.partition)
        try:
            answers.found[key] = answer_of(future, _ASK + 2).offset
        except KafkaException as error:
            answers.failed[key] = error.args[0]
    return answers
