"""The rules for the topics that a stream adopts (TOP-01 to TOP-06)."""

from __future__ import annotations

import re
from typing import Final

from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import Refusal, invalid_config
from railgun.model.stream_config import StreamConfig, TopicSource
from railgun.model.topics.topic_subjects import template

MAX_TOPICS: Final = 100  # each has a reader of its own
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def plain_topics(config: StreamConfig) -> list[TopicSource] | None:
    """The topics as they are stored: with their templates, and without what says nothing."""
    return [
        one.model_copy(
            update={
                "subject": one.subject or f"{one.topic}.{{key}}",  # TOP-04
                "message_id": one.message_id or None,
                "opt_start_time": one.opt_start_time or None,
            }
        )
        for one in config.topics or ()
    ] or None


def topics_refused(config: StreamConfig) -> Refusal | None:
    """Why a stream cannot adopt these topics."""
    topics = config.topics or []
    if topics and config.mirror is not None:  # TOP-02
        return invalid_config("a mirror can not have topics")
    if len(topics) > MAX_TOPICS:
        return invalid_config(f"a stream can not have more than {MAX_TOPICS} topics")
    if len({one.topic for one in topics}) < len(topics):
        return invalid_config("a stream can not have the same topic twice")
    return next((found for one in topics if (found := _refused(one))), None)


def _refused(source: TopicSource) -> Refusal | None:
    if not _TOPIC.fullmatch(source.topic) or source.topic in (".", ".."):  # TOP-03
        return invalid_config(f"{source.topic!r} is not a valid name of a Kafka topic")
    try:
        makes_subjects = template(source.subject).makes_subjects
        template(source.message_id or "")
    except ValueError as error:  # TOP-04
        return invalid_config(str(error))
    if not makes_subjects:
        return invalid_config(
            f"{source.subject!r} is not a valid template of subjects: give one such as 'orders.{{key}}'"
        )
    return None


def topics_out_of_reach(config: StreamConfig, limits: ClusterLimits) -> Refusal | None:
    """Why this cluster has no such topics to adopt (TOP-03)."""
    topics = config.topics or []
    if topics and not limits.own_topics:
        return invalid_config("topics can not be adopted in memory: connect to a Kafka that has them")
    own = next((one.topic for one in topics if one.topic.startswith(limits.own_topics)), None)
    if own is not None:
        return invalid_config(
            f"the topic {own} is railgun's own: to copy a stream, name it among the sources"
        )
    return None
