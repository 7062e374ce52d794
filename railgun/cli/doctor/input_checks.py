"""The topics that the workers read: whether they still are those that the workers have read so far."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from railgun.cli.doctor.findings import Finding, note, ok, wrong
from railgun.kafka.answers import answer_of
from railgun.kafka.ends import Place, by_admin
from railgun.kafka.readings import Reading, go_on, look
from railgun.kafka.trouble import in_words

_ASK: Final = 10.0


def check_inputs(admin: AdminClient, group: str, topics: Collection[str]) -> Iterator[Finding]:
    """One finding for each partition that is not what the group has read, or one that all are."""
    try:
        told = _told(admin, group, topics)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise
        reason = in_words(error, f"asking for the offsets of {group}")
        yield note("inputs", str(reason), "grant DESCRIBE on the group: railgun init --print-acls")
        return
    faults = 0
    for (topic, partition), found in look(admin, by_admin(admin, committed=False), told).items():
        fault = go_on(told[topic, partition], found).wrong
        if fault:
            faults += 1
            yield wrong(
                "inputs",
                f"{topic}/{partition} is not what the workers have read: {fault}",
                "a running worker says in its log where it goes on; if none runs, start one. Commands that were not "
                "read yet are lost: their senders got no answer",
            )
    if not faults:
        yield ok("inputs", f"{len(told)} partitions are what the workers have read")


def _told(admin: AdminClient, group: str, topics: Collection[str]) -> dict[Place, Reading]:
    """The offsets of the group, and what it noted with them."""
    request = ConsumerGroupTopicPartitions(group)
    asked = admin.list_consumer_group_offsets([request], request_timeout=_ASK)[group]
    return {
        (place.topic, place.partition): Reading.from_metadata(place.offset, _metadata(place))
        for place in answer_of(asked, _ASK + 2).topic_partitions
        if place.topic in topics and place.offset >= 0
    }


def _metadata(place: TopicPartition) -> str:
    try:
        return str(place.metadata or "")
    except (
        UnicodeDecodeError
    ):  # of another program, or an older version: confluent-kafka reads beyond its end
        return ""
