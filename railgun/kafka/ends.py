"""Where partitions begin and end: the brokers are asked once for all of them, not once for each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from railgun.kafka.answers import answer_of

FIRST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LAST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_ASK: Final = 10.0
_PAUSE: Final = 0.1
_GONE: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)

Place = tuple[str, int]  # topic and partition


class Offsets(NamedTuple):
    """The answers, by partition; and for each that gave none the reason."""

    found: dict[Place, int]
    failed: dict[Place, KafkaError]

    @property
    def passing(self) -> list[Place]:
        """Partitions that are not gone, and yet did not answer."""
        return [place for place, error in self.failed.items() if error.code() not in _GONE]

    def check(self) -> dict[Place, int]:
        """The answers, if all answered but those that are gone. Raises KafkaException."""
        for place in self.passing:
            raise KafkaException(self.failed[place])
        return self.found


def offsets(
    admin: AdminClient,
    wanted: Mapping[Place, OffsetSpec],
    isolation: IsolationLevel,
    patience: float = 0.0,
) -> Offsets:
    """What is wanted of each partition. With READ_COMMITTED, the last is where the first open transaction begins.

    Partitions that cannot tell just now, because their leader changes, are asked again for ``patience`` seconds.
    """
    deadline = time.monotonic() + patience
    answers = _ask(admin, wanted, isolation)
    while answers.passing and time.monotonic() < deadline:
        time.sleep(_PAUSE)
        again = _ask(admin, {place: wanted[place] for place in answers.passing}, isolation)
        for place in again.found:
            del answers.failed[place]
        answers.found.update(again.found)
        answers.failed.update(again.failed)
    return answers


def _ask(admin: AdminClient, wanted: Mapping[Place, OffsetSpec], isolation: IsolationLevel) -> Offsets:
    answers = Offsets({}, {})
    if not wanted:
        return answers
    request = {TopicPartition(*place): spec for place, spec in wanted.items()}
    asked = admin.list_offsets(request, isolation_level=isolation, request_timeout=_ASK)
    for place, future in asked.items():
        key = (place.topic, place.partition)
        try:
            answers.found[key] = answer_of(future, _ASK + 2).offset
        except KafkaException as error:
            answers.failed[key] = error.args[0]
    return answers
