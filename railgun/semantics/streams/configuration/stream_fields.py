"""The rules for one stream's configuration, field by field, and its defaults (CFG).

:func:`checked` holds for a new configuration and for a changed one alike; what only a create or only an update must obey
is in :mod:`railgun.semantics.streams.configuration.stream_configuration`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from railgun.model import subjects
from railgun.model.cluster_limits import ClusterLimits
from railgun.model.refusals import (
    MAX_BYTES_EXCEEDED,
    MAX_BYTES_REQUIRED,
    REPLICAS_NEGATIVE,
    Refusal,
    invalid_config,
    transform_destination_invalid,
    transform_source_invalid,
)
from railgun.model.refusals import pedantic as too_lax
from railgun.model.stream_config import NO_TIME, ConsumerLimits, Placement, StreamConfig, SubjectTransform
from railgun.model.transforms import BadDestination, BadSource, Transform, destination_pattern
from railgun.semantics.streams.configuration.source_fields import plain_sources, sources_refused
from railgun.semantics.streams.configuration.stream_names import MAX_FIRST_SEQUENCE, name_refused
from railgun.semantics.streams.configuration.topic_fields import plain_topics, topics_refused

MAX_DESCRIPTION = 4_096
MAX_METADATA = 131_072
MAX_REPLICAS = 5
DEFAULT_WINDOW = timedelta(minutes=2)  # DUP-04
SHORTEST = timedelta(milliseconds=100)
SHORTEST_MARKER = timedelta(seconds=1)
REQUIRED_LEVEL = "_nats.req.level"
_OF_THE_SERVER = ("_nats.ver", "_nats.level")
_LIMITS = ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers")
_API_SPACES = ("$JS.>", "$JSC.>", "$NRG.>")


def checked(config: StreamConfig, limits: ClusterLimits, *, pedantic: bool) -> StreamConfig | Refusal:
    """All rules that a new configuration and a changed one share, with the defaults filled in."""
    refusal = name_refused(config.name) or _texts_refused(config) or _replicas_refused(config)
    if refusal:
        return refusal
    if config.mirror_direct and config.mirror is None:
        return invalid_config("stream has no mirror but does have mirror direct")  # CFG-22
    filled = _with_defaults(config, pedantic)
    if isinstance(filled, Refusal):
        return filled
    refusal = (
        _times_refused(filled)
        or _policies_refused(filled)
        or _markers_refused(filled, pedantic)
        or sources_refused(filled)
        or topics_refused(filled)
        or _subjects_refused(filled)
        or _size_refused(filled, limits)
        or _transform_refused(filled)
        or _republish_refused(filled)
    )
    return refusal or _completed(filled)


def _length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _texts_refused(config: StreamConfig) -> Refusal | None:  # CFG-03
    if _length(config.description or "") > MAX_DESCRIPTION:
        return invalid_config(f"stream description is too long, maximum allowed is {MAX_DESCRIPTION}")
    if sum(_length(key) + _length(value) for key, value in (config.metadata or {}).items()) > MAX_METADATA:
        return invalid_config(f"stream metadata exceeds maximum size of {MAX_METADATA} bytes")
    return None


def _replicas_refused(config: StreamConfig) -> Refusal | None:  # CFG-16
    if config.num_replicas > MAX_REPLICAS:
        return invalid_config(f"maximum replicas is {MAX_REPLICAS}")
    return REPLICAS_NEGATIVE if config.num_replicas < 0 else None


def _with_defaults(config: StreamConfig, pedantic: bool) -> StreamConfig | Refusal:
    filled: dict[str, Any] = {"num_replicas": config.num_replicas or 1}
    for name in _LIMITS:  # CFG-12
        value = getattr(config, name)
        if value < -1 and pedantic:
            return too_lax(f"{name} must be set to -1")  # CFG-13
        filled[name] = value if value > 0 else -1
    if not config.duplicate_window and config.mirror is None and not config.sources:  # CFG-17
        shorter = NO_TIME < config.max_age < DEFAULT_WINDOW
        if shorter and pedantic:
            return too_lax("duplicate window cannot be bigger than max age")
        filled["duplicate_window"] = config.max_age if shorter else DEFAULT_WINDOW
    if not config.subjects and config.mirror is None and not config.sources and not config.topics:
        filled["subjects"] = [config.name]  # CFG-05
    if config.first_seq is not None and not 0 <= config.first_seq <= MAX_FIRST_SEQUENCE:
        return invalid_config(f"first sequence needs to be between 0 and {MAX_FIRST_SEQUENCE}")
    filled["first_seq"] = config.first_seq or None
    filled |= plain_sources(config)
    filled["topics"] = plain_topics(config)
    if config.persist_mode in ("", "default"):
        filled["persist_mode"] = None
    filled["allow_batched"] = config.allow_batched or None
    if config.placement == Placement():
        filled["placement"] = None
    if config.republish is not None and not config.republish.src:
        filled["republish"] = config.republish.model_copy(update={"src": ">"})
    if config.consumer_limits == ConsumerLimits():
        filled["consumer_limits"] = None
    return config.model_copy(update=filled)


def _times_refused(config: StreamConfig) -> Refusal | None:
    window = config.duplicate_window or NO_TIME
    if config.max_age < NO_TIME:  # CFG-14
        return invalid_config("max age can not be negative")
    if NO_TIME < config.max_age < SHORTEST:
        return invalid_config("max age needs to be >= 100ms")
    if window < NO_TIME:  # CFG-18
        return invalid_config("duplicates window can not be negative")
    if NO_TIME < config.max_age < window:
        return invalid_config("duplicates window can not be larger then max age")
    if NO_TIME < window < SHORTEST:
        return invalid_config("duplicates window needs to be >= 100ms")
    return None


def _policies_refused(config: StreamConfig) -> Refusal | None:
    if config.deny_purge and config.allow_rollup_hdrs:  # CFG-20
        return invalid_config("roll-ups require the purge permission")
    if config.allow_msg_counter:  # CFG-26
        if config.discard == "new":
            return invalid_config("counter stream cannot use discard new")
        if config.allow_msg_ttl or config.subject_delete_marker_ttl:
            return invalid_config("counter stream cannot use message TTLs")
        if config.allow_msg_schedules:
            return invalid_config("counter stream cannot use message schedules")
        if config.retention != "limits":
            return invalid_config("counter stream can only use limits retention")
    if config.allow_atomic and config.persist_mode == "async":  # BAT-27
        return invalid_config("async persist mode is not supported with atomic batch publish")
    if config.discard_new_per_subject:  # CFG-19
        if config.discard != "new":
            return invalid_config("discard new per subject requires discard new policy to be set")
        if config.max_msgs_per_subject <= 0:
            return invalid_config("discard new per subject requires max msgs per subject > 0")
    return None


def _markers_refused(config: StreamConfig, pedantic: bool) -> Refusal | None:  # TTL-07
    ttl = config.subject_delete_marker_ttl
    if not ttl:
        return None
    if ttl < NO_TIME:
        return invalid_config("subject delete marker TTL must not be negative")
    if ttl < SHORTEST_MARKER:
        return invalid_config("subject delete marker TTL must be at least 1 second")
    if pedantic and not config.allow_msg_ttl:
        return invalid_config("subject delete marker cannot be set if message TTLs are disabled")
    if pedantic and not config.allow_rollup_hdrs:
        return invalid_config("subject delete marker cannot be set if roll-ups are disabled")
    return None


def _subjects_refused(config: StreamConfig) -> Refusal | None:
    if not all(subjects.is_valid(subject) for subject in config.subjects):
        return invalid_config("invalid subject")
    if len(set(config.subjects)) < len(config.subjects):
        return invalid_config("duplicate subjects detected")  # CFG-09
    if (pair := _overlapping(config.subjects)) is not None:
        return invalid_config(f"subject {_quoted(pair[0])} overlaps with {_quoted(pair[1])}")
    refusals = (_space_refused(subject, config) for subject in config.subjects)
    return next((refusal for refusal in refusals if refusal), None)


def _overlapping(own: Sequence[str]) -> tuple[str, str] | None:
    """The first subject that overlaps with one behind it, and the first of those."""
    first, behind = None, subjects.Patterns()
    for at, subject in reversed(list(enumerate(own))):
        if behind.collide(subject):
            first = at
        behind.add(subject)
    if first is None:
        return None
    one = own[first]
    return one, next(other for other in own[first + 1 :] if subjects.collides(one, other))


def _space_refused(subject: str, config: StreamConfig) -> Refusal | None:
    if subject == ">" and not config.no_ack:  # CFG-10
        return invalid_config("capturing all subjects requires no-ack to be true")
    if subject == ">" and config.num_replicas != 1:
        return invalid_config("capturing all subjects requires replicas of 1")
    if config.no_ack:  # CFG-11
        return None
    if any(subjects.collides(subject, space) for space in _API_SPACES) and not subjects.is_subset(
        subject, "$JS.EVENT.>"
    ):
        return invalid_config("subjects that overlap with jetstream api require no-ack to be true")
    if subjects.collides(subject, "$SYS.>") and not subjects.is_subset(subject, "$SYS.ACCOUNT.>"):
        return invalid_config("subjects that overlap with system api require no-ack to be true")
    return None


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _size_refused(config: StreamConfig, limits: ClusterLimits) -> Refusal | None:  # LIM-18
    if limits.require_max_bytes and config.max_bytes <= 0:
        return MAX_BYTES_REQUIRED
    if 0 < limits.max_stream_bytes < config.max_bytes:
        return MAX_BYTES_EXCEEDED
    return None


def _transform_refused(config: StreamConfig) -> Refusal | None:  # CFG-24
    if config.subject_transform is None:
        return None
    try:
        Transform(config.subject_transform)
    except BadSource as error:
        return transform_source_invalid(str(error))
    except BadDestination as error:
        return transform_destination_invalid(str(error))
    return None


def _republish_refused(config: StreamConfig) -> Refusal | None:  # CFG-25
    if config.republish is None:
        return None
    src, dest = config.republish.src or ">", config.republish.dest
    if any(subjects.collides(destination_pattern(dest), captured) for captured in config.subjects):
        return invalid_config("stream configuration for republish destination forms a cycle")
    try:
        Transform(SubjectTransform(src=src, dest=dest))
    except (BadSource, BadDestination):
        return invalid_config(
            f"stream configuration for republish with transform from '{src}' to '{dest}' not valid"
        )
    return None


def _completed(config: StreamConfig) -> StreamConfig:
    """What follows from the rest: the options that markers imply, and the level of the API."""
    implied: dict[str, Any] = {"subject_delete_marker_ttl": config.subject_delete_marker_ttl or None}
    if config.subject_delete_marker_ttl:  # a sealed stream rolls nothing up any more
        implied |= {"allow_msg_ttl": True, "allow_rollup_hdrs": not config.sealed}
        implied["deny_purge"] = config.sealed  # markers roll up, which purges
    config = config.model_copy(update=implied)
    own = own_metadata(config.metadata) | {REQUIRED_LEVEL: str(required_level(config))}
    return config.model_copy(update={"metadata": own})


def own_metadata(given: Mapping[str, str] | None) -> dict[str, str]:
    """The metadata without what a server adds when it answers, which is never stored."""
    return {key: value for key, value in (given or {}).items() if key not in _OF_THE_SERVER}


def required_level(config: StreamConfig) -> int:
    """The API level that a server needs to hold the stream (CFG-29, CTR-30, BAT-44)."""
    if config.allow_atomic or config.allow_msg_schedules or config.persist_mode == "async":
        return 2
    return 1 if config.allow_msg_ttl or config.allow_msg_counter else 0
