"""Offsets of the consumer group: how far the shards of a worker have read, committed once a second.

For the lag that people watch, and so that a new owner begins to read near the end. Nothing else depends on it: which record
was decided is in the changelog's cursor, and a former owner is fenced by its producer's epoch.

The member of the group commits them, outside the transactions. librdkafka can put offsets into a transaction, but the call
never comes back, whatever time-out it is given, if the group's coordinator is not found at the third attempt, some milliseconds
after the first (librdkafka's issue 5456). Seen after every restart of a single broker, on every shard that was idle.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError
from aiokafka.structs import OffsetAndMetadata

from railgun.kafka.ends import Place
from railgun.kafka.readings import Reading

log = logging.getLogger("railgun.worker")

_EVERY_SECONDS: Final = 1.0
_COMMIT_SECONDS: Final = 5.0


async def commit_regularly(
    progress: Callable[[], Mapping[Place, Reading]], consumer: Callable[[], Any]
) -> None:
    """Changed offsets are committed for as long as the worker runs. ``consumer`` is Faust's, None before there is one."""
    committed: Mapping[Place, Reading] = {}
    while True:
        await asyncio.sleep(_EVERY_SECONDS)
        now = progress()
        changed = {place: reading for place, reading in now.items() if committed.get(place) != reading}
        if changed and await _commit(consumer(), changed):
            committed = now


async def _commit(consumer: Any, readings: Mapping[Place, Reading]) -> bool:
    """Commit the offsets. False if the group refused: it takes them only from a member of its present generation."""
    try:
        thread = consumer._thread
        committing = thread._consumer.commit(
            {
                TopicPartition(*place): OffsetAndMetadata(reading.offset, reading.metadata())
                for place, reading in readings.items()
            }
        )
        waiting = asyncio.run_coroutine_threadsafe(
            asyncio.wait_for(committing, _COMMIT_SECONDS), thread.thread_loop
        )
        await asyncio.wrap_future(waiting)
    except (KafkaError, IllegalStateError, TimeoutError) as error:
        log.info("the group was not told how far its records are decided, it comes again: %r", error)
        return False
    return True
