"""The log topics of a shard's streams: made and deleted before a transaction, quarantined when they are gone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from confluent_kafka import KafkaError

from railgun.errors import RailgunError
from railgun.kafka.topic_admin import TopicError
from railgun.shard.drain import Drain
from railgun.worker.context import ShardContext
from railgun.worker.shards.shard_state import ShardState
from railgun.worker.shards.transaction import TransactionFailed

log = logging.getLogger("railgun.worker")


def change_topics(drain: Drain, context: ShardContext, state: ShardState) -> None:
    """Topics are deleted and created before the transaction, and again if it is repeated: a step may be done already."""
    try:
        for topic in drain.doomed_topics:
            context.topics.delete(topic)
            context.housekeeping.forget(topic)
            state.quarantined.pop(topic, None)
        for change in drain.topics:
            context.topics.create_log(change.topic, compacted=change.compacted)
            release(change.topic, state)
    except TopicError as error:
        raise TransactionFailed(error.error) from error
    except RailgunError as error:  # no broker answered
        raise TransactionFailed(KafkaError(KafkaError._TRANSPORT, str(error))) from error


def quarantine_missing(
    topics: Iterable[str],
    context: ShardContext,
    state: ShardState,
    call: Callable[[Callable[[], None]], None],
) -> bool:
    """Streams whose log topic is gone are quarantined. False when there is none.

    ``call`` runs something in the shard's thread: the release, once the topic is back.
    """
    gone = [topic for topic in topics if context.topics.exists(topic) is False]
    for topic in gone:
        log.error("the topic %s is gone: its stream is quarantined", topic)
        state.quarantined[topic] = f"the topic {topic} is gone"
        context.housekeeping.watch_for(topic, partial(call, partial(release, topic, state)))
    return bool(gone)


def release(topic: str, state: ShardState) -> None:
    """The topic is there again."""
    if state.quarantined.pop(topic, None) is not None:
        log.warning("the topic %s is back", topic)
