"""The rules for one consumer's configuration, field by field, and its defaults (CON)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from railgun.model import refusals, subjects
from railgun.model.consumer_config import ConsumerConfig
from railgun.model.durations import parse_rfc3339
from railgun.model.refusals import Refusal, invalid_config, start_invalid
from railgun.model.stream_config import NO_TIME, StreamConfig
from railgun.semantics.streams.configuration.stream_fields import (
    MAX_DESCRIPTION,
    MAX_METADATA,
    REQUIRED_LEVEL,
    own_metadata,
)
from railgun.semantics.streams.configuration.stream_names import MAX_NAME, name_refused

DEFAULT_ACK_WAIT = timedelta(seconds=30)
DEFAULT_MAX_ACK_PENDING = 1_000
DEFAULT_MAX_WAITING = 512
EPHEMERAL_THRESHOLD = timedelta(seconds=5)  # CON-03
SHORTEST_HEARTBEAT = timedelta(milliseconds=100)
NO_MOMENT = "0001-01-01T00:00:00Z"  # how NATS writes a moment that was not given
SHORTEST_EXPIRES = timedelta(milliseconds=1)
_NAME = re.compile(r"[^\x00 \t\r\n\f.*>\\/]+")
_START = {  # deliver policy: what messages call it, and the options that it takes
    "all": ("all", ()),
    "last": ("last", ()),
    "new": ("new", ()),
    "last_per_subject": ("last per subject", ()),
    "by_start_sequence": ("by start sequence", ("sequence",)),
    "by_start_time": ("by start time", ("time",)),
}


def checked(config: ConsumerConfig, stream: StreamConfig) -> ConsumerConfig | Refusal:
    """The configuration with its defaults, or the first rule that it breaks by itself."""
    config = _without_negatives(config)
    return (
        _names_refused(config)
        or _policies_refused(config, stream)
        or (_push_refused(config, stream) if config.is_push else _pull_refused(config, stream))
        or _filters_refused(config)
        or _start_refused(config)
        or _sampling_refused(config)
        or _metadata_refused(config)
        or _own_refused(config, stream)
        or _not_ours_refused(config)
        or _with_defaults(config, stream)
    )


def _without_negatives(config: ConsumerConfig) -> ConsumerConfig:
    """The configuration without numbers below 0 where those stand for none, as zero does."""
    numbers = {name: getattr(config, name) for name in ("max_waiting", "max_batch", "max_bytes")}
    times = {name: getattr(config, name) for name in ("max_expires", "idle_heartbeat")}
    kept: dict[str, Any] = {name: value if (value or 0) > 0 else None for name, value in numbers.items()}
    kept |= {name: value if (value or NO_TIME) > NO_TIME else None for name, value in times.items()}
    return config.model_copy(update=kept)


def _names_refused(config: ConsumerConfig) -> Refusal | None:  # CON-07
    for called, name in (("durable name", config.durable_name), ("name", config.name)):
        if not name:
            continue
        if "/" in name or "\\" in name:
            return refusals.CONSUMER_NAME_HAS_PATH
        if not _NAME.fullmatch(name):
            return refusals.bad_consumer_name(called)
        if _length(name) > MAX_NAME:
            return refusals.consumer_name_too_long(MAX_NAME)
    if config.name and config.durable_name and config.name != config.durable_name:
        return refusals.CONSUMER_NAMES_DIFFER
    if _length(config.description or "") > MAX_DESCRIPTION:
        return refusals.consumer_description_too_long(MAX_DESCRIPTION)
    return None


def _metadata_refused(config: ConsumerConfig) -> Refusal | None:  # the last of the rules in nats-server, too
    if sum(_length(key) + _length(value) for key, value in (config.metadata or {}).items()) > MAX_METADATA:
        return refusals.consumer_metadata_too_large(MAX_METADATA)
    return None


def _length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _policies_refused(config: ConsumerConfig, stream: StreamConfig) -> Refusal | None:
    if config.ack_policy not in ("none", "all", "explicit"):  # CON-24
        return refusals.ACK_POLICY_INVALID
    if config.replay_policy not in ("instant", "original"):
        return refusals.REPLAY_POLICY_INVALID
    if (config.ack_wait or NO_TIME) < NO_TIME:
        return refusals.ACK_WAIT_NEGATIVE
    if any(wait < NO_TIME for wait in config.backoff or ()):
        return refusals.BACKOFF_NEGATIVE
    if 0 < (config.max_deliver or 0) < len(config.backoff or ()):  # RDL-07, C-28
        return refusals.TOO_MANY_BACKOFFS
    if config.num_replicas < 0:
        return refusals.REPLICAS_NEGATIVE
    if stream.retention == "interest" and config.num_replicas not in (0, stream.num_replicas):
        return refusals.CONSUMER_REPLICAS_DIFFER
    return None


def _push_refused(config: ConsumerConfig, stream: StreamConfig) -> Refusal | None:
    target, heartbeat = config.deliver_subject or "", config.idle_heartbeat or NO_TIME
    if subjects.has_wildcard(target):  # CON-20
        return refusals.DELIVER_SUBJECT_WILD
    if not subjects.is_literal(target):
        return refusals.DELIVER_SUBJECT_INVALID
    if any(subjects.matches(captured, target) for captured in stream.subjects):
        return refusals.DELIVER_SUBJECT_CYCLE
    if config.max_waiting:  # CON-21
        return refusals.PUSH_MAX_WAITING
    if config.ack_policy == "none" and (_most_pending(config, stream) or 0) > 0:  # CON-22
        return refusals.MAX_ACK_PENDING_NEEDS_ACKS
    if heartbeat != NO_TIME and heartbeat < SHORTEST_HEARTBEAT:  # CON-23
        return refusals.HEARTBEAT_TOO_SHORT
    if config.flow_control and heartbeat == NO_TIME:
        return refusals.FLOW_CONTROL_NEEDS_HEARTBEAT
    return None


def _pull_refused(config: ConsumerConfig, stream: StreamConfig) -> Refusal | None:
    if (
        stream.retention == "workqueue" and config.ack_policy == "none"
    ):  # RET-03; CON-33: elsewhere any policy will do
        return refusals.PULL_NEEDS_EXPLICIT_ACK
    if config.replay_policy == "original":  # PSH-10
        return refusals.REPLAY_POLICY_INVALID
    if config.rate_limit_bps:  # CON-21
        return refusals.PULL_RATE_LIMIT
    if config.idle_heartbeat:
        return refusals.PULL_HEARTBEAT
    if config.flow_control:
        return refusals.PULL_FLOW_CONTROL
    if config.max_expires and config.max_expires < SHORTEST_EXPIRES:
        return refusals.MAX_EXPIRES_TOO_SHORT
    return None


def _filters_refused(config: ConsumerConfig) -> Refusal | None:
    if config.filter_subject and config.filter_subjects:  # CON-15
        return refusals.TWO_KINDS_OF_FILTERS
    if "" in (config.filter_subjects or ()):  # CON-16
        return refusals.FILTER_EMPTY
    if not all(subjects.is_valid(one) for one in config.filters):  # CON-19
        return invalid_config("invalid subject")
    if _covered(config.filters) or _covered(reversed(config.filters)):  # CON-17
        return refusals.FILTERS_OVERLAP
    return None


def _covered(filters: Iterable[str]) -> bool:
    """Whether one before a filter covers it, or is the same."""
    before = subjects.Patterns()
    for one in filters:
        if before.cover(one):
            return True
        before.add(one)
    return False


def _start_refused(config: ConsumerConfig) -> Refusal | None:  # STA-06, STA-08
    called, takes = _START.get(config.deliver_policy, ("", ()))
    if not called:
        return start_invalid(f"consumer delivery policy {config.deliver_policy!r} is unknown")
    policy = f"consumer delivery policy is deliver {called}"
    for option, given in (("sequence", config.opt_start_seq), ("time", config.opt_start_time)):
        if given and option not in takes:
            return start_invalid(f"{policy}, but optional start {option} is also set")
        if not given and option in takes:
            return start_invalid(f"{policy}, but optional start {option} is not set")
    if (config.opt_start_seq or 0) < 0:
        return start_invalid(f"{policy}, but optional start sequence is negative")
    if config.deliver_policy == "last_per_subject" and not config.filters:
        return start_invalid(f"{policy}, but optional filter subject is not set")
    if config.opt_start_time:
        try:
            parse_rfc3339(config.opt_start_time)
        except ValueError as error:
            return start_invalid(f"{policy}, but {error}")
    return None


def _sampling_refused(config: ConsumerConfig) -> Refusal | None:  # ADV-08
    text = (config.sample_freq or "0").removesuffix("%")
    valid = re.fullmatch(r"\+?[0-9]{1,9}", text)
    return None if valid else refusals.sampling_invalid(f"{text!r} is not a valid rate, such as 20%")


def _own_refused(config: ConsumerConfig, stream: StreamConfig) -> Refusal | None:
    """The fields that only railgun has."""
    if (config.max_ack_pending_per_subject or 0) > 0 and config.ack_policy != "explicit":
        return invalid_config("max ack pending per subject requires explicit ack policy")
    if not config.dead_letter:
        return None
    if config.dead_letter == stream.name:
        return invalid_config("dead letters of a stream can not go into the same stream")
    return name_refused(config.dead_letter)


def _not_ours_refused(config: ConsumerConfig) -> Refusal | None:
    """The fields that only NATS has: accepted where they ask for nothing (C-41)."""
    asked_for = {
        "direct": config.direct,
        "pause_until": config.pause_until not in (None, "", NO_MOMENT),
        "priority_groups": config.priority_groups,
        "priority_policy": config.priority_policy not in (None, "none"),
        "priority_timeout": config.priority_timeout,
    }
    found = next((name for name, asked in asked_for.items() if asked), None)
    return None if found is None else invalid_config(f"{found} is not supported yet")


def _with_defaults(config: ConsumerConfig, stream: StreamConfig) -> ConsumerConfig:  # CON-09
    limits = stream.consumer_limits
    acks = config.ack_policy != "none"
    filled: dict[str, Any] = {
        name: getattr(config, name) or None
        for name in (
            *("description", "durable_name", "opt_start_seq", "opt_start_time", "backoff"),
            *("filter_subject", "filter_subjects", "rate_limit_bps", "sample_freq", "dead_letter"),
            *("deliver_subject", "deliver_group"),
        )
    }
    filled |= dict.fromkeys(
        ("direct", "pause_until", "priority_groups", "priority_policy", "priority_timeout")
    )
    metadata = own_metadata(config.metadata)
    metadata.pop(REQUIRED_LEVEL, None)
    filled["metadata"] = metadata or None
    filled["name"] = config.name or config.durable_name or None
    filled["max_deliver"] = config.max_deliver if (config.max_deliver or 0) > 0 else -1  # RDL-10
    in_turn = config.max_ack_pending_per_subject or 0
    filled["max_ack_pending_per_subject"] = in_turn if in_turn > 0 else None
    if not config.is_push:
        filled["max_waiting"] = config.max_waiting or DEFAULT_MAX_WAITING
    ack_wait = config.backoff[0] if config.backoff else config.ack_wait
    filled["ack_wait"] = ack_wait or (DEFAULT_ACK_WAIT if acks else None)
    most = _most_pending(config, stream) or (DEFAULT_MAX_ACK_PENDING if acks else None)
    filled["max_ack_pending"] = None if most is None else max(most, -1)
    threshold = config.inactive_threshold or NO_TIME
    if threshold <= NO_TIME:
        threshold = (limits.inactive_threshold if limits else None) or NO_TIME
    if threshold <= NO_TIME and not config.durable_name:  # CON-02: a durable stays until it is deleted
        threshold = EPHEMERAL_THRESHOLD
    filled["inactive_threshold"] = threshold if threshold > NO_TIME else None
    return config.model_copy(update=filled)


def _most_pending(config: ConsumerConfig, stream: StreamConfig) -> int | None:
    """``max_ack_pending`` as asked for, else as the stream has it for its consumers (CON-13)."""
    limits = stream.consumer_limits
    return config.max_ack_pending or (limits.max_ack_pending if limits else None)
