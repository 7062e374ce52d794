"""Looks at adopted topics, and what follows from them: where a stream begins, and what it does when the topic is not what it was.

Nothing is lost in silence: whatever Kafka removed before it was copied is counted, noted in the table, and logged as an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from railgun.model.durations import NANOS
from railgun.semantics.streams.adopting.adopted_topics import AdoptedPartition
from railgun.semantics.streams.adopting.topic_records import PartitionSeen, TopicSeen
from railgun.semantics.streams.owned_stream import OwnedStream

log = logging.getLogger("railgun.shard")

# A leader that was frozen and replaced may tell an old end: only one that stays is believed.
BELIEVED: Final = 10 * NANOS


def follow_look(seen: TopicSeen, state: OwnedStream, now: int, beyond: dict[int, int]) -> list[int]:
    """The positions follow the topic; the partitions whose readers have to begin anew.

    ``beyond``: for each known partition since when its position is behind its end, 0: it is not.
    """
    topic, known = seen.of.topic, state.adopted.partitions(seen.of.topic)
    if not seen.topic_id or not seen.partitions:
        return []  # nothing is known of it now: neither that it is another topic, nor where that begins
    if known and {entry.topic_id for entry in known.values()} != {seen.topic_id}:
        if seen.topic_id in state.adopted.former.get(topic, ()):
            return []  # told by a broker that lags behind, or late: the id of a topic never comes back
        beyond.clear()
        return _begin_anew(seen, state)
    moved = []
    for one in seen.partitions:
        entry = known.get(one.partition)
        if entry is None:
            # TOP-13: a partition that was added holds nothing that is older than the stream.
            begin = one.low if known else one.start
            state.adopted.put(topic, one.partition, AdoptedPartition(seen.topic_id, begin, end=one.high))
            moved.append(one.partition)
        elif _follow(one, entry, seen, now, beyond):
            state.adopted.put(topic, one.partition, entry)
            moved.append(one.partition)
    return moved


def _begin_anew(seen: TopicSeen, state: OwnedStream) -> list[int]:
    """TOP-12: another topic of the same name is copied from its beginning; copies of the old one stay."""
    topic = seen.of.topic
    known = dict(state.adopted.partitions(topic))
    state.adopted.former.setdefault(topic, set()).update(old.topic_id for old in known.values())
    state.adopted.forget(topic)
    for one in seen.partitions:
        entry = AdoptedPartition(seen.topic_id, one.low, end=one.high)
        old = known.get(one.partition)
        unread = 0 if old is None else old.lag
        if old is not None:
            entry.passed, entry.lost = old.passed, old.lost
        text = (
            f"the topic {topic} was deleted and created anew: it is copied from its beginning; of partition {one.partition} "
            f"of the old one, {unread} offsets that were seen were not copied"
        )
        entry.lose(unread, text)
        state.adopted.put(topic, one.partition, entry)
    unread = sum(old.lag for old in known.values())
    log.error(
        "the stream %s: the topic %s was deleted and created anew, and is copied from its beginning; %d offsets of the old one "
        "that were seen were not copied",
        *(state.name, topic, unread),
    )
    return _numbers(seen.partitions)


def _numbers(partitions: Iterable[PartitionSeen]) -> list[int]:
    return [one.partition for one in partitions]


def _follow(
    one: PartitionSeen, entry: AdoptedPartition, seen: TopicSeen, now: int, beyond: dict[int, int]
) -> bool:
    """Whether the position had to be moved: into what the partition holds (TOP-11)."""
    entry.end = one.high
    if not one.unreadable or one.low <= entry.position <= one.high:
        beyond[one.partition] = 0
        return False
    if entry.position < one.low:
        count, to = one.low - entry.position, one.low
        why = f"{count} offsets from {entry.position} on were removed by Kafka before they were copied"
    else:
        since = beyond[one.partition] = beyond[one.partition] or now
        if now - since < BELIEVED:
            return False
        count, to = 0, one.high
        why = (
            f"it was copied up to offset {entry.position}, but ends at {one.high}: it is copied from there on"
        )
    log.error(
        "the stream %s: partition %d of the topic %s: %s", seen.of.stream, one.partition, seen.of.topic, why
    )
    entry.lose(count, why)
    entry.position = to
    return True
