"""The topics that a shard reads, compared with its cursor: are they still the same?

Looked at before the first record of each stay, and whenever a record shows that they are not (:meth:`Cursor.anew`):

- another topic of the same name: all its records are decided, from its beginning;
- cut back, or restored from an older copy, and written on: records that were received later than all that was read are decided;
- shorter than what was read: new records are decided, from its real end. The end that a broker reports may be an old one (a
  leader that was frozen and replaced meanwhile), so a record is written to see.

Each is logged as an error. Commands that are gone were decided, unless no worker had read them; those are not known.
"""

from __future__ import annotations

import logging
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from railgun.errors import ConnectionLost
from railgun.kafka.ends import Place
from railgun.kafka.readings import Continuation, Reading, go_on, look_from_worker
from railgun.model.headers import COMMAND_KIND
from railgun.protocol.commands import NOTHING, Forward
from railgun.shard.cursor import Cursor
from railgun.worker.context import ShardContext

log = logging.getLogger("railgun.worker")

_SECONDS: Final = 10.0


def input_places(context: ShardContext, partition: int) -> dict[Place, bool]:
    """The partitions that a shard reads, and whether they hold forwards."""
    return {(context.names.commands, partition): False, (context.names.forwards, partition): True}


def read_so_far(context: ShardContext, partition: int, cursor: Cursor) -> dict[Place, Reading]:
    """The reading of each of them, as the cursor has it."""
    places = input_places(context, partition)
    return {place: Reading(*cursor.reading(forwarded)) for place, forwarded in places.items()}


def check_inputs(context: ShardContext, partition: int, cursor: Cursor) -> bool:
    """The cursor is moved where it does not fit its topics. False if it had to be.

    Raises KafkaException, and ConnectionLost for a topic that is gone.
    """
    places, fits = input_places(context, partition), True
    readings = read_so_far(context, partition, cursor)
    found = look_from_worker(context.kafka, context.admin, readings, _SECONDS)
    for place, forwarded in places.items():
        topic, _ = place
        if place not in found:
            raise ConnectionLost(
                f"the topic {topic} is gone: make it again with railgun init, or restart a worker"
            )
        there = go_on(readings[place], found[place])
        if there.shortened:
            there = _by_its_real_end(context, place, readings[place], found[place].topic)
        if there.wrong:
            fits = False
            log.error(
                "shard %d: the topic %s is not what it was: %s. Commands are decided from offset %d on; "
                "those that were lost with it and nobody had read are lost",
                partition, topic, there.wrong, there.offset,
            )  # fmt: skip
        cursor.read_on(forwarded, found[place].topic, there.offset)
    return fits


def _by_its_real_end(context: ShardContext, place: Place, read: Reading, topic: str) -> Continuation:
    """A record is written to see where it is: only what all copies agree to is acknowledged."""
    end = _write_nothing(context, place)
    seen = look_from_worker(context.kafka, context.admin, {place: read}, _SECONDS)[place]
    return go_on(read, seen._replace(topic=topic, end=end + 1))


def _write_nothing(context: ShardContext, place: Place) -> int:
    topic, partition = place
    value = Forward(partition, "nothing", "").encode() if topic == context.names.forwards else b""
    written: list[int | KafkaError] = []

    def noted(error: KafkaError | None, message: Message) -> None:
        written.append(error if error is not None else message.offset() or 0)

    producer = Producer(context.kafka.producer())
    kind = {COMMAND_KIND: NOTHING}
    producer.produce(topic, value, None, partition, on_delivery=noted, headers={**kind})
    producer.flush(_SECONDS)
    offset = written[0] if written else KafkaError(KafkaError._TIMED_OUT, f"{topic} cannot be written")
    if isinstance(offset, KafkaError):
        raise KafkaException(offset)
    return offset
